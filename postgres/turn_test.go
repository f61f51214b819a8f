package postgres_test

import (
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/postgres"
)

var narrow = pawl.NewKind[workArgs]("test.narrow.v1", pawl.Policy{Limit: pawl.Limit{Concurrency: 1}})

// narrowly opens a session, and claims the first of two jobs of which one may run at a time.
func (w *world) narrowly() (session pawl.SessionID, first pawl.ClaimedJob, second pawl.ID) {
	w.Helper()
	ids := w.put(narrow, 2)
	session, err := w.store.OpenSession(w.Context(), pawl.HostInfo{
		Name: "a", Kinds: []string{narrow.Name()}, Limits: map[string]pawl.Limit{narrow.Name(): {Concurrency: 1}},
	})
	if err != nil {
		w.Fatal(err)
	}
	jobs := w.narrowClaim(session)
	if len(jobs) != 1 || jobs[0].ID != ids[0] {
		w.Fatalf("claimed %v, want the first of %v", jobs, ids)
	}
	return session, jobs[0], ids[1]
}

func (w *world) narrowClaim(session pawl.SessionID) []pawl.ClaimedJob {
	w.Helper()
	reply, err := w.store.Claim(w.Context(), pawl.ClaimRequest{Session: session, Queues: []string{"2-default"}, Kinds: []string{narrow.Name()}, Max: 5})
	if err != nil {
		w.Fatal(err)
	}
	return reply.Jobs
}

func (w *world) finish(session pawl.SessionID, job pawl.ClaimedJob) {
	w.Helper()
	w.settle(session, job, pawl.Done{})
}

func (w *world) settle(session pawl.SessionID, job pawl.ClaimedJob, outcome pawl.Outcome) {
	w.Helper()
	errs, err := w.store.Settle(w.Context(), session, []pawl.Settlement{{Reservation: job.Reservation, Outcome: outcome}})
	if err != nil || errs[0] != nil {
		w.Fatal(err, errs)
	}
}

// wakes returns what wakes a host of this store, when it has been told of all that came before.
func (w *world) wakes(store *postgres.Store) <-chan struct{} {
	w.Helper()
	wake, err := store.Wake(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	for quiet := false; !quiet; {
		select {
		case <-wake:
		case <-time.After(200 * time.Millisecond):
			quiet = true
		}
	}
	return wake
}

// A slot that comes free where nobody claims its next job is told to other hosts.
func TestTurnIsToldToOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := w.another()
	session, first, _ := w.narrowly()
	listening(t, w.store, 2)
	wake := w.wakes(other)
	w.finish(session, first)
	select {
	case <-wake:
	case <-time.After(patience):
		t.Error("the other process is never told")
	}
}

// An acknowledgement passes its slot on, whoever is giving turns.
func TestSlotIsPassedOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	session, first, second := w.narrowly()
	conn := beside(t, w.url)
	if _, err := conn.Exec(t.Context(), `select pg_advisory_lock($1)`, postgres.TurnLock(w.store.config.Schema)); err != nil {
		t.Fatal(err)
	}
	wake := w.wakes(w.store.Store)
	w.finish(session, first)
	select {
	case <-wake:
	case <-time.After(patience):
		t.Error("nobody is woken")
	}
	if jobs := w.narrowClaim(session); len(jobs) != 1 || jobs[0].ID != second {
		t.Errorf("claimed %v, want %s", jobs, second)
	}
}

// One that is not passed on, since its job comes again, is given by whoever gives turns. Where somebody else is at it, nothing
// waits for him, and the slot goes to the next when he has ended.
func TestTurnIsGivenAfterOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	session, first, second := w.narrowly()
	conn := beside(t, w.url)
	lock := postgres.TurnLock(w.store.config.Schema)
	if _, err := conn.Exec(t.Context(), `select pg_advisory_lock($1)`, lock); err != nil {
		t.Fatal(err)
	}
	w.settle(session, first, pawl.Retry{After: time.Hour})
	if jobs := w.narrowClaim(session); len(jobs) > 0 {
		t.Errorf("claimed %v before its turn was given", jobs)
	}
	wake := w.wakes(w.store.Store)
	if _, err := conn.Exec(t.Context(), `select pg_advisory_unlock($1)`, lock); err != nil {
		t.Fatal(err)
	}
	select {
	case <-wake:
	case <-time.After(patience):
		t.Fatal("nobody is woken")
	}
	if jobs := w.narrowClaim(session); len(jobs) != 1 || jobs[0].ID != second {
		t.Errorf("claimed %v, want %s", jobs, second)
	}
}
