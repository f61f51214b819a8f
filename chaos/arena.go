//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/pawljobs/pawl/chaos/internal/proof"
)

// directorName marks the director's own connections.
const directorName = "director"

// arena is one store with the processes that work on it.
type arena struct {
	plan     Plan
	folder   string // of the histories, and of the SQLite file
	history  *proof.Writer
	db       *database // with postgres
	links    []*proxy  // with postgres: of each host and of the producer
	store    engine    // the director's own
	orders   orders
	slots    []*slot
	producer *process
	baseline int // goroutines of a host in rest

	faults   sync.WaitGroup // that are going on
	keepers  sync.WaitGroup // of slots, and the watch
	numbers  sync.Mutex
	number   int // of the last fault
	fatal    chan error
	winddown chan struct{} // closed when processes that end are not started again
}

// slot is the place of a host: a process follows the one that has ended.
type slot struct {
	n    int
	kept chan struct{} // closed when no process is started any more

	mu      sync.Mutex
	process *process
	starts  int
	busy    bool          // a fault is going on
	away    time.Duration // how long the next process is waited for
}

// Play runs a plan and reports. It cleans up whatever happens; the histories stay when a promise was broken.
func Play(ctx context.Context, plan Plan, rules proof.Rules, need string) (report Report, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a := &arena{plan: plan, fatal: make(chan error, 1), winddown: make(chan struct{})}
	if a.folder, err = os.MkdirTemp("", "pawl-chaos-"); err != nil {
		return report, err
	}
	defer func() {
		a.shutDown(cancel)
		if err != nil || len(report.Findings) == 0 {
			err = errors.Join(err, os.RemoveAll(a.folder))
		}
	}()
	if err := a.prepare(ctx, need); err != nil {
		return report, err
	}
	plan.demand(&rules)
	began := time.Now()
	if err := a.perform(ctx); err != nil {
		return report, err
	}
	final, err := a.rest(ctx)
	if err != nil {
		return report, err
	}
	return a.conclude(final, rules, time.Since(began))
}

// prepare makes the store and starts the processes.
func (a *arena) prepare(ctx context.Context, need string) (err error) {
	if a.history, err = proof.Create(a.folder, "director", monotonic); err != nil {
		return err
	}
	a.keepers.Go(func() { watch(ctx, a.history, "") })
	own := task{Store: a.plan.Store, Looks: true, URL: filepath.Join(a.folder, "jobs.db")}
	if a.plan.Store == postgresStore {
		if a.db, err = startDatabase(ctx, need); err != nil {
			return err
		}
		for range hosts + 1 {
			link, err := startProxy(a.db.dial)
			if err != nil {
				return err
			}
			a.links = append(a.links, link)
		}
		own.URL = a.db.url() + "&application_name=" + directorName
	}
	if a.store, a.orders, err = openStore(ctx, own, slog.New(slog.DiscardHandler)); err != nil {
		return err
	}
	if err := a.orders.Make(ctx); err != nil {
		return fmt.Errorf("make table of orders: %w", err)
	}
	for n := range hosts {
		s := &slot{n: n, kept: make(chan struct{}), away: 200 * time.Millisecond}
		a.slots = append(a.slots, s)
		if err := a.fill(s); err != nil {
			return err
		}
		a.keepers.Go(func() {
			defer close(s.kept)
			a.keep(ctx, s)
		})
	}
	for _, s := range a.slots {
		if err := await(ctx, s.current().ready, s.current(), 30*time.Second); err != nil {
			return err
		}
	}
	return a.measure(ctx)
}

// url leads a process to the store.
func (a *arena) url(slot int) string {
	if a.plan.Store == postgresStore {
		return a.db.through(a.links[slot].address())
	}
	return filepath.Join(a.folder, "jobs.db")
}

// prefix is how the names of its processes begin.
func (s *slot) prefix() string { return fmt.Sprintf("host-%d-", s.n) }

// current is the process that has the place now.
func (s *slot) current() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// fill starts the next process of a slot.
func (a *arena) fill(s *slot) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starts++
	p, err := spawn(task{
		Role: workerRole, Name: s.prefix() + strconv.Itoa(s.starts), Folder: a.folder, Store: a.plan.Store, URL: a.url(s.n),
	}, a.history)
	if err == nil {
		s.process = p
	}
	return err
}

// keep starts a process for each one that has ended.
func (a *arena) keep(ctx context.Context, s *slot) {
	for {
		select {
		case <-s.current().exited:
		case <-ctx.Done():
			return
		}
		s.mu.Lock()
		away := s.away
		s.away = 200 * time.Millisecond
		s.mu.Unlock()
		if closed(a.winddown) || !pause(ctx, away) {
			return
		}
		if err := a.fill(s); err != nil {
			a.fail(err)
			return
		}
	}
}

// fail ends the run.
func (a *arena) fail(err error) {
	select {
	case a.fatal <- err:
	default:
	}
}

// await waits for something of a process, until it ends.
func await(ctx context.Context, what chan struct{}, p *process, limit time.Duration) error {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-what:
		return nil
	case <-p.exited:
		return fmt.Errorf("%s has ended", p.name)
	case <-timer.C:
		return fmt.Errorf("%s is not ready after %s", p.name, limit)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// measure keeps how many goroutines a host in rest has.
func (a *arena) measure(ctx context.Context) error {
	pause(ctx, 500*time.Millisecond)
	for _, s := range a.slots {
		r, err := pulse(ctx, s.current())
		if err != nil {
			return err
		}
		a.baseline = max(a.baseline, r.Goroutines)
	}
	return nil
}

// pulse asks a process how it is.
func pulse(ctx context.Context, p *process) (reply, error) {
	select {
	case <-p.replies: // an old one
	default:
	}
	p.send(command{Pulse: true})
	timer := time.NewTimer(5 * time.Second)
	defer timer.Stop()
	select {
	case r := <-p.replies:
		return r, nil
	case <-p.exited:
	case <-timer.C:
	case <-ctx.Done():
	}
	return reply{}, fmt.Errorf("%s does not answer", p.name)
}

// shutDown ends all that still runs.
func (a *arena) shutDown(cancel context.CancelFunc) {
	if !closed(a.winddown) {
		close(a.winddown)
	}
	cancel()
	a.faults.Wait()
	a.keepers.Wait()
	var running []*process
	for _, s := range a.slots {
		if p := s.current(); p != nil {
			running = append(running, p)
		}
	}
	if a.producer != nil {
		running = append(running, a.producer)
	}
	for _, p := range running {
		if !p.gone() {
			p.end(proof.ByKill, syscall.SIGKILL)
		}
		<-p.exited
	}
	if a.orders != nil {
		a.orders.Close()
	}
	if a.store != nil {
		_ = a.store.Close()
	}
	for _, link := range a.links {
		link.close()
	}
	if a.db != nil {
		a.db.remove()
	}
}
