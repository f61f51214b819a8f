package host

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/trouble"
)

// starter writes the start marks of jobs that must not run twice, many with one call, and runs those whose mark is
// known to be durable. The others are given back: their handler has not run.
type starter struct {
	host    *Host
	notify  chan struct{}
	trouble *trouble.Trouble

	mu    sync.Mutex
	fresh []*attempt
}

func newStarter(h *Host) *starter {
	return &starter{
		host: h, notify: make(chan struct{}, 1),
		trouble: trouble.New(h.log, "start marks cannot be written; the jobs wait"),
	}
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

// start marks attempts of one session and begins those that may. A call that fails as a whole is repeated: a mark can
// be written again, and nothing runs until one is known to be there.
func (s *starter) start(ctx context.Context, attempts []*attempt) {
	h := s.host
	reservations := make([]pawl.Reservation, len(attempts))
	for i, a := range attempts {
		reservations[i] = a.job.Reservation
	}
	for failures := 1; ; failures++ {
		results, err := s.mark(ctx, attempts[0].session, reservations)
		if err == nil {
			s.trouble.Over()
			for i, a := range attempts {
				s.decide(ctx, a, results[i])
			}
			return
		}
		s.trouble.Report(err, "jobs", len(attempts))
		if h.draining.Load() || errors.Is(err, pawl.ErrSessionLost) || !pause(ctx, backoff(failures, h.config.Intervals.Beat)) {
			break
		}
	}
	for _, a := range attempts {
		a.unstarted()
	}
}

func (s *starter) mark(ctx context.Context, session pawl.SessionID, reservations []pawl.Reservation) ([]error, error) {
	ctx, cancel := context.WithTimeout(ctx, s.host.config.Intervals.Call)
	defer cancel()
	results, err := s.host.store.Start(ctx, session, reservations)
	if err != nil {
		return nil, fmt.Errorf("write start marks: %w", err)
	}
	if len(results) != len(reservations) {
		return nil, fmt.Errorf("write start marks: %d results for %d marks", len(results), len(reservations))
	}
	s.host.answered()
	return results, nil
}

// decide runs an attempt whose mark was written, unless the call took so long that the session may be over.
func (s *starter) decide(ctx context.Context, a *attempt, err error) {
	switch {
	case errors.Is(err, pawl.ErrLeaseLost):
		a.lose()
		a.drop()
	case err != nil:
		s.trouble.Report(err, "job", a.job.ID)
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
