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

// smtpLine is the connection of one delivery, and closed when the delivery's ctx is done. The mail client looks at no
// ctx once it is connected, and sets deadlines of its own that move on as it goes: those are left out.
type smtpLine struct {
	net.Conn
	tls     *tls.Config // TLS from the first byte; nil otherwise
	read    int
	release func() bool
}

func (l *smtpLine) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	l.Conn = conn
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
func (l *smtpLine) hurry() { _ = l.Conn.SetDeadline(time.Now().Add(time.Second)) }

func (l *smtpLine) SetDeadline(time.Time) error      { return nil }
func (l *smtpLine) SetReadDeadline(time.Time) error  { return nil }
func (l *smtpLine) SetWriteDeadline(time.Time) error { return nil }

func (l *smtpLine) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if l.read += n; l.read > maxReplies {
		return 0, errors.New("the server's replies are too long")
	}
	return n, err
}
