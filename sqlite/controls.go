package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

// SwitchKind sets a kind's switch.
func (s *Store) SwitchKind(ctx context.Context, k pawl.KindSwitch, by pawl.By) error {
	return s.setSwitch(ctx, desk.Control{What: desk.OfKind, Name: k.Kind, On: k.On, Until: k.Until}, pawl.ActionSwitch, by)
}

// PauseQueue stops or resumes the claims from a queue.
func (s *Store) PauseQueue(ctx context.Context, p pawl.QueuePause, by pawl.By) error {
	return s.setSwitch(ctx, desk.Control{What: desk.OfQueue, Name: p.Queue, On: p.Paused, Until: p.Until}, pawl.ActionPause, by)
}

func scanControl(rows *sql.Rows) (c desk.Control, err error) {
	return c, rows.Scan(&c.What, &c.Name, &c.On, (*timeColumn)(&c.Until))
}

func (s *Store) setSwitch(ctx context.Context, c desk.Control, action pawl.Action, by pawl.By) error {
	if err := desk.CheckBy(by); err != nil {
		return err
	}
	if err := desk.CheckName(c.What, c.Name); err != nil {
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
	before, found, err := selectOne(ctx, x, scanControl,
		`select what, name, value, until from pawl_switch where what = ? and name = ?`, c.What, c.Name)
	if err != nil {
		return err
	}
	from := "not set"
	if found {
		from = before.State()
	}
	_, err = x.ExecContext(ctx, `
		insert into pawl_switch (what, name, value, until) values (?, ?, ?, ?)
		on conflict (what, name) do update set value = excluded.value, until = excluded.until`,
		c.What, c.Name, c.On, timeValue(c.Until))
	if err != nil {
		return err
	}
	if _, err := x.ExecContext(ctx, `update pawl_counter set value = value + 1 where name = 'switches'`); err != nil {
		return err
	}
	_, err = writeAudit(ctx, x, at, by, pawl.AuditEntry{
		Action: action, Subject: c.What + " " + c.Name, From: from, To: c.State(),
	})
	return err
}

// Switches returns all that are set and not past their end.
func (s *Store) Switches(ctx context.Context) (out pawl.Switches, err error) {
	err = s.view(ctx, func(x execer) error {
		out, err = readSwitches(ctx, x, now())
		return err
	})
	if err != nil {
		return pawl.Switches{}, fmt.Errorf("read switches: %w", err)
	}
	return out, nil
}

func readSwitches(ctx context.Context, x execer, at int64) (pawl.Switches, error) {
	controls, err := selectRows(ctx, x, scanControl, `
		select what, name, value, until from pawl_switch
		where (what = 'kind' or value = 1) and (until is null or until > ?) order by what, name`, at)
	return desk.Switches(controls), err
}
