//go:build unix

package app

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// patience is how long something may take that is not measured.
const patience = time.Minute

// served is a process of `pawl serve`.
type served struct {
	*testing.T
	command *exec.Cmd
	url     string // of its endpoints
	ended   chan struct{}
	state   error // once ended

	mu  sync.Mutex
	log strings.Builder
}

var endpointsIn = regexp.MustCompile(`endpoints=(http://\S+)`)

// serve starts one and returns when its endpoints are up.
func serve(t *testing.T, store string, args ...string) *served {
	t.Helper()
	return serveBy(t, "", nil, append([]string{"--store", store}, args...)...)
}

// serveBy starts one by a path of its program, this one where there is none, with more in its environment.
func serveBy(t *testing.T, binary string, environ []string, args ...string) *served {
	t.Helper()
	if binary == "" {
		var err error
		if binary, err = os.Executable(); err != nil {
			t.Fatal(err)
		}
	}
	args = append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)
	p := &served{T: t, command: exec.Command(binary, args...), ended: make(chan struct{})}
	p.command.Args[0] = "pawl" // what TestMain goes by
	p.command.Env = append(append(os.Environ(), "PAWL_STORE=", "GORACE=atexit_sleep_ms=0"), environ...)
	stderr, err := p.command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	up := make(chan string, 1)
	go p.read(stderr, up)
	t.Cleanup(func() {
		_ = p.command.Process.Kill()
		<-p.ended
	})
	select {
	case p.url = <-up:
	case <-p.ended:
		t.Fatalf("pawl serve has ended: %v\n%s", p.state, p.said())
	}
	return p
}

func (p *served) read(stderr io.Reader, up chan<- string) {
	defer close(p.ended)
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		p.mu.Lock()
		p.log.WriteString(lines.Text() + "\n")
		p.mu.Unlock()
		if m := endpointsIn.FindStringSubmatch(lines.Text()); m != nil {
			up <- m[1]
		}
	}
	p.state = p.command.Wait()
}

func (p *served) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.log.String()
}

func (p *served) signal(s syscall.Signal) {
	p.Helper()
	if err := p.command.Process.Signal(s); err != nil {
		p.Fatal(err)
	}
}

// ends waits for the process and checks its exit status.
func (p *served) ends(status string, within time.Duration) {
	p.Helper()
	select {
	case <-p.ended:
	case <-time.After(within):
		p.Fatalf("it has not ended after %s\n%s", within, p.said())
	}
	if got := statusOf(p.state); got != status {
		p.Fatalf("exit status %s, want %s\n%s", got, status, p.said())
	}
}

// get asks an endpoint, which has to answer at once whatever the store does.
func (p *served) get(path string) string {
	p.Helper()
	client := http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	begun := time.Now()
	response, err := client.Get(p.url + path)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err.Error()
	}
	if took := time.Since(begun); took > 5*time.Second {
		p.Errorf("%s took %s", path, took)
	}
	return fmt.Sprint(response.StatusCode, " ", string(text))
}

// becomes waits until it is ready so; meanwhile and then it is alive.
func (p *served) becomes(want string) {
	p.Helper()
	deadline := time.Now().Add(patience)
	for {
		got := p.get("/healthz/ready")
		if live := p.get("/healthz/live"); live != "200 Live" {
			p.Fatalf("live: %s\n%s", live, p.said())
		}
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			p.Fatalf("ready: %s, want %s\n%s", got, want, p.said())
		}
		time.Sleep(20 * time.Millisecond)
	}
}

const (
	isHealthy   = "200 Healthy"
	isDegraded  = "200 Degraded"
	isUnhealthy = "503 Unhealthy"
)

// pawl runs one command line that must succeed, and returns what it prints.
func pawlOn(t *testing.T, store string, args ...string) string {
	t.Helper()
	var out, talk strings.Builder
	p := &program{in: strings.NewReader(""), out: &out, talk: &talk, tty: func(any) bool { return false }, name: "pawl"}
	if code := p.run(t.Context(), append(args, "--store", store)); code != exitOK {
		t.Fatalf("pawl %v: status %d\n%s", args, code, talk.String())
	}
	return strings.TrimSpace(out.String())
}

// database makes one for this test and returns its URL.
func database(t *testing.T) string {
	t.Helper()
	base := os.Getenv("PAWL_TEST_POSTGRES")
	if base == "" {
		t.Skip("PAWL_TEST_POSTGRES is not set: run the tests by scripts/with-services, which starts a server")
	}
	name := strings.ToLower(t.Name())
	statement := func(sql string) {
		ctx := context.WithoutCancel(t.Context())
		conn, err := pgx.Connect(ctx, base)
		if err == nil {
			_, err = conn.Exec(ctx, sql)
			err = errors.Join(err, conn.Close(ctx))
		}
		if err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	quoted := pgx.Identifier{name}.Sanitize()
	statement("drop database if exists " + quoted)
	statement("create database " + quoted)
	t.Cleanup(func() { statement("drop database " + quoted + " with (force)") })
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	u.Path = "/" + name
	return u.String()
}

// relay stands between a host and its database. Closed, it ends every connection; stalled, it lets nothing through.
type relay struct {
	url string // of the database through it

	mu      sync.Mutex
	changed *sync.Cond
	open    bool
	stalled bool
	over    bool
	conns   map[net.Conn]bool
}

// startRelay makes one that is closed.
func startRelay(t *testing.T, through string) *relay {
	t.Helper()
	config, err := pgx.ParseConfig(through)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{conns: map[net.Conn]bool{}}
	r.changed = sync.NewCond(&r.mu)
	r.url = fmt.Sprintf("postgres://%s:hidden@%s/%s", config.User, listener.Addr(), config.Database)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { r.join(client, config) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		r.set(func() { r.open, r.over = false, true })
		all.Wait()
	})
	return r
}

// set changes how it is.
func (r *relay) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
	if !r.open {
		for conn := range r.conns {
			_ = conn.Close()
		}
		clear(r.conns)
	}
	r.changed.Broadcast()
}

func (r *relay) cut()   { r.set(func() { r.open = false }) }
func (r *relay) stall() { r.set(func() { r.stalled = true }) }
func (r *relay) heal()  { r.set(func() { r.open, r.stalled = true, false }) }

func (r *relay) join(client net.Conn, config *pgx.ConnConfig) {
	defer client.Close()
	network, address := pgconn.NetworkAddress(config.Host, config.Port)
	server, err := net.Dial(network, address)
	if err != nil {
		return
	}
	defer server.Close()
	r.mu.Lock()
	if !r.open {
		r.mu.Unlock()
		return
	}
	r.conns[client], r.conns[server] = true, true
	r.mu.Unlock()
	var ways sync.WaitGroup
	ways.Go(func() { r.carry(client, server) })
	ways.Go(func() { r.carry(server, client) })
	ways.Wait()
}

func (r *relay) carry(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil || !r.passes() {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func (r *relay) passes() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.stalled && r.open && !r.over {
		r.changed.Wait()
	}
	return r.open && !r.over
}
