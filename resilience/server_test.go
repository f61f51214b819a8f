package resilience_test

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/classify"
	"github.com/pawljobs/pawl/resilience"
)

// pipes is a network in memory, as virtual time needs one: a real server of HTTP listens on it.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// service is a downstream with a server of HTTP in the bubble.
type service struct {
	*testing.T
	*resilience.Downstream
	client *http.Client
	mu     sync.Mutex
	opened int // connections
	open   int
	served int // requests
	bodies []string
}

// serviced runs a test with a service in virtual time, and then looks for what is left.
func serviced(t *testing.T, options resilience.Options, handler http.HandlerFunc, test func(s *service)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &service{T: t}
		network := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		server := &http.Server{Handler: s.counting(handler), ConnState: s.track, ErrorLog: log.New(io.Discard, "", 0)}
		served := make(chan error)
		go func() { served <- server.Serve(network) }()
		if options.Transport == nil {
			options.Transport = &http.Transport{DialContext: network.dial, MaxIdleConnsPerHost: 100}
		}
		s.start(options)
		test(s)
		s.client.CloseIdleConnections()
		time.Sleep(2 * second) // for the server to notice
		synctest.Wait()
		s.mu.Lock()
		if s.open != 0 {
			t.Errorf("%d connections are left of %d", s.open, s.opened)
		}
		s.mu.Unlock()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-served
	})
}

func (s *service) start(options resilience.Options) {
	s.Helper()
	d, err := resilience.New("cdn", quiet(options))
	if err != nil {
		s.Fatal(err)
	}
	s.Downstream, s.client = d, d.Client()
}

func (s *service) counting(handler http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.served++
		s.bodies = append(s.bodies, string(body))
		s.mu.Unlock()
		handler(w, r)
	})
}

func (s *service) track(_ net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew:
		s.opened++
		s.open++
	case http.StateClosed, http.StateHijacked:
		s.open--
	}
}

// requests is how many have been served since the last call of requests.
func (s *service) requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.served
	s.served = 0
	return n
}

// received are the bodies of all requests.
func (s *service) received() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.bodies)
}

// do makes one call as a handler would, to its end.
func (s *service) do(request *http.Request) error {
	s.Helper()
	response, err := s.client.Do(request)
	if err != nil {
		return pawl.Classify(err, classify.Default())
	}
	if err := classify.Response(response); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, response.Body)
	response.Body.Close()
	return pawl.Classify(err, classify.Default())
}

func (s *service) get(path string) error {
	s.Helper()
	return s.do(s.request(http.MethodGet, path, nil))
}

func (s *service) request(method, path string, body io.Reader) *http.Request {
	s.Helper()
	request, err := http.NewRequest(method, "http://cdn.test"+path, body)
	if err != nil {
		s.Fatal(err)
	}
	return request
}
