package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

const (
	selectToCancel = `select seq, letter, case when session is not null then 'reserved' when run_at < ` + parked + ` then 'scheduled'
  else 'waiting' end, cancel from pawl_job where id = ?1`
	selectDoneState = `select state from pawl_done where id = ?1`
	markCancelled   = `update pawl_job set cancel = 1 where seq = ?1`

	notCancelled = ` and cancel = 0`
	isCancelled  = ` and cancel <> 0`

	selectCancelled     = `select seq, letter, id from pawl_job` + fence + isCancelled
	selectCancelledHeld = `select seq, letter, id from pawl_job where session = ?1` + isCancelled
)

// CancelJobs removes jobs, and marks those that are running.
func (s *Store) CancelJobs(ctx context.Context, ids []pawl.ID, by pawl.By) ([]pawl.Cancelled, error) {
	if err := desk.CheckCancel(ids, by); err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, nil
	}
	results := make([]pawl.Cancelled, len(ids))
	err := s.write(ctx, func(ctx context.Context, w *writer) error {
		at := now()
		for i, id := range ids {
			var err error
			if results[i], err = cancelJob(ctx, w, id, by, s.config.History >= 0, at); err != nil {
				return fmt.Errorf("job %s: %w", id, err)
			}
			w.ready = w.ready || results[i].State == pawl.JobReserved // hosts are to hear of it
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cancel jobs: %w", err)
	}
	return results, nil
}

// toCancel is a job that has not ended.
type toCancel struct {
	removal
	state  pawl.JobState
	marked bool
}

func scanToCancel(rows *sql.Rows) (c toCancel, err error) {
	return c, rows.Scan(&c.seq, (*looseID)(&c.letter), &c.state, &c.marked)
}

func cancelJob(ctx context.Context, x execer, id pawl.ID, by pawl.By, keep bool, at int64) (pawl.Cancelled, error) {
	job, found, err := selectOne(ctx, x, scanToCancel, selectToCancel, id[:])
	if err != nil {
		return pawl.Cancelled{}, err
	}
	if !found {
		if stopped, err := cancelCallback(ctx, x, id, keep, at); err != nil || stopped {
			if err == nil {
				_, err = writeAudit(ctx, x, at, by, desk.CancelCallbackEntry(id))
			}
			return pawl.Cancelled{State: pawl.JobRemoved}, err
		}
		state, _, err := selectOne(ctx, x, scanValue[string], selectDoneState, id[:])
		return desk.CancelRefused(id, pawl.JobState(state)), err
	}
	result := pawl.Cancelled{State: pawl.JobRemoved}
	if job.state == pawl.JobReserved {
		if result.State = pawl.JobReserved; job.marked {
			return result, nil
		}
		_, err = x.ExecContext(ctx, markCancelled, job.seq)
	} else {
		err = removeJobs(ctx, x, []removal{job.removal}, keep, at)
	}
	if err == nil {
		_, err = writeAudit(ctx, x, at, by, desk.CancelEntry(id, job.state))
	}
	return result, err
}

// cancelledJob is a job that was marked while it ran, and whose reservation has come to its end.
type cancelledJob struct {
	removal
	id pawl.ID
}

func scanCancelled(rows *sql.Rows) (c cancelledJob, err error) {
	return c, rows.Scan(&c.seq, (*looseID)(&c.letter), (*looseID)(&c.id))
}

// removeCancelled removes the marked jobs that a query finds, and returns how many.
func removeCancelled(ctx context.Context, x execer, keep bool, at int64, query string, args ...any) (int, error) {
	jobs, err := selectRows(ctx, x, scanCancelled, query, args...)
	if err != nil || len(jobs) == 0 {
		return 0, err
	}
	removals := make([]removal, len(jobs))
	for i, job := range jobs {
		removals[i] = job.removal
	}
	if err := removeJobs(ctx, x, removals, keep, at); err != nil {
		return 0, fmt.Errorf("remove cancelled jobs: %w", err)
	}
	for _, job := range jobs {
		if _, err := writeAudit(ctx, x, at, desk.System(), desk.CancelledEntry(job.id)); err != nil {
			return 0, err
		}
	}
	return len(jobs), nil
}

// removeInstead removes a marked job in the place of putting it back, with the record of its last attempt.
func (b *settling) removeInstead(ctx context.Context, item *pawl.Settlement) (removed bool, err error) {
	n, err := removeCancelled(ctx, b.w, b.history, b.at, selectCancelled, b.session, int64(item.Token), item.ID[:])
	if err == nil && n > 0 && item.Record != nil {
		err = b.appendRecord(ctx, item)
	}
	return n > 0, err
}
