package alert_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"net/mail"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

// mailServer is a real SMTP server on loopback that keeps what it accepts.
type mailServer struct {
	addr               string
	user, password     string
	onMail, onRcpt     error // answers
	onData             error
	mu                 sync.Mutex
	mails              []receivedMail
	authenticated      []string
	plaintextPasswords int
}

type receivedMail struct {
	from string
	to   []string
	raw  string
}

func (m receivedMail) parse(t *testing.T) *mail.Message {
	t.Helper()
	parsed, err := mail.ReadMessage(strings.NewReader(m.raw))
	if err != nil {
		t.Fatalf("parse mail: %v\n%s", err, m.raw)
	}
	return parsed
}

// start serves until the test ends. A non-nil wrap makes the listener one of TLS from the first byte.
func (s *mailServer) start(t *testing.T, startTLS *tls.Config, wrap *tls.Config) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = listener.Addr().String()
	if wrap != nil {
		listener = tls.NewListener(listener, wrap)
	}
	server := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) {
		return &mailSession{server: s, conn: c}, nil
	}))
	server.Domain, server.TLSConfig, server.AllowInsecureAuth = "mail.test", startTLS, true
	server.ErrorLog = quiet{}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		server.Close()
		<-served
	})
}

func (s *mailServer) received() []receivedMail {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]receivedMail{}, s.mails...)
}

func (s *mailServer) only(t *testing.T) receivedMail {
	t.Helper()
	mails := s.received()
	if len(mails) != 1 {
		t.Fatalf("got %d mails, want 1", len(mails))
	}
	return mails[0]
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}
func (quiet) Println(...any)        {}

type mailSession struct {
	server *mailServer
	conn   *smtp.Conn
	mail   receivedMail
}

func (s *mailSession) AuthMechanisms() []string {
	if s.server.user == "" {
		return nil
	}
	return []string{sasl.Plain}
}

func (s *mailSession) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, username, password string) error {
		if username != s.server.user || password != s.server.password {
			return &smtp.SMTPError{Code: 535, EnhancedCode: smtp.EnhancedCode{5, 7, 8}, Message: "wrong password " + password}
		}
		s.server.mu.Lock()
		defer s.server.mu.Unlock()
		s.server.authenticated = append(s.server.authenticated, username)
		if _, encrypted := s.conn.TLSConnectionState(); !encrypted {
			s.server.plaintextPasswords++
		}
		return nil
	}), nil
}

func (s *mailSession) Mail(from string, _ *smtp.MailOptions) error {
	s.mail = receivedMail{from: from}
	return s.server.onMail
}

func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.mail.to = append(s.mail.to, to)
	if strings.HasPrefix(to, "nobody@") {
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no such user"}
	}
	return s.server.onRcpt
}

func (s *mailSession) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err := errors.Join(err, s.server.onData); err != nil {
		return s.server.onData
	}
	s.mail.raw = string(raw)
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	s.server.mails = append(s.server.mails, s.mail)
	return nil
}

func (s *mailSession) Reset()        {}
func (s *mailSession) Logout() error { return nil }

// certificate makes one for 127.0.0.1, and the pool that trusts it.
func certificate(t *testing.T) (*tls.Config, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, pool
}

// script is a server that says and does what the test wants, with one connection.
func script(t *testing.T, talk func(conn net.Conn)) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		talk(conn)
	}()
	t.Cleanup(func() {
		listener.Close()
		<-done
	})
	return listener.Addr().String()
}
