package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/page"
)

const (
	// The first parameter is the present time.
	selectOperations = `select id, action, filter, named, who, door, why, options, state, reason, iif(free_at > ?1, runner, ''),
	letters, done, refused, pending, succeeded, died_again, cancelled, created_at, changed_at, ended_at from pawl_operation`

	insertOperation = `insert into pawl_operation (id, created_at, action, filter, named, who, door, why, options, state, letters, changed_at)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?2)`
	insertItem = `insert into pawl_operation_item (operation, position, letter) values (?1, ?2, ?3)`

	// What follows is a query of letters.
	freezeItems = `insert into pawl_operation_item (operation, position, letter) select ?, row_number() over (` + itemOrder + `), id from (`
	itemOrder   = `order by dead_at, id`

	changeOperation = `update pawl_operation set state = ?2, reason = ?3, changed_at = ?4, ended_at = ?5, probed = max(probed, ?6) where id = ?1`
)

func scanOperation(rows *sql.Rows) (o pawl.Operation, err error) {
	return o, rows.Scan((*idColumn)(&o.ID), &o.Action, jsonColumn{&o.Filter}, &o.Named, &o.Who, &o.Door, &o.Why, jsonColumn{&o.Options},
		&o.State, &o.Reason, &o.Runner, &o.Letters, &o.Done, &o.Refused, &o.Pending, &o.Succeeded, &o.DiedAgain, &o.Cancelled,
		(*timeColumn)(&o.CreatedAt), (*timeColumn)(&o.ChangedAt), (*timeColumn)(&o.EndedAt))
}

// CreateOperation freezes the set of letters and begins the operation, in one transaction.
func (s *Store) CreateOperation(ctx context.Context, o pawl.NewOperation) (out pawl.Operation, err error) {
	if err := desk.CheckOperation(o); err != nil {
		return out, err
	}
	q, err := newLetterQuery(o.Filter)
	if err != nil {
		return out, err
	}
	var refusal error
	err = s.write(ctx, func(ctx context.Context, w *writer) (err error) {
		out, refusal, err = createOperation(ctx, w, o, q, now())
		return err
	})
	if err == nil {
		err = refusal
	}
	if err != nil {
		return pawl.Operation{}, fmt.Errorf("create operation: %w", err)
	}
	return out, nil
}

func createOperation(ctx context.Context, w *writer, o pawl.NewOperation, q letterQuery, at int64) (out pawl.Operation, refusal, err error) {
	out, found, err := readOperation(ctx, w, o.ID, at)
	if found || err != nil {
		return out, nil, err
	}
	n := len(o.Letters)
	if n == 0 {
		n, err = q.matched(ctx, w, desk.Most(o.Options))
	}
	if err != nil {
		return out, nil, err
	}
	if refusal := desk.CheckMatched(o.Options, n); refusal != nil {
		return out, refusal, nil
	}
	filter, err := json.Marshal(o.Filter)
	if err != nil {
		return out, nil, err
	}
	options, err := json.Marshal(o.Options)
	if err != nil {
		return out, nil, err
	}
	state := desk.FirstState(o.Options, false)
	if _, err := w.ExecContext(ctx, insertOperation, o.ID[:], at, string(o.Action), string(filter), len(o.Letters) > 0, o.By.Who, o.By.Door,
		o.By.Why, string(options), string(state), n); err != nil {
		return out, nil, err
	}
	if err := freeze(ctx, w, o, q); err != nil {
		return out, nil, fmt.Errorf("freeze letters: %w", err)
	}
	if _, err := writeAudit(ctx, w, at, o.By, desk.OperationEntry(o.ID, pawl.ActionStart, "", state, desk.Begun(o.Action, n))); err != nil {
		return out, nil, err
	}
	out, _, err = readOperation(ctx, w, o.ID, at)
	return out, nil, err
}

// letters is the query of the first letters that match, by the way that a whole list goes.
func (q letterQuery) frozen(most int) (query string, args []any) {
	from := q.by
	if len(q.texts.terms) > 0 && q.index == listIndex {
		from = q.all
	}
	w := q.within(q.times).and(q.rest())
	return from("dead_at, id") + w.sql() + " " + itemOrder + " limit ?", append(w.args, most)
}

// matched counts the letters that match, up to most.
func (q letterQuery) matched(ctx context.Context, w *writer, most int) (n int, err error) {
	query, args := q.frozen(most)
	err = w.conn.QueryRowContext(ctx, "select count(*) from ("+query+")", args...).Scan(&n)
	return n, err
}

// freeze writes the items. Its text varies with the filter, so it is not kept prepared.
func freeze(ctx context.Context, w *writer, o pawl.NewOperation, q letterQuery) error {
	for i, id := range o.Letters {
		if _, err := w.ExecContext(ctx, insertItem, o.ID[:], i+1, id[:]); err != nil {
			return err
		}
	}
	if len(o.Letters) > 0 {
		return nil
	}
	query, args := q.frozen(desk.Most(o.Options))
	_, err := w.conn.ExecContext(ctx, freezeItems+query+")", append([]any{o.ID[:]}, args...)...)
	return err
}

func readOperation(ctx context.Context, x execer, id pawl.ID, at int64) (pawl.Operation, bool, error) {
	return selectOne(ctx, x, scanOperation, selectOperations+` where id = ?2`, at, id[:])
}

// Operation returns one, or ErrNotFound.
func (s *Store) Operation(ctx context.Context, id pawl.ID) (out pawl.Operation, err error) {
	err = s.view(ctx, func(x execer) (err error) {
		var found bool
		if out, found, err = readOperation(ctx, x, id, now()); err == nil && !found {
			err = pawl.ErrNotFound
		}
		return err
	})
	if err != nil {
		return pawl.Operation{}, fmt.Errorf("read operation %s: %w", id, err)
	}
	return out, nil
}

// Operations lists newest first.
func (s *Store) Operations(ctx context.Context, filter pawl.OperationFilter, p pawl.Page) (out pawl.OperationPage, err error) {
	query, args, limit, err := operationQuery(filter, p)
	if err != nil {
		return out, err
	}
	err = s.view(ctx, func(x execer) error {
		found, err := selectRows(ctx, x, scanOperation, query, append([]any{now()}, args...)...)
		out.Operations, out.Next = page.Cut(found, limit, page.Operations, func(o pawl.Operation) page.Cursor {
			return page.Cursor{At: o.CreatedAt.UnixMilli(), ID: o.ID}
		})
		return err
	})
	if err != nil {
		return pawl.OperationPage{}, fmt.Errorf("list operations: %w", err)
	}
	return out, nil
}

func operationQuery(f pawl.OperationFilter, p pawl.Page) (query string, args []any, limit int, err error) {
	limit, err = page.Limit(p)
	if err != nil {
		return "", nil, 0, err
	}
	var w where
	w.check(desk.CheckOperations(f))
	if len(f.State) > 0 {
		states := make([]any, len(f.State))
		for i, state := range f.State {
			states[i] = string(state)
		}
		w.add("state in ("+marks(len(states))+")", states...)
	}
	w.text("action = ?", string(f.Action))
	w.text("who = ?", f.Who)
	after, more, err := page.Decode(page.Operations, p.After)
	w.check(err)
	if more {
		w.add("(created_at, id) < (?, ?)", after.At, after.ID[:])
	}
	return selectOperations + w.sql() + " order by created_at desc, id desc limit ?", append(w.args, limit+1), limit, w.err
}

// OperationItems lists letters of an operation in its order.
func (s *Store) OperationItems(ctx context.Context, id pawl.ID, filter pawl.ItemFilter, p pawl.Page) (out pawl.ItemPage, err error) {
	limit, err := page.Limit(p)
	if err != nil {
		return out, err
	}
	var w where
	w.check(desk.CheckItems(filter))
	after, _, err := page.Decode(page.Items, p.After)
	w.check(err)
	if w.err != nil {
		return out, w.err
	}
	w.add("operation = ?", id[:])
	w.add("position > ?", after.At)
	if filter.State != "" {
		w.add("state = ?", desk.ItemNumber(filter.State))
	}
	if filter.Outcome != "" {
		w.add("outcome = ?", desk.OutcomeNumber(filter.Outcome))
	}
	query := `select position, letter, state, outcome, job, reason from pawl_operation_item` + w.sql() + ` order by position limit ?`
	err = s.view(ctx, func(x execer) error {
		if _, found, err := readOperation(ctx, x, id, now()); err != nil || !found {
			return desk.NotFound(err)
		}
		items, err := selectRows(ctx, x, scanItem, query, append(w.args, limit+1)...)
		out.Items, out.Next = page.Cut(items, limit, page.Items, func(i pawl.OperationItem) page.Cursor {
			return page.Cursor{At: int64(i.Position)}
		})
		return err
	})
	if err != nil {
		return pawl.ItemPage{}, fmt.Errorf("list letters of operation %s: %w", id, err)
	}
	return out, nil
}

func scanItem(rows *sql.Rows) (pawl.OperationItem, error) { return desk.ScanItem(rows.Scan, columns) }

// ControlOperations pauses, resumes or stops operations.
func (s *Store) ControlOperations(ctx context.Context, ids []pawl.ID, action pawl.Action, by pawl.By) (refusals []error, err error) {
	if err := desk.CheckControl(ids, action, by); err != nil {
		return nil, err
	}
	err = s.write(ctx, func(ctx context.Context, w *writer) (err error) {
		refusals = make([]error, len(ids))
		for i, id := range ids {
			if refusals[i], err = control(ctx, w, id, action, by, now()); err != nil {
				return fmt.Errorf("operation %s: %w", id, err)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("%s operations: %w", action, err)
	}
	return refusals, nil
}

func control(ctx context.Context, w *writer, id pawl.ID, action pawl.Action, by pawl.By, at int64) (refusal, err error) {
	before, found, err := readStanding(ctx, w, id)
	if err != nil {
		return nil, err
	}
	if !found {
		return fmt.Errorf("operation %s: %w", id, pawl.ErrNotFound), nil
	}
	to, refusal := desk.Controlled(id, before.State, action, desk.FirstState(before.options, before.probed))
	if refusal != nil {
		return refusal, nil
	}
	if _, err := w.ExecContext(ctx, changeOperation, id[:], string(to), desk.ControlReason(action, by), at, endedAt(to, at), false); err != nil {
		return nil, err
	}
	_, err = writeAudit(ctx, w, at, by, desk.OperationEntry(id, action, before.State, to, ""))
	return nil, err
}

// endedAt is when an operation ended that changes its state now; null when it has not.
func endedAt(state pawl.OperationState, at int64) any {
	if state.Ended() {
		return at
	}
	return nil
}
