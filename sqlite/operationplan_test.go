package sqlite

import (
	"context"
	"testing"

	"github.com/pawljobs/pawl"
)

// What carries out operations, and what tells them of ends of jobs, goes by keys; lists go along their order.
func TestOperationPlans(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	checkOperationPlans(t, s)
	err := s.write(t.Context(), func(ctx context.Context, w *writer) error {
		for _, statement := range []string{
			`with recursive n (g) as (select 1 union all select g + 1 from n where g < 2000)
			insert into pawl_operation (id, created_at, action, filter, named, who, door, why, options, state, letters, changed_at)
			select randomblob(16), g, 'redrive', '{}', 0, 'ada', 'cli', '', '{}', iif(g % 100 = 0, 'running', 'finished'), 1000, g from n`,
			`with recursive n (g) as (select 0 union all select g + 1 from n where g < 50000)
			insert into pawl_operation_item (operation, position, letter, state, outcome, job)
			select cast(printf('%016d', g / 1000) as blob), 1 + g % 1000, randomblob(16), 2, 1 + (g % 50 > 0), randomblob(16) from n`,
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
	checkOperationPlans(t, again)
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

func checkOperationPlans(t *testing.T, s *Store) {
	t.Helper()
	const byID, byPosition = "PRIMARY KEY (id=?)", "PRIMARY KEY (operation=? AND position=?)"
	list, _, _, err := operationQuery(pawl.OperationFilter{}, pawl.Page{})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ query, has string }{
		"one":                 {selectOperations + ` where id = ?2`, byID},
		"list":                {list, "pawl_operation_time"},
		"standing":            {selectStanding, byID},
		"change":              {changeOperation, byID},
		"free":                {selectLeasable + " where state in ('probing', 'running') and free_at <= ? order by created_at limit ?", "pawl_operation_active"},
		"lease":               {leaseOperation, byID},
		"count a step":        {countStep, byID},
		"what is next":        {selectComing, "PRIMARY KEY (operation=? AND position>?)"},
		"what is next, whole": {selectComingWhole, "PRIMARY KEY (operation=? AND position>?)"},
		"its letters":         {selectComingWhole, "SEARCH l USING PRIMARY KEY (id=?)"},
		"its evidence":        {selectComingWhole, "pawl_evidence_1 (letter=?)"},
		"done":                {doItem, byPosition},
		"refused":             {refuseItem, byPosition},
		"handed over":         {handItem, byPosition},
		"end of a job":        {endItem, "pawl_operation_job (job=?)"},
		"counted":             {countEnd, byID},
	} {
		checkPlan(t, name, plan(t, s, c.query, make([]any, parameters(t, c.query))...), c.has, sorts, "SCAN i", "SCAN l", "SCAN e")
	}
	q, err := newLetterQuery(pawl.LetterFilter{Fingerprint: "1-7", Status: []pawl.Status{pawl.StatusDead}})
	if err != nil {
		t.Fatal(err)
	}
	query, args := q.frozen(1000)
	checkPlan(t, "freeze a group", plan(t, s, query, args...), "pawl_letter_group (fingerprint=?)", sorts)
}
