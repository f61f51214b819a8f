package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/pawljobs/pawl"
)

// SwitchKind sets a kind's switch.
func (s *Store) SwitchKind(ctx context.Context, k pawl.KindSwitch, by pawl.By) error {
	return s.setSwitch(ctx, control{what: "kind", name: k.Kind, on: k.On, until: k.Until}, pawl.ActionSwitch, by)
}

// PauseQueue stops or resumes the claims from a queue.
func (s *Store) PauseQueue(ctx context.Context, p pawl.QueuePause, by pawl.By) error {
	return s.setSwitch(ctx, control{what: "queue", name: p.Queue, on: p.Paused, until: p.Until}, pawl.ActionPause, by)
}

// control is a row of pawl_switch.
type control struct {
	what  string // kind, queue
	name  string
	on    bool // a kind's: runs; a queue's: is paused
	until time.Time
}

// state is the control as the trail shows it.
func (c control) state() string {
	text := map[string][2]string{"kind": {"off", "on"}, "queue": {"running", "paused"}}[c.what][0]
	if c.on {
		text = map[string]string{"kind": "on", "queue": "paused"}[c.what]
	}
	if !c.until.IsZero() {
		text += " until " + c.until.UTC().Format(time.RFC3339)
	}
	return text
}

func scanControl(rows *sql.Rows) (c control, err error) {
	return c, rows.Scan(&c.what, &c.name, &c.on, (*timeColumn)(&c.until))
}

func (s *Store) setSwitch(ctx context.Context, c control, action pawl.Action, by pawl.By) error {
	if err := checkBy(by); err != nil {
		return err
	}
	if err := checkName(c.what, c.name); err != nil {
		return err
	}
	err := s.write(ctx, func(ctx context.Context, w *writer) error {
		w.ready = true // claimers look again
		return writeSwitch(ctx, w, c, action, by, now())
	})
	if err != nil {
		return fmt.Errorf("switch %s %s: %w", c.what, c.name, err)
	}
	return nil
}

func writeSwitch(ctx context.Context, x execer, c control, action pawl.Action, by pawl.By, at int64) error {
	before, found, err := selectOne(ctx, x, scanControl,
		`select what, name, value, until from pawl_switch where what = ? and name = ?`, c.what, c.name)
	if err != nil {
		return err
	}
	from := "not set"
	if found {
		from = before.state()
	}
	_, err = x.ExecContext(ctx, `
		insert into pawl_switch (what, name, value, until) values (?, ?, ?, ?)
		on conflict (what, name) do update set value = excluded.value, until = excluded.until`,
		c.what, c.name, c.on, timeValue(c.until))
	if err != nil {
		return err
	}
	if _, err := x.ExecContext(ctx, `update pawl_counter set value = value + 1 where name = 'switches'`); err != nil {
		return err
	}
	_, err = writeAudit(ctx, x, at, by, pawl.AuditEntry{
		Action: action, Subject: c.what + " " + c.name, From: from, To: c.state(),
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

func readSwitches(ctx context.Context, x execer, at int64) (out pawl.Switches, err error) {
	controls, err := selectRows(ctx, x, scanControl, `
		select what, name, value, until from pawl_switch
		where (what = 'kind' or value = 1) and (until is null or until > ?) order by what, name`, at)
	for _, c := range controls {
		if c.what == "kind" {
			out.Kinds = append(out.Kinds, pawl.KindSwitch{Kind: c.name, On: c.on, Until: c.until})
		} else {
			out.Queues = append(out.Queues, pawl.QueuePause{Queue: c.name, Paused: c.on, Until: c.until})
		}
	}
	return out, err
}

// checkName refuses what no kind or queue can be called, since a switch of that name would never do anything.
func checkName(field, name string) error {
	const most = 128
	if name == "" {
		return &pawl.FieldError{Field: field, Value: name, Rule: fmt.Sprintf("must have 1 to %d bytes", most)}
	}
	if err := checkStorable(field, name, most); err != nil {
		return err
	}
	if strings.ContainsFunc(name, unicode.IsControl) {
		return &pawl.FieldError{Field: field, Value: name, Rule: "must have no control characters"}
	}
	return nil
}
