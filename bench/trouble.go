package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/bench/internal/child"
	"github.com/pawljobs/pawl/bench/internal/side"
	"github.com/pawljobs/pawl/postgres"
)

// holdSnapshot leaves a transaction open that sees the database as it is now.
func holdSnapshot(ctx context.Context, url string) (end func(), err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, err
	}
	end = func() { _ = conn.Close(context.WithoutCancel(ctx)) }
	if _, err = conn.Exec(ctx, `begin isolation level repeatable read; select count(*) from pg_class`); err != nil {
		end()
		return nil, fmt.Errorf("hold snapshot: %w", err)
	}
	return end, nil
}

// openLate enqueues the late job in a transaction that is left open.
func openLate(ctx context.Context, url string) (commit func(context.Context) error, rollback func(), err error) {
	store, err := postgres.Open(ctx, url, postgres.Config{})
	if err != nil {
		return nil, func() {}, err
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return nil, func() { _ = store.Close() }, err
	}
	rollback = func() { _ = errors.Join(conn.Close(context.WithoutCancel(ctx)), store.Close()) }
	tx, err := conn.Begin(ctx)
	if err != nil {
		return nil, rollback, err
	}
	err = side.EnqueueIn(ctx, store.Tx(tx), child.Late)
	return tx.Commit, rollback, err
}

// addLetters records deaths.
func addLetters(ctx context.Context, url string, count int) error {
	store, err := postgres.Open(ctx, url, postgres.Config{})
	if err != nil {
		return err
	}
	defer store.Close()
	for left := count; left > 0; left -= 1000 {
		letters := make([]pawl.DeadLetter, min(left, 1000))
		for i := range letters {
			job := pawl.ClaimedJob{
				Reservation: pawl.Reservation{ID: pawl.NewID(), Token: 1}, Kind: "bench.work.v1", Queue: "2-default",
				Attempt: 6, EnqueuedAt: time.Now(), Envelope: make([]byte, 150),
			}
			letters[i] = pawl.NewDeadLetter(pawl.Undertaker{Connection: "default", Host: "bench", Server: "bench:worker-bench"}, job,
				pawl.Dead{Class: pawl.DeathExhausted, Reason: pawl.ReasonBudget}, time.Now(), errors.New("the downstream does not answer"))
		}
		if _, err := store.RecordDeaths(ctx, letters); err != nil {
			return err
		}
	}
	return nil
}

// execute runs one statement on a connection of its own.
func execute(ctx context.Context, url, statement string, args ...any) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, statement, args...)
	return err
}

// addFinished writes into the table of finished jobs of today: to enqueue and run that many would take minutes.
func addFinished(ctx context.Context, url string, count int) error {
	err := execute(ctx, url, fmt.Sprintf(`do $$ begin execute format(
  'insert into pawl.done_%%s (id, state, finished_at, enqueued_at, queue, kind, attempt, requeues, crashes, envelope)
   select (''01900000-0000-7000-8000-'' || lpad(to_hex(g), 12, ''0''))::uuid, 0, now(), now(), 1, 2, 1, 0, 0, decode(repeat(''ab'', 150), ''hex'')
   from generate_series(1, %d) g', (select n from pawl.slot where from_at <= now() order by from_at desc limit 1)); end $$`, count))
	if err != nil {
		return fmt.Errorf("add finished jobs: %w", err)
	}
	return nil
}

// addFinishedRiver does the same to River.
func addFinishedRiver(ctx context.Context, url string, count int) error {
	err := execute(ctx, url, fmt.Sprintf(`insert into river_job
  (state, attempt, max_attempts, attempted_at, finalized_at, scheduled_at, args, attempted_by, kind, queue)
select 'completed', 1, 25, now(), now(), now(), jsonb_build_object('n', g, 'email', 'someone@example.org'), '{bench}', 'bench.work.v1', '2-default'
from generate_series(1, %d) g`, count))
	if err != nil {
		return fmt.Errorf("add finished jobs: %w", err)
	}
	return nil
}

// addReady puts jobs behind those that are there, which will not be reached: their envelopes are no envelopes.
func addReady(ctx context.Context, url string, count int) error {
	err := execute(ctx, url, fmt.Sprintf(`insert into pawl.job (id, queue, kind, envelope)
select ('01900000-0000-7000-8000-' || lpad(to_hex(g), 12, '0'))::uuid, q.id, k.id, decode(repeat('ab', 150), 'hex')
from generate_series(1, %d) g, pawl.name q, pawl.name k where q.text = '2-default' and k.text = 'bench.work.v1'`, count))
	if err != nil {
		return fmt.Errorf("add ready jobs: %w", err)
	}
	return nil
}
