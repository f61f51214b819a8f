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
	index := make(map[pawl.ID]int, len(in.jobs))
	locked := make(idList, 0, len(in.jobs))
	for i := range in.jobs {
		index[in.jobs[i].ID] = i
		if !in.keys[i].IsZero() {
			locked = append(locked, in.keys[i])
		}
	}
	var id, holder idColumn
	var known bool
	refused := func(scan func(...any) error) error {
		err := scan(&id, &holder, &known)
		in.results[index[pawl.ID(id)]] = pawl.Enqueued{ID: pawl.ID(holder), Status: pawl.Duplicate}
		if known {
			in.results[index[pawl.ID(id)]] = pawl.Enqueued{ID: pawl.ID(id), Status: pawl.Repeated}
		}
		return err
	}
	steps := []step{{SQL: in.store.sql.lockKeys, Args: []any{keySlots(locked)}}}
	for start := 0; start < len(in.jobs); start += insertBatch {
		rows := make([]int, 0, insertBatch)
		for i := start; i < min(start+insertBatch, len(in.jobs)); i++ {
			rows = append(rows, i)
		}
		args := append(in.statement(rows).Args, in.keys[start:start+len(rows)], in.periods(rows))
		steps = append(steps, step{SQL: in.slots.texts.insertUnique, Args: args, Row: refused})
		if len(in.slots.live) > 0 {
			steps = append(steps, step{SQL: in.slots.texts.refuseEnded, Args: args[:1]})
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
