package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pawljobs/pawl"
)

// write asks the store to settle a batch of one session. A nil error means that every entry has been dealt with; else
// those left are as they were, and whether they were recorded is unknown.
func (s *settler) write(ctx context.Context, batch []*entry) (left []*entry, err error) {
	h := s.host
	batch = s.recordElsewhere(ctx, batch)
	if len(batch) == 0 {
		return nil, nil
	}
	settlements := make([]pawl.Settlement, len(batch))
	for i, e := range batch {
		settlements[i] = e.Settlement
	}
	callCtx, cancel := context.WithTimeout(ctx, h.config.Intervals.Call)
	results, err := h.store.Settle(callCtx, batch[0].session, settlements)
	cancel()
	if errors.Is(err, pawl.ErrSessionLost) {
		results, err = lostAll(batch), nil
		for _, e := range batch {
			e.adrift = true
		}
	}
	if err == nil && len(results) != len(batch) {
		err = fmt.Errorf("the store gave %d results for %d settlements", len(results), len(batch))
	}
	if err != nil {
		for _, e := range batch {
			e.unknown = true
		}
		return batch, fmt.Errorf("settle: %w", err)
	}
	h.answered()
	s.answeredAt.Store(time.Now().UnixNano())
	s.trouble.Over()
	s.resolve(ctx, batch, results)
	return nil, nil
}

func lostAll(batch []*entry) []error {
	results := make([]error, len(batch))
	for i, e := range batch {
		results[i] = pawl.LeaseLost(e.Reservation)
	}
	return results
}

// resolve deals with the results of a call that succeeded.
func (s *settler) resolve(ctx context.Context, batch []*entry, results []error) {
	ended := make([]*entry, 0, len(batch))
	for i, e := range batch {
		if errors.Is(results[i], pawl.ErrLeaseLost) && e.unknown {
			results[i] = s.verify(ctx, e, results[i])
		}
		if results[i] == nil || errors.Is(results[i], pawl.ErrLeaseLost) {
			ended = append(ended, e)
		}
	}
	s.host.held.remove(ended)
	for i, e := range batch {
		switch err := results[i]; {
		case err == nil:
			s.settled(e)
		case errors.Is(err, pawl.ErrLeaseLost):
			s.lost(e, err)
		default:
			s.refused(ctx, []*entry{e}, err)
		}
	}
}

// verify finds out whether an earlier call, whose outcome stayed unknown, has ended a reservation that is gone now. A
// death has left its letter under an id that no other reservation makes. Of other ends the job tells: one that a dead
// host's neighbours have recovered has a crash more than this attempt knew of, and one that was done by this attempt is
// gone under its number. Where the job is not remembered, a session that is still ours says that nobody else ended it.
func (s *settler) verify(ctx context.Context, e *entry, lost error) error {
	ctx, cancel := context.WithTimeout(ctx, s.host.config.Intervals.Call)
	defer cancel()
	if e.Letter != nil {
		_, err := s.host.letters.Letter(ctx, e.Letter.ID)
		if errors.Is(err, pawl.ErrNotFound) {
			return lost
		}
		if err != nil {
			return fmt.Errorf("look for the letter: %w", err)
		}
		return nil
	}
	jobs, ok := s.host.store.(pawl.Jobs)
	if !ok || e.attempt == nil {
		return nil
	}
	job, err := jobs.Job(ctx, e.ID)
	switch {
	case errors.Is(err, pawl.ErrNotFound), errors.Is(err, pawl.ErrUnsupported):
		if e.adrift {
			return lost
		}
		return s.host.presence.still(ctx, e.session, lost)
	case err != nil:
		return fmt.Errorf("look for the job: %w", err)
	case job.Crashes > e.attempt.job.Crashes:
		return lost
	}
	if _, done := e.Outcome.(pawl.Done); done && (isLive(job.State) || job.Attempt != e.attempt.job.Attempt) {
		return lost
	}
	return nil
}

func isLive(state pawl.JobState) bool {
	return state == pawl.JobWaiting || state == pawl.JobScheduled || state == pawl.JobReserved
}

// refused deals with entries that cannot be recorded by themselves: a Job's operation is told, a death is kept on its
// job, and all others are tried again later.
func (s *settler) refused(ctx context.Context, batch []*entry, err error) {
	var kept, deaths []*entry
	for _, e := range batch {
		if e.waiter != nil {
			s.mu.Lock()
			s.forget(e, err)
			s.mu.Unlock()
			continue
		}
		kept = append(kept, e)
		if e.Letter != nil && !e.condemned {
			deaths = append(deaths, e)
		}
	}
	if len(kept) == 0 {
		return
	}
	report := s.single
	if kept[0].Letter != nil {
		report = s.deaths
	}
	report.Report(err, "unsettled", s.pending.Load(), "job", kept[0].ID)
	s.postpone(kept, nil)
	s.condemn(ctx, deaths)
}

// condemn keeps deaths that could not be recorded on their jobs, so that they outlive this process.
func (s *settler) condemn(ctx context.Context, deaths []*entry) {
	if len(deaths) == 0 {
		return
	}
	settlements := make([]pawl.Settlement, len(deaths))
	for i, e := range deaths {
		settlements[i] = e.Settlement
	}
	callCtx, cancel := context.WithTimeout(ctx, s.host.config.Intervals.Call)
	defer cancel()
	results, err := s.host.store.Condemn(callCtx, deaths[0].session, settlements)
	if err != nil || len(results) != len(deaths) {
		s.deaths.Report(fmt.Errorf("keep the verdict: %w", err))
		return
	}
	for i, e := range deaths {
		e.condemned = results[i] == nil
	}
}

// settled ends an entry that the store has recorded.
func (s *settler) settled(e *entry) {
	h := s.host
	h.counters.count(&e.Settlement)
	switch outcome := e.Outcome.(type) {
	case pawl.Retry:
		e.attempt.log.LogAttrs(context.Background(), slog.LevelWarn, "job attempt failed", slog.String("class", "transient"),
			slog.String("ending", string(e.Record.Ending)), slog.Duration("retry_after", outcome.After), slog.String("error", e.Record.Message))
	case pawl.GiveBack:
		if e.attempt != nil && outcome.Interrupted && e.attempt.job.Requeues+1 >= manyRequeues {
			e.attempt.log.Warn("a job is put back by one shutdown after another; is it longer than the grace?", "requeues", e.attempt.job.Requeues+1)
		}
	case pawl.Dead:
		s.deaths.Over()
		if !e.known {
			h.died(e.Letter, e.ran)
		}
		h.wakeAlerts()
	}
	if e.attempt != nil {
		e.attempt.freeSuspect()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(e, nil)
}

// manyRequeues of one job are worth a warning.
const manyRequeues = 10

// died writes the one Error line of a death, after its commit. It is that of the last execution, too: ran is about that.
func (h *Host) died(letter *pawl.DeadLetter, ran []slog.Attr) {
	attrs := []slog.Attr{
		slog.String("job", letter.JobID.String()), slog.String("kind", letter.Kind), slog.String("queue", letter.Queue),
		slog.String("class", letter.Class.String()), slog.String("reason", string(letter.Reason)), slog.Int("attempts", letter.Attempts),
		slog.String("letter", letter.ID.String()), slog.String("correlation_id", letter.CorrelationID),
		slog.String("error_type", letter.ExceptionType), slog.String("error", letter.Message),
	}
	h.log.LogAttrs(context.Background(), slog.LevelError, "job dead-lettered", append(attrs, ran...)...)
}

// lost ends an entry whose reservation has passed on: it changed nothing.
func (s *settler) lost(e *entry, err error) {
	h := s.host
	h.counters.leasesLost.Add(1)
	if e.attempt != nil {
		e.attempt.freeSuspect()
		e.attempt.log.Warn("the end of an attempt is refused: its reservation was lost", "outcome", outcomeName(e.Outcome), "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(e, err)
}
