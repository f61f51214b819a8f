package postgres

import (
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/page"
)

// Lists of batches go along an index that has their order, and of a batch the members are found by it, however many there are.
func TestBatchListPlans(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	s.fill(t, `insert into {s}.batch (id, kind, queue, delay, created_at, ended_at) select gen_random_uuid(), 1, 1, 0, now() - g * interval '1 second',
		case when g % 1000 > 0 then now() - g * interval '1 second' end from generate_series(1, 50000) g`,
		`insert into {s}.tally (batch, done) select id, 1 from {s}.batch`,
		`insert into {s}.job (id, queue, kind, batch, envelope) select gen_random_uuid(), 1, 1, case when g % 2 = 0 then b.id end, '\x00'
		from generate_series(1, 1000) g, (select id from {s}.batch where ended_at is null) b`,
		`vacuum analyze {s}.batch`, `vacuum analyze {s}.tally`, `vacuum analyze {s}.job`)
	after := page.Cursor{At: time.Now().UnixMicro(), ID: pawl.NewID()}
	for name, c := range map[string]struct {
		filter pawl.BatchFilter
		has    string
	}{
		"all":         {pawl.BatchFilter{}, "using batch_created"},
		"open":        {pawl.BatchFilter{State: pawl.BatchIsOpen}, "using batch_open"},
		"ended":       {pawl.BatchFilter{State: pawl.BatchHasEnded}, "using batch_created"},
		"lately":      {pawl.BatchFilter{Since: time.Now().Add(-time.Hour)}, "using batch_created"},
		"open lately": {pawl.BatchFilter{State: pawl.BatchIsOpen, Since: time.Now().Add(-time.Hour)}, "using batch_open"},
	} {
		conditions, _, err := s.batchConditions(t.Context(), s.pool, c.filter)
		if err != nil {
			t.Fatal(err)
		}
		list := batchQuery(conditions, 50)
		plan := viewPlan(t, s, s.schema.text(list.text), list.args...)
		checkPlan(t, name, plan, c.has, "Seq Scan on batch", "Seq Scan on tally")
		checkPlan(t, name+", the notes", plan, "tally_batch", "Seq Scan on batch")
		conditions.add("(created_at, id) < (?, ?)", time.UnixMicro(after.At), idBound(after.ID))
		list = batchQuery(conditions, 50)
		checkPlan(t, name+", a later page", viewPlan(t, s, s.schema.text(list.text), list.args...), "ROW(created_at, id)", "Seq Scan on batch")
	}
	members := viewPlan(t, s, s.sql.selectMembers, idValue(pawl.NewID()), idBound(pawl.ID{}), 51)
	checkPlan(t, "members", members, "using job_batch", "Seq Scan on job", "Bitmap")
	checkPlan(t, "members, from the last on", members, "Index Cond: ((batch = ", "Seq Scan on job")
}
