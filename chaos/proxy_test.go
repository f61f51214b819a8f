//go:build linux

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// echo is a server that sends back what it is sent, and notes it.
type echo struct {
	net.Listener
	seen  chan string
	group sync.WaitGroup
}

func startEcho(t *testing.T) *echo {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := &echo{Listener: listener, seen: make(chan string, 100)}
	e.group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			e.group.Go(func() {
				defer conn.Close()
				buffer := make([]byte, 1024)
				for {
					n, err := conn.Read(buffer)
					if err != nil {
						return
					}
					e.seen <- string(buffer[:n])
					if _, err := conn.Write(buffer[:n]); err != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() { _ = listener.Close(); e.group.Wait() })
	return e
}

// proxied is a client of an echo behind a proxy.
type proxied struct {
	*testing.T
	echo  *echo
	proxy *proxy
}

func newProxied(t *testing.T) *proxied {
	t.Helper()
	e := startEcho(t)
	p, err := startProxy(func() (net.Conn, error) { return net.Dial("tcp", e.Addr().String()) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return &proxied{t, e, p}
}

func (p *proxied) dial() net.Conn {
	p.Helper()
	conn, err := net.Dial("tcp", p.proxy.address())
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { _ = conn.Close() })
	return conn
}

// ask sends a line and returns what comes back.
func ask(conn net.Conn, line string) (string, error) {
	if _, err := fmt.Fprintln(conn, line); err != nil {
		return "", err
	}
	return bufio.NewReader(conn).ReadString('\n')
}

func (p *proxied) answers(conn net.Conn) {
	p.Helper()
	if back, err := ask(conn, "hello"); err != nil || back != "hello\n" {
		p.Errorf("%q, %v", back, err)
	}
	<-p.echo.seen
}

func TestProxyCuts(t *testing.T) {
	t.Parallel()
	p := newProxied(t)
	conn := p.dial()
	p.answers(conn)
	if n := p.proxy.open(); n != 1 {
		t.Errorf("%d connections", n)
	}
	p.proxy.cutAll()
	if _, err := ask(conn, "cut"); err == nil {
		t.Error("a connection outlived the cut")
	}
	if _, err := ask(p.dial(), "cut"); err == nil {
		t.Error("a connection was made through the cut")
	}
	p.proxy.restore()
	p.answers(p.dial())
}

func TestProxyStalls(t *testing.T) {
	t.Parallel()
	p := newProxied(t)
	conn := p.dial()
	p.answers(conn)
	p.proxy.stall()
	fresh := p.dial()
	got := make(chan string, 2)
	for _, c := range []net.Conn{conn, fresh} {
		go func() {
			back, err := ask(c, "late")
			got <- fmt.Sprint(back, err)
		}()
	}
	select {
	case what := <-p.echo.seen:
		t.Errorf("%q came through", what)
	case what := <-got:
		t.Errorf("a reply came through: %q", what)
	case <-time.After(50 * time.Millisecond): // nothing can be waited for: nothing happens
	}
	p.proxy.restore()
	for range 2 {
		if back := <-got; back != "late\n<nil>" {
			t.Errorf("after the stall: %q", back)
		}
	}
}

func TestProxyHoldsCommit(t *testing.T) {
	t.Parallel()
	p := newProxied(t)
	conn := p.dial()
	met := make(chan struct{})
	p.proxy.holdCommit(func() { close(met) })
	p.answers(conn)
	if _, err := conn.Write(commitText); err != nil {
		t.Fatal(err)
	}
	<-met
	select {
	case what := <-p.echo.seen:
		t.Errorf("%q came through", what)
	case <-time.After(50 * time.Millisecond): // nothing can be waited for: nothing happens
	}
	p.proxy.restore()
	back := make([]byte, len(commitText))
	if _, err := io.ReadFull(conn, back); err != nil {
		t.Errorf("after the stall: %v", err)
	}
}

func TestProxyLosesCommit(t *testing.T) {
	t.Parallel()
	p := newProxied(t)
	conn := p.dial()
	met := make(chan struct{})
	p.proxy.loseCommit(func() { close(met) })
	p.answers(conn)
	if _, err := conn.Write(commitText); err != nil {
		t.Fatal(err)
	}
	if back, err := io.ReadAll(conn); len(back) > 0 {
		t.Errorf("a reply came back: %q, %v", back, err)
	}
	if what := <-p.echo.seen; what != string(commitText) {
		t.Errorf("the commit did not arrive: %q", what)
	}
	<-met
	next := p.dial()
	if _, err := next.Write(commitText); err != nil { // only one is lost
		t.Fatal(err)
	}
	back := make([]byte, len(commitText))
	if _, err := io.ReadFull(next, back); err != nil {
		t.Errorf("the second commit: %v", err)
	}
}
