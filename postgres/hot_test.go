package postgres_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/postgres"
)

// With many jobs in the table, no verb reads all of it, and a claim changes no index.
func TestNoScansAndHotClaims(t *testing.T) {
	t.Parallel()
	server(t)
	config := postgres.Config{Schema: freshSchema(t)}
	store := openIn(t, server(t), config)
	session, other := openSession(t, store), openSession(t, store)
	conn := beside(t, store.url)
	put(t, store, newJob(t, store), newJob(t, store, pawl.UniqueFor("k", 1e9)), newJob(t, store, pawl.Delay(1)))
	settleDone(t, store, session, claimAll(t, store, session))
	for _, statement := range []string{
		`insert into {job} (id, queue, kind, envelope) select gen_random_uuid(), 2, 0, '\x00' from generate_series(1, 100000)`,
		`insert into {job} (id, queue, kind, run_at, envelope) select gen_random_uuid(), 2, 0, now() + g * interval '1 second', '\x00'
			from generate_series(1, 50000) g`,
		`alter table {job} set (autovacuum_enabled = off)`, // which counts the summaries that it makes as scans
		`analyze {job}`,
	} {
		if _, err := conn.Exec(t.Context(), strings.ReplaceAll(statement, "{job}", table(config.Schema, "job"))); err != nil {
			t.Fatal(err)
		}
	}
	read := func() (scans, updates, hot int) {
		t.Helper()
		// what ended connections have done is counted
		if err := conn.QueryRow(t.Context(), `select seq_scan, n_tup_upd, n_tup_hot_upd from pg_stat_user_tables
where schemaname = $1 and relname = 'job'`, config.Schema).Scan(&scans, &updates, &hot); err != nil {
			t.Fatal(err)
		}
		return scans, updates, hot
	}
	before, _, _ := read()
	const batches, each = 20, 100
	for range batches {
		jobs := make([]pawl.NewJob, each)
		for i := range jobs {
			jobs[i] = newJob(t, store)
		}
		put(t, store, jobs...)
		claimed := claimAll(t, store, session)
		if len(claimed) < each {
			t.Fatalf("claimed %d jobs, want at least %d", len(claimed), each)
		}
		beat := pawl.Beat{Reconcile: true}
		for _, job := range claimed {
			beat.Held = append(beat.Held, job.Reservation)
		}
		if _, err := store.Beat(t.Context(), session, beat); err != nil {
			t.Fatal(err)
		}
		settleDone(t, store, session, claimed)
		put(t, store, newJob(t, store, pawl.UniqueWhileWaiting("w")), newJob(t, store, pawl.Delay(1e12)))
		back := claimAll(t, store, session)
		errs, err := store.Settle(t.Context(), session, []pawl.Settlement{{Reservation: back[0].Reservation, Outcome: pawl.Done{}}})
		if err != nil || errs[0] != nil {
			t.Fatal(err, errs)
		}
		if _, err := store.Sweep(t.Context(), pawl.SweepRequest{Session: session}); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.CloseSession(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil { // its connections' counts are in with that
		t.Fatal(err)
	}
	const claims = batches * (each + 1)
	after, updates, hot := read()
	for deadline := time.Now().Add(patience); updates < claims && time.Now().Before(deadline); {
		after, updates, hot = read()
	}
	if after != before {
		t.Errorf("the table was read as a whole %d times", after-before)
	}
	if updates < claims || hot < claims*95/100 {
		t.Errorf("of %d claims, in %d updates, only %d changed no index", claims, updates, hot)
	}
}
