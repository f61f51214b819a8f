package alert_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/google/go-cmp/cmp"
	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/alert"
)

func newSMTP(t *testing.T, addr string, change func(*alert.SMTPConfig)) *alert.SMTP {
	t.Helper()
	config := alert.SMTPConfig{
		Addr: addr, From: "Jobs <jobs@example.com>", To: []string{"oncall@example.com", "Ops <ops@example.com>"},
		TLS: alert.TLSNone, LinkBase: "https://ops.example.com/jobs/",
	}
	if change != nil {
		change(&config)
	}
	sink, err := alert.NewSMTP(config)
	if err != nil {
		t.Fatal(err)
	}
	return sink
}

func text(t *testing.T, m receivedMail) (subject, body string) {
	t.Helper()
	parsed := m.parse(t)
	subject, err := new(mime.WordDecoder).DecodeHeader(parsed.Header.Get("Subject"))
	if err != nil {
		t.Fatal(err)
	}
	var reader io.Reader = parsed.Body
	if parsed.Header.Get("Content-Transfer-Encoding") == "quoted-printable" {
		reader = quotedprintable.NewReader(parsed.Body)
	}
	raw, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return subject, strings.ReplaceAll(string(raw), "\r\n", "\n")
}

func wantText(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing in:\n%s", part, text)
		}
	}
}

func TestMailTellsWhatDied(t *testing.T) {
	t.Parallel()
	server := &mailServer{}
	server.start(t, nil, nil)
	died := letter()
	if err := newSMTP(t, server.addr, nil).Deliver(t.Context(), oneAlert(died)); err != nil {
		t.Fatal(err)
	}
	got := server.only(t)
	if diff := cmp.Diff([]string{"oncall@example.com", "ops@example.com"}, got.to); diff != "" || got.from != "jobs@example.com" {
		t.Errorf("from %s to %v", got.from, got.to)
	}
	subject, body := text(t, got)
	if subject != "[pawl] email.verification.v1 died: transient-exhausted, budget" {
		t.Errorf("subject %q", subject)
	}
	wantText(t, body, "transient-exhausted", "budget", "Attempts     6", "*net.OpError", died.Message, died.ID.String(),
		died.JobID.String(), "request-17", "2026-03-01 14:36:00.000 UTC",
		"https://ops.example.com/jobs/dead/"+died.ID.String())
	for _, hidden := range []string{"secret args", "chain and stack"} {
		if strings.Contains(got.raw, hidden) {
			t.Errorf("the mail shows %q", hidden)
		}
	}
}

func TestMailOfUnknownOutcomeSaysSo(t *testing.T) {
	t.Parallel()
	server := &mailServer{}
	server.start(t, nil, nil)
	died := letter()
	died.Reason = pawl.ReasonLost
	if err := newSMTP(t, server.addr, nil).Deliver(t.Context(), oneAlert(died)); err != nil {
		t.Fatal(err)
	}
	subject, body := text(t, server.only(t))
	wantText(t, subject, "OUTCOME UNKNOWN")
	wantText(t, body, "OUTCOME UNKNOWN")
}

func TestMailListsSeveralLetters(t *testing.T) {
	t.Parallel()
	server := &mailServer{}
	server.start(t, nil, nil)
	var letters []pawl.DeadLetter
	for i := range 25 {
		died := letter()
		died.Kind = fmt.Sprintf("kind.%02d.v1", i)
		letters = append(letters, died)
	}
	if err := newSMTP(t, server.addr, nil).Deliver(t.Context(), oneAlert(letters...)); err != nil {
		t.Fatal(err)
	}
	subject, body := text(t, server.only(t))
	wantText(t, subject, "25 jobs died")
	wantText(t, body, "kind.00.v1", "kind.19.v1", "… and 5 more")
	if strings.Contains(body, "kind.20.v1") {
		t.Error("more than 20 letters are listed")
	}
}

func TestMessageIDFollowsTheKey(t *testing.T) {
	t.Parallel()
	server := &mailServer{}
	server.start(t, nil, nil)
	sink := newSMTP(t, server.addr, nil)
	var ids []string
	for _, key := range []string{"a", "a", "b"} {
		if err := sink.Deliver(t.Context(), pawl.Alert{Key: key, Letters: []pawl.DeadLetter{letter()}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range server.received() {
		ids = append(ids, m.parse(t).Header.Get("Message-ID"))
	}
	if ids[0] != ids[1] || ids[0] == ids[2] || !strings.HasSuffix(ids[0], "@example.com>") {
		t.Errorf("message ids %v", ids)
	}
}

func TestLettersCannotReachTheHeaders(t *testing.T) {
	t.Parallel()
	server := &mailServer{}
	server.start(t, nil, nil)
	died := letter()
	died.Kind = "x\r\nBcc: thief@example.com\r\n\r\nForged"
	died.Reason = "y\r\nBcc: thief@example.com"
	died.Message = "first\r\n.\r\nMAIL FROM:<thief@example.com>\r\nLink         https://thief.example.com"
	died.Queue = "\x00\x1b[31m\u202e"
	if err := newSMTP(t, server.addr, nil).Deliver(t.Context(), oneAlert(died)); err != nil {
		t.Fatal(err)
	}
	got := server.only(t)
	allowed := map[string]bool{
		"From": true, "To": true, "Subject": true, "Date": true, "Message-Id": true, "Mime-Version": true,
		"Content-Type": true, "Content-Transfer-Encoding": true, "Auto-Submitted": true,
	}
	for name := range got.parse(t).Header {
		if !allowed[name] {
			t.Errorf("header %s: %q", name, got.parse(t).Header[name])
		}
	}
	if len(got.to) != 2 {
		t.Errorf("sent to %v", got.to)
	}
	subject, body := text(t, got)
	if strings.ContainsAny(subject, "\r\n") {
		t.Errorf("subject %q has more than one line", subject)
	}
	wantText(t, body, "first\n             .\n             MAIL FROM")
	if strings.Contains(body, "\nLink         https://thief") || strings.ContainsAny(body, "\x00\x1b\u202e") {
		t.Errorf("the message passes for facts of ours, or has control characters:\n%q", body)
	}
}

func TestLogin(t *testing.T) {
	t.Parallel()
	server := &mailServer{user: "jobs", password: "correct horse battery"}
	server.start(t, nil, nil)
	login := func(password string) func(*alert.SMTPConfig) {
		return func(c *alert.SMTPConfig) { c.Username, c.Password = "jobs", password }
	}
	if err := newSMTP(t, server.addr, login("correct horse battery")).Deliver(t.Context(), oneAlert(letter())); err != nil {
		t.Fatal(err)
	}
	if len(server.only(t).raw) == 0 || len(server.authenticated) != 1 {
		t.Errorf("authenticated as %v", server.authenticated)
	}
	err := newSMTP(t, server.addr, login("hunter2-hunter2")).Deliver(t.Context(), oneAlert(letter()))
	if err == nil || pawl.ClassOf(err) != pawl.ClassPermanent || !strings.Contains(err.Error(), "535") {
		t.Fatalf("a wrong password gives %v", err)
	}
	// The server repeats the password in its reply.
	if evidence := pawl.NewEvidence(err); strings.Contains(evidence.Message+evidence.Detail, "hunter2") {
		t.Errorf("the error shows the password: %v", evidence)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	serverTLS, pool := certificate(t)
	trusting := func(policy alert.TLSPolicy) func(*alert.SMTPConfig) {
		return func(c *alert.SMTPConfig) {
			c.TLS, c.TLSConfig = policy, &tls.Config{RootCAs: pool}
			c.Username, c.Password = "jobs", "correct horse battery"
		}
	}
	t.Run("starttls", func(t *testing.T) {
		t.Parallel()
		server := &mailServer{user: "jobs", password: "correct horse battery"}
		server.start(t, serverTLS, nil)
		if err := newSMTP(t, server.addr, trusting(alert.TLSMandatory)).Deliver(t.Context(), oneAlert(letter())); err != nil {
			t.Fatal(err)
		}
		if server.only(t); server.plaintextPasswords != 0 || len(server.authenticated) != 1 {
			t.Error("the password went unprotected, or not at all")
		}
	})
	t.Run("implicit", func(t *testing.T) {
		t.Parallel()
		server := &mailServer{user: "jobs", password: "correct horse battery"}
		server.start(t, nil, serverTLS)
		if err := newSMTP(t, server.addr, trusting(alert.TLSImplicit)).Deliver(t.Context(), oneAlert(letter())); err != nil {
			t.Fatal(err)
		}
		if server.only(t); server.plaintextPasswords != 0 || len(server.authenticated) != 1 {
			t.Error("the password went unprotected, or not at all")
		}
	})
	t.Run("not offered", func(t *testing.T) {
		t.Parallel()
		server := &mailServer{user: "jobs", password: "correct horse battery"}
		server.start(t, nil, nil)
		err := newSMTP(t, server.addr, trusting(alert.TLSMandatory)).Deliver(t.Context(), oneAlert(letter()))
		if err == nil || !strings.Contains(err.Error(), "STARTTLS") || len(server.received()) != 0 || len(server.authenticated) != 0 {
			t.Errorf("without STARTTLS: %v, %d mails, logins %v", err, len(server.received()), server.authenticated)
		}
	})
	t.Run("unknown authority", func(t *testing.T) {
		t.Parallel()
		server := &mailServer{}
		server.start(t, serverTLS, nil)
		sink := newSMTP(t, server.addr, func(c *alert.SMTPConfig) { c.TLS = alert.TLSMandatory })
		if err := sink.Deliver(t.Context(), oneAlert(letter())); err == nil || len(server.received()) != 0 {
			t.Errorf("an unknown authority was trusted: %v", err)
		}
	})
	t.Run("opportunistic", func(t *testing.T) {
		t.Parallel()
		server := &mailServer{}
		server.start(t, nil, nil)
		sink := newSMTP(t, server.addr, func(c *alert.SMTPConfig) { c.TLS = alert.TLSOpportunistic })
		if err := sink.Deliver(t.Context(), oneAlert(letter())); err != nil {
			t.Fatal(err)
		}
		server.only(t)
	})
}

func TestRefusalsAreClassified(t *testing.T) {
	t.Parallel()
	busy := &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "try later"}
	never := &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 7, 1}, Message: "not you"}
	for name, test := range map[string]struct {
		server *mailServer
		to     string
		class  pawl.Class
		code   string
	}{
		"451 to sender":     {&mailServer{onMail: busy}, "", pawl.ClassTransient, "451"},
		"550 to sender":     {&mailServer{onMail: never}, "", pawl.ClassPermanent, "550"},
		"451 to recipients": {&mailServer{onRcpt: busy}, "", pawl.ClassTransient, "451"},
		"451 to data":       {&mailServer{onData: busy}, "", pawl.ClassTransient, "451"},
		"550 to data":       {&mailServer{onData: never}, "", pawl.ClassPermanent, "550"},
		"one recipient":     {&mailServer{}, "nobody@example.com", pawl.ClassPermanent, "nobody@example.com"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.server.start(t, nil, nil)
			sink := newSMTP(t, test.server.addr, func(c *alert.SMTPConfig) {
				if test.to != "" {
					c.To = append(c.To, test.to)
				}
			})
			err := sink.Deliver(t.Context(), oneAlert(letter()))
			if pawl.ClassOf(err) != test.class || !strings.Contains(fmt.Sprint(err), test.code) {
				t.Errorf("class %v of %v", pawl.ClassOf(err), err)
			}
			if n := len(test.server.received()); n != 0 {
				t.Errorf("%d mails were accepted", n)
			}
		})
	}
}

func TestGreetingThatNeverComes(t *testing.T) {
	t.Parallel()
	addr := script(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	sink := newSMTP(t, addr, func(c *alert.SMTPConfig) { c.Timeout = 50 * time.Millisecond })
	if err := sink.Deliver(t.Context(), oneAlert(letter())); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// The mail client looks at no ctx after it has connected; and it moves its deadline on before it sends.
func TestCancelledInTheMiddle(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	addr := script(t, func(conn net.Conn) {
		fmt.Fprint(conn, "220 mail.test\r\n")
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			if strings.HasPrefix(lines.Text(), "MAIL") {
				cancel() // and no reply to this, ever
				continue
			}
			fmt.Fprint(conn, "250 mail.test\r\n")
		}
	})
	begun := time.Now()
	err := newSMTP(t, addr, nil).Deliver(ctx, oneAlert(letter()))
	if !errors.Is(err, context.Canceled) || time.Since(begun) > 6*time.Second {
		t.Errorf("got %v after %s", err, time.Since(begun))
	}
}

func TestRepliesWithoutEnd(t *testing.T) {
	t.Parallel()
	addr := script(t, func(conn net.Conn) {
		fmt.Fprint(conn, "220 mail.test\r\n")
		for line := "250-" + strings.Repeat("x", 1000) + "\r\n"; ; {
			if _, err := io.WriteString(conn, line); err != nil {
				return
			}
		}
	})
	if err := newSMTP(t, addr, nil).Deliver(t.Context(), oneAlert(letter())); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("got %v", err)
	}
}

func TestTroubleAfterAcceptanceIsNone(t *testing.T) {
	t.Parallel()
	addr := script(t, func(conn net.Conn) {
		fmt.Fprint(conn, "220 mail.test\r\n")
		data := false
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			switch line := lines.Text(); {
			case data && line == ".":
				fmt.Fprint(conn, "250 accepted\r\n")
				return // cut off
			case data:
			case line == "DATA":
				data = true
				fmt.Fprint(conn, "354 go on\r\n")
			default:
				fmt.Fprint(conn, "250 mail.test\r\n")
			}
		}
	})
	if err := newSMTP(t, addr, nil).Deliver(t.Context(), oneAlert(letter())); err != nil {
		t.Errorf("an accepted mail counts as failed: %v", err)
	}
}

func TestSMTPConfigIsChecked(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*alert.SMTPConfig){
		"addr":            func(c *alert.SMTPConfig) { c.Addr = "mail.example.com" },
		"addr port":       func(c *alert.SMTPConfig) { c.Addr = "mail.example.com:99999" },
		"from":            func(c *alert.SMTPConfig) { c.From = "jobs@example.com\r\nBcc: x@example.com" },
		"to missing":      func(c *alert.SMTPConfig) { c.To = nil },
		"to":              func(c *alert.SMTPConfig) { c.To = []string{"nobody"} },
		"tls":             func(c *alert.SMTPConfig) { c.TLS = alert.TLSNone },
		"tls unknown":     func(c *alert.SMTPConfig) { c.TLS = 9 },
		"timeout":         func(c *alert.SMTPConfig) { c.Timeout = 11 * time.Second },
		"timeout below 0": func(c *alert.SMTPConfig) { c.Timeout = -1 },
		"hello":           func(c *alert.SMTPConfig) { c.Hello = "me\r\nRSET" },
		"link":            func(c *alert.SMTPConfig) { c.LinkBase = "ops.example.com" },
		"name":            func(c *alert.SMTPConfig) { c.Name = strings.Repeat("x", 129) },
		"password alone":  func(c *alert.SMTPConfig) { c.Password = "tops3cret" },
		"stripped tls": func(c *alert.SMTPConfig) {
			c.TLS, c.Username, c.Password = alert.TLSOpportunistic, "jobs", "tops3cret"
		},
	} {
		config := alert.SMTPConfig{Addr: "mail.example.com:587", From: "jobs@example.com", To: []string{"ops@example.com"}}
		change(&config)
		_, err := alert.NewSMTP(config)
		var field *pawl.FieldError
		if !errors.As(err, &field) || strings.Contains(err.Error(), "tops3cret") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	sink, err := alert.NewSMTP(alert.SMTPConfig{Addr: "mail.example.com:465", From: "jobs@example.com", To: []string{"ops@example.com"}})
	if err != nil || sink.Name() != "email" {
		t.Errorf("the smallest configuration gives %v", err)
	}
}
