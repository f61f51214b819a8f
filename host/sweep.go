package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/trouble"
)

// lockedDue is the time between looks for a job that is due and cannot be had yet.
const lockedDue = 20 * time.Millisecond

// orphanBatch bounds how many jobs of unknown kinds are buried at a time.
const orphanBatch = 50

// sweeper does a host's share of the store's upkeep. Every host does; none is special.
type sweeper struct {
	host    *Host
	kick    chan struct{}
	trouble *trouble.Trouble
	orphans time.Time // of the next look for jobs of unknown kinds
	queues  []string  // that there are
	listed  time.Time // when the queues were

	mu   sync.Mutex
	dead []pawl.SeenSession
}

func newSweeper(h *Host) *sweeper {
	return &sweeper{host: h, kick: make(chan struct{}, 1), trouble: trouble.New(h.log, "upkeep of the store fails")}
}

// bury hands in sessions that are seen dead.
func (s *sweeper) bury(dead []pawl.SeenSession) {
	s.mu.Lock()
	s.dead = dead
	s.mu.Unlock()
	if len(dead) > 0 {
		signal(s.kick)
	}
}

func (s *sweeper) takeDead() []pawl.SeenSession {
	s.mu.Lock()
	defer s.mu.Unlock()
	dead := s.dead
	s.dead = nil
	return dead
}

// run sweeps until ctx is done.
func (s *sweeper) run(ctx context.Context) {
	s.orphans = time.Now().Add(s.host.config.Orphans.Ready) // no session is old enough before that
	timer := time.NewTimer(0)
	defer timer.Stop()
	failures := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.kick:
		case <-timer.C:
		}
		wait, err := s.sweep(ctx)
		if err == nil {
			err = s.buryOrphans(ctx)
		}
		if err != nil && ctx.Err() == nil {
			failures++
			s.trouble.Report(err)
			wait = backoff(failures, 5*time.Second)
		} else {
			failures = 0
			s.trouble.Over()
		}
		timer.Reset(wait)
	}
}

// sweep does one batch and returns the time until the next.
func (s *sweeper) sweep(ctx context.Context) (wait time.Duration, err error) {
	h := s.host
	session, err := h.presence.await(ctx)
	if err != nil {
		return 0, nil
	}
	dead := s.takeDead()
	since, idle := h.activity.Load(), h.idle()
	callCtx, cancel := context.WithTimeout(h.calls, h.config.Intervals.Call)
	defer cancel()
	report, err := h.store.Sweep(callCtx, pawl.SweepRequest{Session: session, Dead: dead})
	if err != nil {
		return 0, fmt.Errorf("sweep: %w", err)
	}
	h.answered()
	h.counters.recovered.Add(int64(report.Recovered))
	if len(report.Ended) > 0 {
		h.log.Warn("hosts found dead; their jobs go to others", "sessions", report.Ended, "jobs", report.Recovered)
	}
	if report.Due+report.Ticks+report.Recovered > 0 {
		h.activity.Add(1)
		h.wakeServers()
	} else if idle && !report.More && report.NextDue != 0 && h.sweptAt.Swap(since) != since && h.config.StopWhenEmpty {
		h.wakeServers() // nothing is due; perhaps nothing is ready either
	}
	wait = jitter(h.config.Intervals.Sweep)
	switch {
	case report.More:
		wait = 0
	case report.NextDue == 0 && report.Due+report.Ticks == 0: // another transaction has locked it
		wait = min(wait, lockedDue)
	case report.NextDue >= 0:
		wait = min(wait, max(report.NextDue, time.Millisecond))
	}
	return wait, nil
}

// buryOrphans ends jobs whose kind nobody has known for long.
func (s *sweeper) buryOrphans(ctx context.Context) error {
	h := s.host
	if len(h.kinds) == 0 || time.Now().Before(s.orphans) { // a host that runs nothing does not judge what nobody runs
		return nil
	}
	session, err := h.presence.await(ctx)
	if err != nil {
		return nil
	}
	if err := s.listQueues(ctx); err != nil {
		return err
	}
	attempts, more, err := h.claim(ctx, pawl.ClaimRequest{
		Session: session, Queues: s.queues, Kinds: h.kinds, Max: orphanBatch, Suspect: true, Orphans: h.config.Orphans,
	}, nil)
	if err != nil {
		return err
	}
	for _, a := range attempts {
		a.bury(a.orphan())
	}
	if !more && len(attempts) < orphanBatch {
		s.orphans = time.Now().Add(s.pauseOfOrphans())
	}
	return nil
}

// listQueues finds the queues that have jobs, also those that nobody serves; where the store cannot say, it is the
// host's own.
func (s *sweeper) listQueues(ctx context.Context) error {
	h := s.host
	if s.queues != nil && time.Since(s.listed) < h.config.Intervals.Orphans {
		return nil
	}
	names := []string{}
	for _, server := range h.servers {
		names = append(names, server.queues...)
	}
	if jobs, ok := h.store.(pawl.Jobs); ok {
		callCtx, cancel := context.WithTimeout(h.calls, h.config.Intervals.Call)
		defer cancel()
		busy, err := jobs.BusyQueues(callCtx)
		if err != nil && !errors.Is(err, pawl.ErrUnsupported) {
			return err
		}
		names = append(names, busy...)
	}
	slices.Sort(names)
	s.queues, s.listed = slices.Compact(names), time.Now()
	return nil
}

// pauseOfOrphans is the time between looks: short where such jobs are to die at once.
func (s *sweeper) pauseOfOrphans() time.Duration {
	i := s.host.config.Intervals
	if *s.host.config.Orphans == (pawl.Orphans{}) {
		return jitter(min(i.Sweep, i.Orphans))
	}
	return jitter(i.Orphans)
}

// orphan is the end of a job whose kind is unknown.
func (a *attempt) orphan() *death {
	if v := a.job.Verdict; v != nil {
		return &death{outcome: pawl.Dead{Class: v.Class, Reason: v.Reason}, letter: v}
	}
	if a.host.mux.Handles(a.job.Kind) {
		return &death{outcome: pawl.GiveBack{}}
	}
	return poison(pawl.ReasonUnknownKind, fmt.Errorf("no host has registered kind %q for at least %s", a.job.Kind, a.host.config.Orphans.Unseen))
}
