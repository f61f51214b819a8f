package postgres_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/storetest"
)

// waitsFor waits until somebody waits for the end of a transaction of this connection.
func waitsFor(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	watch := beside(t, server(t))
	blocked := false
	for deadline := time.Now().Add(patience); !blocked && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if err := watch.QueryRow(t.Context(), `select exists (select 1 from pg_locks where not granted and $1 = any (pg_blocking_pids(pid)))`,
			int(conn.PgConn().PID())).Scan(&blocked); err != nil {
			t.Fatal(err)
		}
	}
	if !blocked {
		t.Fatal("nobody waits")
	}
}

// callers are the ways to hand in jobs: swiftly, one by one, with an id that is expected to be there, in a transaction.
func callers(t *testing.T, store inSchema, many int) map[string]func(key string) func() []pawl.Enqueued {
	enqueue := func(to func() pawl.Enqueuer, n int) func(key string) func() []pawl.Enqueued {
		return func(key string) func() []pawl.Enqueued {
			jobs := []pawl.NewJob{newJob(t, store, pawl.UniqueWhileUnfinished(key))}
			for i := 1; i < n; i++ {
				jobs = append(jobs, newJob(t, store, pawl.UniqueWhileUnfinished(key+strconv.Itoa(i))))
			}
			answer, enqueuer := make(chan []pawl.Enqueued, 1), to()
			go func() {
				results, err := enqueuer.Enqueue(context.WithoutCancel(t.Context()), jobs)
				if err != nil {
					t.Error(err)
				}
				answer <- results
			}()
			return func() []pawl.Enqueued { return <-answer }
		}
	}
	own := func() pawl.Enqueuer { return store }
	return map[string]func(key string) func() []pawl.Enqueued{
		"one": enqueue(own, 1), "some": enqueue(own, 3), "many": enqueue(own, many),
		"in a transaction": enqueue(func() pawl.Enqueuer { return begin(t, store) }, 3),
	}
}

// Who wants a key that a transaction under way has taken waits for its end: after a commit it is told who holds the key, after a
// rollback the key is its own.
func TestKeysOfTransactions(t *testing.T) {
	t.Parallel()
	for _, commit := range []bool{true, false} {
		store := openFresh(t, storetest.Options{}).(inSchema)
		for name, call := range callers(t, store, 100) {
			conn := beside(t, store.url)
			tx, err := conn.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			holder := newJob(t, store, pawl.UniqueWhileWaiting(name))
			put(t, store.Tx(tx), holder)
			results := call(name)
			waitsFor(t, conn)
			end := tx.Rollback
			if commit {
				end = tx.Commit
			}
			if err := end(t.Context()); err != nil {
				t.Fatal(err)
			}
			got := results()
			if len(got) == 0 || (got[0] == pawl.Enqueued{ID: holder.ID, Status: pawl.Duplicate}) != commit {
				t.Errorf("%s, committed %v: %v", name, commit, got)
			}
			for _, result := range got[1:] {
				if result.Status != pawl.Accepted {
					t.Errorf("%s: another key: %v", name, result)
				}
			}
		}
		if store.ExpectsRepeats() {
			t.Error("a key that was taken meanwhile is no repeat")
		}
	}
}

// A job with a period that comes and goes while somebody else's statement waits, and so was never seen by it, keeps its period.
func TestPeriodBeginsWhileOthersWait(t *testing.T) {
	t.Parallel()
	store := openFresh(t, storetest.Options{}).(inSchema)
	session := openSession(t, store)
	for name, call := range callers(t, store, 100) {
		if name == "one" {
			continue // it waits for its own key alone
		}
		conn := beside(t, store.url)
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		put(t, store.Tx(tx), newJob(t, store, pawl.UniqueWhileUnfinished(name)))
		results := call(name)
		waitsFor(t, conn)
		fleeting := newJob(t, store, pawl.UniqueFor(name+"1", time.Hour)) // the key after that one
		put(t, store, fleeting)
		settleDone(t, store, session, claimAll(t, store, session))
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := results()
		if len(got) < 2 || got[0].Status != pawl.Accepted || (got[1] != pawl.Enqueued{ID: fleeting.ID, Status: pawl.Duplicate}) {
			t.Errorf("%s: %v, want that job %s keeps the second out", name, got, fleeting.ID)
		}
	}
}

// Keys are taken in one order, whatever that of the call is, so that no two calls wait for each other crosswise, which would cost
// both a second, and one of them its work: who waits for a key has taken none that comes after it.
func TestKeysAreTakenInOneOrder(t *testing.T) {
	t.Parallel()
	store := openFresh(t, storetest.Options{}).(inSchema)
	for name, to := range map[string]pawl.Enqueuer{"some": store, "many": store, "in a transaction": begin(t, store)} {
		jobs := []pawl.NewJob{newJob(t, store, pawl.UniqueWhileWaiting(name+"z")), newJob(t, store, pawl.UniqueFor(name+"m", time.Hour)), newJob(t, store, pawl.UniqueWhileUnfinished(name+"a"))}
		if name == "many" {
			for i := range 1500 {
				jobs = append(jobs, newJob(t, store, pawl.UniqueWhileUnfinished(name+"b"+strconv.Itoa(i))))
			}
		}
		conn := beside(t, store.url)
		tx, err := conn.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		put(t, store.Tx(tx), newJob(t, store, pawl.UniqueWhileUnfinished(name+"m")))
		done := make(chan error, 1)
		go func() {
			_, err := to.Enqueue(context.WithoutCancel(t.Context()), jobs)
			done <- err
		}()
		waitsFor(t, conn)
		if _, err := tx.Exec(t.Context(), "set local lock_timeout = '2s'"); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Tx(tx).Enqueue(t.Context(), []pawl.NewJob{newJob(t, store, pawl.UniqueWhileUnfinished(name+"z"))}); err != nil {
			t.Errorf("%s: the last key is taken by a call that waits for the one before: %v", name, err)
		}
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
