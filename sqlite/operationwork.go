package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

const (
	selectStanding = `select state, lease, letters, done, refused, probed, options from pawl_operation where id = ?1`

	selectLeasable = `select id from pawl_operation indexed by pawl_operation_active`
	leaseOperation = `update pawl_operation set runner = ?2, lease = lease + 1, free_at = ?3 where id = ?1 returning lease`

	selectComing = `select i.position, i.letter from pawl_operation o join pawl_operation_item i on i.operation = o.id
where o.id = ?1 and o.state in ('probing', 'running') and i.position > o.done + o.refused order by i.position limit ?2`
	selectComingWhole = `select i.position, i.letter, l.id is not null, l.job_id, l.connection, l.kind, l.reason, l.enqueued_at, l.status,
	l.redrive_outcome, l.new_job_id, l.fingerprint, e.envelope
from pawl_operation o join pawl_operation_item i on i.operation = o.id
left join pawl_letter l on l.id = i.letter left join pawl_evidence e on e.letter = i.letter
where o.id = ?1 and o.state in ('probing', 'running') and i.position > o.done + o.refused order by i.position limit ?2`

	refuseItem = `update pawl_operation_item set state = 1, outcome = 0, job = null, reason = ?5
where operation = ?1 and position = ?2 and letter = ?3 and state = ?4`
	doItem = `update pawl_operation_item set state = ?4, job = ?5, outcome = ?6
where operation = ?1 and position = ?2 and letter = ?3 and state = 0`
	handItem = `update pawl_operation_item set state = 2 where operation = ?1 and position = ?2 and letter = ?3 and state = 3`

	selectItemOutcome = `select outcome from pawl_operation_item where operation = ?1 and position = ?2`
	endItem           = `update pawl_operation_item set outcome = ?2 where job = ?1 and outcome = 1 returning operation`
	countEnd          = `update pawl_operation set pending = pending - 1, succeeded = succeeded + (?2 = 2), died_again = died_again + (?2 = 3),
	cancelled = cancelled + (?2 = 4) where id = ?1`

	countStep = `update pawl_operation set done = done + ?2, refused = refused + ?3, pending = pending + ?4, cancelled = cancelled - ?5,
	free_at = ?6 where id = ?1`
)

// standing is what decides on a step.
type standing struct {
	desk.Standing
	probed  bool
	options pawl.OperationOptions
}

func readStanding(ctx context.Context, x execer, id pawl.ID) (standing, bool, error) {
	return selectOne(ctx, x, func(rows *sql.Rows) (s standing, err error) {
		return s, rows.Scan(&s.State, &s.Lease, &s.Letters, &s.Done, &s.Refused, &s.probed, jsonColumn{&s.options})
	}, selectStanding, id[:])
}

// LeaseOperations takes operations that nobody works on. Where there is none it writes nothing.
func (s *Store) LeaseOperations(ctx context.Context, request pawl.OperationLease) (out []pawl.LeasedOperation, err error) {
	if err := desk.CheckLease(request); err != nil {
		return nil, err
	}
	var free []pawl.ID
	err = s.view(ctx, func(x execer) (err error) {
		free, err = leasable(ctx, x, request, now())
		return err
	})
	if err == nil && len(free) > 0 {
		err = s.write(ctx, func(ctx context.Context, w *writer) (err error) {
			out, err = leaseAll(ctx, w, request, now())
			return err
		})
	}
	if err != nil {
		return nil, fmt.Errorf("lease operations: %w", err)
	}
	return out, nil
}

func leasable(ctx context.Context, x execer, r pawl.OperationLease, at int64) ([]pawl.ID, error) {
	var w where
	w.add("state in ('probing', 'running')")
	w.add("free_at <= ?", at)
	if len(r.Only) > 0 {
		ids := make([]any, len(r.Only))
		for i := range r.Only {
			ids[i] = r.Only[i][:]
		}
		w.add("id in ("+marks(len(ids))+")", ids...)
	}
	return selectRows(ctx, x, func(rows *sql.Rows) (id pawl.ID, err error) {
		return id, rows.Scan((*idColumn)(&id))
	}, selectLeasable+w.sql()+" order by created_at limit ?", append(w.args, r.Max)...)
}

func leaseAll(ctx context.Context, w *writer, r pawl.OperationLease, at int64) (out []pawl.LeasedOperation, err error) {
	free, err := leasable(ctx, w, r, at)
	if err != nil {
		return nil, err
	}
	for _, id := range free {
		lease, _, err := selectOne(ctx, w, scanValue[pawl.Token], leaseOperation, id[:], r.Runner, at+wholeMillis(pawl.OperationHold))
		if err != nil {
			return nil, err
		}
		operation, _, err := readOperation(ctx, w, id, at)
		if err != nil {
			return nil, err
		}
		out = append(out, pawl.LeasedOperation{Operation: operation, Lease: lease})
	}
	return out, nil
}

// OperationLetters returns what comes next.
func (s *Store) OperationLetters(ctx context.Context, id pawl.ID, most int) (out []pawl.OperationLetter, err error) {
	most = min(max(most, 0), pawl.MaxStep)
	err = s.view(ctx, func(x execer) error {
		operation, found, err := readOperation(ctx, x, id, now())
		if err != nil || !found {
			return desk.NotFound(err)
		}
		if operation.Action == pawl.ActionRedrive {
			out, err = nextWhole(ctx, x, id, most)
			return err
		}
		out, err = selectRows(ctx, x, func(rows *sql.Rows) (n pawl.OperationLetter, err error) {
			n.Found = true
			return n, rows.Scan(&n.Position, (*idColumn)(&n.Letter.ID))
		}, selectComing, id[:], most)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read what is next of operation %s: %w", id, err)
	}
	return out, nil
}

// nextWhole reads letters with their envelopes until there are enough bytes of them.
func nextWhole(ctx context.Context, x execer, id pawl.ID, most int) (out []pawl.OperationLetter, err error) {
	rows, err := x.QueryContext(ctx, selectComingWhole, id[:], most)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for bytes := 0; bytes < desk.StepBytes && rows.Next(); {
		var n pawl.OperationLetter
		if err := scanNext(rows, &n); err != nil {
			return nil, err
		}
		bytes += len(n.Letter.Envelope)
		out = append(out, n)
	}
	return out, rows.Err()
}

func scanNext(rows *sql.Rows, n *pawl.OperationLetter) error {
	var connection, kind, reason, outcome, fingerprint sql.NullString
	var status sql.Null[int64]
	l := &n.Letter
	err := rows.Scan(&n.Position, (*idColumn)(&l.ID), &n.Found, (*idColumn)(&l.JobID), &connection, &kind, &reason,
		(*timeColumn)(&l.EnqueuedAt), &status, &outcome, (*idColumn)(&l.NewJobID), &fingerprint, &l.Envelope)
	l.Connection, l.Kind, l.Reason, l.Fingerprint = connection.String, kind.String, pawl.Reason(reason.String), fingerprint.String
	l.Status, l.Outcome = pawl.Status(status.V), pawl.RedriveOutcome(outcome.String)
	return err
}

// AdvanceOperation makes one step, in one transaction.
func (s *Store) AdvanceOperation(ctx context.Context, step pawl.OperationStep) (results []error, err error) {
	if err := desk.CheckStep(step); err != nil {
		return nil, err
	}
	var refusal error
	err = s.write(ctx, func(ctx context.Context, w *writer) error {
		a := advance{step: step, at: now(), results: make([]error, len(step.Items))}
		refusal, err = a.run(ctx, w)
		results = a.results
		return err
	})
	if err == nil {
		err = refusal
	}
	if err != nil {
		return nil, fmt.Errorf("advance operation: %w", err)
	}
	return results, nil
}

// advance is a step under way.
type advance struct {
	step    pawl.OperationStep
	at      int64
	results []error

	done, refused, pending, cancelled int // changes of the operation's counts
}

// run makes the step, or says why not and leaves all as it was.
func (a *advance) run(ctx context.Context, w *writer) (refusal, err error) {
	before, found, err := readStanding(ctx, w, a.step.Operation)
	if err != nil {
		return nil, err
	}
	if !found {
		return fmt.Errorf("operation %s: %w", a.step.Operation, pawl.ErrNotFound), nil
	}
	if refusal := before.Admit(a.step); refusal != nil {
		return refusal, nil
	}
	for i := range a.step.Items {
		if a.results[i], err = a.item(ctx, w, &a.step.Items[i]); err != nil {
			return nil, fmt.Errorf("letter %s: %w", a.step.Items[i].Letter, err)
		}
	}
	for i := range a.step.Handed {
		if err := a.handed(ctx, w, &a.step.Handed[i]); err != nil {
			return nil, fmt.Errorf("letter %s: %w", a.step.Handed[i].Letter, err)
		}
	}
	return nil, a.write(ctx, w, before)
}

// item deals with one letter, and returns its refusal.
func (a *advance) item(ctx context.Context, w *writer, item *pawl.ItemStep) (refusal, err error) {
	if item.Refused != "" {
		return desk.Refused(item.Refused), a.refuse(ctx, w, item, 0, item.Refused)
	}
	refusal, err = moveOne(ctx, w, item.Move, a.at)
	if err != nil {
		return nil, err
	}
	if refusal != nil {
		return refusal, a.refuse(ctx, w, item, 0, refusal.Error())
	}
	state, job, outcome := desk.Moved(item.Move)
	if outcome != "" {
		a.pending++
	}
	w.ready = w.ready || item.Move.Push != nil
	a.done++
	return nil, a.changeItem(ctx, w, item, doItem, desk.ItemNumber(state), idValue(job), desk.OutcomeNumber(outcome))
}

func (a *advance) refuse(ctx context.Context, w *writer, item *pawl.ItemStep, from int, reason string) error {
	a.refused++
	return a.changeItem(ctx, w, item, refuseItem, from, desk.Reason(reason))
}

// changeItem changes an item that must be as the statement expects.
func (a *advance) changeItem(ctx context.Context, w *writer, item *pawl.ItemStep, statement string, args ...any) error {
	n, err := change(ctx, w, statement, append([]any{a.step.Operation[:], item.Position, item.Letter[:]}, args...)...)
	if err == nil && n != 1 {
		err = fmt.Errorf("it is not as the step expects at position %d: %w", item.Position, pawl.ErrConflict)
	}
	return err
}

// handed records what has become of a job that was on its way.
func (a *advance) handed(ctx context.Context, w *writer, item *pawl.ItemStep) error {
	if item.Refused == "" {
		return a.changeItem(ctx, w, item, handItem)
	}
	outcome, _, err := selectOne(ctx, w, scanValue[int], selectItemOutcome, a.step.Operation[:], item.Position)
	if err != nil {
		return err
	}
	if outcome == desk.OutcomeNumber(pawl.RedrivePending) {
		a.pending--
	} else {
		a.cancelled++
	}
	a.done--
	return a.refuse(ctx, w, item, desk.ItemNumber(pawl.ItemHandover), item.Refused)
}

func (a *advance) write(ctx context.Context, w *writer, before standing) error {
	till := a.at + wholeMillis(pawl.OperationHold)
	if a.step.Release {
		till = 0
	}
	_, err := w.ExecContext(ctx, countStep, a.step.Operation[:], a.done, a.refused, a.pending, a.cancelled, till)
	if err != nil || a.step.State == "" || a.step.State == before.State {
		return err
	}
	to := a.step.State
	_, err = w.ExecContext(ctx, changeOperation, a.step.Operation[:], string(to), desk.Reason(a.step.Reason), a.at, endedAt(to, a.at),
		to == pawl.OperationRunning)
	if err != nil || to != pawl.OperationStopped {
		return err
	}
	by := desk.System()
	by.Why = desk.Reason(a.step.Reason)
	_, err = writeAudit(ctx, w, a.at, by, desk.OperationEntry(a.step.Operation, pawl.ActionStop, before.State, to, ""))
	return err
}

// operationHears tells the operation, if it was one that redrove a letter as this job, how that has ended.
func operationHears(ctx context.Context, x execer, job pawl.ID, outcome pawl.RedriveOutcome) error {
	if job.IsZero() {
		return nil
	}
	number := desk.OutcomeNumber(outcome)
	operation, found, err := selectOne(ctx, x, scanValue[[]byte], endItem, job[:], number)
	if err == nil && found {
		_, err = x.ExecContext(ctx, countEnd, operation, number)
	}
	if err != nil {
		return fmt.Errorf("tell the operation: %w", err)
	}
	return nil
}
