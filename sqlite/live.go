package sqlite

import (
	"context"
	"fmt"

	"github.com/pawljobs/pawl"
)

// mostLive is how many jobs LiveJobs returns.
const mostLive = 10_000

const selectLive = "select " + liveColumns + ", envelope from pawl_job where kind = ? order by enqueued_at, id limit ?"

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
