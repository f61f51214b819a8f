package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	netmail "net/mail"
	"strings"
	"sync"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/pawljobs/pawl"
)

const (
	alertMailbox = "oncall@demo.example" // the team's own; alerts go there
	goneMailbox  = "no-such-mailbox@"    // refused until the server is healed
	maxMail      = 1 << 20               // bytes
)

// mailServer is a real SMTP server on loopback that keeps what it accepts as files. Until it is healed it asks for a
// second try now and then, and knows one mailbox not at all.
type mailServer struct {
	mails, alerts *box
	healed        bool
	pace          time.Duration

	server   *smtp.Server
	listener net.Listener
	ended    chan error

	mu     sync.Mutex
	begged map[string]bool // mails that were sent away once
}

func startMailServer(mails, alerts *box, healed bool, pace time.Duration) (*mailServer, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start mail server: %w", err)
	}
	m := &mailServer{
		mails: mails, alerts: alerts, healed: healed, pace: pace,
		listener: listener, ended: make(chan error, 1), begged: map[string]bool{},
	}
	m.server = smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &mailSession{server: m}, nil }))
	m.server.Domain = "demo.example"
	m.server.MaxMessageBytes = maxMail
	m.server.MaxRecipients = 10
	m.server.ReadTimeout, m.server.WriteTimeout = 10*time.Second, 10*time.Second
	m.server.ErrorLog = log.New(io.Discard, "", 0)
	go func() { m.ended <- m.server.Serve(listener) }()
	return m, nil
}

func (m *mailServer) address() string { return m.listener.Addr().String() }

// close waits for conversations under way, a little.
func (m *mailServer) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	err := m.server.Shutdown(ctx)
	if served := <-m.ended; !errors.Is(served, net.ErrClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// mailSession is one conversation.
type mailSession struct {
	server *mailServer
	alert  bool
}

func (s *mailSession) Reset()                               { s.alert = false }
func (s *mailSession) Logout() error                        { return nil }
func (s *mailSession) Mail(string, *smtp.MailOptions) error { return nil }

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.alert = to == alertMailbox
	if strings.HasPrefix(to, goneMailbox) && !s.server.healed {
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no such mailbox here"}
	}
	return nil
}

func (s *mailSession) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	message, err := netmail.ReadMessage(bytes.NewReader(text))
	if err != nil {
		return &smtp.SMTPError{Code: 554, EnhancedCode: smtp.EnhancedCode{5, 6, 0}, Message: "not a mail"}
	}
	if s.alert {
		return s.keep(s.server.alerts, message.Header.Get("Message-Id"), text)
	}
	time.Sleep(s.server.pace) // a mail server of the world takes its time
	id := message.Header.Get(mailIDHeader)
	if s.server.begs(id) {
		return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 7, 1}, Message: "busy, come again later"}
	}
	return s.keep(s.server.mails, id, text)
}

// begs picks about one mail of sixteen, by its id, to be sent away at its first try.
func (m *mailServer) begs(id string) bool {
	parsed, err := pawl.ParseID(id)
	if m.healed || err != nil || parsed[0]%16 != 3 {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	first := !m.begged[id]
	m.begged[id] = true
	return first
}

func (s *mailSession) keep(b *box, id string, text []byte) error {
	if err := b.keep(id, ".eml", text); err != nil {
		return &smtp.SMTPError{Code: 452, EnhancedCode: smtp.EnhancedCode{4, 3, 1}, Message: "cannot keep the mail"}
	}
	return nil
}
