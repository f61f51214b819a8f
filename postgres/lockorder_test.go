package postgres_test

import (
	"bytes"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/storetest"
)

// Whatever is done to many jobs locks them in the order of their ids, as a settle does: two statements on the same jobs never
// wait for each other crosswise, which would cost both a second, and one of them its work.
func TestJobsAreLockedInOneOrder(t *testing.T) {
	t.Parallel()
	const jobs = 24
	for name, do := range map[string]func(ctx context.Context, store pawl.Store, session pawl.SessionID, held []pawl.ClaimedJob) error{
		"progress": func(ctx context.Context, store pawl.Store, session pawl.SessionID, held []pawl.ClaimedJob) error {
			beat := pawl.Beat{}
			for _, job := range held {
				beat.Progress = append(beat.Progress, pawl.Progress{Reservation: job.Reservation, Percent: 50})
			}
			_, err := store.Beat(ctx, session, beat)
			return err
		},
		"start marks": func(ctx context.Context, store pawl.Store, session pawl.SessionID, held []pawl.ClaimedJob) error {
			var reservations []pawl.Reservation
			for _, job := range held {
				reservations = append(reservations, job.Reservation)
			}
			_, err := store.Start(ctx, session, reservations)
			return err
		},
		"verdicts": func(ctx context.Context, store pawl.Store, session pawl.SessionID, held []pawl.ClaimedJob) error {
			var deaths []pawl.Settlement
			for _, job := range held {
				deaths = append(deaths, pawl.Settlement{Reservation: job.Reservation, Letter: &pawl.DeadLetter{ID: pawl.NewID()}})
			}
			_, err := store.Condemn(ctx, session, deaths)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := openFresh(t, storetest.Options{}).(inSchema)
			session := openSession(t, store)
			for range jobs {
				put(t, store, newJob(t, store))
			}
			held := claimAll(t, store, session)
			slices.SortFunc(held, func(a, b pawl.ClaimedJob) int { return bytes.Compare(b.ID[:], a.ID[:]) }) // the last one first
			conn, err := pgx.Connect(t.Context(), store.url)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(context.Background())
			tx, err := conn.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			schema := pgx.Identifier{store.config.Schema}.Sanitize()
			middle := held[jobs/2].ID
			if _, err := tx.Exec(t.Context(), "select 1 from "+schema+".job where id = $1 for update", middle.String()); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- do(t.Context(), store, session, held) }()
			blocked := false
			for deadline := time.Now().Add(patience); !blocked && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
				err := tx.QueryRow(t.Context(), "select exists (select 1 from pg_locks where not granted and pg_backend_pid() = any (pg_blocking_pids(pid)))").Scan(&blocked)
				if err != nil {
					t.Fatal(err)
				}
			}
			var free int
			err = tx.QueryRow(t.Context(), "select count(*) from (select 1 from "+schema+".job where id >= $1 for update skip locked) f", middle.String()).Scan(&free)
			if want := jobs/2 + 1; err != nil || !blocked || free != want {
				t.Errorf("blocked %v by a job, with %d jobs from that one on that are not locked, want %d; error %v", blocked, free, want, err)
			}
			if err := tx.Rollback(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
