package sqlite_test

import (
	"math"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/storetest"
)

// A job for the end of time is far away, not due at once: no duration is as long as the wait for it.
func TestNextDueInTheYear9999(t *testing.T) {
	t.Parallel()
	store := openFresh(t, storetest.Options{})
	enqueue(t, store, "never.v1", pawl.RunAt(time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)))
	report, err := store.Sweep(t.Context(), pawl.SweepRequest{Session: host(t, store)})
	if err != nil || report.NextDue < 24*time.Hour {
		t.Errorf("the next job is due in %v, %v", report.NextDue, err)
	}
}

// The longest wait there is does not turn into none.
func TestRetryAfterTheLongestDuration(t *testing.T) {
	t.Parallel()
	store := openFresh(t, storetest.Options{})
	const kind = "patient.v1"
	enqueue(t, store, kind)
	session := host(t, store, kind)
	request := pawl.ClaimRequest{Session: session, Queues: []string{"2-default"}, Kinds: []string{kind}, Max: 1}
	jobs := claim(t, store, request)
	errs, err := store.Settle(t.Context(), session, []pawl.Settlement{
		{Reservation: jobs[0].Reservation, Outcome: pawl.Retry{After: math.MaxInt64}},
	})
	if err != nil || errs[0] != nil {
		t.Fatal(err, errs)
	}
	report, err := store.Sweep(t.Context(), pawl.SweepRequest{Session: session})
	if err != nil || report.Due != 0 || report.NextDue < 24*time.Hour {
		t.Errorf("%d jobs are due, the next in %v, %v", report.Due, report.NextDue, err)
	}
	if jobs := claim(t, store, request); len(jobs) != 0 {
		t.Error("the job is ready at once")
	}
}

// A claim for as many jobs as there can be takes what is there and leaves tokens to others.
func TestClaimForTheLargestNumber(t *testing.T) {
	t.Parallel()
	store := openFresh(t, storetest.Options{})
	const kind = "greedy.v1"
	session := host(t, store, kind)
	for range 3 {
		enqueue(t, store, kind)
		jobs := claim(t, store, pawl.ClaimRequest{Session: session, Queues: []string{"2-default"}, Kinds: []string{kind}, Max: math.MaxInt})
		if len(jobs) != 1 || jobs[0].Token > 1_000_000 {
			t.Fatalf("claimed %d jobs, want 1 with a small token: %+v", len(jobs), jobs)
		}
	}
}
