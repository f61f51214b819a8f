package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

const (
	insertBatch = `insert into pawl_batch (id, kind, queue, delay, created_at)
select ?1, ?2, ?3, ?4, ?5 where not exists (select 1 from pawl_job where id = ?1) and not exists (select 1 from pawl_done where id = ?1)
on conflict (id) do nothing`
	insertBatchJob   = `insert into pawl_batch_job (batch, envelope) values (?1, ?2)`
	selectOpenBatch  = `select 1 from pawl_batch where id = ?1 and ended_at is null`
	joinBatch        = `update pawl_batch set members = members + ?2 where id = ?1 and ended_at is null`
	countEnds        = `update pawl_batch set done = done + ?2, dead = dead + ?3, removed = removed + ?4 where id = ?1`
	countRemoved     = `select batch, count(*) from pawl_job where +batch is not null and seq in ` + cleared + ` group by batch`
	batchColumns     = `b.id, b.kind, b.queue, b.delay, b.members, b.done, b.dead, b.removed, b.created_at, b.ended_at, b.cancelled`
	selectBatches    = `select ` + batchColumns + `, null from pawl_batch b`
	selectOver       = `select ` + batchColumns + `, j.envelope from pawl_batch b left join pawl_batch_job j on j.batch = b.id where b.ended_at is null and b.members = b.done + b.dead + b.removed order by b.id limit ?1`
	endBatch         = `update pawl_batch set ended_at = ?2 where id = ?1`
	deleteBatchJob   = `delete from pawl_batch_job where batch = ?1`
	takeBackBatchRow = `delete from pawl_batch where id = ?1`
	selectBatch      = selectBatches + ` where b.id = ?1`
	cancelBatch      = `update pawl_batch set cancelled = 1 where id in (select batch from pawl_batch_job where batch = ?1)`
	keepCallback     = `insert into pawl_done (id, kind, queue, state, attempt, enqueued_at, finished_at, envelope)
select b.id, b.kind, b.queue, 'removed', 0, b.created_at, ?2, case when ?3 then j.envelope end
from pawl_batch b join pawl_batch_job j on j.batch = b.id where b.id = ?1`
	purgeBatches = `delete from pawl_batch where id in (select id from pawl_batch where ended_at < ?1 order by ended_at limit ?2)`
)

func scanBatch(rows *sql.Rows) (b desk.BatchRow, err error) {
	var delay int64
	err = rows.Scan((*idColumn)(&b.BatchEnd.Batch), &b.Kind, &b.Queue, &delay, &b.Members, &b.Done, &b.Dead, &b.Removed,
		(*timeColumn)(&b.CreatedAt), (*timeColumn)(&b.EndedAt), &b.Cancelled, &b.Envelope)
	b.Delay = longMillis(delay)
	return b, err
}

// openBatches refuses members that come too late, before anything is stored, and opens the batches of callbacks.
func (in *insertion) openBatches(ctx context.Context) error {
	open := map[pawl.ID]bool{}
	for i := range in.jobs {
		if in.jobs[i].Opens {
			open[in.jobs[i].ID] = true
		}
	}
	if err := in.refuseLate(ctx, open); err != nil {
		return err
	}
	for i := range in.jobs {
		if job := &in.jobs[i]; job.Opens {
			opened, err := in.openBatch(ctx, job)
			if err != nil {
				return fmt.Errorf("open batch: %w", err)
			}
			if !opened {
				in.results[i].Status = pawl.Repeated
				delete(open, job.ID) // it may have ended
			}
			lookForOver(in.x)
		}
	}
	late := in.refuseLate(ctx, open)
	if late == nil {
		return nil
	}
	if err := in.takeBackBatches(ctx); err != nil { // the transaction may go on
		return err
	}
	return late
}

// openBatch opens one, unless its id is taken.
func (in *insertion) openBatch(ctx context.Context, job *pawl.NewJob) (bool, error) {
	opened, err := change(ctx, in.x, insertBatch, job.ID[:], job.Kind, job.Queue, wholeMillis(job.Delay), in.at)
	if err != nil || opened == 0 {
		return false, err
	}
	if _, err := in.x.ExecContext(ctx, insertBatchJob, job.ID[:], job.Envelope); err != nil {
		return false, err
	}
	if !job.Limit.IsZero() {
		return true, in.stateLimit(ctx, job)
	}
	return true, nil
}

// refuseLate refuses members of batches that are not open. What it finds is added to open.
func (in *insertion) refuseLate(ctx context.Context, open map[pawl.ID]bool) error {
	var late []int
	for i := range in.jobs {
		batch := in.jobs[i].Member()
		if batch.IsZero() {
			continue
		}
		in.batched = true
		if _, looked := open[batch]; !looked {
			_, found, err := selectOne(ctx, in.x, scanValue[int], selectOpenBatch, batch[:])
			if err != nil {
				return fmt.Errorf("look at batch: %w", err)
			}
			open[batch] = found
		}
		if !open[batch] {
			late = append(late, i)
		}
	}
	if len(late) == 0 {
		return nil
	}
	known, err := in.known(ctx, late) // a repeat is none the less one
	if err != nil {
		return fmt.Errorf("look up ids: %w", err)
	}
	for _, i := range late {
		if job := &in.jobs[i]; !known[job.ID] {
			return pawl.BatchEnded(job.ID, job.Batch)
		}
	}
	return nil
}

// join counts the jobs that were stored as members.
func (in *insertion) join(ctx context.Context) error {
	joined := map[pawl.ID]int{}
	for _, i := range in.rows {
		if batch := in.jobs[i].Member(); !batch.IsZero() && in.results[i].Status == pawl.Accepted {
			joined[batch]++
		}
	}
	for batch, n := range joined {
		if _, err := in.x.ExecContext(ctx, joinBatch, batch[:], n); err != nil {
			return fmt.Errorf("join batch: %w", err)
		}
	}
	return nil
}

// lookForOver has the store look, at the end of its transaction, for batches that are over. In a transaction of a caller's it is a
// sweep that looks: jobs may be added to a batch until the commit.
func lookForOver(x execer) {
	if w, ok := x.(*writer); ok {
		w.batches = true
	}
}

// ends are how members of batches ended.
type ends map[pawl.ID]*pawl.BatchEnd

func (e ends) of(batch pawl.ID) *pawl.BatchEnd {
	if e[batch] == nil {
		e[batch] = &pawl.BatchEnd{}
	}
	return e[batch]
}

// count adds them up.
func (e ends) count(ctx context.Context, x execer) error {
	for batch, end := range e {
		if _, err := x.ExecContext(ctx, countEnds, batch[:], end.Done, end.Dead, end.Removed); err != nil {
			return fmt.Errorf("count members of batch %s: %w", batch, err)
		}
		lookForOver(x)
	}
	return nil
}

// countRemovedMembers counts the members among jobs that are about to be removed.
func countRemovedMembers(ctx context.Context, x execer, seqs string) error {
	removed := ends{}
	_, err := selectRows(ctx, x, func(rows *sql.Rows) (id pawl.ID, err error) {
		var n int
		err = rows.Scan((*idColumn)(&id), &n)
		removed.of(id).Removed += n
		return id, err
	}, countRemoved, seqs)
	return errors.Join(err, removed.count(ctx, x))
}

// endBatches enqueues what follows batches that are over. It comes last in a transaction: what was done before may have added
// members.
func (w *writer) endBatches(ctx context.Context) error {
	for full := true; full; {
		at := now() + 1 // a clear that removed the last member in this millisecond leaves what follows
		over, err := selectRows(ctx, w, scanBatch, selectOver, desk.BatchesAtOnce)
		if err != nil || len(over) == 0 {
			return err
		}
		var jobs []pawl.NewJob
		for _, row := range over {
			if err := w.endBatch(ctx, row.BatchEnd.Batch, at); err != nil {
				return fmt.Errorf("end batch %s: %w", row.BatchEnd.Batch, err)
			}
			if !row.Cancelled {
				jobs = append(jobs, row.Callback())
			}
		}
		if _, err := insertJobs(ctx, w, jobs, at); err != nil {
			return fmt.Errorf("enqueue what follows %d batches: %w", len(jobs), err)
		}
		w.ready, full = true, len(over) == desk.BatchesAtOnce
	}
	return nil
}

func (w *writer) endBatch(ctx context.Context, batch pawl.ID, at int64) error {
	if _, err := w.ExecContext(ctx, endBatch, batch[:], at); err != nil {
		return err
	}
	_, err := w.ExecContext(ctx, deleteBatchJob, batch[:])
	return err
}

// cancelCallback has nothing follow a batch that is open, and remembers what would have.
func cancelCallback(ctx context.Context, x execer, batch pawl.ID, keep bool, at int64) (bool, error) {
	n, err := change(ctx, x, cancelBatch, batch[:])
	if err != nil || n == 0 {
		return false, err
	}
	if _, err := x.ExecContext(ctx, keepCallback, batch[:], at, keep); err != nil {
		return false, err
	}
	_, err = x.ExecContext(ctx, deleteBatchJob, batch[:])
	return err == nil, err
}

// takeBackBatches removes the batches that this insertion has opened.
func (in *insertion) takeBackBatches(ctx context.Context) error {
	for i := range in.jobs {
		if id := in.jobs[i].ID; in.jobs[i].Opens && in.results[i].Status == pawl.Accepted {
			if err := takeBackBatch(ctx, in.x, id); err != nil {
				return fmt.Errorf("take back batches: %w", err)
			}
		}
	}
	return nil
}

// takeBackBatch removes a batch that was opened just now.
func takeBackBatch(ctx context.Context, x execer, batch pawl.ID) error {
	if _, err := x.ExecContext(ctx, deleteBatchJob, batch[:]); err != nil {
		return err
	}
	_, err := x.ExecContext(ctx, takeBackBatchRow, batch[:])
	return err
}
