package postgres_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/postgres"
	"github.com/pawljobs/pawl/storetest"
)

// proxy stands between a store and its server. Connections that it has frozen stay open and carry nothing.
type proxy struct {
	listener net.Listener
	dial     func() (net.Conn, error)
	accepted chan struct{}

	group sync.WaitGroup

	mu    sync.Mutex
	epoch int // connections of an earlier one are frozen
	conns []net.Conn
}

func startProxy(t *testing.T, url string) *proxy {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: listener, accepted: make(chan struct{}, 1000)}
	p.dial = func() (net.Conn, error) {
		network, address := pgconn.NetworkAddress(config.Host, config.Port)
		return net.Dial(network, address)
	}
	p.group.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

func (p *proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	for _, conn := range p.conns {
		_ = conn.Close()
	}
	p.mu.Unlock()
	p.group.Wait()
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := p.dial()
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, client, server)
		p.mu.Unlock()
		born := p.now()
		p.group.Go(func() { p.carry(client, server, born) })
		p.group.Go(func() { p.carry(server, client, born) })
		p.accepted <- struct{}{}
	}
}

// carry moves bytes until its connection is frozen; then it swallows them.
func (p *proxy) carry(from, to net.Conn, born int) {
	defer to.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if p.now() != born {
			_, _ = io.Copy(io.Discard, from)
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (p *proxy) now() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.epoch
}

// freeze stops all that is connected now; later connections work.
func (p *proxy) freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.epoch++
}

// through is the same database by another address.
func through(t testing.TB, url string, address net.Addr) string {
	t.Helper()
	config, err := pgx.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	host, port, err := net.SplitHostPort(address.String())
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("host=%s port=%s user='%s' password='%s' dbname='%s' sslmode=disable", host, port, config.User, config.Password, config.Database)
}

// A connection that hears nothing because the network swallows everything is noticed and replaced.
func TestBlackholedListener(t *testing.T) {
	t.Parallel()
	direct := openFresh(t, storetest.Options{}).(inSchema)
	p := startProxy(t, direct.url)
	behind, err := postgres.Open(t.Context(), through(t, direct.url, p.listener.Addr()), postgres.Config{Schema: direct.config.Schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = behind.Close() })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wake, err := behind.Wake(ctx)
	if err != nil {
		t.Fatal(err)
	}
	listening(t, direct, 2)
	for len(p.accepted) > 0 {
		<-p.accepted
	}
	p.freeze()
	began := time.Now()
	select {
	case <-p.accepted: // it has come again
	case <-time.After(patience):
		t.Fatal("the silence of the connection was not noticed")
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the silence was noticed after %s", took)
	}
	listening(t, direct, 3) // the frozen one is there too
	drained(wake)
	put(t, direct, newJob(t, direct))
	awaken(t, wake, "an enqueue")
}

// Notifications of a burst are few, and the one after the last commit always comes: a host of another process that
// sleeps until it is woken, and never looks by itself, gets every job.
func TestLastNotification(t *testing.T) {
	t.Parallel()
	store := openFresh(t, storetest.Options{}).(inSchema)
	other := reopen(t, store).(inSchema)
	session := openSession(t, other)
	wake, err := other.Wake(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	listening(t, store, 2)
	const callers, each = 8, 40
	for round := range 5 {
		var group sync.WaitGroup
		for range callers {
			jobs := make([]pawl.NewJob, each)
			for i := range jobs {
				jobs[i] = newJob(t, store)
			}
			group.Go(func() {
				for i := range jobs {
					if _, err := store.Enqueue(t.Context(), jobs[i:i+1]); err != nil {
						t.Errorf("enqueue: %v", err)
					}
				}
			})
		}
		for got := 0; got < callers*each; {
			awaken(t, wake, fmt.Sprintf("after %d of %d jobs of round %d, the last enqueue", got, callers*each, round))
			jobs := claimAll(t, other, session)
			settleDone(t, other, session, jobs)
			got += len(jobs)
		}
		group.Wait()
	}
}

// A connection for notifications that is lost again and again is told of once, not each time.
func TestListenerThatIsLostAgainAndAgain(t *testing.T) {
	t.Parallel()
	log := &lines{}
	store := openIn(t, server(t), postgres.Config{Schema: freshSchema(t), Logger: slog.New(log)})
	conn := beside(t, store.url)
	killed := map[int]bool{}
	for deadline := time.Now().Add(patience); len(killed) < 6; {
		listening(t, store, 1)
		var pid int
		err := conn.QueryRow(t.Context(), `select max(pid) from pg_stat_activity where application_name = 'pawl listen ' || $1 and state = 'idle'`,
			postgres.ChannelOf(store.config.Schema)).Scan(&pid)
		if err != nil || killed[pid] {
			if time.Now().After(deadline) {
				t.Fatalf("it does not listen again: process %d, error %v", pid, err)
			}
			continue // it is on its way
		}
		killed[pid] = true
		if _, err := conn.Exec(t.Context(), `select pg_terminate_backend($1)`, pid); err != nil {
			t.Fatal(err)
		}
	}
	if warnings := log.at(slog.LevelWarn); len(warnings) != 1 {
		t.Errorf("it is told %d times:\n%s", len(warnings), log)
	}
}
