package sqlite

import (
	"context"
	"fmt"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

const runNow = `update pawl_job set seq = ?2, run_at = iif(turn <> 0, ` + parked + `, null), ready_at = ?3 where seq = ?1`

// RunJobsNow makes scheduled jobs ready.
func (s *Store) RunJobsNow(ctx context.Context, ids []pawl.ID, by pawl.By) ([]error, error) {
	refusals, err := s.eachJob(ctx, ids, by, func(ctx context.Context, w *writer, id pawl.ID, job toCancel, at int64) (refusal, err error) {
		if job.state != pawl.JobScheduled {
			return desk.NotScheduled(id, job.state), nil
		}
		last, _, err := selectOne(ctx, w, scanValue[int64], takeSeq, 1)
		if err != nil {
			return nil, err
		}
		if _, err := w.ExecContext(ctx, runNow, job.seq, last, at); err != nil {
			return nil, err
		}
		w.ready = true
		t := newTurns(w, at)
		if err := t.back(ctx, id, last); err != nil {
			return nil, err
		}
		if _, err := t.give(ctx); err != nil {
			return nil, err
		}
		_, err = writeAudit(ctx, w, at, by, desk.RunNowEntry(id))
		return nil, err
	})
	if err != nil {
		return nil, fmt.Errorf("run jobs now: %w", err)
	}
	return refusals, nil
}

// DeleteJobs removes jobs in whatever state they are.
func (s *Store) DeleteJobs(ctx context.Context, ids []pawl.ID, by pawl.By) ([]error, error) {
	refusals, err := s.eachJob(ctx, ids, by, func(ctx context.Context, w *writer, id pawl.ID, job toCancel, at int64) (refusal, err error) {
		switch job.state {
		case pawl.JobWaiting, pawl.JobScheduled, pawl.JobReserved:
		default:
			return desk.NotDeleted(id, job.state), nil
		}
		if err := removeJobs(ctx, w, []removal{job.removal}, s.config.History >= 0, at); err != nil {
			return nil, err
		}
		_, err = writeAudit(ctx, w, at, by, desk.DeleteEntry(id, job.state))
		return nil, err
	})
	if err != nil {
		return nil, fmt.Errorf("delete jobs: %w", err)
	}
	return refusals, nil
}

// eachJob does one thing to each of some jobs, in one transaction. A job that has ended is given with its state alone,
// one that is not there with none.
func (s *Store) eachJob(ctx context.Context, ids []pawl.ID, by pawl.By,
	act func(ctx context.Context, w *writer, id pawl.ID, job toCancel, at int64) (refusal, err error),
) ([]error, error) {
	if err := desk.CheckCancel(ids, by); err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, nil
	}
	refusals := make([]error, len(ids))
	err := s.write(ctx, func(ctx context.Context, w *writer) error {
		at := now()
		for i, id := range ids {
			job, found, err := selectOne(ctx, w, scanToCancel, selectToCancel, id[:])
			if err == nil && !found {
				var state string
				state, _, err = selectOne(ctx, w, scanValue[string], selectDoneState, id[:])
				job.state = pawl.JobState(state)
			}
			if err == nil {
				refusals[i], err = act(ctx, w, id, job, at)
			}
			if err != nil {
				return fmt.Errorf("job %s: %w", id, err)
			}
		}
		return nil
	})
	return refusals, err
}
