package demo

import (
	"context"
	"fmt"
	"net"
	netmail "net/mail"
	"strconv"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/classify"
	"github.com/wneessen/go-mail"
)

// mailIDHeader carries the unique id of a verification mail.
const mailIDHeader = "X-Demo-Mail-Id"

const mailSender = "signup@demo.example"

// mailTimeout bounds one conversation with the mail server.
const mailTimeout = 10 * time.Second

// mailAnswers knows what the mail client makes of a server's answer: 4yz may pass, 5yz will not.
var mailAnswers = classify.Default(classify.On(func(err *mail.SendError) pawl.Class { return classify.SMTPCode(err.ErrorCode()) }))

// mailer sends verification mails through one server.
type mailer struct {
	host string
	port int
	tls  mail.TLSPolicy
}

// newMailer takes host:port. To this machine it speaks plainly, elsewhere it encrypts where the server offers it.
func newMailer(address string) (mailer, error) {
	host, port, err := net.SplitHostPort(address)
	number, portErr := strconv.ParseUint(port, 10, 16)
	if err != nil || portErr != nil || host == "" || number == 0 {
		return mailer{}, &pawl.FieldError{Field: "--smtp", Value: address, Rule: "must be HOST:PORT, such as localhost:1025"}
	}
	m := mailer{host: host, port: int(number), tls: mail.TLSOpportunistic}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		m.tls = mail.NoTLS
	}
	return m, nil
}

// send returns nil when the server has accepted the mail.
func (m mailer) send(ctx context.Context, to signUp, id string) error {
	message, err := compose(to, id)
	if err != nil {
		return pawl.Permanent(fmt.Errorf("compose mail: %w", err))
	}
	timeout := mailTimeout // the client looks at no ctx once it is connected
	if deadline, ok := ctx.Deadline(); ok {
		timeout = max(min(timeout, time.Until(deadline)), time.Millisecond)
	}
	client, err := mail.NewClient(m.host, mail.WithPort(m.port), mail.WithTLSPolicy(m.tls), mail.WithTimeout(timeout),
		mail.WithoutNoop(), mail.WithoutRset())
	if err != nil {
		return fmt.Errorf("make mail client: %w", err)
	}
	if err := client.DialAndSendWithContext(ctx, message); err != nil && !message.IsDelivered() {
		return pawl.Classify(fmt.Errorf("send mail: %w", err), mailAnswers)
	}
	return nil
}

func compose(to signUp, id string) (*mail.Msg, error) {
	message := mail.NewMsg(mail.WithNoDefaultUserAgent())
	if err := message.From(mailSender); err != nil {
		return nil, err
	}
	message.ToMailAddress(&netmail.Address{Name: to.Name, Address: to.Email}) // whatever quotes the name has
	message.Subject("Please confirm your address, " + to.Name)
	message.SetDate()
	message.SetMessageIDWithValue(id + "@demo.example")
	message.SetGenHeader(mailIDHeader, id)
	message.SetBodyString(mail.TypeTextPlain, "Hello "+to.Name+",\n\nplease confirm that this address is yours:\n\n"+
		"  https://demo.example/confirm/"+id+"\n\nIf you did not sign up, do nothing.\n")
	return message, nil
}
