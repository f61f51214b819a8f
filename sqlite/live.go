package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/pawljobs/pawl"
)

// mostLive is how many jobs LiveJobs returns.
const mostLive = 10_000

const selectLive = "select " + liveColumns + ", envelope from pawl_job where kind = ? order by enqueued_at, id limit ?"

const selectLiveCallbacks = `select b.id, b.kind, b.queue, b.created_at, j.envelope from pawl_batch b join pawl_batch_job j on j.batch = b.id
where b.kind = ? order by b.created_at, b.id limit ?`

// LiveJobs returns the jobs of a kind that have not ended, in the order of their enqueue, with their envelopes: at most 10,000. It
// reads the whole table, for tests; see package pawltest.
func (s *Store) LiveJobs(ctx context.Context, kind string) (jobs []pawl.JobView, err error) {
	err = s.view(ctx, func(x execer) error {
		jobs, err = liveJobs(ctx, x, kind)
		return err
	})
	return jobs, err
}

// LiveJobs returns what the transaction sees.
func (t transaction) LiveJobs(ctx context.Context, kind string) ([]pawl.JobView, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	return liveJobs(ctx, t.tx, kind)
}

func liveJobs(ctx context.Context, x execer, kind string) ([]pawl.JobView, error) {
	rows, err := selectRows(ctx, x, scanWholeJob, selectLive, kind, mostLive)
	if err != nil {
		return nil, fmt.Errorf("list jobs of kind %s: %w", kind, explainTx(err))
	}
	return hold(ctx, x, rows)
}

// LiveCallbacks returns the jobs of a kind that follow batches which are open, in the order in which these were opened, with
// their envelopes: at most 10,000. They are in no State yet. It is for tests; see package pawltest.
func (s *Store) LiveCallbacks(ctx context.Context, kind string) (jobs []pawl.JobView, err error) {
	err = s.view(ctx, func(x execer) error {
		jobs, err = liveCallbacks(ctx, x, kind)
		return err
	})
	return jobs, err
}

// LiveCallbacks returns what the transaction sees.
func (t transaction) LiveCallbacks(ctx context.Context, kind string) ([]pawl.JobView, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	return liveCallbacks(ctx, t.tx, kind)
}

func liveCallbacks(ctx context.Context, x execer, kind string) ([]pawl.JobView, error) {
	jobs, err := selectRows(ctx, x, func(rows *sql.Rows) (j pawl.JobView, err error) {
		return j, rows.Scan((*idColumn)(&j.ID), &j.Kind, &j.Queue, (*timeColumn)(&j.EnqueuedAt), &j.Envelope)
	}, selectLiveCallbacks, kind, mostLive)
	if err != nil {
		return nil, fmt.Errorf("list what of kind %s follows batches: %w", kind, explainTx(err))
	}
	return jobs, nil
}
