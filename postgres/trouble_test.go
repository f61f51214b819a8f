package postgres_test

import (
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/postgres"
)

// A trouble with the tables of finished jobs keeps no job from ending.
func TestHistoryTrouble(t *testing.T) {
	t.Parallel()
	config := postgres.Config{Schema: freshSchema(t), Logger: slog.New(slog.DiscardHandler)}
	store := openIn(t, server(t), config)
	session := openSession(t, store)
	put(t, store, newJob(t, store), newJob(t, store), newJob(t, store))
	jobs := claimAll(t, store, session)
	execute(t, store.url, "drop table "+table(config.Schema, "done_1"))
	letter := pawl.NewDeadLetter(pawl.Undertaker{Connection: "default"}, jobs[2], pawl.Dead{}, time.Now(), errors.New("no"))
	errs, err := store.Settle(t.Context(), session, []pawl.Settlement{
		{Reservation: jobs[0].Reservation, Outcome: pawl.Done{}},
		{Reservation: jobs[1].Reservation, Outcome: pawl.Done{}, Record: &pawl.AttemptRecord{Attempt: 1}},
		{Reservation: jobs[2].Reservation, Outcome: pawl.Dead{}, Letter: &letter},
	})
	if err = errors.Join(append(errs, err)...); err != nil {
		t.Fatalf("settle: %v", err)
	}
	if _, err := store.Letter(t.Context(), letter.ID); err != nil {
		t.Errorf("letter: %v", err)
	}
	if queues, err := store.Queues(t.Context()); err != nil || len(queues) > 0 {
		t.Errorf("jobs left: %v, %v", queues, err)
	}
}

// A call that has to wait for somebody else's transaction does not take those with it that share its statement.
func TestCulpritFailsAlone(t *testing.T) {
	t.Parallel()
	store := openIn(t, server(t), postgres.Config{Schema: freshSchema(t), LockTimeout: 200 * time.Millisecond})
	taken := newJob(t, store)
	put(t, store, newJob(t, store)) // the names have numbers
	tx := begin(t, store)
	put(t, tx, taken) // not committed: whoever has the same id waits
	const others = 40
	errs := make([]error, others)
	var culprit error
	var group sync.WaitGroup
	start := make(chan struct{})
	for i := range others {
		job := newJob(t, store)
		group.Go(func() {
			<-start
			_, errs[i] = store.Enqueue(t.Context(), []pawl.NewJob{job})
		})
	}
	group.Go(func() {
		<-start
		_, culprit = store.Enqueue(t.Context(), []pawl.NewJob{taken})
	})
	close(start)
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Errorf("the others: %v", err)
	}
	if !errors.Is(culprit, pawl.ErrBusy) {
		t.Errorf("who waits for too long: %v, want ErrBusy", culprit)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if jobs := claimAll(t, store, openSession(t, store)); len(jobs) != others+1 {
		t.Errorf("%d jobs, want %d", len(jobs), others+1)
	}
}
