package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/execer"
)

// Times go as microseconds, which every driver reads alike.
const selectLiveJobs = `select j.id, q.text, case when j.holder is not null then 'reserved' when j.run_at is not null then 'scheduled' else 'waiting' end,
  j.attempt, j.crashes, j.requeues, (extract(epoch from j.enqueued_at) * 1000000)::bigint,
  coalesce((extract(epoch from nullif(j.run_at, 'infinity')) * 1000000)::bigint, 0), j.envelope
from {s}.job j join {s}.name k on k.id = j.kind join {s}.name q on q.id = j.queue
where k.text = $1 order by j.enqueued_at, j.id limit 10000`

const selectLiveCallbacks = `select b.id, q.text, (extract(epoch from b.created_at) * 1000000)::bigint, b.envelope
from {s}.batch b join {s}.name k on k.id = b.kind join {s}.name q on q.id = b.queue
where k.text = $1 and b.envelope is not null order by b.created_at, b.id limit 10000`

// LiveJobs returns the jobs of a kind that have not ended, in the order of their enqueue, with their envelopes: at most 10,000. It
// reads the whole table, for tests; see package pawltest.
func (s *Store) LiveJobs(ctx context.Context, kind string) (jobs []pawl.JobView, err error) {
	err = s.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		jobs, err = s.liveJobs(ctx, execer.OnPgx(conn), kind)
		return err
	})
	return jobs, err
}

// LiveJobs returns what the transaction sees.
func (t transaction) LiveJobs(ctx context.Context, kind string) ([]pawl.JobView, error) {
	if t.tx == nil {
		return nil, &pawl.FieldError{Field: "transaction", Value: nil, Rule: "must be given"}
	}
	return t.store.liveJobs(ctx, t.tx, kind)
}

func (s *Store) liveJobs(ctx context.Context, x execer.Execer, kind string) (jobs []pawl.JobView, err error) {
	err = x.Do(ctx, execer.Step{SQL: s.schema.text(selectLiveJobs), Args: []any{kind}, Row: func(scan func(...any) error) error {
		job := pawl.JobView{Kind: kind}
		var id execer.IDColumn
		var enqueued, runAt int64
		err := scan(&id, &job.Queue, &job.State, &job.Attempt, &job.Crashes, &job.Requeues, &enqueued, &runAt, &job.Envelope)
		if job.ID, job.EnqueuedAt = pawl.ID(id), time.UnixMicro(enqueued).UTC(); runAt != 0 {
			job.RunAt = time.UnixMicro(runAt).UTC()
		}
		jobs = append(jobs, job)
		return err
	}})
	if err != nil {
		return nil, fmt.Errorf("list jobs of kind %s: %w", kind, err)
	}
	return jobs, nil
}

// LiveCallbacks returns the jobs of a kind that follow batches which are open, in the order in which these were opened, with
// their envelopes: at most 10,000. They are in no State yet. It is for tests; see package pawltest.
func (s *Store) LiveCallbacks(ctx context.Context, kind string) (jobs []pawl.JobView, err error) {
	err = s.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		jobs, err = s.liveCallbacks(ctx, execer.OnPgx(conn), kind)
		return err
	})
	return jobs, err
}

// LiveCallbacks returns what the transaction sees.
func (t transaction) LiveCallbacks(ctx context.Context, kind string) ([]pawl.JobView, error) {
	if t.tx == nil {
		return nil, &pawl.FieldError{Field: "transaction", Value: nil, Rule: "must be given"}
	}
	return t.store.liveCallbacks(ctx, t.tx, kind)
}

func (s *Store) liveCallbacks(ctx context.Context, x execer.Execer, kind string) (jobs []pawl.JobView, err error) {
	err = x.Do(ctx, execer.Step{SQL: s.schema.text(selectLiveCallbacks), Args: []any{kind}, Row: func(scan func(...any) error) error {
		job := pawl.JobView{Kind: kind}
		var id execer.IDColumn
		var opened int64
		err := scan(&id, &job.Queue, &opened, &job.Envelope)
		job.ID, job.EnqueuedAt = pawl.ID(id), time.UnixMicro(opened).UTC()
		jobs = append(jobs, job)
		return err
	}})
	if err != nil {
		return nil, fmt.Errorf("list what of kind %s follows batches: %w", kind, err)
	}
	return jobs, nil
}
