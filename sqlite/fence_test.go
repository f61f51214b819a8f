package sqlite_test

import (
	"errors"
	"testing"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/storetest"
)

// Plain acknowledgements are settled together, by statements of their own, and are fenced as all others are.
func TestAcknowledgementsAreFenced(t *testing.T) {
	t.Parallel()
	store := openFresh(t, storetest.Options{})
	const kind = "fence.v1"
	for range 5 {
		enqueue(t, store, kind)
	}
	holder, other := host(t, store, kind), host(t, store, kind)
	jobs := claim(t, store, pawl.ClaimRequest{Session: holder, Queues: []string{"2-default"}, Kinds: []string{kind}, Max: 5})
	if len(jobs) != 5 {
		t.Fatalf("claimed %d jobs, want 5", len(jobs))
	}
	done := func(r pawl.Reservation) pawl.Settlement { return pawl.Settlement{Reservation: r, Outcome: pawl.Done{}} }
	first, second, third := jobs[0].Reservation, jobs[1].Reservation, jobs[2].Reservation
	forged := pawl.Reservation{ID: pawl.NewID(), Token: third.Token}
	stale := pawl.Reservation{ID: third.ID, Token: third.Token + 100}
	for _, c := range []struct {
		name    string
		session pawl.SessionID
		batch   []pawl.Settlement
		settles []bool
	}{
		{"another session's", other, []pawl.Settlement{done(first), done(second)}, []bool{false, false}},
		{"another job's token", holder, []pawl.Settlement{done(forged), done(stale)}, []bool{false, false}},
		{"twice in a batch", holder, []pawl.Settlement{done(first), done(first), done(second)}, []bool{true, false, true}},
		{"again", holder, []pawl.Settlement{done(first), done(third), done(second)}, []bool{false, true, false}},
	} {
		errs, err := store.Settle(t.Context(), c.session, c.batch)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for i, err := range errs {
			if (err == nil) != c.settles[i] || err != nil && !errors.Is(err, pawl.ErrLeaseLost) {
				t.Errorf("%s: member %d: %v", c.name, i, err)
			}
		}
	}
	db := openBeside(t, store)
	if done, left := count(t, db, `select count(*) from pawl_done`), count(t, db, `select count(*) from pawl_job`); done != 3 || left != 2 {
		t.Errorf("%d jobs done and %d left, want 3 and 2", done, left)
	}
}
