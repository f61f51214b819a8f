package app

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
	"github.com/pawljobs/pawl/sqlite"
)

var errStop = errors.New("the pool cannot be closed")

// hosted runs a host with a Start whose stop fails, and returns what that comes to and how often stop was called.
func hosted(t *testing.T, ready func(h *host.Host, end func()) (letGo func(), err error)) (stops int, err error) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "jobs.db"), sqlite.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx, end := context.WithCancel(t.Context())
	defer end()
	p := &program{options: Options{Start: func(context.Context, pawl.Enqueuer) (func() error, error) {
		return func() error { stops++; return errStop }, nil
	}}}
	p.talk = discard{}
	g, err := p.prepare()
	if err != nil {
		t.Fatal(err)
	}
	err = g.run(ctx, s, g.hostConfig(), func(h *host.Host) (func(), error) { return ready(h, end) })
	return stops, err
}

type discard struct{}

func (discard) Write(text []byte) (int, error) { return len(text), nil }

func TestWhatStartReturnsIsCalledAtTheEnd(t *testing.T) {
	t.Parallel()
	stops, err := hosted(t, func(_ *host.Host, end func()) (func(), error) {
		end()
		return func() {}, nil
	})
	if !errors.Is(err, errStop) || stops != 1 {
		t.Errorf("it was called %d times, and the end is %v", stops, err)
	}
}

// After a second signal handlers may still hold what it would wait for: the process would never end.
func TestWhatStartReturnsIsNotCalledAfterAnAbort(t *testing.T) {
	t.Parallel()
	stops, err := hosted(t, func(h *host.Host, _ func()) (func(), error) {
		h.Abort()
		return func() {}, nil
	})
	if !errors.Is(err, host.ErrAborted) || stops != 0 {
		t.Errorf("it was called %d times, and the end is %v", stops, err)
	}
}

func TestWhatBeganIsLetGoWhenTheRestFails(t *testing.T) {
	t.Parallel()
	failure, let := errors.New("no endpoints"), 0
	stops, err := hosted(t, func(*host.Host, func()) (func(), error) { return func() { let++ }, failure })
	if !errors.Is(err, failure) || let != 1 || stops != 1 {
		t.Errorf("let go %d times, stopped %d times, and the end is %v", let, stops, err)
	}
}

// The service manager may refuse before anything is served: on Windows, where it has not started the program.
func TestEndpointsThatNeverServedAreClosed(t *testing.T) {
	t.Parallel()
	e, err := openEndpoints(t.Context(), "127.0.0.1:0", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	closed := make(chan error, 1)
	go func() { closed <- e.close(false) }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("close waits for a server that was never started")
	}
	again, err := openEndpoints(t.Context(), e.address(), e.log)
	if err != nil {
		t.Fatalf("the address was not given back: %v", err)
	}
	if err := again.close(true); err != nil {
		t.Error(err)
	}
}
