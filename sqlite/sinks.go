package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
)

const (
	countAlerts = `select delivered,
  (select count(*) from pawl_alert where sink = ?1 and message is null)
    + (select coalesce(sum(letters), 0) from pawl_message where sink = ?1 and due_at is not null),
  (select min(at) from (
    select l.dead_at as at from (select letter from pawl_alert where sink = ?1 and message is null order by id limit 1) a
      join pawl_letter l on l.id = a.letter
    union all select min(since_at) from pawl_message where sink = ?1 and due_at is not null)),
  coalesce((select error from pawl_message where sink = ?1 and due_at is not null and error <> '' order by due_at desc limit 1), ''), retired_at
from pawl_sink where name = ?1`

	selectAlertsOf = `select a.sink, a.regression, coalesce(m.key, ''), coalesce(m.letters, 1), coalesce(m.attempt, 0),
  m.id is null or m.due_at is not null, m.delivered_at, coalesce(m.error, '')
from pawl_alert a left join pawl_message m on m.id = a.message where a.letter = ? order by a.sink`
)

// Sinks counts the deaths of every registered sink.
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

func sinkView(ctx context.Context, x execer, name string, at int64) (pawl.SinkView, error) {
	scan := func(rows *sql.Rows) (v pawl.SinkView, err error) {
		var oldest time.Time
		err = rows.Scan(&v.Delivered, &v.Pending, (*timeColumn)(&oldest), &v.LastError, (*timeColumn)(&v.RetiredAt))
		if !oldest.IsZero() {
			v.OldestAge = max(0, time.UnixMilli(at).Sub(oldest))
		}
		return v, err
	}
	view, _, err := selectOne(ctx, x, scan, countAlerts, name)
	view.Name = name
	return view, err
}

// AlertsOf says for every sink by which message it is told of a letter.
func (s *Store) AlertsOf(ctx context.Context, letter pawl.ID) (alerts []pawl.AlertView, err error) {
	err = s.view(ctx, func(x execer) error {
		alerts, err = selectRows(ctx, x, func(rows *sql.Rows) (v pawl.AlertView, err error) {
			return v, rows.Scan(&v.Sink, &v.Regression, &v.Key, &v.Deaths, &v.Attempt, &v.Pending, (*timeColumn)(&v.DeliveredAt), &v.Error)
		}, selectAlertsOf, letter[:])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read alerts of letter %s: %w", letter, err)
	}
	return alerts, nil
}
