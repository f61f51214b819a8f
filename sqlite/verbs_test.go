package sqlite_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/sqlite"
	"github.com/pawljobs/pawl/storetest"
)

func host(t *testing.T, store pawl.Store, kinds ...string) pawl.SessionID {
	t.Helper()
	session, err := store.OpenSession(t.Context(), pawl.HostInfo{Name: "host", Kinds: kinds})
	if err != nil {
		t.Fatal(err)
	}
	return session
}

func enqueue(t *testing.T, store pawl.Store, kind string, options ...pawl.Option) pawl.ID {
	t.Helper()
	result, err := pawl.NewKind[int](kind, pawl.Policy{}).Enqueue(t.Context(), store, 1, options...)
	if err != nil {
		t.Fatal(err)
	}
	return result.ID
}

func claim(t *testing.T, store pawl.Store, request pawl.ClaimRequest) []pawl.ClaimedJob {
	t.Helper()
	claimed, err := store.Claim(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	return claimed.Jobs
}

// However many kinds a host has, their jobs come in the order of the queue.
func TestManyKindsInOrder(t *testing.T) {
	t.Parallel()
	store := openFresh(t, storetest.Options{})
	var kinds []string
	for n := range 70 { // more than are merged row by row
		kinds = append(kinds, fmt.Sprintf("many.%d.v1", n*37%70))
	}
	var want, got []pawl.ID
	for range 3 {
		for _, kind := range kinds {
			want = append(want, enqueue(t, store, kind))
		}
	}
	session := host(t, store, kinds...)
	for len(got) < len(want) {
		jobs := claim(t, store, pawl.ClaimRequest{Session: session, Queues: []string{"2-default"}, Kinds: kinds, Max: 11})
		if len(jobs) == 0 {
			break
		}
		for _, job := range jobs {
			if job.Kind != kinds[slices.Index(want, job.ID)%len(kinds)] {
				t.Errorf("job %d has kind %s", slices.Index(want, job.ID), job.Kind)
			}
			got = append(got, job.ID)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d jobs of 70 kinds were claimed out of their order", len(got))
	}
}

// So they do where few kinds have nearly all of the jobs, and the next queue waits until there are none.
func TestManyUnevenKindsInOrder(t *testing.T) {
	t.Parallel()
	for _, most := range []int{3, 40, 100, 1000} {
		store := openFresh(t, storetest.Options{})
		kinds := make([]string, 50)
		for n := range kinds {
			kinds[n] = fmt.Sprintf("uneven.%02d.v1", n)
		}
		var want, got []pawl.ID
		put := func(queue string, numbers ...int) {
			jobs := make([]pawl.NewJob, len(numbers))
			for i, n := range numbers {
				jobs[i] = pawl.NewJob{ID: pawl.NewID(), Kind: kinds[n], Queue: queue, Envelope: []byte("x")}
				want = append(want, jobs[i].ID)
			}
			if _, err := store.Enqueue(t.Context(), jobs); err != nil {
				t.Fatal(err)
			}
		}
		put("a", slices.Repeat([]int{7}, 150)...)
		for n := range kinds {
			put("a", n, n, 31)
		}
		put("a", slices.Repeat([]int{7, 8}, 60)...)
		put("b", 1, 2, 3)
		session := host(t, store, kinds...)
		for more := true; more; {
			claimed, err := store.Claim(t.Context(), pawl.ClaimRequest{Session: session, Queues: []string{"a", "b"}, Kinds: kinds, Max: most})
			if err != nil {
				t.Fatal(err)
			}
			more = claimed.More
			for _, job := range claimed.Jobs {
				got = append(got, job.ID)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("claims of %d: %d jobs of %d, or out of their order", most, len(got), len(want))
		}
	}
}

// One suspect at a time holds over all queues of a claim.
func TestOneSuspectOverQueues(t *testing.T) {
	t.Parallel()
	store := openFresh(t, storetest.Options{})
	const kind = "suspect.v1"
	queues := []string{"1-critical", "2-default", "3-bulk"}
	for _, queue := range queues {
		enqueue(t, store, kind, pawl.InQueue(queue))
	}
	observer := host(t, store, kind)
	for range pawl.CrashSuspect {
		victim := host(t, store, kind)
		if jobs := claim(t, store, pawl.ClaimRequest{Session: victim, Queues: queues, Kinds: []string{kind}, Max: 3}); len(jobs) != 3 {
			t.Fatalf("claimed %d jobs, want 3", len(jobs))
		}
		if _, err := store.Sweep(t.Context(), pawl.SweepRequest{Session: observer, Dead: []pawl.SeenSession{{ID: victim}}}); err != nil {
			t.Fatal(err)
		}
	}
	request := pawl.ClaimRequest{Session: observer, Queues: queues, Kinds: []string{kind}, Max: 3}
	if jobs := claim(t, store, request); len(jobs) != 0 {
		t.Errorf("claimed %d suspects without being asked to", len(jobs))
	}
	request.Suspect = true
	if jobs := claim(t, store, request); len(jobs) != 1 || jobs[0].Queue != queues[0] {
		t.Errorf("claimed %d suspects, want the one of the first queue", len(jobs))
	}
}

// A batch of which one cannot be written settles but for that one, which keeps its reservation.
func TestSettleFindsTheCulprit(t *testing.T) {
	t.Parallel()
	store := openFresh(t, storetest.Options{})
	db := openBeside(t, store)
	_, err := db.ExecContext(t.Context(), `create trigger broken before insert on pawl_letter when new.kind = 'broken.v1'
		begin select raise(abort, 'this letter cannot be written'); end`)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 9 {
		enqueue(t, store, map[bool]string{true: "broken.v1", false: "good.v1"}[n == 4])
	}
	kinds := []string{"good.v1", "broken.v1"}
	session := host(t, store, kinds...)
	jobs := claim(t, store, pawl.ClaimRequest{Session: session, Queues: []string{"2-default"}, Kinds: kinds, Max: 9})
	settlements := make([]pawl.Settlement, len(jobs))
	for i, job := range jobs {
		letter := pawl.NewDeadLetter(pawl.Undertaker{Connection: "default"}, job, pawl.Dead{}, time.Time{}, errors.New("failed"))
		settlements[i] = pawl.Settlement{Reservation: job.Reservation, Outcome: pawl.Dead{}, Letter: &letter}
		if i%2 == 1 {
			settlements[i] = pawl.Settlement{Reservation: job.Reservation, Outcome: pawl.Done{}}
		}
	}
	errs, err := store.Settle(t.Context(), session, settlements)
	if err != nil {
		t.Fatal(err)
	}
	for i, err := range errs {
		if (err != nil) != (i == 4) {
			t.Errorf("member %d: %v", i, err)
		}
	}
	if n := count(t, db, `select count(*) from pawl_job where session is not null and kind = 'broken.v1'`); n != 1 {
		t.Errorf("%d broken jobs are reserved, want 1", n)
	}
	if n := count(t, db, `select count(*) from pawl_done`); n != 8 {
		t.Errorf("%d jobs have ended, want 8", n)
	}
	if n := count(t, db, `select count(*) from pawl_letter`); n != 4 {
		t.Errorf("%d letters, want 4", n)
	}
}

// Finished jobs are shown for as long as history is kept, and their ids are known for a day all the same.
func TestShortHistory(t *testing.T) {
	t.Parallel()
	store := openFresh(t, storetest.Options{})
	short, err := sqlite.Open(t.Context(), store.(onFile).path, sqlite.Config{History: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer short.Close()
	const kind = "short.v1"
	session := host(t, short, kind)
	finish := func() (ids []pawl.ID) {
		for range 5 {
			ids = append(ids, enqueue(t, short, kind))
		}
		request := pawl.ClaimRequest{Session: session, Queues: []string{"2-default"}, Kinds: []string{kind}, Max: 5}
		if n, err := claimAndSettle(t.Context(), short, request); err != nil || n != 5 {
			t.Fatalf("%d jobs done: %v", n, err)
		}
		return ids
	}
	old := finish()
	backdate(t, store, 2*time.Hour)
	fresh := finish()
	for more, rounds := true, 0; more; rounds++ {
		report, err := short.Sweep(t.Context(), pawl.SweepRequest{Session: session, Limit: 2})
		if err != nil || rounds > 20 {
			t.Fatalf("sweep %d: %v", rounds, err)
		}
		more = report.More
	}
	for _, id := range old {
		if _, err := short.Job(t.Context(), id); !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("job that was done two hours ago: %v, want ErrNotFound", err)
		}
		if result, err := pawl.NewKind[int](kind, pawl.Policy{}).Enqueue(t.Context(), short, 1, pawl.WithID(id)); err != nil || result.Status != pawl.Repeated {
			t.Errorf("its id again: %v, %v, want repeated", result.Status, err)
		}
	}
	for _, id := range fresh {
		if _, err := short.Job(t.Context(), id); err != nil {
			t.Errorf("job that was just done: %v", err)
		}
	}
}

// A key that is free again leaves nothing behind.
func TestKeysLeaveNoRows(t *testing.T) {
	t.Parallel()
	store := openFresh(t, storetest.Options{})
	const kind = "keys.v1"
	for n := range 10 {
		enqueue(t, store, kind, pawl.UniqueWhileUnfinished(fmt.Sprint("unfinished ", n)))
		enqueue(t, store, kind, pawl.UniqueWhileWaiting(fmt.Sprint("waiting ", n)))
		enqueue(t, store, kind, pawl.UniqueFor(fmt.Sprint("period ", n), time.Hour))
	}
	session := host(t, store, kind)
	request := pawl.ClaimRequest{Session: session, Queues: []string{"2-default"}, Kinds: []string{kind}, Max: 30}
	if n, err := claimAndSettle(t.Context(), store.(onFile).Store, request); err != nil || n != 30 {
		t.Fatalf("%d jobs done: %v", n, err)
	}
	db := openBeside(t, store)
	if n := count(t, db, `select count(*) from pawl_key`); n != 10 {
		t.Errorf("%d keys are left when their jobs are done, want the 10 for a period", n)
	}
	backdate(t, store, 2*time.Hour)
	if _, err := store.Sweep(t.Context(), pawl.SweepRequest{Session: session}); err != nil {
		t.Fatal(err)
	}
	if n := count(t, db, `select count(*) from pawl_key`); n != 0 {
		t.Errorf("%d keys are left after their period, want none", n)
	}
}
