package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/storable"
)

const (
	// Rows that another host is at are passed over. A lease ends with its session. $4 is the lease in microseconds.
	claimAlerts = `with ripe as materialized (
  select a.id, a.due_at, s.n from unnest($2::text[]) with ordinality s (name, n) cross join lateral (
    select id, due_at from {s}.alert where sink = s.name and due_at <= now() order by due_at, id limit $3 for update skip locked) a
), freed as materialized (
  select a.id, a.due_at, s.n from unnest($2::text[]) with ordinality s (name, n) cross join lateral (
    select id, due_at from {s}.alert where sink = s.name and session is not null
      and not exists (select 1 from {s}.session l where l.id = session and l.ended_at is null)
    limit $3 for update skip locked) a
), due as materialized (
  select * from (select *, row_number() over (partition by n order by due_at, id) as place from (
    select * from freed union select * from ripe) d) d where place <= $3
), lease as materialized (
  select nextval('{l}.claim_seq') as token, (select id from {s}.session where id = $1 and ended_at is null) as session
  where exists (select 1 from due)
), leased as (
  update {s}.alert a set attempt = a.attempt + 1, token = lease.token, session = lease.session,
    due_at = now() + $4::bigint * interval '1 microsecond'
  from due, lease where a.id = due.id returning a.id, a.token, a.sink, a.key, a.attempt, a.letter, due.n, due.place
)
select a.id, a.token, a.sink, a.key, a.attempt, ` + letterColumns + `
from leased a join {s}.letter l on l.id = a.letter order by a.n, a.place`

	// A failed delivery comes due again after so many microseconds.
	settleAlerts = `update {s}.alert a set token = null, session = null, delivered_at = case when t.delivered then now() end,
  due_at = case when not t.delivered then now() + t.after * interval '1 microsecond' end, error = t.error
from unnest($1::bigint[], $2::bigint[], $3::bool[], $4::bigint[], $5::text[]) t (id, token, delivered, after, error)
where a.id = t.id and a.token = t.token returning t.id, t.token`

	// One that failed waits, and so comes due later than those that were not tried: its error is looked for among the
	// rows that come due last.
	selectSinks = `select s.name, p.pending, d.delivered,
  (select greatest(0, extract(epoch from now() - l.dead_at) * 1000000)::bigint from {s}.alert a join {s}.letter l on l.id = a.letter
    where a.id = p.oldest),
  coalesce((select error from (select error, due_at from {s}.alert a where a.sink = s.name and a.due_at is not null
    order by a.due_at desc limit $1) e where error <> '' order by due_at desc limit 1), '')
from {s}.sink s
cross join lateral (select count(*) as pending, min(a.id) as oldest from {s}.alert a where a.sink = s.name and a.due_at is not null) p
cross join lateral (select count(*) as delivered from {s}.alert a where a.sink = s.name and a.delivered_at is not null) d
order by s.name`
)

const (
	maxAlertError = 1000 // bytes of a delivery's error that are kept
	recentAlerts  = 1000 // rows of a sink that are looked at one by one
)

// ClaimAlerts leases due rows of these sinks, those first that have been due for longest.
func (s *Store) ClaimAlerts(ctx context.Context, claim pawl.AlertClaim) ([]pawl.AlertTask, error) {
	if claim.Max < 1 {
		return nil, &pawl.FieldError{Field: "max", Value: claim.Max, Rule: "must be at least 1"}
	}
	if len(claim.Sinks) == 0 {
		return nil, nil
	}
	var tasks []pawl.AlertTask
	err := s.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) (err error) {
		tasks, err = selectRows(ctx, conn, scanTask, s.sql.desk.claimAlerts,
			int64(claim.Session), claim.Sinks, min(claim.Max, deskBatch), microseconds(pawl.AlertLease))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("claim alerts: %w", err)
	}
	return tasks, nil
}

func scanTask(rows pgx.Rows) (t pawl.AlertTask, err error) {
	targets := append([]any{&t.Row, (*int64)(&t.Token), &t.Sink, &t.Key, &t.Attempt}, letterTargets(&t.Letter)...)
	return t, rows.Scan(targets...)
}

// SettleAlerts records what became of deliveries.
func (s *Store) SettleAlerts(ctx context.Context, results []pawl.AlertResult) ([]error, error) {
	if len(results) == 0 {
		return nil, nil
	}
	open := make(map[lease]bool, len(results)) // whose first result is not recorded
	var each []pawl.AlertResult
	for _, r := range results {
		if of := (lease{r.Row, int64(r.Token)}); !open[of] {
			open[of] = true
			each = append(each, r)
		}
	}
	var settled []lease
	err := s.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) (err error) {
		settled, err = selectRows(ctx, conn, scanLease, s.sql.desk.settleAlerts, resultArgs(each)...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("settle alerts: %w", err)
	}
	for _, of := range settled {
		open[of] = false
	}
	errs := make([]error, len(results))
	for i, r := range results {
		of := lease{r.Row, int64(r.Token)}
		if open[of] {
			errs[i] = fmt.Errorf("alert %d, lease %d: %w", r.Row, r.Token, pawl.ErrLeaseLost)
		}
		open[of] = true // it counts once
	}
	return errs, nil
}

// lease is a claim on an alert's row.
type lease struct{ row, token int64 }

func scanLease(rows pgx.Rows) (l lease, err error) { return l, rows.Scan(&l.row, &l.token) }

func resultArgs(results []pawl.AlertResult) []any {
	return []any{
		column(results, func(r *pawl.AlertResult) int64 { return r.Row }),
		column(results, func(r *pawl.AlertResult) int64 { return int64(r.Token) }),
		column(results, func(r *pawl.AlertResult) bool { return r.Delivered }),
		column(results, func(r *pawl.AlertResult) int64 { return microseconds(r.After) }),
		column(results, func(r *pawl.AlertResult) string {
			if r.Delivered {
				return ""
			}
			return storable.Text(r.Error, maxAlertError)
		}),
	}
}

// Sinks counts the rows of every registered sink.
func (s *Store) Sinks(ctx context.Context) (sinks []pawl.SinkView, err error) {
	err = s.view(ctx, func(ctx context.Context, q querier) error {
		sinks, err = selectRows(ctx, q, scanSink, s.sql.desk.selectSinks, recentAlerts)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("count alerts: %w", err)
	}
	return sinks, nil
}

func scanSink(rows pgx.Rows) (v pawl.SinkView, err error) {
	var age *int64
	err = rows.Scan(&v.Name, &v.Pending, &v.Delivered, &age, &v.LastError)
	if age != nil {
		v.OldestAge = time.Duration(*age) * time.Microsecond
	}
	return v, err
}
