package postgres

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/page"
)

// crowd fills a store with jobs in every state, enqueued over the last two hours, most of them lately.
func crowd(t *testing.T, s *Store) {
	t.Helper()
	if err := s.number(t.Context(), []string{"a.v1", "b.v1"}, []string{"q", "r"}); err != nil {
		t.Fatal(err)
	}
	slots, err := s.currentSlots(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.fill(t, `create view {s}.past as select g, now() - (2 * power(random(), 4) * interval '1 hour') as at, gen_random_uuid() as id,
  (select id from {s}.name where text = case g % 2 when 0 then 'q' else 'r' end) as queue,
  (select id from {s}.name where text = case g % 3 when 0 then 'a.v1' else 'b.v1' end) as kind from generate_series(1, 6000) g`,
		`insert into {s}.job (id, queue, kind, enqueued_at, envelope) select id, queue, kind, at, '\x00' from {s}.past order by at`,
		`insert into {s}.job (id, queue, kind, enqueued_at, run_at, envelope)
  select id, queue, kind, at, now() + g * interval '1 minute', '\x00' from {s}.past where g % 5 = 0`,
		`insert into {s}.`+slots.table()+` (id, finished_at, enqueued_at, queue, kind, attempt, requeues, crashes, state, envelope)
  select id, now(), at, queue, kind, 1, 0, 0, g % 3, '\x00' from {s}.past order by random()`,
		`update {s}.job set holder = 1, claim = 1 where run_at is null and seq % 7 = 0`)
}

// What is found among the jobs of the last seconds and minutes is what sorting all of them gives, and most is found so.
func TestNewestJobsAreFoundByTheirTimes(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	crowd(t, s)
	slots, err := s.currentSlots(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, filter := range []pawl.JobFilter{
		{},
		{Kind: "a.v1"},
		{Queue: "r", State: pawl.JobWaiting},
		{State: pawl.JobScheduled},
		{State: pawl.JobReserved},
		{State: pawl.JobDone},
		{State: pawl.JobRemoved, Kind: "b.v1"},
		{Kind: "nobody's"},
		{Since: time.Now().Add(-time.Minute)},
	} {
		p := pawl.Page{Limit: 40}
		for n := range 12 {
			near, next := listHere(t, s, filter, p, 0, slots)
			whole, _ := listHere(t, s, filter, p, math.MaxInt64, slots)
			if diff := cmp.Diff(whole, near); diff != "" {
				t.Fatalf("%+v, page %d (-want +got):\n%s", filter, n, diff)
			}
			if n == 0 && len(near) < 40 && filter.Kind != "nobody's" {
				t.Fatalf("%+v: only %d jobs", filter, len(near))
			}
			if p.After = next; next == "" {
				break
			}
		}
	}
}

func listHere(t *testing.T, s *Store, filter pawl.JobFilter, p pawl.Page, small int64, slots slotSet) (ids []pawl.ID, next string) {
	t.Helper()
	q, err := newJobQuery(filter, p)
	if err != nil {
		t.Fatal(err)
	}
	q.small = small
	err = s.view(t.Context(), func(ctx context.Context, x querier) error {
		rows, err := s.listJobs(ctx, x, q, slots)
		rows, next = page.Cut(rows, q.limit, page.Jobs, func(j jobRow) page.Cursor {
			return page.Cursor{At: j.EnqueuedAt.UnixMicro(), ID: j.ID}
		})
		for _, row := range rows {
			ids = append(ids, row.ID)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids, next
}

// Short queues are counted to the job; of long ones the reserved jobs are told at the head, and what lies behind the last
// that is counted is estimated.
func TestCountsOfLongQueues(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	crowd(t, s)
	s.fill(t, `update {s}.job set seq = seq - 4611686018427387904 where run_at is null and seq % 100 = 1`,
		`update {s}.job set holder = null, claim = null where run_at is null and seq > 1500`)
	count := func(b countBounds) (views []pawl.QueueView) {
		err := s.view(t.Context(), func(ctx context.Context, q querier) (err error) {
			views, err = s.readQueues(ctx, q, b)
			return err
		})
		if err != nil || len(views) != 2 {
			t.Fatalf("%d queues, %v", len(views), err)
		}
		return views
	}
	exact := count(countBounds{head: 9000, most: 9000})
	for _, v := range exact {
		if v.Waiting+v.Reserved != 3000 || v.Reserved < 80 || v.Scheduled != 600 || v.OldestReady < time.Minute {
			t.Errorf("counted exactly: %+v", v)
		}
	}
	for _, b := range []countBounds{{head: 1000, most: 9000}, {head: 1000, most: 1200}} {
		for i, v := range count(b) {
			want := exact[i]
			if v.Reserved != want.Reserved || v.OldestReady.Round(time.Minute) != want.OldestReady.Round(time.Minute) {
				t.Errorf("%+v: %+v, want %+v", b, v, want)
			}
			if off := math.Abs(float64(v.Waiting - want.Waiting)); off > 0.1*float64(want.Waiting) || b.most > 3000 && off > 0 {
				t.Errorf("%+v: %d wait, want %d", b, v.Waiting, want.Waiting)
			}
		}
	}
}

// A clear goes by batches and counts as one. What is enqueued meanwhile stays; what becomes ready or is scheduled anew
// goes along.
func TestClearGoesByBatches(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	crowd(t, s)
	slots, err := s.writableSlots(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	count := func(query string) (n int) {
		t.Helper()
		if err := s.pool.QueryRow(t.Context(), s.schema.text(query)).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	const ofQ, ofR = `select count(*) from {s}.job j join {s}.name n on n.id = j.queue and n.text = 'q'`, `select count(*) from {s}.job j join {s}.name n on n.id = j.queue and n.text = 'r'`
	live, others, late := count(ofQ), count(ofR), 0
	removedBefore := count(`select count(*) from {s}.` + slots.table() + ` where state = 2`)
	c := clearing{store: s, queue: "q", by: pawl.By{Who: "ada"}}
	steps := 0
	for ; !c.over && steps < 100; steps++ {
		if err := s.write(t.Context(), func(ctx context.Context, tx pgx.Tx) error { return c.step(ctx, tx, slots) }); err != nil {
			t.Fatal(err)
		}
		if !c.over {
			late++
			enqueueHere(t, s)
		}
		if steps == 3 { // in the middle of the ready ones, some are scheduled and some go to the front
			const old = `(select j.id from {s}.job j join {s}.name n on n.id = j.queue and n.text = 'q' where run_at is null
				and enqueued_at < now() - interval '1 minute' order by seq desc limit 3)`
			s.fill(t, `update {s}.job set run_at = now(), holder = null where id in `+old, `update {s}.job set seq = -seq where id in `+old)
		}
	}
	if left := count(ofQ); left != late || steps < 6 {
		t.Errorf("after %d steps, with %d jobs enqueued between them, %d are left", steps, late, left)
	}
	if left := count(ofR); left != others {
		t.Errorf("of the other queue's %d jobs %d are left", others, left)
	}
	removed := count(`select count(*) from {s}.`+slots.table()+` where state = 2`) - removedBefore
	if c.cleared != live || removed != live {
		t.Errorf("of %d jobs %d were cleared, %d are remembered", live, c.cleared, removed)
	}
	trail, err := s.Audit(t.Context(), pawl.AuditFilter{}, pawl.Page{})
	if err != nil || len(trail.Entries) != 1 || trail.Entries[0].Outcome != fmt.Sprint(live) {
		t.Errorf("the trail says %+v, %v", trail.Entries, err)
	}
	if n, err := s.ClearQueue(t.Context(), "q", pawl.By{Who: "ada"}); err != nil || n != late {
		t.Errorf("another clear removed %d, %v", n, err)
	}
}

func enqueueHere(t *testing.T, s *Store) {
	t.Helper()
	job := pawl.NewJob{ID: pawl.NewID(), Kind: "a.v1", Queue: "q", Envelope: []byte("x")}
	if _, err := s.Enqueue(t.Context(), []pawl.NewJob{job}); err != nil {
		t.Fatal(err)
	}
}
