package sqlite

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/page"
)

// aged is a store with jobs in every state, whose places in their queues tell little of when they were enqueued.
func aged(t *testing.T, s *Store, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 1))
	session, err := s.OpenSession(t.Context(), pawl.HostInfo{Name: "host-a", Kinds: []string{"a.v1", "b.v1"}})
	if err != nil {
		t.Fatal(err)
	}
	for range 40 {
		jobs := make([]pawl.NewJob, 30)
		for i := range jobs {
			jobs[i] = pawl.NewJob{ID: pawl.NewID(), Kind: []string{"a.v1", "b.v1"}[random.IntN(2)], Queue: "q", Envelope: []byte("x")}
			if random.IntN(4) == 0 {
				jobs[i].Delay = time.Duration(random.IntN(120)) * time.Minute
			}
		}
		if _, err := s.Enqueue(t.Context(), jobs); err != nil {
			t.Fatal(err)
		}
		claimed, err := s.Claim(t.Context(), pawl.ClaimRequest{Session: session, Queues: []string{"q"}, Kinds: []string{"a.v1", "b.v1"}, Max: 16})
		if err != nil {
			t.Fatal(err)
		}
		var ends []pawl.Settlement
		for _, job := range claimed.Jobs {
			outcome := []pawl.Outcome{
				pawl.Done{}, pawl.Done{}, pawl.Done{}, pawl.Retry{After: time.Hour}, pawl.Release{}, pawl.GiveBack{}, pawl.GiveBack{Interrupted: true}, nil,
			}[random.IntN(8)]
			if outcome != nil {
				ends = append(ends, pawl.Settlement{Reservation: job.Reservation, Outcome: outcome})
			}
		}
		if _, err := s.Settle(t.Context(), session, ends); err != nil {
			t.Fatal(err)
		}
		passTime(t, s, 10*time.Minute)
		if _, err := s.Sweep(t.Context(), pawl.SweepRequest{Session: session, Limit: 15}); err != nil {
			t.Fatal(err)
		}
	}
}

// passTime moves what jobs remember into the past.
func passTime(t *testing.T, s *Store, by time.Duration) {
	t.Helper()
	err := s.write(t.Context(), func(ctx context.Context, w *writer) error {
		for _, statement := range []string{
			`update pawl_job set enqueued_at = enqueued_at - ?1, ready_at = ready_at - ?1, run_at = run_at - ?1`,
			`update pawl_done set enqueued_at = enqueued_at - ?1, finished_at = finished_at - ?1`,
		} {
			if _, err := w.ExecContext(ctx, statement, by.Milliseconds()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What is found among the recent rows is what sorting the whole tables gives; and it is found there.
func TestNewestJobsAreFoundAmongTheRecent(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	aged(t, s, 7)
	ctx, near := t.Context(), 0
	for _, filter := range []pawl.JobFilter{
		{},
		{Kind: "a.v1"},
		{State: pawl.JobWaiting},
		{State: pawl.JobScheduled},
		{State: pawl.JobReserved},
		{State: pawl.JobDone},
		{State: pawl.JobRemoved},
		{Since: time.Now().Add(-time.Hour)},
	} {
		p := pawl.Page{Limit: 20}
		for n := range 16 {
			q, err := newJobQuery(filter, p)
			if err != nil {
				t.Fatal(err)
			}
			q.recent = 200
			found, err := q.run(ctx, s.reads)
			if err != nil {
				t.Fatal(err)
			}
			jobs, next := page.Cut(found, q.limit, page.Jobs, placeOfJob)
			if diff := cmp.Diff(wholePage(t, s, q), idsOf(jobs)); diff != "" {
				t.Fatalf("%+v, page %d (-want +got):\n%s", filter, n, diff)
			}
			near += foundNear(t, s, q)
			if p.After = next; next == "" {
				break
			}
		}
	}
	if near < 20 {
		t.Errorf("the recent rows were enough %d times only", near)
	}
}

// foundNear is how many of the tables needed not be sorted for a page.
func foundNear(t *testing.T, s *Store, q jobQuery) (n int) {
	t.Helper()
	for _, table := range []struct {
		wanted bool
		near   func(context.Context, execer) ([]jobRow, error)
	}{{q.state.live, q.nearLive}, {q.state.ended, q.nearEnded}} {
		if !table.wanted {
			continue
		}
		rows, err := table.near(t.Context(), s.reads)
		if err != nil {
			t.Fatal(err)
		}
		if rows != nil {
			n++
		}
	}
	return n
}

// wholePage sorts all there is.
func wholePage(t *testing.T, s *Store, q jobQuery) []pawl.ID {
	t.Helper()
	var rows []jobRow
	if q.state.live {
		live, err := q.allLive(t.Context(), s.reads)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, live...)
	}
	if q.state.ended {
		ended, err := q.allEnded(t.Context(), s.reads)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, ended...)
	}
	var ids []pawl.ID
	for _, row := range q.first(rows) {
		ids = append(ids, row.ID)
	}
	return ids[:min(len(ids), q.limit)]
}

func idsOf(views []pawl.JobView) (ids []pawl.ID) {
	for _, view := range views {
		ids = append(ids, view.ID)
	}
	return ids
}

// Each queue's oldest ready job is found by the heads of its lanes.
func TestOldestReady(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	aged(t, s, 11)
	views, err := s.Queues(t.Context())
	if err != nil || len(views) != 1 {
		t.Fatalf("%d queues, %v", len(views), err)
	}
	var oldest, n int64
	row := s.reads.QueryRowContext(t.Context(), `select min(ready_at), count(*) from pawl_job where session is null and run_at is null`)
	if err := row.Scan(&oldest, &n); err != nil {
		t.Fatal(err)
	}
	if got, want := views[0].OldestReady, time.Duration(now()-oldest)*time.Millisecond; got > want || want-got > time.Minute {
		t.Errorf("oldest ready job is %s old, want %s", got, want)
	}
	if int64(views[0].Waiting) != n {
		t.Errorf("%d wait, want %d", views[0].Waiting, n)
	}
}

// Jobs at the front stand in no order of time: a shutdown's have become ready just now.
func TestOldestReadyAtTheFront(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	session, err := s.OpenSession(t.Context(), pawl.HostInfo{Name: "host-a", Kinds: []string{"a.v1"}})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := s.Enqueue(t.Context(), []pawl.NewJob{{ID: pawl.NewID(), Kind: "a.v1", Queue: "q", Envelope: []byte("x")}}); err != nil {
			t.Fatal(err)
		}
		passTime(t, s, time.Hour)
	}
	claimed, err := s.Claim(t.Context(), pawl.ClaimRequest{Session: session, Queues: []string{"q"}, Kinds: []string{"a.v1"}, Max: 2})
	if err != nil || len(claimed.Jobs) != 2 {
		t.Fatalf("claimed %d jobs, %v", len(claimed.Jobs), err)
	}
	first, second := claimed.Jobs[0].Reservation, claimed.Jobs[1].Reservation
	if _, err := s.Settle(t.Context(), session, []pawl.Settlement{
		{Reservation: first, Outcome: pawl.GiveBack{Interrupted: true}}, {Reservation: second, Outcome: pawl.GiveBack{}},
	}); err != nil {
		t.Fatal(err)
	}
	views, err := s.Queues(t.Context())
	if err != nil || len(views) != 1 || views[0].Waiting != 3 {
		t.Fatalf("queues are %+v, %v", views, err)
	}
	if age := views[0].OldestReady.Round(time.Hour); age != 2*time.Hour {
		t.Errorf("oldest ready job is %s old, want 2h", age)
	}
}

// A clear goes by batches and counts as one; what is enqueued meanwhile stays.
func TestClearGoesByBatches(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	aged(t, s, 3)
	passTime(t, s, time.Minute)
	count := func(query string) (n int) {
		t.Helper()
		if err := s.reads.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	live, steps := count(`select count(*) from pawl_job`), 0
	c := clearing{queue: "q", by: pawl.By{Who: "ada"}, until: now() - time.Second.Milliseconds()}
	for more := true; more && steps < 200; steps++ {
		late := pawl.NewJob{ID: pawl.NewID(), Kind: "a.v1", Queue: "q", Envelope: []byte("x")}
		if _, err := s.Enqueue(t.Context(), []pawl.NewJob{late}); err != nil {
			t.Fatal(err)
		}
		var next clearing
		err := s.write(t.Context(), func(ctx context.Context, w *writer) (err error) {
			next, more, err = c.step(ctx, w, true, now())
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		c = next
	}
	if left := count(`select count(*) from pawl_job`); left != steps || steps < 4 {
		t.Errorf("after %d steps, with a job enqueued before each, %d are left", steps, left)
	}
	if removed := count(`select count(*) from pawl_done where state = 'removed'`); c.cleared != live || removed != live {
		t.Errorf("of %d jobs %d were cleared, %d are remembered", live, c.cleared, removed)
	}
	trail, err := s.Audit(t.Context(), pawl.AuditFilter{}, pawl.Page{})
	if err != nil || len(trail.Entries) != 1 || trail.Entries[0].Outcome != fmt.Sprint(live) {
		t.Errorf("the trail says %+v, %v", trail.Entries, err)
	}
	if n, err := s.ClearQueue(t.Context(), "q", pawl.By{Who: "ada"}); err != nil || n != steps {
		t.Errorf("another clear removed %d, %v", n, err)
	}
}
