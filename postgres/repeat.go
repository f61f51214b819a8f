package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/execer"
)

const (
	selectAccepted = `select u.id, coalesce((select text from {s}.name where id = a.kind), ''), a.envelope from unnest($1::uuid[]) u (id), lateral (
  select kind, envelope from {s}.job where id = u.id{accepted} limit 1) a`
	acceptedTerm = ` union all select kind, envelope from {t} where id = u.id`

	// A principal that may only insert cannot compare. It is asked first: a refusal would end the caller's transaction.
	mayRead      = `select has_table_privilege('{l}.job', 'select'){readable}`
	readableTerm = ` and has_table_privilege('{t}', 'select')`

	takeBackJobs    = `delete from {s}.job where id = any($1::uuid[])`
	takeBackBatches = `delete from {s}.batch where id = any($1::uuid[])`
	takeBackTurn    = `delete from {s}.turn where job_id = any($1::uuid[])`
	takeBackKeys    = `update {s}.key set job_id = null, until_at = null where hash = any($1::uuid[]) and job_id = any($2::uuid[])`
)

// compareBatch bounds how many envelopes are looked at at a time.
const compareBatch = 50

// isApart says that what becomes of one job is nothing to the others.
func (in *insertion) isApart() bool { return in.apart || len(in.jobs) == 1 }

// checkRepeats compares what was told to be repeated with what is there. Where an id was accepted for another job it
// fails, and in a caller's transaction, which goes on, takes back what was stored.
func (in *insertion) checkRepeats(ctx context.Context, x execer.Execer) error {
	refusals, err := in.compare(ctx, x)
	if err != nil {
		return err
	}
	for i := range in.jobs {
		if refusals[i] == nil {
			continue
		}
		if in.guest {
			if err := in.takeBack(ctx, x); err != nil {
				return err
			}
		}
		return refusals[i]
	}
	return nil
}

// checkApart is checkRepeats for calls of one job each that shared a transaction, which has committed: those that are
// refused have stored nothing, and the others are none of their business. Where it cannot be looked, the same goes.
func (s *Store) checkApart(ctx context.Context, in *insertion) {
	if !slices.ContainsFunc(in.results, func(r pawl.Enqueued) bool { return r.Status == pawl.Repeated }) {
		return
	}
	err := s.inSlots(ctx, s.currentSlots, func(slots slotSet) error {
		in.slots = slots
		return s.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) (err error) {
			in.refusals, err = in.compare(ctx, execer.OnPgx(conn))
			return err
		})
	})
	if err == nil {
		return
	}
	in.refusals = map[int]error{}
	for i := range in.results {
		if in.results[i].Status == pawl.Repeated {
			in.refusals[i] = err
		}
	}
}

// compare says which repeats are none, by their indices.
func (in *insertion) compare(ctx context.Context, x execer.Execer) (map[int]error, error) {
	of := map[pawl.ID][]int{}
	var ids idList
	for i := range in.results {
		if in.results[i].Status == pawl.Repeated {
			id := in.jobs[i].ID
			if of[id] == nil {
				ids = append(ids, id)
			}
			of[id] = append(of[id], i)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	readable := false
	err := x.Do(ctx, step{SQL: in.slots.texts.mayRead, Row: func(scan func(...any) error) error { return scan(&readable) }})
	refusals := map[int]error{}
	for start := 0; start < len(ids) && readable && err == nil; start += compareBatch {
		part := ids[start:min(start+compareBatch, len(ids))]
		err = x.Do(ctx, step{SQL: in.slots.texts.selectAccepted, Args: []any{part}, Row: func(scan func(...any) error) error {
			var id idColumn
			var kind string
			var envelope []byte
			err := scan(&id, &kind, &envelope)
			for _, i := range of[pawl.ID(id)] {
				if refusal := desk.CheckRepeat(&in.jobs[i], kind, envelope); refusal != nil {
					refusals[i] = refusal
				}
			}
			return err
		}})
	}
	if err != nil {
		return nil, fmt.Errorf("look at jobs that are there already: %w", err)
	}
	return refusals, nil
}

// takeBack removes what this insertion has stored. Its keys had passed on to it, so nobody else holds them.
func (in *insertion) takeBack(ctx context.Context, x execer.Execer) error {
	var stored, keys idList
	for i := range in.results {
		if in.results[i].Status == pawl.Accepted {
			stored = append(stored, in.jobs[i].ID)
			if key := in.jobs[i].Unique.Key; key != "" {
				keys = append(keys, keyHash(key))
			}
		}
	}
	if len(stored) == 0 {
		return nil
	}
	steps := []step{{SQL: in.store.schema.text(takeBackJobs), Args: []any{stored}}}
	if in.batched {
		steps = append(steps, step{SQL: in.store.schema.text(takeBackBatches), Args: []any{stored}})
	}
	if in.lined {
		steps = append(steps, step{SQL: in.store.schema.text(takeBackTurn), Args: []any{stored}})
	}
	if len(keys) > 0 {
		steps = append(steps, step{SQL: in.store.schema.text(takeBackKeys), Args: []any{keys, stored}})
	}
	if err := x.Do(ctx, steps...); err != nil {
		return fmt.Errorf("take back jobs: %w", err)
	}
	return nil
}
