package resilience_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/classify"
	"github.com/pawljobs/pawl/resilience"
)

func quiet(options resilience.Options) resilience.Options {
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	return options
}

func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// begin sends headers and the beginning of a body.
func begin(w http.ResponseWriter) {
	w.Header().Set("Content-Length", "1000")
	io.WriteString(w, "begun")
	w.(http.Flusher).Flush()
}

func hangInBody(w http.ResponseWriter, r *http.Request) {
	begin(w)
	<-r.Context().Done()
}

func oneByteASecond(w http.ResponseWriter, r *http.Request) {
	begin(w)
	for r.Context().Err() == nil {
		time.Sleep(second)
		io.WriteString(w, "x")
		w.(http.Flusher).Flush()
	}
}

func cut(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func cutInBody(w http.ResponseWriter, _ *http.Request) {
	begin(w)
	panic(http.ErrAbortHandler)
}

func status(code int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		io.WriteString(w, "answer")
	}
}

func inDate(d time.Duration) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		status(429, "Retry-After", time.Now().Add(d).UTC().Format(http.TimeFormat))(w, r)
	}
}

// switched is a handler that a test exchanges.
type switched struct{ now atomic.Value }

func (s *switched) to(h http.HandlerFunc) { s.now.Store(h) }
func (s *switched) serve(w http.ResponseWriter, r *http.Request) {
	s.now.Load().(http.HandlerFunc)(w, r)
}

// Each trouble of a downstream ends within its rung and with its class; serviced sees that no connection is left.
func TestTroubles(t *testing.T) {
	attempts := resilience.RungAttempt
	for name, row := range map[string]struct {
		options     resilience.Options
		handler     http.HandlerFunc
		least, most time.Duration
		requests    int
		class       pawl.Class
		after       time.Duration
		rung        resilience.Rung // "": no timeout
	}{
		"no answer":                 {handler: hang, least: 83500 * time.Millisecond, most: 85250 * time.Millisecond, requests: 4, class: pawl.ClassTransient, rung: attempts},
		"no answer, less time":      {options: resilience.Options{Attempt: 15 * second, Total: 40 * second}, handler: hang, least: 40 * second, most: 40 * second, requests: 3, class: pawl.ClassTransient, rung: resilience.RungTotal},
		"a body that stops":         {handler: hangInBody, least: 20 * second, most: 20 * second, requests: 1, class: pawl.ClassTransient, rung: attempts},
		"one byte a second":         {handler: oneByteASecond, least: 20 * second, most: 20 * second, requests: 1, class: pawl.ClassTransient, rung: attempts},
		"cut before the headers":    {handler: cut, least: 3500 * time.Millisecond, most: 5250 * time.Millisecond, requests: 4, class: pawl.ClassUnknown},
		"cut in the body":           {handler: cutInBody, requests: 1, class: pawl.ClassUnknown},
		"500":                       {handler: status(500), least: 3500 * time.Millisecond, most: 5250 * time.Millisecond, requests: 4, class: pawl.ClassTransient},
		"408":                       {handler: status(408), least: 3500 * time.Millisecond, most: 5250 * time.Millisecond, requests: 4, class: pawl.ClassTransient},
		"423":                       {handler: status(423), least: 3500 * time.Millisecond, most: 5250 * time.Millisecond, requests: 4, class: pawl.ClassTransient},
		"501":                       {handler: status(501), requests: 1, class: pawl.ClassPermanent},
		"404":                       {handler: status(404), requests: 1, class: pawl.ClassPermanent},
		"404 with a wait":           {handler: status(404, "Retry-After", "1"), requests: 1, class: pawl.ClassPermanent},
		"429, 4 s":                  {handler: status(429, "Retry-After", "4"), least: 12 * second, most: 13 * second, requests: 4, class: pawl.ClassTransient, after: 4 * second},
		"429, 5 s":                  {handler: status(429, "Retry-After", "5"), least: 15 * second, most: 15 * second, requests: 4, class: pawl.ClassTransient, after: 5 * second},
		"429, 6 s":                  {handler: status(429, "Retry-After", "6"), requests: 1, class: pawl.ClassTransient, after: 6 * second},
		"429, a date in 3 s":        {handler: inDate(3 * second), least: 9 * second, most: 10 * second, requests: 4, class: pawl.ClassTransient, after: 3 * second},
		"429, a date in 2 minutes":  {handler: inDate(2 * time.Minute), requests: 1, class: pawl.ClassTransient, after: 2 * time.Minute},
		"503, 2 hours":              {handler: status(503, "Retry-After", "7200"), requests: 1, class: pawl.ClassTransient, after: 2 * time.Hour},
		"a wait beyond the total":   {options: resilience.Options{Attempt: second, Total: 4 * second}, handler: status(503, "Retry-After", "4"), requests: 1, class: pawl.ClassTransient, after: 4 * second},
		"no retries":                {options: resilience.Options{Retries: resilience.None}, handler: status(500), requests: 1, class: pawl.ClassTransient},
		"an error with a slow body": {options: resilience.Options{Retries: resilience.None}, handler: slowError, least: 2 * second, most: 2 * second, requests: 1, class: pawl.ClassTransient},
		"errors with a slow body":   {handler: slowError, least: 8500 * time.Millisecond, most: 10250 * time.Millisecond, requests: 4, class: pawl.ClassTransient},
		"nothing at all":            {handler: func(http.ResponseWriter, *http.Request) {}, requests: 1},
		"a good answer":             {handler: status(200), requests: 1},
	} {
		t.Run(name, func(t *testing.T) {
			serviced(t, row.options, row.handler, func(s *service) {
				begun := time.Now()
				err := s.get("/")
				between(s.T, "took", time.Since(begun), row.least, max(row.least, row.most))
				if got := pawl.ClassOf(err); got != row.class || pawl.AfterOf(err) != row.after {
					s.Errorf("class %v, after %v: %v", got, pawl.AfterOf(err), err)
				}
				if n := s.requests(); n != row.requests {
					s.Errorf("%d requests, want %d", n, row.requests)
				}
				var timeout *resilience.TimeoutError
				if errors.As(err, &timeout) != (row.rung != "") || timeout != nil && timeout.Rung != row.rung {
					s.Errorf("not the rung %q: %v", row.rung, err)
				}
			})
		})
	}
}

func slowError(w http.ResponseWriter, r *http.Request) {
	w.WriteHeader(500)
	for range 100 {
		io.WriteString(w, "x")
		w.(http.Flusher).Flush()
		time.Sleep(second)
		if r.Context().Err() != nil {
			return
		}
	}
}

// 50 calls of which each is retried use the connections that 50 calls need that are not.
func TestRetriesReuseConnections(t *testing.T) {
	sizes := map[string]int{"small bodies": 10, "bodies of 60 KiB": 60 << 10, "no bodies": 0}
	for name, size := range sizes {
		t.Run(name, func(t *testing.T) {
			var n atomic.Int64
			flaky := func(w http.ResponseWriter, r *http.Request) {
				if n.Add(1)%3 != 0 {
					w.WriteHeader(503)
				}
				io.WriteString(w, strings.Repeat("x", size))
			}
			options := resilience.Options{Breaker: resilience.Breaker{MinCalls: 1000}}
			serviced(t, options, flaky, func(s *service) {
				for range 50 {
					if err := s.get("/"); err != nil {
						s.Error(err)
					}
				}
				s.mu.Lock()
				defer s.mu.Unlock()
				if s.opened != 1 || s.served != 150 {
					s.Errorf("%d connections for %d requests", s.opened, s.served)
				}
			})
		})
	}
}

// A storm of 503 opens the breaker at its threshold, after 25 calls of four attempts each; its probe closes it.
func TestStormOpensTheBreaker(t *testing.T) {
	var calm atomic.Bool
	storm := func(w http.ResponseWriter, r *http.Request) {
		if !calm.Load() {
			w.WriteHeader(503)
		}
		io.WriteString(w, "answer")
	}
	options := resilience.Options{Delay: time.Millisecond}
	serviced(t, options, storm, func(s *service) {
		for i := range 25 {
			if s.Stats().State != resilience.Closed {
				s.Fatalf("open before call %d", i+1)
			}
			if err := s.get("/"); errors.Is(err, resilience.ErrOpen) {
				s.Fatal(err)
			}
		}
		state(s.T, s.Downstream, resilience.Open)
		s.requests()
		begun := time.Now()
		for range 100 {
			if err := s.get("/"); !errors.Is(err, resilience.ErrOpen) || pawl.ClassOf(err) != pawl.ClassTransient {
				s.Fatal(err)
			}
		}
		if n := s.requests(); n != 0 || time.Since(begun) != 0 || s.Stats().Refused != 100 {
			s.Errorf("%d requests in %v while open: %+v", n, time.Since(begun), s.Stats())
		}
		time.Sleep(5 * second)
		if err := s.get("/"); errors.Is(err, resilience.ErrOpen) || s.requests() != 1 {
			s.Errorf("the first probe: %v", err)
		}
		state(s.T, s.Downstream, resilience.Open)
		time.Sleep(5 * second)
		calm.Store(true)
		if err := s.get("/"); err != nil {
			s.Errorf("the second probe: %v", err)
		}
		state(s.T, s.Downstream, resilience.Closed)
	})
}

// A probe is no success before its body has arrived.
func TestProbeWhoseBodyStops(t *testing.T) {
	handler := &switched{}
	handler.to(status(503))
	options := resilience.Options{Retries: resilience.None, Breaker: resilience.Breaker{MinCalls: 1}}
	serviced(t, options, handler.serve, func(s *service) {
		_ = s.get("/")
		time.Sleep(5 * second)
		handler.to(hangInBody)
		_ = s.get("/")
		state(s.T, s.Downstream, resilience.Open)
		time.Sleep(5 * second)
		handler.to(status(404)) // an answer
		_ = s.get("/")
		state(s.T, s.Downstream, resilience.Closed)
	})
}

// What says nothing about the downstream's health is not counted against it.
func TestWhatIsNotAFailure(t *testing.T) {
	handler := &switched{}
	options := resilience.Options{Retries: resilience.None, Classifiers: []pawl.Classifier{classify.Default()}, Breaker: resilience.Breaker{MinCalls: 1, FailureRatio: 0.01}}
	serviced(t, options, handler.serve, func(s *service) {
		for _, code := range []int{200, 304, 400, 401, 404, 409, 423, 425, 501, 505} {
			handler.to(status(code))
			_ = s.get("/")
		}
		ctx, cancel := context.WithTimeout(context.Background(), second)
		defer cancel()
		handler.to(hang)
		if err := s.do(s.request(http.MethodGet, "/", nil).WithContext(ctx)); !errors.Is(err, context.DeadlineExceeded) {
			s.Error(err)
		}
		handler.to(hangInBody)
		ctx, cancel = context.WithCancel(context.Background())
		time.AfterFunc(second, cancel)
		if err := s.do(s.request(http.MethodGet, "/", nil).WithContext(ctx)); !errors.Is(err, context.Canceled) {
			s.Error(err)
		}
		if _, err := s.client.Get("gopher://x/"); classify.Default()(err) != pawl.ClassPermanent {
			s.Error(err)
		}
		if got := s.Stats(); got.State != resilience.Closed || got.Failures != 0 {
			s.Errorf("%+v", got)
		}
		for _, code := range []int{408, 429, 500, 503, 599} {
			handler.to(status(code))
			_ = s.get("/")
			state(s.T, s.Downstream, resilience.Open)
			time.Sleep(5 * second)
			handler.to(status(200))
			_ = s.get("/")
			state(s.T, s.Downstream, resilience.Closed)
		}
	})
}
