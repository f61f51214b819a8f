package postgres

import (
	"context"
	"fmt"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/execer"
)

// openBatches opens the batches of callbacks, as far as their ids are new, and keeps those that jobs join open until the
// transaction ends. Jobs that come too late are refused, before anything is stored; one that is known is a repeat, and joins
// nothing.
func (in *insertion) openBatches(ctx context.Context, x execer.Execer, known map[pawl.ID]bool) error {
	opens, joins := map[pawl.ID]bool{}, map[pawl.ID]bool{}
	for i := range in.jobs {
		job := &in.jobs[i]
		if _, there := known[job.ID]; job.Opens && !there {
			opens[job.ID] = true
		}
	}
	for i := range in.jobs {
		if batch := in.jobs[i].Member(); !batch.IsZero() && !opens[batch] {
			joins[batch] = true
		}
	}
	if err := in.holdBatches(ctx, x, known, joins); err != nil || len(opens) == 0 {
		in.markOpened(nil)
		return err
	}
	opened, err := in.insertBatches(ctx, x, opens)
	if err != nil {
		return fmt.Errorf("open batches: %w", err)
	}
	in.markOpened(opened)
	clear(joins)
	for id := range opens {
		joins[id] = !opened[id] // by somebody else, just now
	}
	return in.holdBatches(ctx, x, known, joins)
}

// insertBatches opens batches, and returns those that had not been.
func (in *insertion) insertBatches(ctx context.Context, x execer.Execer, opens map[pawl.ID]bool) (map[pawl.ID]bool, error) {
	var ids idList
	var kinds, queues []int32
	var delays []int64
	var envelopes [][]byte
	for i := range in.jobs {
		job := &in.jobs[i]
		if job.Opens && opens[job.ID] {
			ids, kinds, queues = append(ids, job.ID), append(kinds, in.kinds[i]), append(queues, in.queues[i])
			delays, envelopes = append(delays, microseconds(job.Delay)), append(envelopes, job.Envelope)
		}
	}
	opened := map[pawl.ID]bool{}
	var id idColumn
	err := x.Do(ctx, step{SQL: in.store.sql.openBatches, Args: []any{ids, kinds, queues, delays, envelopes}, Row: func(scan func(...any) error) error {
		err := scan(&id)
		opened[pawl.ID(id)] = true
		return err
	}})
	return opened, err
}

// markOpened says of the callbacks whether their batches were opened by them.
func (in *insertion) markOpened(opened map[pawl.ID]bool) {
	seen := map[pawl.ID]bool{}
	for i := range in.jobs {
		if id := in.jobs[i].ID; in.jobs[i].Opens {
			if in.results[i].Status = pawl.Repeated; opened[id] && !seen[id] {
				in.results[i].Status = pawl.Accepted
			}
			seen[id] = true // the second of a call is a repeat
		}
	}
}

// holdBatches keeps batches open, and refuses jobs whose batch is not.
func (in *insertion) holdBatches(ctx context.Context, x execer.Execer, known, joins map[pawl.ID]bool) error {
	var ids idList
	for id, join := range joins {
		if join {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	open := map[pawl.ID]bool{}
	var id idColumn
	err := x.Do(ctx, step{SQL: in.store.sql.lockOpenBatches, Args: []any{ids}, Row: func(scan func(...any) error) error {
		err := scan(&id)
		open[pawl.ID(id)] = true
		return err
	}})
	if err != nil {
		return fmt.Errorf("look at batches: %w", err)
	}
	for i := range in.jobs {
		job := &in.jobs[i]
		if _, there := known[job.ID]; joins[job.Member()] && !open[job.Batch] && !there {
			return pawl.BatchEnded(job.ID, job.Batch)
		}
	}
	return nil
}

// join leaves word of the jobs that were stored as members, and of batches that were opened: they may have none.
func (in *insertion) join(ctx context.Context, x execer.Execer) error {
	joined := map[pawl.ID]int64{}
	for i := range in.jobs {
		job := &in.jobs[i]
		switch {
		case in.results[i].Status != pawl.Accepted:
		case job.Opens:
			joined[job.ID] += 0
		case !job.Member().IsZero():
			joined[job.Batch]++
		}
	}
	if len(joined) == 0 {
		return nil
	}
	batches, members := make(idList, 0, len(joined)), make([]int64, 0, len(joined))
	for batch, n := range joined {
		batches, members = append(batches, batch), append(members, n)
	}
	if err := x.Do(ctx, step{SQL: in.store.sql.noteMembers, Args: []any{batches, members}}); err != nil {
		return fmt.Errorf("join batches: %w", err)
	}
	return nil
}
