package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawljobs/pawl"
)

const (
	selectSinks = `select s.name, s.delivered, f.n + m.letters,
  extract(epoch from now() - least(m.since_at, (select l.dead_at from {s}.letter l where l.id = (
    select letter from {s}.alert where sink = s.name and message is null order by id limit 1))))::float8 * 1000000,
  coalesce((select error from {s}.message where sink = s.name and due_at is not null and error <> '' order by due_at desc limit 1), ''), s.retired_at
from {s}.sink s
cross join lateral (select count(*) as n from {s}.alert where sink = s.name and message is null) f
cross join lateral (select coalesce(sum(letters), 0) as letters, min(since_at) as since_at from {s}.message
  where sink = s.name and due_at is not null) m
order by s.name`

	selectAlertsOf = `select a.sink, a.regression, coalesce(m.key, ''), coalesce(m.letters, 1), coalesce(m.attempt, 0),
  m.id is null or m.due_at is not null, m.delivered_at, coalesce(m.error, '')
from {s}.alert a left join {s}.message m on m.id = a.message where a.letter = $1 order by a.sink`
)

// Sinks counts the deaths of every registered sink.
func (s *Store) Sinks(ctx context.Context) (sinks []pawl.SinkView, err error) {
	err = s.view(ctx, func(ctx context.Context, q querier) error {
		sinks, err = selectRows(ctx, q, scanSink, s.sql.desk.selectSinks)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("count alerts: %w", err)
	}
	return sinks, nil
}

func scanSink(rows pgx.Rows) (v pawl.SinkView, err error) {
	var age pgtype.Float8
	err = rows.Scan(&v.Name, &v.Delivered, &v.Pending, &age, &v.LastError, (*timeColumn)(&v.RetiredAt))
	v.OldestAge = max(0, time.Duration(age.Float64)*time.Microsecond)
	return v, err
}

// AlertsOf says for every sink by which message it is told of a letter.
func (s *Store) AlertsOf(ctx context.Context, letter pawl.ID) (alerts []pawl.AlertView, err error) {
	err = s.view(ctx, func(ctx context.Context, q querier) error {
		alerts, err = selectRows(ctx, q, func(rows pgx.Rows) (v pawl.AlertView, err error) {
			return v, rows.Scan(&v.Sink, &v.Regression, &v.Key, &v.Deaths, &v.Attempt, &v.Pending, (*timeColumn)(&v.DeliveredAt), &v.Error)
		}, s.sql.desk.selectAlertsOf, idValue(letter))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read alerts of letter %s: %w", letter, err)
	}
	return alerts, nil
}
