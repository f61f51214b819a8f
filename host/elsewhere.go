package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawljobs/pawl"
)

// recordElsewhere writes the letters of a batch's deaths where the store keeps none: ownership is checked by leaving
// the verdict on the job, then the letter is recorded, and only then may Settle remove the job. It returns the
// entries that may be settled; the others have been dealt with.
func (s *settler) recordElsewhere(ctx context.Context, batch []*entry) []*entry {
	if s.host.elsewhere == nil {
		return batch
	}
	ready := make([]*entry, 0, len(batch))
	var deaths []*entry
	for _, e := range batch {
		if e.Letter == nil || e.recorded {
			ready = append(ready, e)
		} else {
			deaths = append(deaths, e)
		}
	}
	if len(deaths) == 0 {
		return ready
	}
	if err := s.own(ctx, deaths); err != nil {
		s.postponeDeaths(deaths, err)
		return ready
	}
	owned := make([]*entry, 0, len(deaths))
	for _, e := range deaths {
		if e.condemned {
			owned = append(owned, e)
		}
	}
	if err := s.recordLetters(ctx, owned); err != nil {
		s.postponeDeaths(owned, err)
		return ready
	}
	return append(ready, owned...)
}

// own leaves verdicts on the jobs; an entry that is not condemned afterwards has been dealt with.
func (s *settler) own(ctx context.Context, deaths []*entry) error {
	settlements := make([]pawl.Settlement, len(deaths))
	for i, e := range deaths {
		settlements[i] = e.Settlement
	}
	callCtx, cancel := context.WithTimeout(ctx, s.host.config.Intervals.Call)
	defer cancel()
	results, err := s.host.store.Condemn(callCtx, deaths[0].session, settlements)
	if errors.Is(err, pawl.ErrSessionLost) {
		results, err = lostAll(deaths), nil
	}
	if err == nil && len(results) != len(deaths) {
		err = fmt.Errorf("the store gave %d results for %d verdicts", len(results), len(deaths))
	}
	if err != nil {
		return fmt.Errorf("keep the verdict: %w", err)
	}
	for i, e := range deaths {
		e.condemned = results[i] == nil
		switch {
		case e.condemned:
		case errors.Is(results[i], pawl.ErrLeaseLost):
			s.host.held.remove([]*entry{e})
			s.lost(e, results[i])
		default:
			s.postponeDeaths([]*entry{e}, results[i])
		}
	}
	return nil
}

// recordLetters writes letters; it is idempotent, so a repeat finds them.
func (s *settler) recordLetters(ctx context.Context, deaths []*entry) error {
	if len(deaths) == 0 {
		return nil
	}
	letters := make([]pawl.DeadLetter, len(deaths))
	for i, e := range deaths {
		letters[i] = *e.Letter
	}
	callCtx, cancel := context.WithTimeout(ctx, s.host.config.Intervals.Call)
	defer cancel()
	recorded, err := s.host.elsewhere.RecordDeaths(callCtx, letters)
	if err == nil && len(recorded) != len(deaths) {
		err = fmt.Errorf("%d results for %d letters", len(recorded), len(deaths))
	}
	if err != nil {
		for _, e := range deaths {
			e.unknown = true
		}
		return fmt.Errorf("record deaths: %w", err)
	}
	for i, e := range deaths {
		e.recorded, e.known = true, !recorded[i].New && !e.unknown
	}
	return nil
}

// postponeDeaths keeps deaths for another try; a Job's operation is told instead.
func (s *settler) postponeDeaths(deaths []*entry, err error) {
	var kept []*entry
	for _, e := range deaths {
		if e.waiter == nil {
			kept = append(kept, e)
			continue
		}
		s.mu.Lock()
		s.forget(e, err)
		s.mu.Unlock()
	}
	if len(kept) > 0 {
		s.deaths.Report(err, "unsettled", s.pending.Load())
		s.postpone(kept, nil)
	}
}
