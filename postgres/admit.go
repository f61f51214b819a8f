package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/execer"
)

// keyHolder is a job that has a key.
type keyHolder struct {
	id     pawl.ID
	passes bool // not if somebody asks for it
}

// admission decides on jobs with unique keys, and makes way for those that are retried under their own id.
type admission struct {
	*insertion
	x       execer.Execer
	died    map[pawl.ID]pawl.ID     // by letter, the job that died
	known   map[pawl.ID]bool        // ids that were accepted before; true: the job lives
	holders map[pawl.ID][]keyHolder // by the key's hash
}

// insertAll decides on all jobs and stores those that are accepted. It looks at the keys first, and may be overtaken: what the index
// keeps out then is decided on again.
func (a *admission) insertAll(ctx context.Context, rows []int) error {
	for first := true; len(rows) > 0; first = false {
		accepted, err := a.admit(ctx, rows, first)
		if err != nil {
			return err
		}
		if a.inKeyOrder(accepted) {
			if err := a.drawSeqs(ctx, a.x); err != nil {
				return err
			}
		}
		overtaken, err := a.insertRows(ctx, a.x, accepted, a)
		if err != nil {
			return err
		}
		again := rows[:0:0]
		for _, i := range rows {
			if overtaken[a.results[i].ID] { // itself, or the job that it was told to be a duplicate of
				again = append(again, i)
			}
		}
		rows = again
	}
	return nil
}

// admit returns the indices of the jobs to insert.
func (a *admission) admit(ctx context.Context, rows []int, first bool) (accepted []int, err error) {
	if err := a.look(ctx, rows); err != nil {
		return nil, fmt.Errorf("look up ids and keys: %w", err)
	}
	if a.batched && first {
		if err := a.openBatches(ctx, a.x, a.known); err != nil {
			return nil, err
		}
	}
	var passing keys
	for _, i := range rows {
		job, result := &a.jobs[i], &a.results[i]
		if job.Opens {
			continue // it is stored with its batch
		}
		if *result = a.decide(i); result.Status != pawl.Accepted {
			continue
		}
		accepted = append(accepted, i)
		if job.Unique.Key != "" && a.passes(i) {
			passing.add(a.keys, i)
		}
	}
	if len(passing.hashes) == 0 {
		return accepted, nil
	}
	if err := a.x.Do(ctx, step{SQL: a.store.sql.yieldKeys, Args: []any{passing.places, passing.hashes}}); err != nil {
		return nil, fmt.Errorf("pass on keys: %w", err)
	}
	return accepted, nil
}

// look reads what decisions are made by.
func (a *admission) look(ctx context.Context, rows []int) error {
	a.died, a.known, a.holders = map[pawl.ID]pawl.ID{}, map[pawl.ID]bool{}, map[pawl.ID][]keyHolder{}
	ids, letters := idList{}, idList{}
	var asked keys
	for _, i := range rows {
		job := &a.jobs[i]
		ids = append(ids, job.ID)
		if !job.Letter.IsZero() {
			letters = append(letters, job.Letter)
		}
		if job.Unique.Key != "" {
			asked.add(a.keys, i)
		}
	}
	var first, second idColumn
	var steps []step
	if len(asked.hashes) > 0 {
		var passes bool
		steps = append(steps, step{SQL: a.store.sql.selectHolders, Args: []any{asked.places, asked.hashes}, Row: func(scan func(...any) error) error {
			err := scan(&first, &second, &passes)
			a.holders[pawl.ID(first)] = append(a.holders[pawl.ID(first)], keyHolder{pawl.ID(second), passes})
			return err
		}})
	}
	if len(letters) > 0 {
		steps = append(steps, step{SQL: a.store.sql.selectLetterJobs, Args: []any{letters}, Row: func(scan func(...any) error) error {
			err := scan(&first, &second)
			a.died[pawl.ID(first)] = pawl.ID(second)
			return err
		}})
	}
	var living bool
	steps = append(steps, step{SQL: a.slots.texts.selectKnown, Args: []any{ids}, Row: func(scan func(...any) error) error {
		err := scan(&first, &living)
		a.known[pawl.ID(first)] = living
		return err
	}})
	return a.x.Do(ctx, steps...)
}

// isRetried reports whether a job goes back under the id that it died with.
func (a *admission) isRetried(job *pawl.NewJob) bool {
	return !job.Letter.IsZero() && a.died[job.Letter] == job.ID
}

// passes reports whether the key of an accepted job is still in the row of one that has left its scope.
func (a *admission) passes(i int) bool {
	return slices.ContainsFunc(a.holders[a.keys.hashes[i]], func(h keyHolder) bool { return h.passes })
}

// decide says what becomes of one job, and remembers it for those after it.
func (a *admission) decide(i int) pawl.Enqueued {
	job := &a.jobs[i]
	living, known := a.known[job.ID]
	if known && (living || !a.isRetried(job)) {
		return pawl.Enqueued{ID: job.ID, Status: pawl.Repeated}
	}
	if job.Unique.Key != "" {
		key, died := a.keys.hashes[i], a.died[job.Letter]
		for _, holder := range a.holders[key] {
			if !holder.passes && holder.id != job.ID && (died.IsZero() || holder.id != died) {
				return pawl.Enqueued{ID: holder.id, Status: pawl.Duplicate}
			}
		}
		a.holders[key] = append(a.holders[key], keyHolder{id: job.ID})
	}
	a.known[job.ID] = true
	return pawl.Enqueued{ID: job.ID}
}

// follow adds what is to be done for the jobs at these indices, as far as they were stored, to the steps that store them: nothing
// of it may be done for one that is refused.
func (a *admission) follow(steps []step, rows []int, kept func(scan func(...any) error) error) []step {
	var retried idList
	var unique, period keys
	var ids, died, holding idList
	var periods []int64
	for _, i := range rows {
		job := &a.jobs[i]
		if a.isRetried(job) {
			retried = append(retried, job.ID)
		}
		if job.Unique.Key == "" {
			continue
		}
		unique.add(a.keys, i)
		ids, died = append(ids, job.ID), append(died, a.died[job.Letter])
		if job.Unique.Scope == pawl.UniqueForPeriod {
			period.add(a.keys, i)
			holding, periods = append(holding, job.ID), append(periods, microseconds(job.Unique.Period))
		}
	}
	if len(retried) > 0 {
		for _, one := range a.slots.live {
			steps = append(steps, step{SQL: a.store.slotText(forgetEnded, one), Args: []any{retried}})
		}
		steps = append(steps, step{SQL: a.store.sql.forgetAttempts, Args: []any{retried}}, step{SQL: a.store.sql.forgetVerdicts, Args: []any{retried}})
	}
	if len(ids) > 0 {
		steps = append(steps, step{SQL: a.store.sql.removeKept, Args: []any{ids, died, unique.hashes}, Row: kept})
	}
	if len(holding) > 0 {
		steps = append(steps, step{SQL: a.store.sql.holdKeys, Args: []any{period.hashes, holding, periods}})
	}
	return steps
}
