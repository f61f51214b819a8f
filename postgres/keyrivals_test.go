package postgres_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/postgres"
)

// Callers who want the same keys, in transactions of their own and each in another order, wait for each other and never crosswise:
// PostgreSQL would end one of them, and its caller's work with it. Hosts take the jobs meanwhile, so that keys change hands.
func TestRivalsForKeysWaitInLine(t *testing.T) {
	t.Parallel()
	const callers, rounds, keys = 6, 40, 12
	store := openIn(t, server(t), postgres.Config{Schema: freshSchema(t)})
	session := openSession(t, store)
	var group, rivals sync.WaitGroup
	for range callers {
		rivals.Go(func() {
			conn, err := pgx.Connect(t.Context(), server(t))
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = conn.Close(t.Context()) }()
			for range rounds {
				var jobs []pawl.NewJob
				for _, n := range rand.Perm(keys)[:keys/2] {
					unique := []func(string) pawl.Option{pawl.UniqueWhileWaiting, pawl.UniqueWhileUnfinished}[n%2]
					jobs = append(jobs, newJob(t, store, unique(fmt.Sprint("key ", n))))
				}
				if err := inTransaction(t, conn, store, jobs, rand.IntN(3) > 0); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	t.Cleanup(group.Wait)
	over := make(chan struct{})
	group.Go(func() { rivals.Wait(); close(over) })
	for {
		select {
		case <-over:
			return
		default:
			settleDone(t, store, session, claimNext(t, store, session, 3).Jobs)
		}
	}
}

// inTransaction enqueues jobs in a transaction and ends it.
func inTransaction(t *testing.T, conn *pgx.Conn, store inSchema, jobs []pawl.NewJob, commit bool) error {
	tx, err := conn.Begin(t.Context())
	if err != nil {
		return err
	}
	if _, err := store.Store.Tx(tx).Enqueue(t.Context(), jobs); err != nil {
		_ = tx.Rollback(t.Context())
		return err
	}
	if !commit {
		return tx.Rollback(t.Context())
	}
	return tx.Commit(t.Context())
}
