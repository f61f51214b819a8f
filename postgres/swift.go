package postgres

import (
	"context"
	"fmt"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/execer"
)

// insertSwiftly stores jobs with unique keys in one round trip: first the keys are locked, then one statement, which sees what
// others have committed meanwhile, stores those whose keys are free.
func (in *insertion) insertSwiftly(ctx context.Context, x execer.Execer) error {
	steps := []step{in.lockSurely()}
	now := in.allNow()
	for start := 0; start < len(in.jobs); start += insertBatch {
		insert := in.unique(start, min(start+insertBatch, len(in.jobs)), now)
		insert.Row = in.refused(start)
		steps = append(steps, insert)
		switch {
		case len(in.slots.live) == 0:
		case len(in.jobs) == 1:
			steps = append(steps, step{SQL: in.slots.texts.refuseOne, Args: []any{[16]byte(in.jobs[0].ID)}})
		default:
			steps = append(steps, step{SQL: in.slots.texts.refuseEnded, Args: []any{in.ids(start)}})
		}
	}
	if in.notify {
		steps = append(steps, step{SQL: `select pg_notify($1, '')`, Args: []any{in.store.schema.channel}})
	}
	if err := x.Do(ctx, steps...); err != nil {
		return fmt.Errorf("insert unique jobs: %w", err)
	}
	return nil
}

// refused reads who of the jobs from one on were not stored.
func (in *insertion) refused(from int) func(scan func(...any) error) error {
	var n, one int
	var holder idColumn
	return func(scan func(...any) error) error {
		if err := scan(&n, &holder, &one); err != nil {
			return err
		}
		result := &in.results[from+n-1]
		if result.Status = pawl.Duplicate; result.ID == pawl.ID(holder) { // its period goes on, though its end is forgotten
			result.Status = pawl.Repeated
		}
		result.ID = pawl.ID(holder)
		return nil
	}
}

// ids are those of the jobs that one statement stores, from one of them on.
func (in *insertion) ids(from int) idList {
	part := in.jobs[from:min(from+insertBatch, len(in.jobs))]
	ids := make(idList, len(part))
	for i := range part {
		ids[i] = part[i].ID
	}
	return ids
}

// allNow reports whether the jobs have nothing but plain columns and keys that count as long as they live.
func (in *insertion) allNow() bool {
	for i := range in.jobs {
		job := &in.jobs[i]
		if job.Delay != 0 || !job.RunAt.IsZero() || !job.EnqueuedAt.IsZero() || job.Unique.Scope == pawl.UniqueForPeriod {
			return false
		}
	}
	return true
}

// unique is the statement for a part of the jobs.
func (in *insertion) unique(from, to int, now bool) step {
	rows := make([]int, 0, to-from)
	for i := from; i < to; i++ {
		rows = append(rows, i)
	}
	if job := &in.jobs[from]; now && to == from+1 && !in.keys[from].IsZero() {
		return step{SQL: in.slots.texts.insertUniqueOne, Args: []any{
			[16]byte(job.ID), in.queues[from], in.kinds[from], flagsOf(job), job.Envelope, [16]byte(in.keys[from]),
		}}
	}
	if now {
		return step{SQL: in.slots.texts.insertUniqueNow, Args: append(in.plainArgs(rows), in.keys[from:to])}
	}
	return step{SQL: in.slots.texts.insertUnique, Args: append(in.statement(rows).Args, in.keys[from:to], in.periods(rows))}
}

// periods are how long the keys of these jobs count, in microseconds; 0 for another scope.
func (in *insertion) periods(rows []int) []int64 {
	periods := make([]int64, len(rows))
	for r, i := range rows {
		if unique := in.jobs[i].Unique; unique.Key != "" && unique.Scope == pawl.UniqueForPeriod {
			periods[r] = microseconds(unique.Period)
		}
	}
	return periods
}
