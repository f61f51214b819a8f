package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/pawljobs/pawl/host"
)

// closeWait is how long requests may still take when the endpoints are closed.
const closeWait = 2 * time.Second

// endpoints are an HTTP server that is up before there is a host and after it.
type endpoints struct {
	log      *slog.Logger
	listener net.Listener
	server   *http.Server
	shown    atomic.Pointer[http.Handler]
	started  bool
	served   chan error
}

// openEndpoints takes the address.
func openEndpoints(ctx context.Context, listen string, log *slog.Logger) (*endpoints, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("serve endpoints: %w", err)
	}
	e := &endpoints{log: log, listener: listener, served: make(chan error, 1)}
	e.show(host.StartingHandler())
	e.server = &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { (*e.shown.Load()).ServeHTTP(w, r) }),
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      10 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	return e, nil
}

func (e *endpoints) address() string { return e.listener.Addr().String() }

// show replaces what is served.
func (e *endpoints) show(handler http.Handler) { e.shown.Store(&handler) }

// start serves until close. Where that fails before, stop is called.
func (e *endpoints) start(stop func()) {
	e.started = true
	go func() {
		err := e.server.Serve(e.listener)
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
		if err != nil {
			err = fmt.Errorf("serve endpoints: %w", err)
			stop()
		}
		e.served <- err
	}()
}

// close ends the requests under way, at once if need be, and returns why the endpoints were down before. Those that were
// never started, since the service manager has refused, only give the address back.
func (e *endpoints) close(atOnce bool) error {
	if !e.started {
		return e.listener.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	if atOnce || e.server.Shutdown(ctx) != nil {
		_ = e.server.Close() // of the listener, which Serve closes too
	}
	return <-e.served
}
