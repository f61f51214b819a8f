package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/app/internal/config"
	"github.com/pawljobs/pawl/app/internal/service"
	"github.com/pawljobs/pawl/host"
	"github.com/pawljobs/pawl/ops"
	"github.com/spf13/cobra"
)

const serveHelp = `Run a host on the store until it is told to stop, and serve its endpoints.

It runs the jobs of this program's handlers, with the servers of the configuration, and does the store's upkeep, as
every host does: it finds hosts that have died and puts their jobs back, makes delayed jobs and retries ready when they
are due, purges what is over-age, carries messages from the configured outboxes in business databases, tells the configured channels of deaths, and its log, as the sink "log", and runs the
acts on many letters that nobody else runs (see op). Without handlers it does the upkeep alone. A store that is not
there is made, and its tables are brought up to date; a database that cannot be reached is waited for.

  /healthz/live    200 for as long as the process answers
  /healthz/ready   Healthy or Degraded (some queue has no live server) with 200, Unhealthy (starting, quiet, draining,
                   store out of reach) with 503
  /metrics         for Prometheus
  /api/v1          every operation, and enqueue, as JSON, for who has one of the tokens of the configuration (api.tokens;
                   pawl token new makes one); without a token there is no API

A changed configuration, or SIGHUP, takes effect at once as far as that goes; the log says what needs a restart.
SIGTERM or an interrupt stops it, a second one at once; SIGUSR1 makes it quiet: not ready any more, until it is
stopped. The log goes to standard error, as JSON with --json. Exit status: 0 after a clean stop, 2 for a wrong command
line, else the first thing that went wrong: 1, or 5 for a configuration that breaks a rule and for tables that a newer
release has made.`

func (p *program) serveCommand() *cobra.Command {
	command := &cobra.Command{
		Use:     "serve",
		Short:   "Run a host, with its endpoints",
		Long:    serveHelp,
		Example: "  pawl serve --config /etc/pawl.yaml\n  pawl serve --store postgres://pawl@db/app --listen 10.0.0.7:7295",
		Args:    needs("", 0, 0),
	}
	serveFlags(command)
	command.Flags().BoolVar(&p.service, "service", false, "this is a service: relative paths are those of the program's folder, and on Windows the service manager is spoken to")
	sinkFlags(command)
	command.RunE = p.doing(func(ctx context.Context, _ []string) error { return p.serve(ctx) })
	return command
}

// serveFlags state the settings of a host that have a flag.
func serveFlags(command *cobra.Command) {
	addFlag(command.Flags(), new(string), "listen", "HOST:PORT", "where the endpoints are served; port 0: any that is free (default 127.0.0.1:7295)", anyText)
	keyed(command.Flags(), "listen", "listen")
	addFlag(command.Flags(), new(string), "grace", "DURATION", "how long a stop waits for what runs (default 105s; the process ends 30s after that at most)", anyText)
	keyed(command.Flags(), "grace", "drain.handler")
}

// serve has its endpoints up before the store is opened, and closes them last.
func (p *program) serve(ctx context.Context) error {
	if p.service {
		if err := toFolder(); err != nil {
			return err
		}
	}
	g, err := p.prepare()
	if err != nil {
		return err
	}
	at, err := p.target()
	if err != nil {
		return err
	}
	if at.Engine == config.Remote { // before an endpoint says that it serves
		return notOwn(at)
	}
	endpoints, err := openEndpoints(ctx, g.started.Listen, g.log)
	if err != nil {
		return err
	}
	g.log.Info("serving", "endpoints", "http://"+endpoints.address(), "store", at.String())
	err = p.asService(ctx, g.started.Drain.Host+serviceSlack, g.log, func(ctx context.Context, enter func(service.Phase)) error {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		endpoints.start(stop)
		return p.host(ctx, g, endpoints, enter)
	})
	return errors.Join(err, endpoints.close(errors.Is(err, host.ErrAborted)))
}

// host runs one from the opening of its store to the closing.
func (p *program) host(ctx context.Context, g *hosting, endpoints *endpoints, enter func(service.Phase)) error {
	quiets, reloads := make(chan os.Signal, 1), make(chan os.Signal, 1) // not to die of one that comes before there is a host
	if len(quietSignals) > 0 {
		signal.Notify(quiets, quietSignals...)
		defer signal.Stop(quiets)
	}
	if len(reloadSignals) > 0 {
		signal.Notify(reloads, reloadSignals...)
		defer signal.Stop(reloads)
	}
	s, err := p.awaitStore(ctx, g.log)
	if s == nil {
		return err
	}
	beside, enough := context.WithCancel(context.WithoutCancel(ctx)) // also while it drains
	var others sync.WaitGroup
	others.Go(func() { p.warnOf(beside, s, g.log) })
	err = g.run(ctx, s, g.hostConfig(), func(h *host.Host) (letGo func(), err error) {
		if len(quiets) > 0 {
			h.Quiet()
		}
		letOperationsGo, err := runOperations(ctx, s, g.log)
		if err == nil {
			carried := startRelays(beside, g.started, s, g.log)
			letGo = func() { carried.letGo(); letOperationsGo() }
			counted := &gauges{downstreams: p.options.Downstreams, relays: carried}
			others.Go(func() { counted.run(beside, s, g.log) })
			if err = g.show(endpoints, s, carried, counted.beside(h.Handler())); err != nil {
				letGo()
			}
		}
		others.Go(func() { follow(beside, h, enter) })
		return letGo, err
	})
	enough()
	if errors.Is(err, host.ErrAborted) {
		return err // the store is not waited for: the process ends
	}
	others.Wait()
	return errors.Join(err, s.Close())
}

// runOperations runs operations on letters that nobody runs, until it is told to let them go.
func runOperations(ctx context.Context, s ownStore, log *slog.Logger) (letGo func(), err error) {
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
func (p *program) awaitStore(ctx context.Context, log *slog.Logger) (ownStore, error) {
	var said time.Time
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		s, err := p.openLogging(ctx, forHost, log)
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
