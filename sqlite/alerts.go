package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/storable"
)

const (
	// What is waiting is counted no further than the answer matters.
	selectSinkState = `select window_at, singles, storm,
  (select count(*) from (select 1 from pawl_alert where sink = ?1 and message is null limit ?3)),
  (select count(*) from (select 1 from pawl_message where sink = ?1 and due_at <= ?2 limit ?4))
from pawl_sink where name = ?1`

	writeWindow = `update pawl_sink set window_at = ?, singles = ?, storm = ? where name = ?`

	selectDueMessages = `select id, key, attempt + 1, letters from pawl_message where sink = ? and due_at <= ? order by due_at, id limit ?`

	leaseMessage = `update pawl_message set attempt = attempt + 1, token = ?, session = ?, due_at = ? where id = ?`
	messageSent  = `update pawl_message set token = null, session = null, due_at = null, delivered_at = ?, error = '' where id = ? and token = ?
returning sink, letters`
	messageFailed = `update pawl_message set token = null, session = null, due_at = ?, error = ? where id = ? and token = ?`
	// What a session that has ended was delivering is due at once. Its token stays: it may have been delivered.
	freeMessages = `update pawl_message set session = null, due_at = ?2 where session = ?1`
)

// maxAlertError bounds what is kept of a delivery's error, in bytes.
const maxAlertError = 1000

// alerting is one claim.
type alerting struct {
	x     execer
	claim pawl.AlertClaim
	at    int64
}

// sinkState is what a sink has to do.
type sinkState struct {
	window desk.Window
	fresh  int // deaths that no message tells of; more than a storm's need not be told apart
	due    int // messages, at most as many as are asked for
}

// ClaimAlerts leases due messages of these sinks, those first that have been due for longest.
func (s *Store) ClaimAlerts(ctx context.Context, claim pawl.AlertClaim) ([]pawl.AlertTask, error) {
	if claim.Max < 1 {
		return nil, &pawl.FieldError{Field: "max", Value: claim.Max, Rule: "must be at least 1"}
	}
	claim.Max, claim.Storm = min(claim.Max, batch), claim.Storm.OrDefault()
	busy, err := s.busySinks(ctx, claim)
	if err != nil {
		return nil, fmt.Errorf("claim alerts: %w", err)
	}
	if len(busy) == 0 {
		return nil, nil // the usual answer takes no lock
	}
	var tasks []pawl.AlertTask
	err = s.write(ctx, func(ctx context.Context, w *writer) (err error) {
		a := alerting{w, claim, now()}
		tasks, err = a.run(ctx, busy)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("claim alerts: %w", err)
	}
	return tasks, nil
}

// busySinks are those that have something to do now.
func (s *Store) busySinks(ctx context.Context, claim pawl.AlertClaim) (busy []string, err error) {
	err = s.view(ctx, func(x execer) error {
		a := alerting{x, claim, now()}
		for _, sink := range claim.Sinks {
			state, _, err := a.state(ctx, sink)
			if err != nil {
				return err
			}
			if state.due > 0 || !a.step(state).Idle(state.window) {
				busy = append(busy, sink)
			}
		}
		return nil
	})
	return busy, err
}

func (a alerting) state(ctx context.Context, sink string) (sinkState, bool, error) {
	return selectOne(ctx, a.x, func(rows *sql.Rows) (s sinkState, err error) {
		var since int64
		err = rows.Scan(&since, &s.window.Singles, &s.window.Storm, &s.fresh, &s.due)
		s.window.Since = time.UnixMilli(since)
		return s, err
	}, selectSinkState, sink, a.at, a.claim.Storm.Deaths+1, a.claim.Max)
}

func (a alerting) step(state sinkState) desk.WindowStep {
	return state.window.Step(time.UnixMilli(a.at), state.fresh, a.claim.Max-state.due, a.claim.Storm)
}

func (a alerting) run(ctx context.Context, sinks []string) ([]pawl.AlertTask, error) {
	token, _, err := selectOne(ctx, a.x, scanValue[pawl.Token],
		`update pawl_counter set value = value + 1 where name = 'token' returning value`)
	if err != nil {
		return nil, err
	}
	var all []pawl.AlertTask
	for _, sink := range sinks {
		if err := a.compose(ctx, sink); err != nil {
			return nil, err
		}
		tasks, err := a.lease(ctx, sink, token)
		if err != nil {
			return nil, err
		}
		all = append(all, tasks...)
	}
	return all, nil
}

// compose decides in which messages what waits is told of.
func (a alerting) compose(ctx context.Context, sink string) error {
	if err := a.gather(ctx, sink); err != nil {
		return err
	}
	state, found, err := a.state(ctx, sink)
	if err != nil || !found {
		return err
	}
	step := a.step(state)
	if step.Idle(state.window) {
		return nil
	}
	if step.Digest {
		err = a.digest(ctx, sink)
	} else {
		err = a.singles(ctx, sink, step.Singles)
	}
	if err != nil {
		return err
	}
	w := step.Next
	_, err = a.x.ExecContext(ctx, writeWindow, w.Since.UnixMilli(), w.Singles, w.Storm, sink)
	return err
}

// lease takes due messages, with what they tell.
func (a alerting) lease(ctx context.Context, sink string, token pawl.Token) ([]pawl.AlertTask, error) {
	type due struct {
		task    pawl.AlertTask
		letters int
	}
	found, err := selectRows(ctx, a.x, func(rows *sql.Rows) (d due, err error) {
		d.task.Sink, d.task.Token = sink, token
		return d, rows.Scan(&d.task.Row, &d.task.Key, &d.task.Attempt, &d.letters)
	}, selectDueMessages, sink, a.at, a.claim.Max)
	if err != nil {
		return nil, err
	}
	until := a.at + pawl.AlertLease.Milliseconds()
	tasks := make([]pawl.AlertTask, len(found))
	for i, d := range found {
		if _, err := a.x.ExecContext(ctx, leaseMessage, int64(token), int64(a.claim.Session), until, d.task.Row); err != nil {
			return nil, err
		}
		if err := a.tell(ctx, &d.task, d.letters); err != nil {
			return nil, err
		}
		tasks[i] = d.task
	}
	return tasks, nil
}

// SettleAlerts records what became of deliveries.
func (s *Store) SettleAlerts(ctx context.Context, results []pawl.AlertResult) ([]error, error) {
	if len(results) == 0 {
		return nil, nil
	}
	var errs []error
	err := s.write(ctx, func(ctx context.Context, w *writer) (err error) {
		errs, err = settleAlerts(ctx, w, results, now())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("settle alerts: %w", err)
	}
	return errs, nil
}

func settleAlerts(ctx context.Context, x execer, results []pawl.AlertResult, at int64) ([]error, error) {
	errs := make([]error, len(results))
	for i, r := range results {
		var held bool
		var err error
		if r.Delivered {
			held, err = delivered(ctx, x, r, at)
		} else {
			var n int64
			n, err = change(ctx, x, messageFailed, at+wholeMillis(r.After), storable.Text(r.Error, maxAlertError), r.Row, int64(r.Token))
			held = n > 0
		}
		if err != nil {
			return nil, err
		}
		if !held {
			errs[i] = fmt.Errorf("alert %d, lease %d: %w", r.Row, r.Token, pawl.ErrLeaseLost)
		}
	}
	return errs, nil
}

func delivered(ctx context.Context, x execer, r pawl.AlertResult, at int64) (held bool, err error) {
	var sink string
	letters, held, err := selectOne(ctx, x, func(rows *sql.Rows) (n int, err error) {
		return n, rows.Scan(&sink, &n)
	}, messageSent, at, r.Row, int64(r.Token))
	if err != nil || !held {
		return false, err
	}
	_, err = x.ExecContext(ctx, `update pawl_sink set delivered = delivered + ? where name = ?`, letters, sink)
	return true, err
}
