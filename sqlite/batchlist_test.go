package sqlite

import (
	"context"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/page"
)

// Lists of batches go along an index that has their order, and of a batch the members are found by it, whether or not somebody has
// let SQLite gather statistics.
func TestBatchListPlans(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	checkBatchListPlans(t, s)
	err := s.write(t.Context(), func(ctx context.Context, w *writer) error {
		for _, statement := range []string{
			`with recursive n (g) as (select 1 union all select g + 1 from n where g < 20000)
			insert into pawl_batch (id, kind, queue, delay, created_at, ended_at)
			select cast(printf('%016d', g) as blob), 'k', 'q', 0, g, case when g % 1000 > 0 then g end from n`,
			`with recursive n (g) as (select 1 union all select g + 1 from n where g < 20000)
			insert into pawl_job (id, queue, kind, lane, once, starts_off, enqueued_at, ready_at, batch, envelope)
			select randomblob(16), 'q', 'k', 0, 0, 0, g, g, case when g % 2 = 0 then cast(printf('%016d', 1000 * (g % 20)) as blob) end, x'00' from n`,
			"analyze",
		} {
			if err := w.exec(ctx, statement); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	again, err := Open(t.Context(), s.path, Config{}) // connections read statistics when they open
	if err != nil {
		t.Fatal(err)
	}
	checkBatchListPlans(t, again)
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

func checkBatchListPlans(t *testing.T, s *Store) {
	t.Helper()
	next := page.Cursor{At: time.Now().UnixMilli(), ID: pawl.NewID()}.Encode(page.Batches)
	for name, c := range map[string]struct {
		filter pawl.BatchFilter
		has    string
	}{
		"all":         {pawl.BatchFilter{}, "pawl_batch_created"},
		"open":        {pawl.BatchFilter{State: pawl.BatchIsOpen}, "pawl_batch_open"},
		"ended":       {pawl.BatchFilter{State: pawl.BatchHasEnded}, "pawl_batch_created"},
		"of a kind":   {pawl.BatchFilter{Kind: "k"}, "pawl_batch_created"},
		"open lately": {pawl.BatchFilter{State: pawl.BatchIsOpen, Since: time.Now()}, "pawl_batch_open"},
	} {
		query, args, _, err := batchQuery(c.filter, pawl.Page{})
		if err != nil {
			t.Fatal(err)
		}
		checkPlan(t, name, plan(t, s, query, args...), c.has, sorts)
		if query, args, _, err = batchQuery(c.filter, pawl.Page{After: next}); err != nil {
			t.Fatal(err)
		}
		checkPlan(t, name+", a later page", plan(t, s, query, args...), c.has+" (", sorts)
	}
	checkPlan(t, "members", plan(t, s, selectMembers, make([]byte, 16), make([]byte, 16), 51), "pawl_job_batch (batch=? AND id>?)", "SCAN pawl_job", sorts)
}
