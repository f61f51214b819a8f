package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/storable"
)

const (
	// Who holds a sink's row decides for it.
	lockSinks = `select 1 from {s}.sink where name = any($1::text[]) order by name for update`

	// What is waiting is counted no further than the answer matters. A lease ends with its session.
	selectSinkStates = `select s.name, s.window_at, s.singles, s.storm, now(),
  (select count(*) from (select 1 from {s}.alert where sink = s.name and message is null limit $2) a),
  (select count(*) from (select 1 from {s}.message where sink = s.name and due_at <= now() limit $3) m),
  exists (select 1 from {s}.message m where m.sink = s.name and m.session is not null
    and not exists (select 1 from {s}.session l where l.id = m.session and l.ended_at is null))
from {s}.sink s where s.name = any($1::text[]) order by s.name`

	// What a session that has ended was delivering is due at once. Its token stays: it may have been delivered.
	freeMessages = `update {s}.message m set session = null, due_at = now() where m.sink = $1 and m.session is not null
  and not exists (select 1 from {s}.session l where l.id = m.session and l.ended_at is null)`

	writeWindow = `update {s}.sink set window_at = $2, singles = $3, storm = $4 where name = $1`

	// $4 is the lease in microseconds.
	leaseMessages = `with due as materialized (
  select id, due_at from {s}.message where sink = $1 and due_at <= now() order by due_at, id limit $2
), lease as materialized (
  select nextval('{l}.claim_seq') as token, (select id from {s}.session where id = $3 and ended_at is null) as session
  where exists (select 1 from due)
), leased as (
  update {s}.message m set attempt = m.attempt + 1, token = lease.token, session = lease.session,
    due_at = now() + $4::bigint * interval '1 microsecond'
  from due, lease where m.id = due.id returning m.id, m.token, m.sink, m.key, m.attempt, m.letters, due.due_at
)
select id, token, sink, key, attempt, letters from leased order by due_at, id`

	// A failed delivery comes due again after so many microseconds.
	settleMessages = `with settled as (
  update {s}.message m set token = null, session = null, delivered_at = case when t.delivered then now() end,
    due_at = case when not t.delivered then now() + t.after * interval '1 microsecond' end, error = t.error
  from unnest($1::bigint[], $2::bigint[], $3::bool[], $4::bigint[], $5::text[]) t (id, token, delivered, after, error)
  where m.id = t.id and m.token = t.token returning t.id, t.token, m.sink, m.letters, t.delivered
), told as (
  update {s}.sink s set delivered = s.delivered + d.letters
  from (select sink, sum(letters) as letters from settled where delivered group by sink) d where s.name = d.sink
)
select id, token from settled`
)

const maxAlertError = 1000 // bytes of a delivery's error that are kept

// alerting is one claim.
type alerting struct {
	store *Store
	tx    pgx.Tx
	claim pawl.AlertClaim
}

// sinkState is what a sink has to do.
type sinkState struct {
	name   string
	window desk.Window
	now    time.Time
	fresh  int  // deaths that no message tells of; more than a storm's need not be told apart
	due    int  // messages, at most as many as are asked for
	freed  bool // a session that holds leases has ended
}

func scanSinkState(rows pgx.Rows) (s sinkState, err error) {
	return s, rows.Scan(&s.name, &s.window.Since, &s.window.Singles, &s.window.Storm, &s.now, &s.fresh, &s.due, &s.freed)
}

func (s sinkState) step(claim pawl.AlertClaim) desk.WindowStep {
	return s.window.Step(s.now, s.fresh, claim.Max-s.due, claim.Storm)
}

// ClaimAlerts leases due messages of these sinks, those first that have been due for longest.
func (s *Store) ClaimAlerts(ctx context.Context, claim pawl.AlertClaim) ([]pawl.AlertTask, error) {
	if claim.Max < 1 {
		return nil, &pawl.FieldError{Field: "max", Value: claim.Max, Rule: "must be at least 1"}
	}
	if len(claim.Sinks) == 0 {
		return nil, nil
	}
	claim.Max, claim.Storm = min(claim.Max, deskBatch), claim.Storm.OrDefault()
	tasks, err := s.claimAlerts(ctx, claim)
	if err != nil {
		return nil, fmt.Errorf("claim alerts: %w", err)
	}
	return tasks, nil
}

func (s *Store) claimAlerts(ctx context.Context, claim pawl.AlertClaim) (tasks []pawl.AlertTask, err error) {
	var busy []string
	err = s.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		busy, err = s.busySinks(ctx, conn, claim)
		return err
	})
	if err != nil || len(busy) == 0 {
		return nil, err // the usual answer takes no lock
	}
	claim.Sinks = busy
	err = s.write(ctx, func(ctx context.Context, tx pgx.Tx) error {
		tasks, err = alerting{s, tx, claim}.run(ctx)
		return err
	})
	return tasks, err
}

// busySinks are those that have something to do now.
func (s *Store) busySinks(ctx context.Context, q querier, claim pawl.AlertClaim) ([]string, error) {
	states, err := s.sinkStates(ctx, q, claim)
	var busy []string
	for _, state := range states {
		if state.due > 0 || state.freed || !state.step(claim).Idle(state.window) {
			busy = append(busy, state.name)
		}
	}
	return busy, err
}

func (s *Store) sinkStates(ctx context.Context, q querier, claim pawl.AlertClaim) ([]sinkState, error) {
	return selectRows(ctx, q, scanSinkState, s.sql.desk.selectSinkStates, claim.Sinks, claim.Storm.Deaths+1, claim.Max)
}

func (a alerting) exec(ctx context.Context, statement string, args ...any) (int64, error) {
	tag, err := a.tx.Exec(ctx, statement, args...)
	return tag.RowsAffected(), err
}

func (a alerting) run(ctx context.Context) (all []pawl.AlertTask, err error) {
	d := a.store.sql.desk
	if _, err := a.exec(ctx, d.lockSinks, a.claim.Sinks); err != nil {
		return nil, err
	}
	for _, sink := range a.claim.Sinks {
		if _, err := a.exec(ctx, d.freeMessages, sink); err != nil {
			return nil, err
		}
		if err := a.gather(ctx, sink); err != nil {
			return nil, err
		}
	}
	states, err := a.store.sinkStates(ctx, a.tx, a.claim)
	if err != nil {
		return nil, err
	}
	for _, state := range states {
		if err := a.compose(ctx, state); err != nil {
			return nil, err
		}
		tasks, err := a.lease(ctx, state.name)
		if err != nil {
			return nil, err
		}
		all = append(all, tasks...)
	}
	return all, nil
}

// compose decides in which messages the fresh deaths of a sink are told of.
func (a alerting) compose(ctx context.Context, state sinkState) (err error) {
	step := state.step(a.claim)
	if step.Idle(state.window) {
		return nil
	}
	if step.Digest {
		err = a.digest(ctx, state.name)
	} else if step.Singles > 0 {
		_, err = a.exec(ctx, a.store.sql.desk.insertSingles, state.name, step.Singles)
	}
	if err != nil {
		return err
	}
	_, err = a.exec(ctx, a.store.sql.desk.writeWindow, state.name, step.Next.Since, step.Next.Singles, step.Next.Storm)
	return err
}

// lease takes due messages, with what they tell.
func (a alerting) lease(ctx context.Context, sink string) ([]pawl.AlertTask, error) {
	var letters []int
	tasks, err := selectRows(ctx, a.tx, func(rows pgx.Rows) (t pawl.AlertTask, err error) {
		var n int
		err = rows.Scan(&t.Row, (*int64)(&t.Token), &t.Sink, &t.Key, &t.Attempt, &n)
		letters = append(letters, n)
		return t, err
	}, a.store.sql.desk.leaseMessages, sink, a.claim.Max, int64(a.claim.Session), microseconds(pawl.AlertLease))
	if err != nil {
		return nil, err
	}
	for i := range tasks {
		if err := a.tell(ctx, &tasks[i], letters[i]); err != nil {
			return nil, err
		}
	}
	return tasks, nil
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
		settled, err = selectRows(ctx, conn, scanLease, s.sql.desk.settleMessages, resultArgs(each)...)
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

// lease is a claim on a message.
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
