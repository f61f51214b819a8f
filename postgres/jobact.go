package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

const (
	// In the order in which they were given, behind what is ready.
	runNow = `with due as materialized (
  select id, nextval('{l}.job_seq') as seq from (select id, n from unnest($1::uuid[]) with ordinality t (id, n) order by n) t
), moved as (
  update {s}.job j set run_at = case when j.flags & 32 <> 0 then 'infinity'::timestamptz end, ready_at = now(), seq = due.seq
  from due where j.id = due.id and j.run_at < 'infinity' and j.holder is null returning j.id, j.flags, j.seq
)
insert into {s}.arrival (job_id) select id from moved where flags & 32 <> 0 order by seq`

	deleteJobs = `delete from {s}.job j where j.id = any($1::uuid[]) returning ` + endedColumns
)

// jobStates are where jobs are: those that have not ended are locked, and those that are not there have none.
type jobStates map[pawl.ID]pawl.JobState

// jobAct does one thing to some jobs that have not ended, in one transaction: those for which allowed returns nil.
type jobAct struct {
	allowed func(id pawl.ID, state pawl.JobState) error
	entry   func(id pawl.ID, state pawl.JobState) pawl.AuditEntry
	do      func(ctx context.Context, tx pgx.Tx, ids idList, slots slotSet) error
}

// RunJobsNow makes scheduled jobs ready.
func (s *Store) RunJobsNow(ctx context.Context, ids []pawl.ID, by pawl.By) ([]error, error) {
	refusals, err := s.actOnJobs(ctx, ids, by, jobAct{
		allowed: func(id pawl.ID, state pawl.JobState) error {
			if state == pawl.JobScheduled {
				return nil
			}
			return desk.NotScheduled(id, state)
		},
		entry: func(id pawl.ID, _ pawl.JobState) pawl.AuditEntry { return desk.RunNowEntry(id) },
		do: func(ctx context.Context, tx pgx.Tx, ids idList, _ slotSet) error {
			_, err := tx.Exec(ctx, s.sql.desk.runNow, ids)
			return err
		},
	})
	if err != nil {
		return nil, fmt.Errorf("run jobs now: %w", err)
	}
	s.giveIfAny(ctx)
	s.waker.announce()
	return refusals, nil
}

// DeleteJobs removes jobs in whatever state they are.
func (s *Store) DeleteJobs(ctx context.Context, ids []pawl.ID, by pawl.By) ([]error, error) {
	refusals, err := s.actOnJobs(ctx, ids, by, jobAct{
		allowed: func(id pawl.ID, state pawl.JobState) error {
			switch state {
			case pawl.JobWaiting, pawl.JobScheduled, pawl.JobReserved:
				return nil
			}
			return desk.NotDeleted(id, state)
		},
		entry: desk.DeleteEntry,
		do: func(ctx context.Context, tx pgx.Tx, ids idList, slots slotSet) error {
			jobs, err := s.takeEnded(ctx, tx, s.sql.desk.deleteJobs, ids)
			if err != nil {
				return err
			}
			return s.keepRemoved(ctx, tx, jobs, slots)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("delete jobs: %w", err)
	}
	s.giveIfAny(ctx)
	return refusals, nil
}

func (s *Store) actOnJobs(ctx context.Context, ids []pawl.ID, by pawl.By, act jobAct) (refusals []error, err error) {
	if err := desk.CheckCancel(ids, by); err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		return nil, nil
	}
	err = s.inSlots(ctx, s.writableSlots, func(slots slotSet) error {
		return s.write(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
			refusals, err = s.actIn(ctx, tx, ids, by, act, slots)
			return err
		})
	})
	return refusals, err
}

func (s *Store) actIn(ctx context.Context, tx pgx.Tx, ids []pawl.ID, by pawl.By, act jobAct, slots slotSet) ([]error, error) {
	states, err := s.lockStates(ctx, tx, ids, slots)
	if err != nil {
		return nil, err
	}
	refusals := make([]error, len(ids))
	var chosen idList
	var lines []audited
	for i, id := range ids {
		if refusals[i] = act.allowed(id, states[id]); refusals[i] != nil {
			continue
		}
		chosen = append(chosen, id)
		entry := act.entry(id, states[id])
		lines = append(lines, audited{by, entry})
		states[id] = pawl.JobState(entry.To) // should it be named twice
	}
	if len(chosen) == 0 {
		return refusals, nil
	}
	if err := act.do(ctx, tx, chosen, slots); err != nil {
		return nil, err
	}
	_, err = s.writeAudit(ctx, tx, lines...)
	return refusals, err
}

// lockStates finds where jobs are, and locks those that have not ended.
func (s *Store) lockStates(ctx context.Context, tx pgx.Tx, ids []pawl.ID, slots slotSet) (jobStates, error) {
	states := jobStates{}
	var id idColumn
	var state pawl.JobState
	var marked bool
	rows, err := tx.Query(ctx, s.sql.desk.lockToCancel, idList(ids))
	if err != nil {
		return nil, err
	}
	if _, err := pgx.ForEachRow(rows, []any{&id, (*string)(&state), &marked}, func() error {
		states[pawl.ID(id)] = state
		return nil
	}); err != nil {
		return nil, err
	}
	var rest idList
	for _, id := range ids {
		if _, there := states[id]; !there {
			rest = append(rest, id)
		}
	}
	ended, err := s.endedStates(ctx, tx, rest, slots)
	for id, state := range ended {
		states[id] = state
	}
	return states, err
}

// endedStates finds which of some jobs have ended, and how.
func (s *Store) endedStates(ctx context.Context, tx pgx.Tx, ids idList, slots slotSet) (jobStates, error) {
	states := jobStates{}
	if len(ids) == 0 || len(slots.live) == 0 {
		return states, nil
	}
	rows, err := tx.Query(ctx, s.inEachSlot(slots, selectEndedState, " union all "), ids)
	if err != nil {
		return nil, err
	}
	var id idColumn
	var state pawl.JobState
	_, err = pgx.ForEachRow(rows, []any{&id, (*string)(&state)}, func() error {
		states[pawl.ID(id)] = state
		return nil
	})
	return states, err
}
