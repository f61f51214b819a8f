package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
)

// While an old snapshot keeps dead arrivals in the way, a job whose transaction had begun before many others, and ends after them,
// has its turn given all the same: by the next look at all arrivals, or by a sweep.
func TestLateArrivalBehindAnOldSnapshot(t *testing.T) {
	t.Parallel()
	t.Run("look", func(t *testing.T) {
		t.Parallel()
		lateArrival(t, 300*time.Millisecond, func(inSchema, pawl.SessionID) {})
	})
	t.Run("sweep", func(t *testing.T) {
		t.Parallel()
		lateArrival(t, time.Hour, func(store inSchema, session pawl.SessionID) {
			if _, err := store.Sweep(t.Context(), pawl.SweepRequest{Session: session}); err != nil {
				t.Error(err)
			}
		})
	})
}

// lateArrival has all arrivals looked at after a time, or because of what is called before that.
func lateArrival(t *testing.T, whole time.Duration, before func(store inSchema, session pawl.SessionID)) {
	t.Helper()
	w := newWorld(t)
	snapshot := beside(t, w.url)
	tx, err := snapshot.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), `select count(*) from `+table(w.store.config.Schema, "arrival")); err != nil {
		t.Fatal(err)
	}
	session, err := w.store.OpenSession(t.Context(), pawl.HostInfo{Name: "a", Kinds: []string{work.Name()}})
	if err != nil {
		t.Fatal(err)
	}
	claim := func() []pawl.ClaimedJob {
		reply, err := w.store.Claim(t.Context(), pawl.ClaimRequest{Session: session, Queues: []string{"2-default"}, Kinds: []string{work.Name()}, Max: 1000})
		if err != nil {
			t.Fatal(err)
		}
		return reply.Jobs
	}
	ordered := func(key string, n int) (jobs []pawl.NewJob) {
		for range n {
			job, err := work.New(t.Context(), w.store.Connection(), workArgs{}, pawl.OrderingKey(key))
			if err != nil {
				t.Fatal(err)
			}
			jobs = append(jobs, job)
		}
		return jobs
	}
	late := beside(t, w.url)
	lateTx, err := late.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lateTx.Rollback(t.Context()) }()
	want := ordered("late", 1)
	if _, err := w.store.Store.Tx(lateTx).Enqueue(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	for round := range 12 { // thousands of arrivals that are dead, and in the way
		var jobs []pawl.NewJob
		for n := range 500 {
			jobs = append(jobs, ordered(fmt.Sprint("key ", round, " ", n), 1)...)
		}
		put(t, w.store, jobs...)
		for left := len(jobs); left > 0; {
			claimed := claim()
			var ends []pawl.Settlement
			for _, job := range claimed {
				ends = append(ends, pawl.Settlement{Reservation: job.Reservation, Outcome: pawl.Done{}})
			}
			if _, err := w.store.Settle(t.Context(), session, ends); err != nil {
				t.Fatal(err)
			}
			left -= len(claimed)
		}
	}
	w.store.Store.PassArrivals(whole)
	if err := lateTx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.store.Store.GiveTurns(t.Context())
	if jobs := claim(); len(jobs) > 0 && whole == time.Hour {
		t.Fatalf("claimed %v, whose arrival lies before where was looked", jobs)
	} else if len(jobs) > 0 {
		return
	}
	before(w.store, session)
	w.until(patience, "the turn of the late one", func() bool {
		jobs := claim()
		if len(jobs) > 0 && jobs[0].ID != want[0].ID {
			t.Fatalf("claimed %v", jobs)
		}
		return len(jobs) == 1
	})
}
