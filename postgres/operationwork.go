package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

const (
	findOperation = `select true from {s}.operation where id = $1`

	leaseOperations = `update {s}.operation set runner = $1, lease = lease + 1, free_at = clock_timestamp() + $2 * interval '1 microsecond'
where id = any(array(
  select id from {s}.operation where state in ('probing', 'running') and free_at <= clock_timestamp() and ($3 or id = any($4::uuid[]))
  order by created_at limit $5 for update skip locked
)) returning id, lease`

	// An operation that has ended, and no job of which is pending, has counts that do not change any more.
	tallyOperations = `update {s}.operation o set tallied = true, succeeded = c.succeeded, died_again = c.died_again, cancelled = c.cancelled
from (
  select u.id from {s}.operation u where u.ended_at is not null and not u.tallied
    and not exists (select from {s}.operation_item i where i.operation = u.id and i.outcome = 1)
  order by u.created_at limit 1 for update skip locked
) u, lateral (select ` + countOutcomes + ` from {s}.operation_item i where i.operation = u.id) c
where o.id = u.id`

	// What comes next: positions from $2 on.
	selectNext = `select i.position, i.letter from {s}.operation_item i
where i.operation = $1 and i.position >= $2 and i.position < $2 + $3 order by i.position`
	selectNextWhole = `select position, letter, found, job_id, connection, kind, reason, enqueued_at, status, redrive_outcome, new_job_id,
  fingerprint, envelope
from (
  select i.position, i.letter, l.id is not null as found, l.job_id, coalesce(l.connection, '') as connection, coalesce(l.kind, '') as kind,
    coalesce(l.reason, '') as reason, l.enqueued_at, coalesce(l.status, 0) as status, coalesce(l.redrive_outcome, '') as redrive_outcome,
    l.new_job_id, coalesce(l.fingerprint, '') as fingerprint, e.envelope,
    sum(coalesce(octet_length(e.envelope), 0)) over (order by i.position rows between unbounded preceding and 1 preceding) as before
  from {s}.operation_item i left join {s}.letter l on l.id = i.letter left join {s}.evidence e on e.letter = i.letter
  where i.operation = $1 and i.position >= $2 and i.position < $2 + $3
) n where before is null or before < $4 order by position`

	// Each item must be as the step expects. (A sum keeps the index on states out of it: all that waits is in there.)
	stepItems = `update {s}.operation_item i set state = t.state, outcome = t.outcome, reason = t.reason,
  job = nullif(t.job, '00000000-0000-0000-0000-000000000000')
from unnest($2::int[], $3::uuid[], $4::smallint[], $5::smallint[], $6::uuid[], $7::text[]) t (position, letter, state, outcome, job, reason)
where i.operation = $1 and i.position = t.position and i.letter = t.letter and i.state + 0 = 0`
	handItems = `with handed as materialized (
  select i.position, i.outcome, t.reason from unnest($2::int[], $3::uuid[], $4::text[]) t (position, letter, reason)
  join {s}.operation_item i on i.operation = $1 and i.position = t.position and i.letter = t.letter and i.state + 0 = 3
)
update {s}.operation_item i set state = case when h.reason = '' then 2 else 1 end, reason = h.reason,
  outcome = case when h.reason = '' then i.outcome else 0 end, job = case when h.reason = '' then i.job end
from handed h where i.operation = $1 and i.position = h.position`
	countStep = `update {s}.operation set done = done + $2, refused = refused + $3,
  free_at = case when $4 then 'epoch' else clock_timestamp() + $5 * interval '1 microsecond' end where id = $1`

	endItems = `update {s}.operation_item i set outcome = t.outcome from unnest($1::uuid[], $2::smallint[]) t (job, outcome)
where i.job = t.job and i.outcome = 1`
)

// operationStatements are the texts of operations, for one schema.
type operationStatements struct {
	selectOperation, insertOperation, setLetters, insertItems string
	lockOperation, changeOperation, findOperation             string
	leaseOperations, tallyOperations                          string
	selectNext, selectNextWhole                               string
	stepItems, handItems, countStep, endItems                 string
}

func newOperationStatements(s schema) operationStatements {
	return operationStatements{
		selectOperation: s.text(selectOperations + ` where o.id = $1`),
		insertOperation: s.text(insertOperation), setLetters: s.text(setLetters), insertItems: s.text(insertItems),
		lockOperation: s.text(lockOperation), changeOperation: s.text(changeOperation), findOperation: s.text(findOperation),
		leaseOperations: s.text(leaseOperations), tallyOperations: s.text(tallyOperations),
		selectNext: s.text(selectNext), selectNextWhole: s.text(selectNextWhole),
		stepItems: s.text(stepItems), handItems: s.text(handItems), countStep: s.text(countStep), endItems: s.text(endItems),
	}
}

// LeaseOperations takes operations that nobody works on.
func (s *Store) LeaseOperations(ctx context.Context, request pawl.OperationLease) (out []pawl.LeasedOperation, err error) {
	if err := desk.CheckLease(request); err != nil {
		return nil, err
	}
	err = s.write(ctx, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, s.sql.desk.tallyOperations); err != nil {
			return fmt.Errorf("tally: %w", err)
		}
		out, err = s.lease(ctx, tx, request)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("lease operations: %w", err)
	}
	return out, nil
}

func (s *Store) lease(ctx context.Context, tx pgx.Tx, r pawl.OperationLease) (out []pawl.LeasedOperation, err error) {
	out, err = selectRows(ctx, tx, func(rows pgx.Rows) (o pawl.LeasedOperation, err error) {
		return o, rows.Scan((*idColumn)(&o.ID), (*int64)(&o.Lease))
	}, s.sql.desk.leaseOperations, r.Runner, microseconds(pawl.OperationHold), len(r.Only) == 0, idList(r.Only), r.Max)
	for i := range out {
		if err == nil {
			out[i].Operation, err = s.readOperation(ctx, tx, out[i].ID)
		}
	}
	return out, err
}

// OperationLetters returns what comes next.
func (s *Store) OperationLetters(ctx context.Context, id pawl.ID, most int) (out []pawl.OperationLetter, err error) {
	most = min(max(most, 0), pawl.MaxStep)
	err = s.view(ctx, func(ctx context.Context, q querier) error {
		operation, err := s.readOperation(ctx, q, id)
		if err != nil || !operation.State.Active() {
			return err
		}
		next := operation.Done + operation.Refused + 1
		if operation.Action == pawl.ActionRedrive {
			out, err = selectRows(ctx, q, scanNext, s.sql.desk.selectNextWhole, idValue(id), next, most, desk.StepBytes)
			return err
		}
		out, err = selectRows(ctx, q, func(rows pgx.Rows) (n pawl.OperationLetter, err error) {
			n.Found = true
			return n, rows.Scan(&n.Position, (*idColumn)(&n.Letter.ID))
		}, s.sql.desk.selectNext, idValue(id), next, most)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read what is next of operation %s: %w", id, err)
	}
	return out, nil
}

func scanNext(rows pgx.Rows) (n pawl.OperationLetter, err error) {
	l := &n.Letter
	return n, rows.Scan(&n.Position, (*idColumn)(&l.ID), &n.Found, (*idColumn)(&l.JobID), &l.Connection, &l.Kind, (*string)(&l.Reason),
		(*timeColumn)(&l.EnqueuedAt), smallColumn[pawl.Status]{&l.Status}, (*string)(&l.Outcome), (*idColumn)(&l.NewJobID), &l.Fingerprint,
		&l.Envelope)
}

// AdvanceOperation makes one step, in one transaction.
func (s *Store) AdvanceOperation(ctx context.Context, step pawl.OperationStep) ([]error, error) {
	if err := desk.CheckStep(step); err != nil {
		return nil, err
	}
	var moves []pawl.Move
	var of []int // the item of each move
	for i := range step.Items {
		if step.Items[i].Refused == "" {
			moves, of = append(moves, step.Items[i].Move), append(of, i)
		}
	}
	var results []error
	_, err := s.moveWithin(ctx, moves, func(ctx context.Context, tx pgx.Tx, move func() ([]error, error)) error {
		before, found, err := s.lockOperation(ctx, tx, step.Operation)
		if err != nil || !found {
			return desk.NotFound(err)
		}
		if err := before.Admit(step); err != nil {
			return err
		}
		refusals, err := move()
		if err != nil {
			return err
		}
		results = make([]error, len(step.Items))
		for n, i := range of {
			results[i] = refusals[n]
		}
		return s.writeStep(ctx, tx, step, before, results)
	})
	if err != nil {
		return nil, fmt.Errorf("advance operation %s: %w", step.Operation, err)
	}
	return results, nil
}

// itemRow is what is written of an item that was dealt with.
type itemRow struct {
	position       int32
	letter, job    pawl.ID
	state, outcome int16
	reason         string
}

// newItemRow is an item's row; refusal is what the move was refused with. An item that was to be refused gets its refusal.
func newItemRow(item *pawl.ItemStep, refusal *error) itemRow {
	row := itemRow{position: int32(item.Position), letter: item.Letter}
	if item.Refused != "" {
		*refusal = desk.Refused(item.Refused)
	}
	if *refusal != nil {
		row.state, row.reason = int16(desk.ItemNumber(pawl.ItemRefused)), desk.Reason((*refusal).Error())
		return row
	}
	state, job, outcome := desk.Moved(item.Move)
	row.state, row.job, row.outcome = int16(desk.ItemNumber(state)), job, int16(desk.OutcomeNumber(outcome))
	return row
}

func (s *Store) writeStep(ctx context.Context, tx pgx.Tx, step pawl.OperationStep, before standing, results []error) error {
	done, refused := 0, 0
	rows := make([]itemRow, len(step.Items))
	for i := range step.Items {
		if rows[i] = newItemRow(&step.Items[i], &results[i]); results[i] != nil {
			refused++
		} else {
			done++
		}
	}
	if err := s.writeItems(ctx, tx, step.Operation, rows); err != nil {
		return err
	}
	for _, item := range step.Handed {
		if item.Refused != "" {
			done, refused = done-1, refused+1
		}
	}
	if err := s.writeHanded(ctx, tx, step); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, s.sql.desk.countStep, idValue(step.Operation), done, refused, step.Release, microseconds(pawl.OperationHold))
	if err != nil || step.State == "" || step.State == before.State {
		return err
	}
	return s.writeState(ctx, tx, step, before.State)
}

func (s *Store) writeItems(ctx context.Context, tx pgx.Tx, operation pawl.ID, rows []itemRow) error {
	if len(rows) == 0 {
		return nil
	}
	changed, err := tx.Exec(ctx, s.sql.desk.stepItems, idValue(operation),
		column(rows, func(r *itemRow) int32 { return r.position }),
		column(rows, func(r *itemRow) pgtype.UUID { return idBound(r.letter) }),
		column(rows, func(r *itemRow) int16 { return r.state }),
		column(rows, func(r *itemRow) int16 { return r.outcome }),
		column(rows, func(r *itemRow) pgtype.UUID { return idBound(r.job) }),
		column(rows, func(r *itemRow) string { return r.reason }))
	return asExpected(changed.RowsAffected(), len(rows), err)
}

// writeHanded records what has become of jobs that were on their way.
func (s *Store) writeHanded(ctx context.Context, tx pgx.Tx, step pawl.OperationStep) error {
	if len(step.Handed) == 0 {
		return nil
	}
	changed, err := tx.Exec(ctx, s.sql.desk.handItems, idValue(step.Operation),
		column(step.Handed, func(i *pawl.ItemStep) int32 { return int32(i.Position) }),
		column(step.Handed, func(i *pawl.ItemStep) pgtype.UUID { return idBound(i.Letter) }),
		column(step.Handed, func(i *pawl.ItemStep) string { return desk.Reason(i.Refused) }))
	return asExpected(changed.RowsAffected(), len(step.Handed), err)
}

func asExpected(changed int64, want int, err error) error {
	if err == nil && changed != int64(want) {
		err = fmt.Errorf("%d of %d letters are as the step expects: %w", changed, want, pawl.ErrConflict)
	}
	return err
}

// writeState changes the state; what stops an operation by itself is in the trail.
func (s *Store) writeState(ctx context.Context, tx pgx.Tx, step pawl.OperationStep, before pawl.OperationState) error {
	reason := desk.Reason(step.Reason)
	_, err := tx.Exec(ctx, s.sql.desk.changeOperation, idValue(step.Operation), string(step.State), reason, step.State.Ended(),
		step.State == pawl.OperationRunning)
	if err != nil || step.State != pawl.OperationStopped {
		return err
	}
	by := desk.System()
	by.Why = reason
	_, err = s.writeAudit(ctx, tx, audited{by, desk.OperationEntry(step.Operation, pawl.ActionStop, before, step.State, "")})
	return err
}

// operationsHear tells operations, if they were those that redrove letters, how their jobs have ended.
func (s *Store) operationsHear(ctx context.Context, tx pgx.Tx, changes []change) error {
	var jobs idList
	var outcomes []int16
	for i := range changes {
		if c := &changes[i]; c.move.Action == pawl.ActionOutcome {
			jobs, outcomes = append(jobs, c.before.NewJob), append(outcomes, int16(desk.OutcomeNumber(c.move.Outcome)))
		}
	}
	if len(jobs) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, s.sql.desk.endItems, jobs, outcomes); err != nil {
		return fmt.Errorf("tell operations: %w", err)
	}
	return nil
}
