//go:build linux

package main

import (
	"bytes"
	"net"
	"sync"
)

// proxy stands between one process and the database: it cuts the connections, carries nothing for a while, or loses the
// reply to a commit.
type proxy struct {
	listener net.Listener
	dial     func() (net.Conn, error)
	group    sync.WaitGroup

	mu      sync.Mutex
	changed *sync.Cond
	cut     bool // no connections
	stalled bool // they carry nothing, and deliver it later
	closed  bool
	pairs   map[*pair]bool
	commit  func() // called when a commit has been passed on whose reply will be lost
	held    func() // called when a commit has been kept back, with all that follows
}

// pair is a connection on both sides.
type pair struct {
	client, server net.Conn
	mute           bool // the server's replies are lost
}

func (p *pair) close() {
	_ = p.client.Close()
	if p.server != nil {
		_ = p.server.Close()
	}
}

func startProxy(dial func() (net.Conn, error)) (*proxy, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: listener, dial: dial, pairs: map[*pair]bool{}}
	p.changed = sync.NewCond(&p.mu)
	p.group.Go(p.accept)
	return p, nil
}

func (p *proxy) address() string { return p.listener.Addr().String() }

// set changes what the proxy does, at once.
func (p *proxy) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
	if p.cut || p.closed {
		for pair := range p.pairs {
			pair.close()
		}
	}
	p.changed.Broadcast()
}

func (p *proxy) cutAll() { p.set(func() { p.cut = true }) }
func (p *proxy) stall()  { p.set(func() { p.stalled = true }) }
func (p *proxy) restore() {
	p.set(func() { p.cut, p.stalled, p.commit, p.held = false, false, nil, nil })
}

// loseCommit loses the reply to the next commit, and says when.
func (p *proxy) loseCommit(f func()) { p.set(func() { p.commit = f }) }

// holdCommit stalls the connections when the next commit is on its way, and says so.
func (p *proxy) holdCommit(f func()) { p.set(func() { p.held = f }) }

func (p *proxy) close() {
	_ = p.listener.Close()
	p.set(func() { p.closed = true })
	p.group.Wait()
}

// open counts the connections.
func (p *proxy) open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.pairs)
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.group.Go(func() { p.join(&pair{client: client}) })
	}
}

func (p *proxy) join(c *pair) {
	defer c.close()
	if !p.passes() {
		return
	}
	server, err := p.dial()
	if err != nil {
		return
	}
	if !p.keep(c, server) {
		return
	}
	defer p.drop(c)
	var ways sync.WaitGroup
	ways.Go(func() { p.carry(c, c.client, c.server, p.seen) })
	ways.Go(func() { p.carry(c, c.server, c.client, p.answered) })
	ways.Wait()
}

func (p *proxy) keep(c *pair, server net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.server = server
	if p.cut || p.closed {
		return false
	}
	p.pairs[c] = true
	return true
}

func (p *proxy) drop(c *pair) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pairs, c)
}

// passes waits while nothing is carried; false when the connection is to end.
func (p *proxy) passes() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.stalled && !p.cut && !p.closed {
		p.changed.Wait()
	}
	return !p.cut && !p.closed
}

// carry brings what one side sends to the other. look may end it.
func (p *proxy) carry(c *pair, from, to net.Conn, look func(*pair, []byte) bool) {
	defer c.close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil || !p.passes() || !look(c, buffer[:n]) || !p.passes() {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// commitText is PostgreSQL's message of a simple query.
var commitText = []byte("Q\x00\x00\x00\x0bcommit\x00")

// seen looks for a commit on its way.
func (p *proxy) seen(c *pair, sent []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.commit == nil && p.held == nil || !bytes.Contains(sent, commitText) {
		return true
	}
	c.mute = p.commit != nil
	if p.held != nil {
		p.stalled = true
		p.held()
		p.held = nil
	}
	return true
}

// answered loses the reply to that commit, which has been made by now, and the connection.
func (p *proxy) answered(c *pair, _ []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !c.mute {
		return true
	}
	if p.commit != nil {
		p.commit()
		p.commit = nil
	}
	return false
}
