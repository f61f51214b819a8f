package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/page"
)

const (
	// The items of a redrive are counted until it is tallied.
	selectOperations = `select o.id, o.action, o.filter, o.named, o.who, o.door, o.why, o.options, o.state, o.reason,
  case when o.free_at > clock_timestamp() then o.runner else '' end, o.letters, o.done, o.refused, c.pending,
  o.succeeded + c.succeeded, o.died_again + c.died_again, o.cancelled + c.cancelled, o.created_at, o.changed_at, o.ended_at
from {s}.operation o cross join lateral (
  select ` + countOutcomes + ` from {s}.operation_item i where i.operation = o.id and not o.tallied and o.action = 'redrive'
) c`
	countOutcomes = `count(*) filter (where i.outcome = 1) as pending, count(*) filter (where i.outcome = 2) as succeeded,
  count(*) filter (where i.outcome = 3) as died_again, count(*) filter (where i.outcome = 4) as cancelled`

	insertOperation = `insert into {s}.operation (id, action, filter, named, who, door, why, options, state, letters)
values ($1, $2, $3, $4, $5, $6, $7, $8, $9, 0) on conflict (id) do nothing returning true`
	setLetters = `update {s}.operation set letters = $2 where id = $1`

	insertItems = `insert into {s}.operation_item (operation, position, letter)
select $1, position, letter from unnest($2::uuid[]) with ordinality t (letter, position)`
	itemOrder = `order by dead_at, id`

	lockOperation   = `select state, lease, letters, done, refused, probed, options from {s}.operation where id = $1 for update`
	changeOperation = `update {s}.operation set state = $2, reason = $3, changed_at = now(),
  ended_at = case when $4 then now() end, probed = probed or $5 where id = $1`
)

func scanOperation(rows pgx.Rows) (o pawl.Operation, err error) {
	return o, rows.Scan((*idColumn)(&o.ID), (*string)(&o.Action), jsonColumn{&o.Filter}, &o.Named, &o.Who, &o.Door, &o.Why,
		jsonColumn{&o.Options}, (*string)(&o.State), &o.Reason, &o.Runner, &o.Letters, &o.Done, &o.Refused, &o.Pending, &o.Succeeded,
		&o.DiedAgain, &o.Cancelled, (*timeColumn)(&o.CreatedAt), (*timeColumn)(&o.ChangedAt), (*timeColumn)(&o.EndedAt))
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
	filter, err := json.Marshal(o.Filter)
	if err != nil {
		return out, fmt.Errorf("create operation: %w", err)
	}
	options, err := json.Marshal(o.Options)
	if err != nil {
		return out, fmt.Errorf("create operation: %w", err)
	}
	state := desk.FirstState(o.Options, false)
	err = s.write(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, fresh, err := selectOne(ctx, tx, scanValue[bool], s.sql.desk.insertOperation, idValue(o.ID), string(o.Action), string(filter),
			len(o.Letters) > 0, o.By.Who, o.By.Door, o.By.Why, string(options), string(state))
		if err != nil || !fresh {
			return err
		}
		return s.begin(ctx, tx, o, q, state)
	})
	if err != nil {
		return out, fmt.Errorf("create operation: %w", err)
	}
	return s.Operation(ctx, o.ID)
}

// begin freezes the letters of an operation that is new, and says so in the trail.
func (s *Store) begin(ctx context.Context, tx pgx.Tx, o pawl.NewOperation, q letterQuery, state pawl.OperationState) error {
	n, err := s.freeze(ctx, tx, o, q)
	if err != nil {
		return fmt.Errorf("freeze letters: %w", err)
	}
	if err := desk.CheckMatched(o.Options, n); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, s.sql.desk.setLetters, idValue(o.ID), n); err != nil {
		return err
	}
	_, err = s.writeAudit(ctx, tx, audited{o.By, desk.OperationEntry(o.ID, pawl.ActionStart, "", state, desk.Begun(o.Action, n))})
	return err
}

// freeze writes the items, by a plan that goes by the statistics of the letters.
func (s *Store) freeze(ctx context.Context, tx pgx.Tx, o pawl.NewOperation, q letterQuery) (int, error) {
	if len(o.Letters) > 0 {
		done, err := tx.Exec(ctx, s.sql.desk.insertItems, idValue(o.ID), idList(o.Letters))
		return int(done.RowsAffected()), err
	}
	if !s.pooler {
		if _, err := tx.Exec(ctx, planAsUsual, pgx.QueryExecModeSimpleProtocol); err != nil {
			return 0, err
		}
	}
	freeze := q.freeze(o.ID, desk.Most(o.Options))
	done, err := tx.Exec(ctx, s.schema.text(freeze.text), freeze.args...)
	return int(done.RowsAffected()), err
}

// freeze makes items of the first letters that match.
func (q letterQuery) freeze(operation pawl.ID, most int) query {
	c := q.all()
	text := `insert into {s}.operation_item (operation, position, letter) select ?, row_number() over (` + itemOrder + `), id
from (select dead_at, id from {s}.letter` + c.where() + ` ` + itemOrder + ` limit ?) l`
	args := append([]any{idValue(operation)}, c.args...)
	return query{numbered(text), append(args, most)}
}

func (s *Store) readOperation(ctx context.Context, q querier, id pawl.ID) (pawl.Operation, error) {
	operation, found, err := selectOne(ctx, q, scanOperation, s.sql.desk.selectOperation, idValue(id))
	if err == nil && !found {
		err = pawl.ErrNotFound
	}
	return operation, err
}

// Operation returns one, or ErrNotFound.
func (s *Store) Operation(ctx context.Context, id pawl.ID) (out pawl.Operation, err error) {
	err = s.view(ctx, func(ctx context.Context, q querier) (err error) {
		out, err = s.readOperation(ctx, q, id)
		return err
	})
	if err != nil {
		return pawl.Operation{}, fmt.Errorf("read operation %s: %w", id, err)
	}
	return out, nil
}

// Operations lists newest first.
func (s *Store) Operations(ctx context.Context, filter pawl.OperationFilter, p pawl.Page) (out pawl.OperationPage, err error) {
	list, limit, err := operationQuery(filter, p)
	if err != nil {
		return out, err
	}
	err = s.view(ctx, func(ctx context.Context, q querier) error {
		found, err := selectRows(ctx, q, scanOperation, s.schema.text(list.text), list.args...)
		out.Operations, out.Next = page.Cut(found, limit, page.Operations, func(o pawl.Operation) page.Cursor {
			return page.Cursor{At: o.CreatedAt.UnixMicro(), ID: o.ID}
		})
		return err
	})
	if err != nil {
		return pawl.OperationPage{}, fmt.Errorf("list operations: %w", err)
	}
	return out, nil
}

// operationQuery picks the operations of a page first, so that the items of no others are counted.
func operationQuery(f pawl.OperationFilter, p pawl.Page) (list query, limit int, err error) {
	if err := desk.CheckOperations(f); err != nil {
		return list, 0, err
	}
	if limit, err = page.Limit(p); err != nil {
		return list, 0, err
	}
	after, more, err := page.Decode(page.Operations, p.After)
	if err != nil {
		return list, 0, err
	}
	var c conditions
	if len(f.State) > 0 {
		c.add("state = any(?)", column(f.State, func(s *pawl.OperationState) string { return string(*s) }))
	}
	c.text("action = ?", string(f.Action))
	c.text("who = ?", f.Who)
	if more {
		c.add("(created_at, id) < (?, ?)", time.UnixMicro(after.At), idBound(after.ID))
	}
	picked := "(select * from {s}.operation" + c.where() + " order by created_at desc, id desc limit ?)"
	text := strings.Replace(selectOperations, "{s}.operation o", picked+" o", 1) + " order by o.created_at desc, o.id desc"
	return query{numbered(text), append(c.args, limit+1)}, limit, nil
}

// OperationItems lists letters of an operation in its order.
func (s *Store) OperationItems(ctx context.Context, id pawl.ID, filter pawl.ItemFilter, p pawl.Page) (out pawl.ItemPage, err error) {
	if err := desk.CheckItems(filter); err != nil {
		return out, err
	}
	limit, err := page.Limit(p)
	if err != nil {
		return out, err
	}
	after, _, err := page.Decode(page.Items, p.After)
	if err != nil {
		return out, err
	}
	var c conditions
	c.add("operation = ?", idValue(id))
	c.add("position > ?", after.At)
	if filter.State != "" {
		c.add("state = ?", desk.ItemNumber(filter.State))
	}
	if filter.Outcome != "" {
		c.add("outcome = ?", desk.OutcomeNumber(filter.Outcome))
	}
	text := numbered("select position, letter, state, outcome, job, reason from {s}.operation_item" + c.where() + " order by position limit ?")
	err = s.view(ctx, func(ctx context.Context, q querier) error {
		if _, found, err := selectOne(ctx, q, scanValue[bool], s.sql.desk.findOperation, idValue(id)); err != nil || !found {
			return desk.NotFound(err)
		}
		items, err := selectRows(ctx, q, scanItem, s.schema.text(text), append(c.args, limit+1)...)
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

func scanItem(rows pgx.Rows) (pawl.OperationItem, error) { return desk.ScanItem(rows.Scan, columns) }

// standing is what decides on a step or a control, of an operation that is locked.
type standing struct {
	desk.Standing
	probed  bool
	options pawl.OperationOptions
}

func (s *Store) lockOperation(ctx context.Context, tx pgx.Tx, id pawl.ID) (standing, bool, error) {
	return selectOne(ctx, tx, func(rows pgx.Rows) (at standing, err error) {
		return at, rows.Scan((*string)(&at.State), (*int64)(&at.Lease), &at.Letters, &at.Done, &at.Refused, &at.probed, jsonColumn{&at.options})
	}, s.sql.desk.lockOperation, idValue(id))
}

// ControlOperations pauses, resumes or stops operations, each in a transaction of its own, so that no two calls wait for
// each other crosswise.
func (s *Store) ControlOperations(ctx context.Context, ids []pawl.ID, action pawl.Action, by pawl.By) ([]error, error) {
	if err := desk.CheckControl(ids, action, by); err != nil {
		return nil, err
	}
	refusals := make([]error, len(ids))
	for i, id := range ids {
		err := s.write(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
			refusals[i], err = s.controlOperation(ctx, tx, id, action, by)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("%s operation %s: %w", action, id, err)
		}
	}
	return refusals, nil
}

func (s *Store) controlOperation(ctx context.Context, tx pgx.Tx, id pawl.ID, action pawl.Action, by pawl.By) (refusal, err error) {
	before, found, err := s.lockOperation(ctx, tx, id)
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
	if _, err := tx.Exec(ctx, s.sql.desk.changeOperation, idValue(id), string(to), desk.ControlReason(action, by), to.Ended(), false); err != nil {
		return nil, err
	}
	_, err = s.writeAudit(ctx, tx, audited{by, desk.OperationEntry(id, action, before.State, to, "")})
	return nil, err
}
