package postgres

import (
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/page"
)

const (
	manyOperations = `insert into {s}.operation (id, created_at, action, filter, named, who, door, why, options, state, letters, done, tallied, ended_at)
select ('00000000-0000-0000-0000-' || lpad(g::text, 12, '0'))::uuid, now() - g * interval '1 minute', 'redrive', '{}', false, 'ada', 'cli', '', '{}',
  case when g % 100 = 0 then 'running' else 'finished' end, 1000, 500, g % 100 > 1, case when g % 100 > 0 then now() end
from generate_series(1, 2000) g`
	manyItems = `insert into {s}.operation_item (operation, position, state, outcome, letter, job)
select ('00000000-0000-0000-0000-' || lpad((1 + g / 1000)::text, 12, '0'))::uuid, 1 + g % 1000, 2, case when g % 50 = 0 then 1 else 2 end,
  gen_random_uuid(), gen_random_uuid() from generate_series(0, 99999) g`
)

// What carries out operations, and what tells them of ends of jobs, goes by keys, whatever the statistics say.
func TestOperationPlans(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	checkOperationPlans(t, s)
	s.fill(t, manyOperations, manyItems, manyLetters, `vacuum analyze {s}.operation`, `vacuum analyze {s}.operation_item`, `vacuum analyze {s}.letter`)
	checkOperationPlans(t, s)
}

func checkOperationPlans(t *testing.T, s *Store) {
	t.Helper()
	for name, c := range map[string]struct{ statement, has string }{
		"lock":            {s.sql.desk.lockOperation, "using operation_pkey"},
		"change":          {s.sql.desk.changeOperation, "using operation_pkey"},
		"count a step":    {s.sql.desk.countStep, "using operation_pkey"},
		"step":            {s.sql.desk.stepItems, "using operation_item_pkey"},
		"handed over":     {s.sql.desk.handItems, "using operation_item_pkey"},
		"lease":           {s.sql.desk.leaseOperations, "using operation_active"},
		"tally":           {s.sql.desk.tallyOperations, "using operation_untallied"},
		"tally, pending":  {s.sql.desk.tallyOperations, "using operation_pending"},
		"end of a job":    {s.sql.desk.endItems, "using operation_job"},
		"end of a letter": {s.sql.desk.writeOutcomes, "using operation_job"},
	} {
		checkPlan(t, name, hostPlan(t, s, c.statement), c.has, "Seq Scan", "Hash", "hashed", "Merge")
	}
}

// Lists and what is next read as many operations and items as they return, and count the items of those alone.
func TestOperationViewPlans(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	s.fill(t, manyOperations, manyItems, manyLetters, `vacuum analyze {s}.operation`, `vacuum analyze {s}.operation_item`, `vacuum analyze {s}.letter`)
	id := idValue(pawl.NewID())
	list, _, err := operationQuery(pawl.OperationFilter{}, pawl.Page{After: page.Cursor{At: time.Now().UnixMicro(), ID: pawl.NewID()}.Encode(page.Operations)})
	if err != nil {
		t.Fatal(err)
	}
	plan := viewPlan(t, s, s.schema.text(list.text), list.args...)
	checkPlan(t, "list", plan, "using operation_time", "Seq Scan")
	checkPlan(t, "list, counts", plan, "operation_item_pkey")
	checkPlan(t, "list, only of those not tallied", plan, "One-Time Filter")
	one := viewPlan(t, s, s.sql.desk.selectOperation, id)
	checkPlan(t, "one", one, "using operation_pkey", "Seq Scan")
	checkPlan(t, "what is next", viewPlan(t, s, s.sql.desk.selectNext, id, 100, 500), "using operation_item_pkey", "Seq Scan")
	whole := viewPlan(t, s, s.sql.desk.selectNextWhole, id, 100, 500, 1<<20)
	checkPlan(t, "what is next, whole", whole, "using operation_item_pkey", "Seq Scan on operation_item", "Seq Scan on evidence")

	q, err := newLetterQuery(pawl.LetterFilter{Fingerprint: "1-7", Status: []pawl.Status{pawl.StatusDead}})
	if err != nil {
		t.Fatal(err)
	}
	freeze := q.freeze(pawl.NewID(), 1000)
	checkPlan(t, "freeze a group", viewPlan(t, s, s.schema.text(freeze.text), freeze.args...), "letter_group", "Seq Scan")
}
