package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

const (
	selectAccepted = `select kind, envelope from pawl_job where id = ?1 union all select kind, envelope from pawl_done where id = ?1 limit 1`

	takeBackJobs = `delete from pawl_job where seq > ?1 and seq <= ?2`
)

// enqueueJobs is insertJobs for callers who say which jobs they mean: where an id was accepted for another job, none is
// stored, also in a transaction that goes on.
func enqueueJobs(ctx context.Context, x execer, jobs []pawl.NewJob, at int64) ([]pawl.Enqueued, error) {
	in := newInsertion(x, jobs, at)
	in.strict = true
	return in.store(ctx)
}

// checkRepeats compares what was told to be repeated with what is there, and takes back what was stored where it differs.
// It is before the jobs stand in line.
func (in *insertion) checkRepeats(ctx context.Context, base int64) error {
	if !in.strict {
		return nil
	}
	for i := range in.results {
		if in.results[i].Status != pawl.Repeated {
			continue
		}
		err := in.checkRepeat(ctx, &in.jobs[i])
		if err == nil {
			continue
		}
		if undoErr := in.takeBack(ctx, base); undoErr != nil {
			return undoErr
		}
		return err
	}
	return nil
}

func (in *insertion) checkRepeat(ctx context.Context, job *pawl.NewJob) error {
	type accepted struct {
		kind     string
		envelope []byte
	}
	there, found, err := selectOne(ctx, in.x, func(rows *sql.Rows) (a accepted, err error) {
		return a, rows.Scan(&a.kind, &a.envelope)
	}, selectAccepted, job.ID[:])
	if err != nil {
		return fmt.Errorf("look at job %s, which is there already: %w", job.ID, err)
	}
	if !found {
		return nil
	}
	return desk.CheckRepeat(job, there.kind, there.envelope)
}

// takeBack removes what this insertion has stored so far. Its keys had passed on to it, so nobody else holds them.
func (in *insertion) takeBack(ctx context.Context, base int64) error {
	if _, err := in.x.ExecContext(ctx, takeBackJobs, base, base+int64(len(in.rows))); err != nil {
		return fmt.Errorf("take back jobs: %w", err)
	}
	if err := in.takeBackBatches(ctx); err != nil {
		return err
	}
	for _, i := range in.rows {
		if key := in.jobs[i].Unique.Key; key != "" {
			if _, err := in.x.ExecContext(ctx, removeKey, key, in.jobs[i].ID[:]); err != nil {
				return fmt.Errorf("take back keys: %w", err)
			}
		}
	}
	return nil
}
