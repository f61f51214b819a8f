package postgres_test

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// relay stands between hosts and their database, and takes it away: by a cut, which ends connections and every new
// one at once, or by a stall, in which they stay open and nothing comes through until it is over. What was sent in a
// stall arrives after it, as in a network, even if the sender has closed the connection since.
type relay struct {
	url      string // of the database through it
	listener net.Listener
	dial     func() (net.Conn, error)
	group    sync.WaitGroup
	dials    atomic.Int64 // connections that were tried

	mu      sync.Mutex
	changed *sync.Cond
	cutOff  bool
	stalled bool // all connections
	held    int  // and those up to this number
	joined  int
	closed  bool
	conns   map[net.Conn]bool
}

func startRelay(t testing.TB, url string) *relay {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{url: through(t, url, listener.Addr()), listener: listener, conns: map[net.Conn]bool{}}
	r.changed = sync.NewCond(&r.mu)
	r.dial = func() (net.Conn, error) {
		network, address := pgconn.NetworkAddress(config.Host, config.Port)
		return net.DialTimeout(network, address, 5*time.Second)
	}
	r.group.Go(r.accept)
	t.Cleanup(r.close)
	return r
}

// cut ends all connections, and those that come, until heal.
func (r *relay) cut() { r.change(func() { r.cutOff = true; r.endAll() }) }

// stall stops everything on its way, until heal.
func (r *relay) stall() { r.change(func() { r.stalled = true }) }

// hold stalls the connections that there are, and lets new ones pass.
func (r *relay) hold() { r.change(func() { r.held = r.joined }) }

func (r *relay) heal() { r.change(func() { r.cutOff, r.stalled, r.held = false, false, 0 }) }

func (r *relay) close() {
	_ = r.listener.Close()
	r.change(func() { r.closed = true; r.endAll() })
	r.group.Wait()
}

func (r *relay) change(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	r.changed.Broadcast()
}

func (r *relay) endAll() {
	for conn := range r.conns {
		_ = conn.Close()
	}
	clear(r.conns)
}

func (r *relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.dials.Add(1)
		r.group.Go(func() { r.join(client) })
	}
}

// join connects a client with the server, unless the relay is cut.
func (r *relay) join(client net.Conn) {
	defer client.Close()
	r.mu.Lock()
	r.joined++
	number := r.joined
	r.mu.Unlock()
	if !r.passes(number) || !r.keep(client) {
		return
	}
	server, err := r.dial()
	if err != nil {
		return
	}
	defer server.Close()
	if !r.keep(server) {
		return
	}
	var ways sync.WaitGroup
	ways.Go(func() { r.carry(number, client, server) })
	ways.Go(func() { r.carry(number, server, client) })
	ways.Wait()
}

// keep notes a connection; false when there is to be none.
func (r *relay) keep(conn net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cutOff || r.closed {
		return false
	}
	r.conns[conn] = true
	return true
}

// passes waits while a connection is stalled; false when it is cut.
func (r *relay) passes(number int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for (r.stalled || number <= r.held) && !r.cutOff && !r.closed {
		r.changed.Wait()
	}
	return !r.cutOff && !r.closed
}

func (r *relay) carry(number int, from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil || !r.passes(number) {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}
