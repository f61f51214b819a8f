package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

const (
	// Changes come one after the other, so that their versions are drawn in the order of their commits.
	lockSwitches = `select pg_advisory_xact_lock($1)`

	selectSwitch = `select n.text, w.what, w.value, w.until from {s}.switch w join {s}.name n on n.id = w.name
where w.what = $1 and w.name = $2`
	upsertSwitch = `insert into {s}.switch (what, name, value, until) values ($1, $2, $3, $4)
on conflict (what, name) do update set value = excluded.value, until = excluded.until, version = excluded.version`

	selectSwitches = `select n.text, w.what, w.value, w.until from {s}.switch w join {s}.name n on n.id = w.name
where (w.what = 'kind' or w.value) and (w.until is null or w.until > now()) order by w.what, n.text`
)

// SwitchKind sets a kind's switch.
func (s *Store) SwitchKind(ctx context.Context, k pawl.KindSwitch, by pawl.By) error {
	c := desk.Control{What: desk.OfKind, Name: k.Kind, On: k.On, Until: k.Until}
	return s.control(ctx, c, pawl.ActionSwitch, by)
}

// PauseQueue stops or resumes the claims from a queue.
func (s *Store) PauseQueue(ctx context.Context, p pawl.QueuePause, by pawl.By) error {
	c := desk.Control{What: desk.OfQueue, Name: p.Queue, On: p.Paused, Until: p.Until}
	return s.control(ctx, c, pawl.ActionPause, by)
}

func (s *Store) control(ctx context.Context, c desk.Control, action pawl.Action, by pawl.By) error {
	if err := desk.CheckBy(by); err != nil {
		return err
	}
	if err := desk.CheckName(c.What, c.Name); err != nil {
		return err
	}
	kinds, queues := []string{c.Name}, []string(nil)
	if c.What == desk.OfQueue {
		kinds, queues = queues, kinds
	}
	err := s.number(ctx, kinds, queues)
	if err == nil {
		err = s.write(ctx, func(ctx context.Context, tx pgx.Tx) error { return s.writeControl(ctx, tx, c, action, by) })
	}
	if err != nil {
		return fmt.Errorf("switch %s %s: %w", c.What, c.Name, err)
	}
	s.waker.announce() // claimers look again
	return nil
}

func (s *Store) writeControl(ctx context.Context, tx pgx.Tx, c desk.Control, action pawl.Action, by pawl.By) error {
	if _, err := tx.Exec(ctx, lockSwitches, s.schema.lock("switches")); err != nil {
		return fmt.Errorf("wait for another switch: %w", err)
	}
	name := s.names.of([]string{c.Name})[0]
	before, found, err := selectOne(ctx, tx, scanControl, s.sql.desk.selectSwitch, c.What, name)
	if err != nil {
		return err
	}
	from := "not set"
	if found {
		from = before.State()
	}
	if _, err := tx.Exec(ctx, s.sql.desk.upsertSwitch, c.What, name, c.On, timeValue(c.Until)); err != nil {
		return err
	}
	_, err = s.writeAudit(ctx, tx, audited{by, pawl.AuditEntry{
		Action: action, Subject: c.What + " " + c.Name, From: from, To: c.State(),
	}})
	return err
}

func scanControl(rows pgx.Rows) (c desk.Control, err error) {
	return c, rows.Scan(&c.Name, &c.What, &c.On, (*timeColumn)(&c.Until))
}

// Switches returns all that are set and not past their end.
func (s *Store) Switches(ctx context.Context) (out pawl.Switches, err error) {
	err = s.view(ctx, func(ctx context.Context, q querier) error {
		out, err = s.readSwitches(ctx, q)
		return err
	})
	if err != nil {
		return pawl.Switches{}, fmt.Errorf("read switches: %w", err)
	}
	return out, nil
}

func (s *Store) readSwitches(ctx context.Context, q querier) (pawl.Switches, error) {
	controls, err := selectRows(ctx, q, scanControl, s.sql.desk.selectSwitches)
	return desk.Switches(controls), err
}
