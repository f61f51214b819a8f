package resilience_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/resilience"
)

func TestWhatIsRepeated(t *testing.T) {
	for name, row := range map[string]struct {
		method   string
		key, all bool
		body     io.Reader
		requests int
	}{
		"GET":                    {http.MethodGet, false, false, nil, 4},
		"HEAD":                   {http.MethodHead, false, false, nil, 4},
		"OPTIONS":                {http.MethodOptions, false, false, nil, 4},
		"TRACE":                  {http.MethodTrace, false, false, nil, 4},
		"DELETE":                 {http.MethodDelete, false, false, nil, 4},
		"PUT":                    {http.MethodPut, false, false, strings.NewReader("whole"), 4},
		"POST":                   {http.MethodPost, false, false, strings.NewReader("whole"), 1},
		"PATCH":                  {http.MethodPatch, false, false, strings.NewReader("whole"), 1},
		"an unknown method":      {"BREW", false, false, nil, 1},
		"POST with a key":        {http.MethodPost, true, false, strings.NewReader("whole"), 4},
		"POST where asked":       {http.MethodPost, false, true, strings.NewReader("whole"), 4},
		"PUT of a stream":        {http.MethodPut, false, false, io.MultiReader(strings.NewReader("whole")), 1},
		"asked, but of a stream": {http.MethodPost, true, true, io.MultiReader(strings.NewReader("whole")), 1},
	} {
		t.Run(name, func(t *testing.T) {
			serviced(t, resilience.Options{RetryAll: row.all}, status(503), func(s *service) {
				request := s.request(row.method, "/", row.body)
				if row.key {
					request.Header.Set("Idempotency-Key", "7")
				}
				if err := s.do(request); pawl.ClassOf(err) != pawl.ClassTransient {
					s.Error(err)
				}
				want := ""
				if row.body != nil {
					want = "whole"
				}
				if n := s.requests(); n != row.requests || slices.ContainsFunc(s.received(), func(b string) bool { return b != want }) {
					s.Errorf("%d requests, want %d; bodies %q", n, row.requests, s.received())
				}
			})
		})
	}
}

// trackedBody counts how it is closed.
type trackedBody struct {
	io.Reader
	closed *int
}

func (b trackedBody) Close() error { *b.closed++; return nil }

// Every body of a request is closed, whatever becomes of it.
func TestRequestBodiesAreClosed(t *testing.T) {
	options := resilience.Options{Breaker: resilience.Breaker{MinCalls: 4, Open: time.Hour}}
	serviced(t, options, status(503), func(s *service) {
		made, closed := 0, 0
		fresh := func() (io.ReadCloser, error) {
			made++
			return trackedBody{strings.NewReader("whole"), &closed}, nil
		}
		send := func(getBody func() (io.ReadCloser, error)) error {
			request := s.request(http.MethodPut, "/", nil)
			request.Body, _ = fresh()
			request.GetBody = getBody
			return s.do(request)
		}
		if err := send(func() (io.ReadCloser, error) { return nil, errBoom }); pawl.ClassOf(err) != pawl.ClassTransient || s.requests() != 1 {
			s.Errorf("a body that cannot be had again: %v", err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		request := s.request(http.MethodPut, "/", nil).WithContext(ctx)
		request.Body, _ = fresh()
		request.GetBody = fresh
		time.AfterFunc(second/4, cancel)
		if err := s.do(request); !errors.Is(err, context.Canceled) || s.requests() != 1 {
			s.Errorf("a caller who went away while waiting: %v", err)
		}
		_ = send(fresh) // opens the breaker
		if err := send(fresh); !errors.Is(err, resilience.ErrOpen) {
			s.Error(err)
		}
		time.Sleep(second)
		if made != closed || made < 5 {
			s.Errorf("%d bodies made, %d closed", made, closed)
		}
	})
}

func TestRedirectsShareTheTotal(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			time.Sleep(14 * second)
			http.Redirect(w, r, "/next", http.StatusTemporaryRedirect)
			return
		}
		hang(w, r)
	}
	serviced(t, resilience.Small(), handler, func(s *service) {
		begun := time.Now()
		request := s.request(http.MethodPut, "/", strings.NewReader("whole"))
		err := s.do(request)
		if took := time.Since(begun); took != 50*second || pawl.ClassOf(err) != pawl.ClassTransient {
			s.Errorf("%v after %v", err, took)
		}
		for _, body := range s.received() {
			if body != "whole" {
				s.Errorf("a body arrived as %q", body)
			}
		}
		var timeout *resilience.TimeoutError
		if !errors.As(err, &timeout) || timeout.Error() != "cdn: total timeout (50s) in attempt 3" {
			s.Errorf("got %v", err)
		}
	})
}

func TestRedirectsAreFollowed(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/":
			http.Redirect(w, r, "/end", http.StatusFound)
		}
	}
	serviced(t, resilience.Options{}, handler, func(s *service) {
		if err := s.get("/"); err != nil || s.requests() != 2 {
			s.Error(err)
		}
		if err := s.get("/loop"); err == nil || s.requests() != 10 {
			s.Error(err)
		}
	})
}

// doer is a transport made of a function.
type doer func(*http.Request) (*http.Response, error)

func (f doer) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A transport that panics wedges neither the breaker nor the probe, and the panic arrives.
func TestTransportPanics(t *testing.T) {
	harm := func() { panic("boom") }
	options := resilience.Options{
		Breaker: resilience.Breaker{MinCalls: 2},
		Transport: doer(func(r *http.Request) (*http.Response, error) {
			harm()
			return &http.Response{StatusCode: 204, Body: http.NoBody, Request: r}, nil
		}),
	}
	serviced(t, options, nil, func(s *service) {
		for i := range 6 {
			arrived := make(chan any)
			go func() {
				defer func() { arrived <- recover() }()
				_ = s.get("/")
			}()
			if got := <-arrived; i%2 == 0 && got != "boom" {
				s.Errorf("the panic became %v", got)
			}
			if i > 0 {
				state(s.T, s.Downstream, resilience.Open)
				time.Sleep(5 * second)
			}
			harm = []func(){runtime.Goexit, func() { panic("boom") }}[i%2]
		}
		harm = func() {}
		if err := s.get("/"); err != nil {
			s.Error(err)
		}
		state(s.T, s.Downstream, resilience.Closed)
		time.Sleep(120 * second) // net/http's own goroutine of a call that panicked stays until its Timeout
	})
}

// Every body of a response that is not the caller's is closed.
func TestResponseBodiesAreClosed(t *testing.T) {
	made, closed := 0, 0
	transport := doer(func(r *http.Request) (*http.Response, error) {
		made++
		return &http.Response{StatusCode: 503, Body: trackedBody{strings.NewReader("answer"), &closed}, Request: r}, nil
	})
	serviced(t, resilience.Options{Transport: transport}, nil, func(s *service) {
		response, err := s.client.Do(s.request(http.MethodGet, "/", nil))
		if err != nil || made != 4 || closed != 3 {
			s.Errorf("%d bodies made, %d closed, %v", made, closed, err)
		}
		response.Body.Close()
		if closed != 4 {
			s.Error("the last one cannot be closed")
		}
	})
}

func TestTransportsOfBadManners(t *testing.T) {
	for name, transport := range map[string]doer{
		"nothing": func(*http.Request) (*http.Response, error) { return nil, nil },
		"no body": func(r *http.Request) (*http.Response, error) { return &http.Response{StatusCode: 500}, nil },
		"no request": func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 302, Header: http.Header{"Location": {"/"}}, Body: http.NoBody}, nil
		},
		"a circle": func(*http.Request) (*http.Response, error) { ring := &circle{}; ring.next = ring; return nil, ring },
		"a bomb":   func(*http.Request) (*http.Response, error) { return nil, bomb{} },
	} {
		t.Run(name, func(t *testing.T) {
			serviced(t, resilience.Options{Transport: transport}, nil, func(s *service) {
				request := s.request(http.MethodGet, "/", nil)
				response, err := s.client.Do(request)
				if err != nil {
					return
				}
				response.Body.Close()
				if response.StatusCode != 500 {
					s.Errorf("%v", response)
				}
			})
		})
	}
}

// Whoever does not read a body loses the connection when the attempt's time is over, and nothing else.
func TestBodyThatNobodyReads(t *testing.T) {
	serviced(t, resilience.Options{}, hangInBody, func(s *service) {
		response, err := s.client.Do(s.request(http.MethodGet, "/", nil))
		if err != nil {
			s.Fatal(err)
		}
		time.Sleep(21 * second)
		s.mu.Lock()
		open := s.open
		s.mu.Unlock()
		if open != 0 {
			s.Error("the connection is still open")
		}
		if _, err := io.ReadAll(response.Body); !errors.Is(err, context.DeadlineExceeded) {
			s.Error(err)
		}
		response.Body.Close()
	})
}

// Close ends a Read, as it does without this package.
func TestBodyIsClosedWhileItIsRead(t *testing.T) {
	serviced(t, resilience.Options{}, hangInBody, func(s *service) {
		response, err := s.client.Do(s.request(http.MethodGet, "/", nil))
		if err != nil {
			s.Fatal(err)
		}
		time.AfterFunc(second, func() { response.Body.Close() })
		begun := time.Now()
		if _, err := io.ReadAll(response.Body); err == nil || time.Since(begun) != second {
			s.Errorf("%v after %v", err, time.Since(begun))
		}
		if got := s.Stats(); got.Failures != 0 || got.Calls != 1 {
			s.Errorf("%+v", got)
		}
	})
}

// A connection that is taken over is no attempt any more.
func TestSwitchedProtocols(t *testing.T) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		conn, lines, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprint(lines, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		lines.Flush()
		text, _ := lines.ReadString('\n')
		fmt.Fprint(conn, text)
	}
	serviced(t, resilience.Options{}, handler, func(s *service) {
		s.client.Timeout = 0 // with it net/http hides the connection
		request := s.request(http.MethodGet, "/", nil)
		request.Header.Set("Connection", "Upgrade")
		request.Header.Set("Upgrade", "echo")
		response, err := s.client.Do(request)
		if err != nil {
			s.Fatal(err)
		}
		defer response.Body.Close()
		time.Sleep(60 * second) // longer than an attempt
		fmt.Fprintln(response.Body.(io.Writer), "hello")
		if text, err := bufio.NewReader(response.Body).ReadString('\n'); text != "hello\n" {
			s.Errorf("%q, %v", text, err)
		}
	})
}

func TestOf(t *testing.T) {
	t.Parallel()
	if resilience.Of(nil) != nil || resilience.Of(http.DefaultClient) != nil {
		t.Error("a downstream behind a client of somebody else")
	}
}
