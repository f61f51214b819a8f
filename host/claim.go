package host

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pawljobs/pawl"
)

// suspects holds the host's one place for a job that has taken processes down before.
type suspects struct {
	mu    sync.Mutex
	taken bool
	freed func()
}

func (s *suspects) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken {
		return false
	}
	s.taken = true
	return true
}

// untake gives the place back when no suspect was claimed.
func (s *suspects) untake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = false
}

// free gives the place back after a suspect, so that another can be claimed.
func (s *suspects) free() {
	s.untake()
	s.freed()
}

// claim asks the store for jobs and registers them as held. A lost reply is cleared up before the next claim.
func (h *Host) claim(ctx context.Context, request pawl.ClaimRequest, s *server) (attempts []*attempt, more bool, err error) {
	if err := h.gate.enter(ctx); err != nil {
		return nil, false, nil
	}
	place := false
	if request.Orphans == nil {
		place = h.suspects.take()
		request.Suspect = place
	}
	callCtx, cancel := context.WithTimeout(h.calls, h.config.Intervals.Call)
	reply, err := h.store.Claim(callCtx, request)
	cancel()
	attempts = h.attemptsOf(reply.Jobs, request.Session, storeClock{now: reply.Now, at: time.Now()}, s)
	if err != nil {
		attempts = nil
	}
	for _, a := range attempts {
		if place && a.job.Crashes >= pawl.CrashSuspect {
			a.suspect, place = true, false
		}
	}
	if place {
		h.suspects.untake()
	}
	h.attempts.add(len(attempts))
	h.held.add(attempts)
	if h.gate.leave(err != nil) {
		h.presence.nudge()
	}
	if err != nil {
		h.claims.Report(err)
		return nil, false, fmt.Errorf("claim: %w", err)
	}
	h.answered()
	h.claims.Over()
	return attempts, reply.More, nil
}

func (h *Host) attemptsOf(jobs []pawl.ClaimedJob, session pawl.SessionID, clock storeClock, s *server) []*attempt {
	attempts := make([]*attempt, len(jobs))
	for i := range jobs {
		a := &attempt{host: h, server: s, job: jobs[i], session: session, clock: clock}
		a.lines = jobHandler{base: h.log.Handler(), attrs: a.attrs}
		a.log = *slog.New(&a.lines)
		attempts[i] = a
	}
	return attempts
}
