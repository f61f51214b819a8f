package alert

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	netmail "net/mail"
	"net/netip"
	"net/textproto"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/pawljobs/pawl"
	"github.com/wneessen/go-mail"
)

// TLSPolicy says how a connection to a mail server is protected.
type TLSPolicy uint8

const (
	TLSMandatory     TLSPolicy = iota // STARTTLS or no delivery; on port 465 TLS from the first byte (RFC 8314)
	TLSOpportunistic                  // STARTTLS where the server offers it; not with a username
	TLSNone                           // none: only to a loopback address
	TLSImplicit                       // TLS from the first byte, whatever the port
)

// SMTPConfig says where mails about deaths go.
type SMTPConfig struct {
	Name     string        // of the sink, 1-128 bytes. Default "email"
	Addr     string        // host:port of the mail server. Required
	From     string        // sender, such as "Jobs <jobs@example.com>". Required
	To       []string      // at least one: a team's internal mailbox, since exception messages are in the mail
	Username string        // empty: no authentication
	Password string        // with Username. It never appears in an error
	TLS      TLSPolicy     // default TLSMandatory
	Timeout  time.Duration // for a whole delivery, greeting to acceptance. Default 8 s; at most pawl.AlertBudget
	Hello    string        // name given in EHLO. Default: this machine's host name
	LinkBase string        // URL of the dashboard, such as https://ops.example.com/jobs; "/dead/" and the letter's id are added. Default: no links
	// TLSConfig is for a private certificate authority or a client certificate. Default: the system's authorities,
	// TLS 1.2 or later.
	TLSConfig *tls.Config
}

const defaultTimeout = 8 * time.Second

// SMTP sends mails. Make one with NewSMTP.
type SMTP struct {
	name, host string
	port       int
	from       *netmail.Address
	to         []*netmail.Address
	timeout    time.Duration
	linkBase   string
	password   string
	options    []mail.Option
	implicit   *tls.Config // TLS from the first byte; nil otherwise
}

// NewSMTP checks the configuration and returns the sink. It connects to nothing yet.
func NewSMTP(config SMTPConfig) (*SMTP, error) {
	s := &SMTP{linkBase: config.LinkBase, password: config.Password}
	for _, check := range []func(SMTPConfig) error{s.setNames, s.setAddresses, s.setTimeout, s.setProtection, s.setLogin} {
		if err := check(config); err != nil {
			return nil, fmt.Errorf("configure mail alerts: %w", err)
		}
	}
	return s, nil
}

func (s *SMTP) setNames(config SMTPConfig) (err error) {
	if s.name, err = checkName(config.Name, "email"); err != nil {
		return err
	}
	if strings.ContainsFunc(config.Hello, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return &pawl.FieldError{Field: "hello", Value: config.Hello, Rule: "must be a host name"}
	}
	if config.Hello != "" {
		s.options = append(s.options, mail.WithHELO(config.Hello))
	}
	return checkLinkBase(config.LinkBase)
}

func (s *SMTP) setAddresses(config SMTPConfig) error {
	host, port, err := net.SplitHostPort(config.Addr)
	number, portErr := strconv.ParseUint(port, 10, 16)
	if err != nil || portErr != nil || host == "" || number == 0 {
		return &pawl.FieldError{Field: "addr", Value: config.Addr, Rule: "must be host:port, such as mail.example.com:587"}
	}
	s.host, s.port = host, int(number)
	if s.from, err = netmail.ParseAddress(config.From); err != nil {
		return &pawl.FieldError{Field: "from", Value: config.From, Rule: "must be a mail address"}
	}
	if len(config.To) == 0 {
		return &pawl.FieldError{Field: "to", Value: "", Rule: "must have at least one mail address"}
	}
	for _, to := range config.To {
		address, err := netmail.ParseAddress(to)
		if err != nil {
			return &pawl.FieldError{Field: "to", Value: to, Rule: "must be a mail address"}
		}
		s.to = append(s.to, address)
	}
	return nil
}

func (s *SMTP) setTimeout(config SMTPConfig) (err error) {
	s.timeout, err = checkTimeout(config.Timeout)
	return err
}

func checkTimeout(timeout time.Duration) (time.Duration, error) {
	if timeout == 0 {
		return defaultTimeout, nil
	}
	if timeout < 0 || timeout > pawl.AlertBudget {
		return 0, &pawl.FieldError{Field: "timeout", Value: timeout, Rule: "must be greater than 0 and at most " + pawl.AlertBudget.String()}
	}
	return timeout, nil
}

func (s *SMTP) setProtection(config SMTPConfig) error {
	tlsConfig := &tls.Config{MinVersion: tls.VersionTLS12}
	if config.TLSConfig != nil {
		tlsConfig = config.TLSConfig.Clone()
	}
	if tlsConfig.ServerName == "" {
		tlsConfig.ServerName = s.host
	}
	s.options = append(s.options, mail.WithPort(s.port), mail.WithTLSConfig(tlsConfig), mail.WithoutNoop(), mail.WithoutRset())
	switch config.TLS {
	case TLSMandatory:
		s.options = append(s.options, mail.WithTLSPolicy(mail.TLSMandatory))
		if s.port == 465 {
			s.setImplicit(tlsConfig)
		}
	case TLSImplicit:
		s.setImplicit(tlsConfig)
	case TLSOpportunistic:
		s.options = append(s.options, mail.WithTLSPolicy(mail.TLSOpportunistic))
	case TLSNone:
		if !isLoopback(s.host) {
			return &pawl.FieldError{Field: "tls", Value: "none", Rule: "must protect a connection to anything but a loopback address"}
		}
		s.options = append(s.options, mail.WithTLSPolicy(mail.NoTLS))
	default:
		return &pawl.FieldError{Field: "tls", Value: uint8(config.TLS), Rule: "must be TLSMandatory, TLSOpportunistic, TLSNone or TLSImplicit"}
	}
	return nil
}

func (s *SMTP) setImplicit(config *tls.Config) {
	s.implicit = config
	s.options = append(s.options, mail.WithSSL())
}

func (s *SMTP) setLogin(config SMTPConfig) error {
	switch {
	case config.Username == "" && config.Password != "":
		return &pawl.FieldError{Field: "username", Value: "", Rule: "must be given with a password"}
	case config.Username == "":
		return nil
	case config.TLS == TLSOpportunistic:
		return &pawl.FieldError{Field: "tls", Value: "opportunistic", Rule: "must be mandatory where a username is given: whoever is in between can take the offer of TLS away, and then read the password"}
	}
	mechanisms := []mail.SMTPAuthType{mail.SMTPAuthSCRAMSHA256, mail.SMTPAuthPlain, mail.SMTPAuthLogin}
	if config.TLS == TLSNone { // loopback
		mechanisms = []mail.SMTPAuthType{mail.SMTPAuthSCRAMSHA256, mail.SMTPAuthPlainNoEnc, mail.SMTPAuthLoginNoEnc}
	}
	s.options = append(s.options, mail.WithOpportunisticSMTPAuth(mechanisms...),
		mail.WithUsername(config.Username), mail.WithPassword(config.Password))
	return nil
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.Unmap().IsLoopback()
}

// Name is the sink's name.
func (s *SMTP) Name() string { return s.name }

// Deliver sends one mail to all recipients, or none of them: a recipient that the server refuses fails the delivery.
// It returns when the server has accepted the mail, at the latest after the configured timeout or when ctx is done. The
// error of a refusal has the server's code and counts as transient (4yz) or permanent (5yz).
func (s *SMTP) Deliver(ctx context.Context, alert pawl.Alert) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	message, err := s.compose(alert)
	if err != nil {
		return fmt.Errorf("compose mail: %w", err)
	}
	line := &smtpLine{tls: s.implicit}
	if err := s.send(ctx, line, message); err != nil {
		return s.failure(ctx, err)
	}
	return nil
}

// send leaves no connection behind. A trouble after the server has accepted the mail is none.
func (s *SMTP) send(ctx context.Context, line *smtpLine, message *mail.Msg) error {
	defer line.close()
	deadline, _ := ctx.Deadline()
	options := append([]mail.Option{mail.WithTimeout(max(time.Until(deadline), time.Millisecond)), mail.WithDialContextFunc(
		func(_ context.Context, network, address string) (net.Conn, error) {
			return line.dial(ctx, network, address)
		},
	)}, s.options...)
	client, err := mail.NewClient(s.host, options...)
	if err != nil {
		return err
	}
	session, err := client.DialToSMTPClientWithContext(ctx)
	if err != nil {
		return err
	}
	if err := client.SendWithSMTPClient(session, message); err != nil {
		return err
	}
	line.hurry()
	_ = session.Quit() // the mail is accepted, whatever the server says to this
	return nil
}

// failure makes a new error of what went wrong: the old one's chain might hold what must not be shown.
func (s *SMTP) failure(ctx context.Context, err error) error {
	text := err.Error()
	if s.password != "" {
		text = strings.ReplaceAll(text, s.password, "(password)")
	}
	text = oneLine(text, 500)
	where := net.JoinHostPort(s.host, strconv.Itoa(s.port))
	if ctx.Err() != nil {
		return fmt.Errorf("send mail through %s: %w: %s", where, context.Cause(ctx), text)
	}
	failure := fmt.Errorf("send mail through %s: %s", where, text)
	switch code := replyCode(err); {
	case code >= 500:
		return pawl.Permanent(failure)
	case code >= 400:
		return pawl.Transient(failure)
	}
	return failure
}

// replyCode is the server's, or 0 where it was not the server that refused.
func replyCode(err error) int {
	var refused *mail.SendError
	if errors.As(err, &refused) {
		return refused.ErrorCode()
	}
	var reply *textproto.Error
	if errors.As(err, &reply) {
		return reply.Code
	}
	return 0
}
