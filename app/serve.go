package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/alert"
	"github.com/pawljobs/pawl/host"
	"github.com/pawljobs/pawl/ops"
	"github.com/spf13/cobra"
)

const defaultListen = "127.0.0.1:7295"

const serveHelp = `Run a host on the store until it is told to stop, and serve its endpoints.

This host has no handlers, so it runs no jobs: these run in the services that have their code. It does the store's
upkeep, as every host does, also while no service is up: it finds hosts that have died and puts their jobs back, makes
delayed jobs and retries ready when they are due, purges what is over-age, and writes one line to its log for each
death, as the sink "log"; with --smtp and --webhook it sends mails and messages too. It runs the acts on many letters that
nobody else runs (see op). A store that is not there is made, and its tables are brought up to date; a database that cannot be
reached is waited for.

  /healthz/live    200 for as long as the process answers
  /healthz/ready   Healthy or Degraded (some queue has no live server) with 200, Unhealthy (starting, quiet, draining,
                   store out of reach) with 503
  /metrics         for Prometheus

SIGTERM or an interrupt stops it, a second one at once; SIGUSR1 makes it quiet: not ready any more, until it is
stopped. The log goes to standard error, as JSON with --json. Exit status: 0 after a clean stop, 2 for a wrong command
line, else the first thing that went wrong: 1, or 5 for tables that a newer release has made.`

func (p *program) serveCommand() *cobra.Command {
	listen := defaultListen
	command := &cobra.Command{
		Use:     "serve",
		Short:   "Run a host that does the store's upkeep, with its endpoints",
		Long:    serveHelp,
		Example: "  pawl serve --store sqlite:/var/lib/app/jobs.db\n  pawl serve --store postgres://pawl@db/app --listen 10.0.0.7:7295",
		Args:    needs("", 0, 0),
	}
	addFlag(command.Flags(), &listen, "listen", "HOST:PORT", "where the endpoints are served (default "+defaultListen+"; port 0: any that is free)", parseListen)
	grace := time.Duration(0)
	addFlag(command.Flags(), &grace, "grace", "DURATION", "how long a stop waits for what runs (default 105s; the process ends 30s after that at most)", parsePeriod)
	var sinks sinkFlags
	sinks.add(command)
	command.RunE = p.doing(func(ctx context.Context, _ []string) error {
		others, err := sinks.sinks(p)
		if err != nil {
			return err
		}
		return p.serve(ctx, listen, others, ladder(grace))
	})
	return command
}

// ladder is the ladder of a shutdown whose handlers have this grace; the default one without it.
func ladder(grace time.Duration) host.Drain {
	if grace == 0 {
		return host.Drain{}
	}
	return host.Drain{Handler: grace, Server: grace + 15*time.Second, Host: grace + 30*time.Second}
}

func parseListen(text string) (string, error) {
	_, port, err := net.SplitHostPort(text)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return "", fmt.Errorf("%q is no HOST:PORT such as %s", text, defaultListen)
	}
	return text, nil
}

// serve has its endpoints up before the store is opened, and closes them last.
func (p *program) serve(ctx context.Context, listen string, sinks []pawl.Sink, drain host.Drain) error {
	at, err := p.target()
	if err != nil {
		return err
	}
	endpoints, err := openEndpoints(ctx, listen, p.logger())
	if err != nil {
		return err
	}
	endpoints.log.Info("serving", "endpoints", "http://"+endpoints.address(), "store", at.String())
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	endpoints.start(stop)
	err = p.host(ctx, endpoints, append(sinks, alert.Log(endpoints.log)), drain)
	return errors.Join(err, endpoints.close(errors.Is(err, host.ErrAborted)))
}

// host runs one from the opening of its store to the closing.
func (p *program) host(ctx context.Context, endpoints *endpoints, sinks []pawl.Sink, drain host.Drain) error {
	quiets := make(chan os.Signal, 1) // not to die of one that comes before there is a host
	if len(quietSignals) > 0 {
		signal.Notify(quiets, quietSignals...)
		defer signal.Stop(quiets)
	}
	s, err := p.awaitStore(ctx, endpoints.log)
	if s == nil {
		return err
	}
	version, _ := built()
	h, err := host.New(s, pawl.NewMux(), host.Config{
		Version: version, Servers: []host.Server{}, Sinks: sinks, Logger: endpoints.log, Drain: drain,
	})
	if err != nil {
		return errors.Join(err, s.Close())
	}
	if len(quiets) > 0 {
		h.Quiet()
	}
	letGo, err := runOperations(ctx, s, endpoints.log)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	endpoints.show(h.Handler())
	err = h.RunUntilSignal(ctx)
	if errors.Is(err, host.ErrAborted) {
		return err // the store is not waited for: the process ends
	}
	letGo()
	return errors.Join(err, s.Close())
}

// runOperations runs operations on letters that nobody runs, until it is told to let them go.
func runOperations(ctx context.Context, s store, log *slog.Logger) (letGo func(), err error) {
	desk, err := ops.New(s, nil)
	if err != nil {
		return nil, err
	}
	runner, err := ops.NewRunner(desk, ops.RunnerConfig{Logger: log})
	if errors.Is(err, pawl.ErrUnsupported) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runner.Run(ctx)
	}()
	return func() { cancel(); <-ended }, nil
}

// Bounds of the wait between two tries to open a store.
const (
	firstWait = 250 * time.Millisecond
	lastWait  = 5 * time.Second
	sayAgain  = time.Minute // that the wait goes on
)

// awaitStore opens the store as soon as it can be reached; nil without an error when ctx ended first.
func (p *program) awaitStore(ctx context.Context, log *slog.Logger) (store, error) {
	var said time.Time
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		s, err := p.openLogging(ctx, making, log)
		switch {
		case err == nil:
			return s, nil
		case ctx.Err() != nil:
			return nil, nil
		case !outOfReach(err):
			return nil, err
		}
		if time.Since(said) >= sayAgain {
			log.Warn("the store cannot be reached; it is tried again", "error", oneLine(err))
			said = time.Now()
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, nil
		}
	}
}

// outOfReach tells a store that may come back by itself from one that will not: the network fails, or the server says
// that it starts, stops, or has no room.
func outOfReach(err error) bool {
	var answer interface{ SQLState() string }
	var network net.Error
	switch {
	case errors.Is(err, pawl.ErrInvalid):
		return false
	case errors.As(err, &answer):
		state := answer.SQLState()
		return strings.HasPrefix(state, "08") || strings.HasPrefix(state, "53") || strings.HasPrefix(state, "57P0")
	}
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// logger writes what a program that runs on has to tell.
func (p *program) logger() *slog.Logger {
	if p.json {
		return slog.New(slog.NewJSONHandler(p.talk, nil))
	}
	return slog.New(slog.NewTextHandler(p.talk, nil))
}
