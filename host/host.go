// Package host runs jobs: it claims them from a store, calls their handlers, and records what became of them.
//
//	h, err := host.New(store, mux, host.Config{})
//	err = h.Run(ctx) // until ctx is done, then it drains
//
// A host has servers, which are pools of workers bound to queues. It keeps a session in the store alive by heartbeats,
// and does its share of the store's upkeep: it finds dead hosts, makes due jobs ready, and delivers alerts.
//
// Files in the order of a job's way: server.go, shares.go and claim.go fetch it, admit.go decides whether it may run,
// start.go marks one that must not run twice, line.go and attempt.go run it, runner.go is what it can do to itself and
// cancel.go what an operator can, settle.go and settled.go record its end. session.go, observe.go, sweep.go, declare.go, alerts.go,
// signals.go and drain.go are the host's own life; health.go, lookout.go, tally.go and metrics.go tell others of it.
package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/trouble"
)

// Host runs jobs of one store. Make it with New and use it once.
type Host struct {
	store      pawl.Store
	letters    pawl.DeadLetters // where deaths are recorded
	elsewhere  pawl.DeadLetters // the same when the store does not do it itself; else nil
	alerts     pawl.Alerts
	mux        *pawl.Mux
	kinds      []string
	config     Config
	connection string
	log        *slog.Logger

	servers  []*server
	couriers []*courier
	presence *presence
	held     *registry
	gate     *gate
	suspects suspects
	starter  *starter
	settler  *settler
	sweeper  *sweeper
	declarer *declarer // nil: there is nothing to declare
	lookout  *lookout
	tally    *tally
	claims   *trouble.Trouble
	counters counters
	answerAt atomic.Int64 // Unix nanoseconds of the store's last answer

	ran      atomic.Bool
	holding  atomic.Pointer[[]string] // kinds that are not claimed; see Hold
	ration   *ration
	activity atomic.Int64 // rises when a job is claimed, ends, or becomes due
	sweptAt  atomic.Int64 // the activity when a sweep found that nothing was due
	unproven atomic.Int64 // other hosts that were not seen to beat; negative: nobody has looked
	draining atomic.Bool

	graceOver atomic.Bool // handlers are being cancelled, and none begins

	quiet   chan struct{} // closed by Quiet
	quietly sync.Once
	drained chan struct{} // closed when an operator asks for a drain
	drainly sync.Once
	enough  chan struct{} // closed when the host has done all that MaxJobs and StopWhenEmpty let it do
	ending  sync.Once
	aborted context.Context // done when Abort was called
	abort   context.CancelFunc

	handlers   context.Context // the values of Run's ctx: what handlers get is ended one by one, so that they share nothing
	base       context.Context // the values of Run's ctx without its end; done after Abort
	calls      context.Context // of store calls that are not the settler's or the session's
	stopClaims context.CancelFunc
	stopUpkeep context.CancelFunc
	stopCalls  context.CancelFunc
	stopLiving context.CancelFunc
	attempts   crew // claimed jobs
	fetchers   crew
	upkeep     crew
	settling   crew
	living     crew // the session, the starter, the wake-up
	cutting    crew
}

// New checks the configuration and makes a host. Nothing is done to the store yet.
func New(store pawl.Store, mux *pawl.Mux, config Config) (*Host, error) {
	if store == nil {
		return nil, fmt.Errorf("new host: %w", &pawl.FieldError{Field: "store", Value: nil, Rule: "must be given"})
	}
	if mux == nil {
		return nil, fmt.Errorf("new host: %w", &pawl.FieldError{Field: "mux", Value: nil, Rule: "must be given"})
	}
	config = config.withDefaults()
	err := errors.Join(mux.Err(), config.check())
	kinds := mux.Kinds()
	if err == nil {
		err = checkWork(len(kinds), len(config.Servers))
	}
	if err != nil {
		return nil, fmt.Errorf("new host: %w", err)
	}
	letters, elsewhere, alerts, err := parts(store, config)
	if err != nil {
		return nil, fmt.Errorf("new host: %w", err)
	}
	declarer, err := newDeclarer(store, config)
	if err != nil {
		return nil, fmt.Errorf("new host: %w", err)
	}
	h := &Host{
		store: store, declarer: declarer, letters: letters, elsewhere: elsewhere, alerts: alerts, mux: mux, kinds: kinds, config: config,
		connection: store.Connection().Name, log: config.Logger,
	}
	h.build()
	return h, nil
}

func (h *Host) build() {
	h.held, h.gate = newRegistry(), newGate(h.config.Intervals.Call)
	h.presence, h.starter, h.settler, h.sweeper = newPresence(h), newStarter(h), newSettler(h), newSweeper(h)
	h.lookout, h.tally = newLookout(h), newTally(h)
	h.quiet, h.drained, h.enough = make(chan struct{}), make(chan struct{}), make(chan struct{})
	h.sweptAt.Store(notEmpty)
	h.unproven.Store(-1)
	h.ration = newRation(h.config.MaxJobs)
	h.aborted, h.abort = context.WithCancel(context.Background())
	if h.declarer != nil {
		h.declarer.host = h
	}
	h.claims = trouble.New(h.log, "jobs cannot be claimed")
	h.suspects.freed = h.wakeServers
	for _, s := range h.config.Servers {
		h.servers = append(h.servers, newServer(h, s))
	}
	for _, sink := range h.config.Sinks {
		h.couriers = append(h.couriers, newCourier(h, sink))
	}
}

// errUsed refuses a second Run.
var errUsed = errors.New("run host: it has run before; make a new one")

// Run works until ctx is done, drains, and returns when all that it started has ended, save handlers that ignore
// their cancelled ctx (see Stats.Strays). It returns nil after a clean stop, and ErrAborted after Abort.
// An operator can ask for the drain too: Config.OnDrain. It fails at
// once when the store says that it cannot be used; an outage is waited for. A host runs once.
func (h *Host) Run(ctx context.Context) error {
	if h.ran.Swap(true) {
		return errUsed
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	h.handlers = context.WithoutCancel(ctx)
	base, cut := context.WithCancelCause(h.handlers)
	defer cut(pawl.ErrShutdown)
	defer context.AfterFunc(h.aborted, func() { cut(pawl.ErrShutdown); end() })()
	h.base = base
	claims, stopClaims := context.WithCancel(h.base)
	upkeep, stopUpkeep := context.WithCancel(h.base)
	living, stopLiving := context.WithCancel(h.base)
	h.calls, h.stopCalls = context.WithCancel(h.base)
	h.stopClaims, h.stopUpkeep, h.stopLiving = stopClaims, stopUpkeep, stopLiving
	defer func() { stopClaims(); stopUpkeep(); h.stopCalls(); stopLiving() }()

	if err := h.presence.start(ctx); err != nil {
		return fmt.Errorf("run host: %w", err)
	}
	h.living.run(func() { h.presence.run(living) })
	h.living.run(func() { h.starter.run(living) })
	h.living.run(func() { h.listen(living) })
	h.settling.run(func() { h.settler.run(living) })
	h.upkeep.run(func() { h.sweeper.run(upkeep) })
	h.upkeep.run(func() { h.lookout.run(upkeep) })
	if h.alerts != nil {
		h.upkeep.run(func() { h.tally.run(upkeep) })
	}
	if h.declarer != nil {
		h.upkeep.run(func() { h.declarer.run(upkeep) })
	}
	for _, c := range h.couriers {
		h.upkeep.run(func() { c.run(upkeep) })
	}
	for _, s := range h.servers {
		h.fetchers.run(func() { s.run(claims) })
	}
	h.log.Info("host started", "host", h.config.Name, "kinds", len(h.kinds), "servers", len(h.servers))
	ordered := h.untilDrain(ctx)
	err := h.drain()
	h.log.Info("host stopped", "strays", h.counters.strays.Load())
	if ordered && h.config.OnDrain == DrainStays {
		<-ctx.Done()
	}
	return err
}

// untilDrain waits for the end of ctx, for an operator's order to drain, or until what was claimed has ended and was
// enough.
func (h *Host) untilDrain(ctx context.Context) (ordered bool) {
	ended := make(chan struct{})
	for quiet, enough := h.quiet, h.enough; ; {
		select {
		case <-enough:
			h.log.Info("enough: no more jobs are claimed", "running", h.counters.running.Load())
			h.stopClaims()
			h.draining.Store(true)
			enough = nil
			h.living.run(func() { // they are let end, however long they take
				if h.attempts.wait(ctx) {
					close(ended)
				}
			})
		case <-ended:
			return false
		case <-quiet:
			h.log.Info("quiet: no more jobs are claimed", "running", h.counters.running.Load())
			h.stopClaims()
			h.draining.Store(true)
			quiet = nil
		case <-h.drained:
			h.log.Info("an operator asks the host to end")
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// Quiet makes the host claim no more jobs, for good, while those that run go on and the upkeep too. It is the first
// half of a shutdown, for a deploy that gives notice. The host is not Ready from then on.
func (h *Host) Quiet() { h.quietly.Do(func() { close(h.quiet) }) }

// info is what the host tells when it opens a session.
func (h *Host) info() pawl.HostInfo {
	info := pawl.HostInfo{Name: h.config.Name, PID: os.Getpid(), Version: h.config.Version, Kinds: h.kinds, NoDrain: h.config.OnDrain == DrainRefused}
	for _, kind := range h.kinds {
		limit := h.mux.Policy(kind).Over(h.store.Connection().Policy).Limit
		if !limit.IsZero() && info.Limits == nil {
			info.Limits = map[string]pawl.Limit{}
		}
		if !limit.IsZero() {
			info.Limits[kind] = limit
		}
	}
	for i, s := range h.servers {
		c := h.config.Servers[i]
		info.Servers = append(info.Servers, pawl.ServerInfo{Name: s.name, Queues: s.queues, Weights: c.Weights, Workers: c.Workers})
	}
	for _, c := range h.couriers {
		info.Sinks = append(info.Sinks, c.name)
	}
	if h.declarer != nil {
		info.Schedules = h.declarer.prints
	}
	return info
}

// listen passes the store's hints on to the servers.
func (h *Host) listen(ctx context.Context) {
	deaf := trouble.New(h.log, "the store's wake-up is out of order; work is found by polling")
	for failures := 1; ctx.Err() == nil; failures++ {
		wake, err := h.store.Wake(ctx)
		if err == nil {
			deaf.Over()
			failures = 1
			h.hear(ctx, wake)
			err = errors.New("the channel was closed")
		}
		if ctx.Err() == nil {
			deaf.Report(err)
			pause(ctx, backoff(failures, h.config.Intervals.Beat))
		}
	}
}

func (h *Host) hear(ctx context.Context, wake <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case _, ok := <-wake:
			if !ok {
				return
			}
			h.wakeServers()
			h.presence.hearSoon()
		}
	}
}

// wakeServers says that there may be something to claim.
func (h *Host) wakeServers() {
	for _, s := range h.servers {
		signal(s.wake)
	}
}

// wakeHungry is wakeServers for those that could not claim all there was.
func (h *Host) wakeHungry() {
	for _, s := range h.servers {
		if s.hungry.Load() {
			signal(s.room)
		}
	}
}

// wakeAlerts says that there may be something to deliver.
func (h *Host) wakeAlerts() {
	for _, c := range h.couriers {
		signal(c.kick)
	}
}

// answered notes that the store works.
func (h *Host) answered() { h.answerAt.Store(time.Now().UnixNano()) }

// lastAnswer is when the store last answered a call.
func (h *Host) lastAnswer() time.Time { return time.Unix(0, h.answerAt.Load()) }
