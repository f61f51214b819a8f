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
where w.what = $1 and w.name = $2 and (w.until is null or w.until > now())`
	upsertSwitch = `insert into {s}.switch (what, name, value, until) values ($1, $2, $3, $4)
on conflict (what, name) do update set value = excluded.value, until = excluded.until, version = excluded.version`
	// The row stays, past its end for everybody: the versions of those that are left say nothing of one that is gone.
	endSwitch = `update {s}.switch set until = 'epoch', version = nextval('{l}.switch_version') where what = $1 and name = $2`

	selectSwitches = `select n.text, w.what, w.value, w.until from {s}.switch w join {s}.name n on n.id = w.name
where (w.what = 'kind' or w.value) and (w.until is null or w.until > now()) order by w.what, n.text`

	// Who has set a switch stands in the trail, and there alone.
	selectSettings = `select n.text, w.what, w.value, w.until, a.who, a.door, a.why, a.at
from {s}.switch w join {s}.name n on n.id = w.name left join lateral (
  select who, door, why, at from {s}.audit where subject = w.what || ' ' || n.text
    and action = case w.what when 'kind' then 'switch' else 'pause' end order by id desc limit 1) a on true
where (w.what = 'kind' or w.value) and (w.until is null or w.until > now()) order by w.what, n.text`
)

// SwitchKind sets a kind's switch.
func (s *Store) SwitchKind(ctx context.Context, k pawl.KindSwitch, by pawl.By) error {
	c := desk.Control{What: desk.OfKind, Name: k.Kind, On: k.On, Until: k.Until, For: k.For}
	return s.control(ctx, c, pawl.ActionSwitch, by)
}

// PauseQueue stops or resumes the claims from a queue.
func (s *Store) PauseQueue(ctx context.Context, p pawl.QueuePause, by pawl.By) error {
	c := desk.Control{What: desk.OfQueue, Name: p.Queue, On: p.Paused, Until: p.Until, For: p.For}
	return s.control(ctx, c, pawl.ActionPause, by)
}

// ResetKind takes a kind's switch away.
func (s *Store) ResetKind(ctx context.Context, kind string, by pawl.By) error {
	if err := desk.CheckBy(by); err != nil {
		return err
	}
	if err := desk.CheckName(desk.OfKind, kind); err != nil {
		return err
	}
	err := s.number(ctx, []string{kind}, nil)
	if err == nil {
		err = s.write(ctx, func(ctx context.Context, tx pgx.Tx) error { return s.resetKind(ctx, tx, kind, by) })
	}
	if err != nil {
		return fmt.Errorf("reset switch: %w", err)
	}
	s.waker.announce() // claimers look again
	return nil
}

func (s *Store) resetKind(ctx context.Context, tx pgx.Tx, kind string, by pawl.By) error {
	before, found, err := s.lockSwitch(ctx, tx, desk.OfKind, kind)
	if err != nil {
		return err
	}
	if !found {
		return desk.NoSwitch(kind)
	}
	if _, err := tx.Exec(ctx, s.sql.desk.endSwitch, desk.OfKind, s.names.of([]string{kind})[0]); err != nil {
		return err
	}
	_, err = s.writeAudit(ctx, tx, audited{by, pawl.AuditEntry{
		Action: pawl.ActionReset, Subject: desk.OfKind + " " + kind, From: before.State(), To: desk.NotSet,
	}})
	return err
}

// lockSwitch waits for those who change a switch, and reads how this one is set.
func (s *Store) lockSwitch(ctx context.Context, tx pgx.Tx, what, name string) (before desk.Control, found bool, err error) {
	if _, err := tx.Exec(ctx, lockSwitches, s.schema.lock("switches")); err != nil {
		return before, false, fmt.Errorf("wait for another switch: %w", err)
	}
	return selectOne(ctx, tx, scanControl, s.sql.desk.selectSwitch, what, s.names.of([]string{name})[0])
}

func (s *Store) control(ctx context.Context, c desk.Control, action pawl.Action, by pawl.By) error {
	if err := desk.CheckBy(by); err != nil {
		return err
	}
	if err := desk.CheckName(c.What, c.Name); err != nil {
		return err
	}
	if err := desk.CheckEnd(c.Until, c.For); err != nil {
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
	before, found, err := s.lockSwitch(ctx, tx, c.What, c.Name)
	if err != nil {
		return err
	}
	from := desk.NotSet
	if found {
		from = before.State()
	}
	if c.For > 0 {
		if err := tx.QueryRow(ctx, `select now() + $1::interval`, c.For).Scan(&c.Until); err != nil {
			return fmt.Errorf("read the clock: %w", err)
		}
	}
	if _, err := tx.Exec(ctx, s.sql.desk.upsertSwitch, c.What, s.names.of([]string{c.Name})[0], c.On, timeValue(c.Until)); err != nil {
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

func scanSetting(rows pgx.Rows) (c desk.Control, err error) {
	var who, door, why *string
	err = rows.Scan(&c.Name, &c.What, &c.On, (*timeColumn)(&c.Until), &who, &door, &why, (*timeColumn)(&c.At))
	if err == nil && who != nil {
		c.By = pawl.By{Who: *who, Door: *door, Why: *why}
	}
	return c, err
}

// Switches returns all that are set and not past their end.
func (s *Store) Switches(ctx context.Context) (out pawl.Switches, err error) {
	err = s.view(ctx, func(ctx context.Context, q querier) error {
		controls, err := selectRows(ctx, q, scanSetting, s.sql.desk.selectSettings)
		out = desk.Switches(controls)
		return err
	})
	if err != nil {
		return pawl.Switches{}, fmt.Errorf("read switches: %w", err)
	}
	return out, nil
}

// readSwitches leaves out who has set them.
func (s *Store) readSwitches(ctx context.Context, q querier) (pawl.Switches, error) {
	controls, err := selectRows(ctx, q, scanControl, s.sql.desk.selectSwitches)
	return desk.Switches(controls), err
}
