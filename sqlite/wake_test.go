package sqlite_test

import (
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/sqlite"
)

// What happens in this process wakes by itself: the look at the file is for what others write.
func TestOwnCommitsWakeWithoutALook(t *testing.T) {
	t.Parallel()
	store, _ := service(t, sqlite.Config{PollInterval: time.Hour})
	const kind = "wake.v1"
	wake, err := store.Wake(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	<-wake // for what was before
	session := host(t, store, kind)
	after := func(event string, do func()) {
		t.Helper()
		select {
		case <-wake:
			t.Errorf("woken before %s", event)
		default:
		}
		do()
		select {
		case <-wake:
		case <-time.After(10 * time.Second):
			t.Errorf("%s woke nobody", event)
		}
	}
	claimOne := func(session pawl.SessionID) pawl.Reservation {
		t.Helper()
		jobs := claim(t, store, pawl.ClaimRequest{Session: session, Queues: []string{"2-default"}, Kinds: []string{kind}, Max: 1})
		if len(jobs) != 1 {
			t.Fatalf("claimed %d jobs, want 1", len(jobs))
		}
		return jobs[0].Reservation
	}
	settleAs := func(r pawl.Reservation, outcome pawl.Outcome) {
		t.Helper()
		errs, err := store.Settle(t.Context(), session, []pawl.Settlement{{Reservation: r, Outcome: outcome}})
		if err != nil || errs[0] != nil {
			t.Fatal(err, errs)
		}
	}
	sweep := func(request pawl.SweepRequest) (due int) {
		t.Helper()
		request.Session = session
		report, err := store.Sweep(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		return report.Due
	}
	after("an enqueue", func() { enqueue(t, store, kind) })
	for event, outcome := range map[string]pawl.Outcome{
		"a give-back": pawl.GiveBack{}, "a retry at once": pawl.Retry{}, "a release at once": pawl.Release{},
	} {
		r := claimOne(session)
		after(event, func() { settleAs(r, outcome) })
	}
	closing := host(t, store, kind)
	claimOne(closing)
	after("a close", func() {
		if err := store.CloseSession(t.Context(), closing); err != nil {
			t.Fatal(err)
		}
	})
	victim := host(t, store, kind)
	claimOne(victim)
	after("a recovery", func() { sweep(pawl.SweepRequest{Dead: []pawl.SeenSession{{ID: victim}}}) })
	settleAs(claimOne(session), pawl.Retry{After: time.Millisecond})
	after("a job that is due", func() {
		for sweep(pawl.SweepRequest{}) == 0 { // its millisecond has not passed
			continue
		}
	})
}
