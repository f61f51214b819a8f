package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/storable"
)

const (
	anyDue = `select id from pawl_alert where sink = ? and due_at <= ? limit 1`

	selectDueAlerts = `select a.id, a.sink, a.key, a.attempt + 1, ` + letterColumns + `
from pawl_alert a join pawl_letter l on l.id = a.letter where a.sink = ? and a.due_at <= ? order by a.due_at, a.id limit ?`

	leaseAlert = `update pawl_alert set attempt = attempt + 1, token = ?, session = ?, due_at = ? where id = ?`
	alertSent  = `update pawl_alert set token = null, session = null, due_at = null, delivered_at = ?, error = '' where id = ? and token = ?`
	// What a session that has ended was delivering is due at once: it may have been delivered.
	freeAlerts  = `update pawl_alert set token = null, session = null, due_at = ?2 where session = ?1`
	alertFailed = `update pawl_alert set token = null, session = null, due_at = ?, error = ? where id = ? and token = ?`

	countAlerts = `with pending as (select count(*) as n, min(id) as oldest from pawl_alert where sink = ?1 and due_at is not null)
select p.n,
  (select l.dead_at from pawl_alert a join pawl_letter l on l.id = a.letter where a.id = p.oldest),
  (select count(*) from pawl_alert where sink = ?1 and delivered_at is not null),
  coalesce((select error from (
    select error, due_at from pawl_alert where sink = ?1 and due_at is not null order by due_at desc limit ?2
  ) where error <> '' order by due_at desc limit 1), '')
from pending p`
)

// maxAlertError bounds what is kept of a delivery's error, in bytes.
const maxAlertError = 1000

// ClaimAlerts leases due rows of these sinks, those first that have been due for longest.
func (s *Store) ClaimAlerts(ctx context.Context, claim pawl.AlertClaim) ([]pawl.AlertTask, error) {
	if claim.Max < 1 {
		return nil, &pawl.FieldError{Field: "max", Value: claim.Max, Rule: "must be at least 1"}
	}
	due, err := s.dueSinks(ctx, claim.Sinks)
	if err != nil {
		return nil, fmt.Errorf("claim alerts: %w", err)
	}
	if len(due) == 0 {
		return nil, nil // the usual answer takes no lock
	}
	var tasks []pawl.AlertTask
	err = s.write(ctx, func(ctx context.Context, w *writer) (err error) {
		tasks, err = claimAlerts(ctx, w, claim.Session, due, min(claim.Max, batch), now())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("claim alerts: %w", err)
	}
	return tasks, nil
}

func (s *Store) dueSinks(ctx context.Context, sinks []string) (due []string, err error) {
	err = s.view(ctx, func(x execer) error {
		for _, sink := range sinks {
			_, found, err := selectOne(ctx, x, scanValue[int64], anyDue, sink, now())
			if err != nil {
				return err
			}
			if found {
				due = append(due, sink)
			}
		}
		return nil
	})
	return due, err
}

func claimAlerts(ctx context.Context, x execer, session pawl.SessionID, sinks []string, most int, at int64) ([]pawl.AlertTask, error) {
	token, _, err := selectOne(ctx, x, scanValue[pawl.Token],
		`update pawl_counter set value = value + 1 where name = 'token' returning value`)
	if err != nil {
		return nil, err
	}
	var all []pawl.AlertTask
	for _, sink := range sinks {
		tasks, err := selectRows(ctx, x, scanTask, selectDueAlerts, sink, at, most)
		if err != nil {
			return nil, err
		}
		all = append(all, tasks...)
	}
	until := at + pawl.AlertLease.Milliseconds()
	for i := range all {
		all[i].Token = token
		if _, err := x.ExecContext(ctx, leaseAlert, int64(token), int64(session), until, all[i].Row); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func scanTask(rows *sql.Rows) (t pawl.AlertTask, err error) {
	return t, rows.Scan(append([]any{&t.Row, &t.Sink, &t.Key, &t.Attempt}, letterTargets(&t.Letter)...)...)
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
		var n int64
		var err error
		if r.Delivered {
			n, err = change(ctx, x, alertSent, at, r.Row, int64(r.Token))
		} else {
			due := at + wholeMillis(r.After)
			n, err = change(ctx, x, alertFailed, due, storable.Text(r.Error, maxAlertError), r.Row, int64(r.Token))
		}
		if err != nil {
			return nil, err
		}
		if n == 0 {
			errs[i] = fmt.Errorf("alert %d, lease %d: %w", r.Row, r.Token, pawl.ErrLeaseLost)
		}
	}
	return errs, nil
}

// Sinks counts the rows of every registered sink.
func (s *Store) Sinks(ctx context.Context) (sinks []pawl.SinkView, err error) {
	err = s.view(ctx, func(x execer) error {
		names, err := selectRows(ctx, x, scanValue[string], `select name from pawl_sink order by name`)
		if err != nil {
			return err
		}
		sinks = make([]pawl.SinkView, len(names))
		at := now()
		for i, name := range names {
			if sinks[i], err = sinkView(ctx, x, name, at); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("count alerts: %w", err)
	}
	return sinks, nil
}

// recentAlerts bounds in how many of the rows that come due last a sink's last error is looked for. One that failed
// waits, and so comes due later than those that were not tried.
const recentAlerts = 1000

func sinkView(ctx context.Context, x execer, name string, at int64) (pawl.SinkView, error) {
	scan := func(rows *sql.Rows) (v pawl.SinkView, err error) {
		var oldest time.Time
		err = rows.Scan(&v.Pending, (*timeColumn)(&oldest), &v.Delivered, &v.LastError)
		if !oldest.IsZero() {
			v.OldestAge = max(0, time.UnixMilli(at).Sub(oldest))
		}
		return v, err
	}
	view, _, err := selectOne(ctx, x, scan, countAlerts, name, recentAlerts)
	view.Name = name
	return view, err
}
