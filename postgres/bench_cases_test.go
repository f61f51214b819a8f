package postgres_test

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/postgres"
)

const benchSchema = `"bench cases"`

// stuff puts rows into the table of jobs without going through the store.
func stuff(b *testing.B, conn *pgx.Conn, n int, kind, runAt string) {
	b.Helper()
	for _, text := range []string{
		fmt.Sprintf(`insert into %s.name (text) values ('%s') on conflict do nothing`, benchSchema, kind),
		fmt.Sprintf(`insert into %[1]s.job (id, queue, kind, run_at, envelope)
select gen_random_uuid(), (select id from %[1]s.name where text = '2-default'), (select id from %[1]s.name where text = '%[2]s'), %[3]s,
  decode(repeat('ab', 150), 'hex') from generate_series(1, %[4]d)`, benchSchema, kind, runAt, n),
		fmt.Sprintf(`analyze %s.job`, benchSchema),
	} {
		if _, err := conn.Exec(b.Context(), text); err != nil {
			b.Fatal(err)
		}
	}
}

// hold begins a transaction on a connection of its own, for as long as the benchmark runs.
func hold(b *testing.B, statements ...string) {
	b.Helper()
	conn, err := pgx.Connect(b.Context(), benchServer(b))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close(context.Background()) })
	for _, statement := range append([]string{"begin isolation level repeatable read"}, statements...) {
		if _, err := conn.Exec(b.Context(), statement); err != nil {
			b.Fatal(err)
		}
	}
}

func never(n int) func(*testing.B, *pgx.Conn) {
	return func(b *testing.B, conn *pgx.Conn) { stuff(b, conn, n, "foreign.v1", "null") }
}

// What must not slow a host down, each to be compared with Clean of the same run.
func BenchmarkCase(b *testing.B) {
	one := []string{"2-default"}
	var many []string
	for i := range 32 {
		many = append(many, "q"+strconv.Itoa(i))
	}
	for _, c := range []struct {
		name    string
		queues  []string
		prepare func(b *testing.B, conn *pgx.Conn)
		outcome func(i int) pawl.Outcome
		args    int // bytes
	}{
		{name: "Clean", queues: one},
		{name: "OldSnapshot", queues: one, prepare: func(b *testing.B, _ *pgx.Conn) { hold(b, "select 1") }},
		{name: "OpenWriter", queues: one, prepare: func(b *testing.B, _ *pgx.Conn) {
			hold(b, fmt.Sprintf("insert into %s.name (text) values ('held')", benchSchema))
		}},
		{name: "Scheduled1M", queues: one, prepare: func(b *testing.B, conn *pgx.Conn) {
			stuff(b, conn, 1_000_000, "foreign.v1", "now() + random() * interval '1 day' + interval '1 hour'")
		}},
		{name: "Foreign1M", queues: one, prepare: never(1_000_000)},
		{name: "Queues32", queues: many},
		{name: "Retries5", queues: one, outcome: func(i int) pawl.Outcome {
			if i%20 == 0 {
				return pawl.Retry{After: time.Hour}
			}
			return pawl.Done{}
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			store, conn := benchStore(b, func(config *postgres.Config) { config.Schema = "bench cases" })
			session := benchSession(b, store, "a")
			if _, err := store.Enqueue(b.Context(), benchJobs(b, store, 1, pawl.InQueue("2-default"))); err != nil {
				b.Fatal(err) // the queue has a number
			}
			if c.prepare != nil {
				c.prepare(b, conn)
			}
			var jobs []pawl.NewJob
			for _, queue := range c.queues {
				jobs = append(jobs, benchJobs(b, store, b.N/len(c.queues), pawl.InQueue(queue))...)
			}
			benchFill(b, store, jobs)
			if c.outcome == nil {
				c.outcome = allDone
			}
			before := spent(b, conn)
			b.ResetTimer()
			drain(b, store, session, c.queues, 500, len(jobs), c.outcome)
			report(b, conn, before, b.N)
		})
	}
}
