package resilience_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	netsmtp "net/smtp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/emersion/go-smtp"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/classify"
	"github.com/pawljobs/pawl/resilience"
)

// These tests use the network of the machine and real time, with short rungs.

const tenth = 100 * time.Millisecond

// hurried are options whose attempts end in 0.3 s and whose waits are short.
func hurried() resilience.Options {
	return quiet(resilience.Options{Attempt: 3 * tenth, Total: 20 * tenth, Delay: time.Millisecond, Breaker: resilience.Breaker{MinCalls: 10_000}})
}

// listening is a real server of HTTP that counts connections.
type listening struct {
	*httptest.Server
	mu           sync.Mutex
	opened, open int
	changed      chan struct{}
}

func listen(t *testing.T, handler http.HandlerFunc) *listening {
	t.Helper()
	l := &listening{Server: httptest.NewUnstartedServer(handler), changed: make(chan struct{}, 1)}
	l.Config.ErrorLog = log.New(io.Discard, "", 0)
	l.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		l.mu.Lock()
		defer l.mu.Unlock()
		switch state {
		case http.StateNew:
			l.opened++
			l.open++
		case http.StateClosed, http.StateHijacked:
			l.open--
		}
		select {
		case l.changed <- struct{}{}:
		default:
		}
	}
	l.Start()
	t.Cleanup(l.Close)
	return l
}

// awaitClosed waits until no connection is open.
func (l *listening) awaitClosed(t *testing.T) {
	t.Helper()
	for patience := time.After(10 * time.Second); ; {
		l.mu.Lock()
		open := l.open
		l.mu.Unlock()
		if open == 0 {
			return
		}
		select {
		case <-l.changed:
		case <-patience:
			t.Fatalf("%d connections are left", open)
		}
	}
}

func reset(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	_ = conn.(*net.TCPConn).SetLinger(0)
	conn.Close()
}

func trickle(w http.ResponseWriter, r *http.Request) {
	begin(w)
	for ticks := time.NewTicker(tenth / 4); r.Context().Err() == nil; {
		select {
		case <-ticks.C:
			io.WriteString(w, "x")
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			ticks.Stop()
		}
	}
}

func TestTroublesOfARealNetwork(t *testing.T) {
	t.Parallel()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	for name, row := range map[string]struct {
		handler     http.HandlerFunc
		least, most time.Duration
		class       pawl.Class
	}{
		"no answer":         {hang, 12 * tenth, 50 * tenth, pawl.ClassTransient},
		"a body that stops": {hangInBody, 3 * tenth, 50 * tenth, pawl.ClassTransient},
		"a trickle":         {trickle, 3 * tenth, 50 * tenth, pawl.ClassTransient},
		"reset":             {reset, 0, 50 * tenth, pawl.ClassTransient},
		"refused":           {nil, 0, 50 * tenth, pawl.ClassTransient},
		"503":               {status(503), 0, 50 * tenth, pawl.ClassTransient},
		"404":               {status(404), 0, 50 * tenth, pawl.ClassPermanent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, url := &service{T: t}, "http://"+gone.Addr().String()
			s.start(hurried())
			if row.handler != nil {
				server := listen(t, row.handler)
				defer server.awaitClosed(t)
				url = server.URL
			}
			defer s.client.CloseIdleConnections()
			request, err := http.NewRequest(http.MethodGet, url, nil)
			if err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			err = s.do(request)
			between(t, "took", time.Since(begun), row.least, row.most)
			if got := pawl.ClassOf(err); got != row.class {
				t.Errorf("class %v: %v", got, err)
			}
		})
	}
}

// 50 calls with retries use no more connections than 50 without, whether one after the other or ten at a time.
func TestConnectionsOfRetries(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		workers, allowed int
		transport        http.RoundTripper
	}{
		"one after the other": {1, 1, nil},
		"ten at a time":       {10, 10, &http.Transport{MaxConnsPerHost: 10, MaxIdleConnsPerHost: 10}},
		// Here a call may get a connection that another has put back while it dials, so there are a few more.
		"ten at a time, not capped": {10, 60, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			seen := map[string]int{}
			server := listen(t, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				seen[r.URL.Path]++
				n := seen[r.URL.Path]
				mu.Unlock()
				if n < 4 {
					w.WriteHeader(503)
				}
				io.WriteString(w, "answer")
			})
			s := &service{T: t}
			options := hurried()
			options.Attempt, options.Total, options.Transport = 20*second, 90*second, row.transport
			s.start(options)
			var group sync.WaitGroup
			for worker := range row.workers {
				group.Go(func() {
					for i := worker; i < 50; i += row.workers {
						request, _ := http.NewRequest(http.MethodGet, fmt.Sprint(server.URL, "/", i), nil)
						if err := s.do(request); err != nil {
							t.Error(err)
						}
					}
				})
			}
			group.Wait()
			server.mu.Lock()
			opened := server.opened
			server.mu.Unlock()
			if opened > row.allowed || len(seen) != 50 {
				t.Errorf("%d connections for 200 requests of %d calls", opened, len(seen))
			}
			s.client.CloseIdleConnections()
			server.awaitClosed(t)
		})
	}
}

// Over HTTP/2 an attempt that is cut off costs its stream, not the connection.
func TestHTTP2(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch n.Add(1) {
		case 1:
			status(503)(w, r)
		case 2:
			hang(w, r)
		case 3:
			status(429, "Retry-After", "0")(w, r)
		default:
			if r.ProtoMajor != 2 {
				t.Errorf("spoken: %s", r.Proto)
			}
			io.WriteString(w, "answer")
		}
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	options := hurried()
	options.Attempt, options.Total, options.Transport = second, 20*second, server.Client().Transport
	s := &service{T: t}
	s.start(options)
	dialled := 0
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if !info.Reused {
			dialled++
		}
	}})
	for range 3 {
		request, _ := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
		if err := s.do(request); err != nil {
			t.Error(err)
		}
	}
	if n.Load() != 6 || dialled != 1 {
		t.Errorf("%d requests, %d connections", n.Load(), dialled)
	}
}

// sendMail is how a handler sends with net/smtp, whose connections know no ctx.
func sendMail(ctx context.Context, addr, to string) error {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	client, err := netsmtp.NewClient(conn, "mail.test")
	if err != nil {
		return fmt.Errorf("greet: %w", err)
	}
	if err := errors.Join(client.Mail("jobs@test"), client.Rcpt(to)); err != nil {
		return fmt.Errorf("address mail: %w", err)
	}
	text, err := client.Data()
	if err != nil {
		return err
	}
	io.WriteString(text, "Subject: hello\r\n\r\nhello\r\n")
	return errors.Join(text.Close(), client.Quit())
}

func TestMail(t *testing.T) {
	t.Parallel()
	answers := map[string]error{
		"busy@test":   &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "try later"},
		"nobody@test": &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "no such user"},
	}
	var mu sync.Mutex
	asked := map[string]int{}
	addr := mailServer(t, func(to string) error {
		mu.Lock()
		defer mu.Unlock()
		asked[to]++
		return answers[to]
	}, func(string) {})
	options := hurried()
	options.Attempt, options.Total, options.Classifiers = 20*second, 90*second, []pawl.Classifier{classify.Default()}
	d, err := resilience.New("mail", options)
	if err != nil {
		t.Fatal(err)
	}
	for to, want := range map[string]struct {
		class pawl.Class
		asked int
	}{"alice@test": {pawl.ClassUnknown, 1}, "busy@test": {pawl.ClassTransient, 4}, "nobody@test": {pawl.ClassPermanent, 1}} {
		err := d.Do(t.Context(), func(ctx context.Context) error { return sendMail(ctx, addr, to) })
		mu.Lock()
		if got := pawl.ClassOf(err); got != want.class || asked[to] != want.asked || (err == nil) != (answers[to] == nil) {
			t.Errorf("%s: class %v after %d mails: %v", to, got, asked[to], err)
		}
		mu.Unlock()
	}
	if s := d.Stats(); s.Calls != 6 || s.Failures != 4 {
		t.Errorf("a refused recipient counts against the server: %+v", s)
	}
}

// A greeting that never comes ends the attempt in its time, and the connection.
func TestMailWithoutAGreeting(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	left := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			_, err = conn.Read(make([]byte, 1)) // until the client hangs up
			conn.Close()
		}
		left <- err
	}()
	options := resilience.SMTP()
	options.Attempt, options.Classifiers = 3*tenth, []pawl.Classifier{classify.Default()}
	d, err := resilience.New("mail", options)
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	err = d.Do(t.Context(), func(ctx context.Context) error { return sendMail(ctx, listener.Addr().String(), "alice@test") })
	between(t, "took", time.Since(begun), 3*tenth, 50*tenth)
	if pawl.ClassOf(err) != pawl.ClassTransient || d.Stats().Failures != 1 {
		t.Errorf("%v, %+v", err, d.Stats())
	}
	if err := <-left; err != io.EOF {
		t.Errorf("the connection ended with %v", err)
	}
}
