package host

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/pawljobs/pawl"
)

// starter writes the start marks of jobs that must not run twice, many with one call, and runs those whose mark is
// known to be durable. The others are given back: their handler has not run.
type starter struct {
	host    *Host
	notify  chan struct{}
	trouble trouble

	mu    sync.Mutex
	fresh []*attempt
}

func newStarter(h *Host) *starter {
	return &starter{host: h, notify: make(chan struct{}, 1),
		trouble: trouble{log: h.log, message: "start marks cannot be written; the jobs are given back"}}
}

func (s *starter) add(a *attempt) {
	s.mu.Lock()
	s.fresh = append(s.fresh, a)
	s.mu.Unlock()
	signal(s.notify)
}

func (s *starter) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.notify:
		}
		s.mu.Lock()
		attempts := s.fresh
		s.fresh = nil
		s.mu.Unlock()
		for len(attempts) > 0 {
			n := 1
			for n < len(attempts) && n < settleBatch && attempts[n].session == attempts[0].session {
				n++
			}
			s.start(ctx, attempts[:n])
			attempts = attempts[n:]
		}
	}
}

// start marks attempts of one session and begins those that may.
func (s *starter) start(ctx context.Context, attempts []*attempt) {
	h := s.host
	reservations := make([]pawl.Reservation, len(attempts))
	for i, a := range attempts {
		reservations[i] = a.job.Reservation
	}
	callCtx, cancel := context.WithTimeout(ctx, h.config.Intervals.Call)
	results, err := h.store.Start(callCtx, attempts[0].session, reservations)
	cancel()
	if err == nil && len(results) != len(attempts) {
		err = fmt.Errorf("%d results for %d marks", len(results), len(attempts))
	}
	if err != nil {
		s.trouble.report(err, "jobs", len(attempts))
		for _, a := range attempts {
			a.unstarted()
		}
		return
	}
	h.answered()
	s.trouble.over()
	for i, a := range attempts {
		s.decide(ctx, a, results[i])
	}
}

// decide runs an attempt whose mark was written, unless the call took so long that the session may be over.
func (s *starter) decide(ctx context.Context, a *attempt, err error) {
	switch {
	case errors.Is(err, pawl.ErrLeaseLost):
		a.lose()
		a.drop()
	case err != nil:
		s.trouble.report(err, "job", a.job.ID)
		a.unstarted()
	default:
		if id, err := s.host.presence.await(ctx); err != nil || id != a.session {
			a.unstarted()
			return
		}
		go a.run()
	}
}

// unstarted gives an attempt back whose handler has not run.
func (a *attempt) unstarted() {
	if _, first := a.conclude(over); !first {
		return
	}
	a.submit(pawl.GiveBack{}, "", nil)
	a.release()
}
