package alert

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"
)

// maxReplies bounds the bytes that a mail server may answer in one delivery.
const maxReplies = 1 << 20

// smtpLine is the connection of one delivery. The mail client looks at no ctx once it is connected, and moves the
// connection's deadline on as it goes: so this one ends with the ctx, and its deadline can only come nearer.
type smtpLine struct {
	net.Conn
	tls      *tls.Config // TLS from the first byte; nil otherwise
	deadline time.Time
	read     int
	release  func() bool
}

func (l *smtpLine) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.Conn = conn
	l.deadline, _ = ctx.Deadline()
	l.release = context.AfterFunc(ctx, func() { conn.Close() })
	if l.tls == nil {
		return l, nil
	}
	return tls.Client(l, l.tls), nil
}

// close ends the connection, if there is one. The mail client leaves it open when a login fails.
func (l *smtpLine) close() {
	if l.Conn == nil {
		return
	}
	l.release()
	l.Conn.Close()
}

// hurry leaves a second for what is still to be said.
func (l *smtpLine) hurry() {
	if soon := time.Now().Add(time.Second); soon.Before(l.deadline) {
		l.deadline = soon
	}
	_ = l.Conn.SetDeadline(l.deadline)
}

func (l *smtpLine) SetDeadline(t time.Time) error      { return l.Conn.SetDeadline(l.bounded(t)) }
func (l *smtpLine) SetReadDeadline(t time.Time) error  { return l.Conn.SetReadDeadline(l.bounded(t)) }
func (l *smtpLine) SetWriteDeadline(t time.Time) error { return l.Conn.SetWriteDeadline(l.bounded(t)) }

func (l *smtpLine) bounded(t time.Time) time.Time {
	if t.IsZero() || t.After(l.deadline) {
		return l.deadline
	}
	return t
}

func (l *smtpLine) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if l.read += n; l.read > maxReplies {
		return 0, errors.New("the server's replies are too long")
	}
	return n, err
}
