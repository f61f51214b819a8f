package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

// SwitchKind sets a kind's switch.
func (s *Store) SwitchKind(ctx context.Context, k pawl.KindSwitch, by pawl.By) error {
	return s.setSwitch(ctx, desk.Control{What: desk.OfKind, Name: k.Kind, On: k.On, Until: k.Until, For: k.For}, pawl.ActionSwitch, by)
}

// PauseQueue stops or resumes the claims from a queue.
func (s *Store) PauseQueue(ctx context.Context, p pawl.QueuePause, by pawl.By) error {
	return s.setSwitch(ctx, desk.Control{What: desk.OfQueue, Name: p.Queue, On: p.Paused, Until: p.Until, For: p.For}, pawl.ActionPause, by)
}

// ResetKind takes a kind's switch away.
func (s *Store) ResetKind(ctx context.Context, kind string, by pawl.By) error {
	if err := desk.CheckBy(by); err != nil {
		return err
	}
	if err := desk.CheckName(desk.OfKind, kind); err != nil {
		return err
	}
	err := s.write(ctx, func(ctx context.Context, w *writer) error {
		at := now()
		before, found, err := selectOne(ctx, w, scanControl, selectSwitch, desk.OfKind, kind, at)
		if err != nil {
			return err
		}
		if !found {
			return desk.NoSwitch(kind)
		}
		w.ready = true // claimers look again
		if _, err := w.ExecContext(ctx, `delete from pawl_switch where what = ? and name = ?`, desk.OfKind, kind); err != nil {
			return err
		}
		return noteSwitch(ctx, w, at, by, pawl.AuditEntry{
			Action: pawl.ActionReset, Subject: desk.OfKind + " " + kind, From: before.State(), To: desk.NotSet,
		})
	})
	if err != nil {
		return fmt.Errorf("reset switch: %w", err)
	}
	return nil
}

const (
	selectSwitch = `select what, name, value, until from pawl_switch where what = ? and name = ? and (until is null or until > ?)`

	selectSwitches = `select what, name, value, until from pawl_switch
where (what = 'kind' or value = 1) and (until is null or until > ?) order by what, name`

	// Who has set a switch stands in the trail, and there alone.
	selectSettings = `select s.what, s.name, s.value, s.until, a.who, a.door, a.why, a.at from pawl_switch s
left join pawl_audit a on a.id = (select id from pawl_audit
  where subject = s.what || ' ' || s.name and action = iif(s.what = 'kind', 'switch', 'pause') order by id desc limit 1)
where (s.what = 'kind' or s.value = 1) and (s.until is null or s.until > ?) order by s.what, s.name`
)

func scanControl(rows *sql.Rows) (c desk.Control, err error) {
	return c, rows.Scan(&c.What, &c.Name, &c.On, (*timeColumn)(&c.Until))
}

func scanSetting(rows *sql.Rows) (c desk.Control, err error) {
	var who, door, why sql.NullString
	err = rows.Scan(&c.What, &c.Name, &c.On, (*timeColumn)(&c.Until), &who, &door, &why, (*timeColumn)(&c.At))
	c.By = pawl.By{Who: who.String, Door: door.String, Why: why.String}
	return c, err
}

func (s *Store) setSwitch(ctx context.Context, c desk.Control, action pawl.Action, by pawl.By) error {
	if err := desk.CheckBy(by); err != nil {
		return err
	}
	if err := desk.CheckName(c.What, c.Name); err != nil {
		return err
	}
	if err := desk.CheckEnd(c.Until, c.For); err != nil {
		return err
	}
	err := s.write(ctx, func(ctx context.Context, w *writer) error {
		w.ready = true // claimers look again
		return writeSwitch(ctx, w, c, action, by, now())
	})
	if err != nil {
		return fmt.Errorf("switch %s %s: %w", c.What, c.Name, err)
	}
	return nil
}

func writeSwitch(ctx context.Context, x execer, c desk.Control, action pawl.Action, by pawl.By, at int64) error {
	before, found, err := selectOne(ctx, x, scanControl, selectSwitch, c.What, c.Name, at)
	if err != nil {
		return err
	}
	from := desk.NotSet
	if found {
		from = before.State()
	}
	if c.For > 0 {
		c.Until = time.UnixMilli(at).Add(c.For)
	}
	_, err = x.ExecContext(ctx, `
		insert into pawl_switch (what, name, value, until) values (?, ?, ?, ?)
		on conflict (what, name) do update set value = excluded.value, until = excluded.until`,
		c.What, c.Name, c.On, timeValue(c.Until))
	if err != nil {
		return err
	}
	return noteSwitch(ctx, x, at, by, pawl.AuditEntry{Action: action, Subject: c.What + " " + c.Name, From: from, To: c.State()})
}

// noteSwitch tells hosts and the trail of a change.
func noteSwitch(ctx context.Context, x execer, at int64, by pawl.By, line pawl.AuditEntry) error {
	if _, err := x.ExecContext(ctx, `update pawl_counter set value = value + 1 where name = 'switches'`); err != nil {
		return err
	}
	_, err := writeAudit(ctx, x, at, by, line)
	return err
}

// Switches returns all that are set and not past their end.
func (s *Store) Switches(ctx context.Context) (out pawl.Switches, err error) {
	err = s.view(ctx, func(x execer) error {
		controls, err := selectRows(ctx, x, scanSetting, selectSettings, now())
		out = desk.Switches(controls)
		return err
	})
	if err != nil {
		return pawl.Switches{}, fmt.Errorf("read switches: %w", err)
	}
	return out, nil
}

// readSwitches leaves out who has set them.
func readSwitches(ctx context.Context, x execer, at int64) (pawl.Switches, error) {
	controls, err := selectRows(ctx, x, scanControl, selectSwitches, at)
	return desk.Switches(controls), err
}
