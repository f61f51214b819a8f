package sqlite

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/page"
)

func openHere(t testing.TB) *Store {
	t.Helper()
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "jobs.db"), Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	return s
}

// plan is how SQLite goes about a query, one line a step.
func plan(t *testing.T, s *Store, query string, args ...any) string {
	t.Helper()
	steps, err := selectRows(t.Context(), s.reads, func(rows *sql.Rows) (step string, err error) {
		var id, parent, unused int
		return step, rows.Scan(&id, &parent, &unused, &step)
	}, "explain query plan "+query, args...)
	if err != nil {
		t.Fatalf("explain %s: %v", query, err)
	}
	return strings.Join(steps, "\n")
}

const sorts = "TEMP B-TREE"

// The plan must have the first text and none of the others.
func checkPlan(t *testing.T, what, plan, has string, lacks ...string) {
	t.Helper()
	if !strings.Contains(plan, has) {
		t.Errorf("%s: plan lacks %q:\n%s", what, has, plan)
	}
	for _, text := range lacks {
		if strings.Contains(plan, text) {
			t.Errorf("%s: plan has %q:\n%s", what, text, plan)
		}
	}
}

// Lists go along an index that has their order, from the cursor on, and so read as many rows as they return.
func TestLetterPlans(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	dead := []pawl.Status{pawl.StatusDead}
	for name, c := range map[string]struct {
		filter pawl.LetterFilter
		index  string
	}{
		"all":              {pawl.LetterFilter{}, "pawl_letter_time"},
		"status":           {pawl.LetterFilter{Status: dead}, "pawl_letter_status (status=?"},
		"status and time":  {pawl.LetterFilter{Status: dead, Since: time.Now()}, "pawl_letter_status (status=? AND (dead_at,id)>(?,?)"},
		"group":            {pawl.LetterFilter{Fingerprint: "1-x"}, "pawl_letter_group (fingerprint=?"},
		"group and status": {pawl.LetterFilter{Fingerprint: "1-x", Status: dead}, "pawl_letter_group (fingerprint=?"},
		"time":             {pawl.LetterFilter{Since: time.Now()}, "pawl_letter_time ((dead_at,id)>(?,?)"},
	} {
		q, err := newLetterQuery(c.filter)
		if err != nil {
			t.Fatal(err)
		}
		for _, order := range []string{newestFirst, oldestFirst} {
			w := q.within(q.times).and(q.rest)
			checkPlan(t, name, plan(t, s, q.by(letterColumns)+w.sql()+order, w.args...), c.index, sorts)
			next := q.times
			next.NotBefore(page.Cursor{At: 1 << 50})
			next.Before(page.Cursor{At: 1 << 51})
			w = q.within(next).and(q.rest)
			checkPlan(t, name+", next page", plan(t, s, q.by(letterColumns)+w.sql()+order, w.args...),
				"(dead_at,id)>(?,?) AND (dead_at,id)<(?,?)", sorts, "SCAN")
		}
		w := q.within(q.times)
		checkPlan(t, name+", far", plan(t, s, q.by("dead_at, id")+w.sql()+newestFirst, w.args...), "COVERING INDEX", sorts)
		w = w.and(q.rest)
		checkPlan(t, name+", count", plan(t, s, q.by("count(*)")+w.sql(), w.args...), "COVERING INDEX", sorts)
	}
}

// What no index answers is looked for along the list's order first, and then in the table itself.
func TestUnindexedLetterPlans(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	for name, filter := range map[string]pawl.LetterFilter{
		"kind": {Kind: "k"}, "text": {Text: "x"}, "tag": {Tag: "x"}, "kind and status": {Kind: "k", Status: []pawl.Status{0}},
	} {
		q, err := newLetterQuery(filter)
		if err != nil {
			t.Fatal(err)
		}
		w := q.within(q.times).and(q.rest)
		checkPlan(t, name+", near", plan(t, s, q.by(letterColumns)+w.sql()+newestFirst, w.args...), "USING INDEX pawl_letter_", sorts)
		checkPlan(t, name+", all", plan(t, s, q.all(letterColumns)+w.sql(), w.args...), "SCAN l", "INDEX pawl_letter_")
	}
	q, err := newLetterQuery(pawl.LetterFilter{JobID: pawl.NewID(), Kind: "k", Fingerprint: "f"})
	if err != nil {
		t.Fatal(err)
	}
	w := q.within(q.times).and(q.rest)
	checkPlan(t, "job", plan(t, s, q.by(letterColumns)+w.sql(), w.args...), "pawl_letter_job (job_id=?)")
}

// Groups come in the order of their index, which has all that a filter by status and time asks for. Other filters go
// through the table, not from the index into it. The letter that stands for a group is found where the group ends.
func TestGroupPlans(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	const sortsGroups = sorts
	dead := []pawl.Status{pawl.StatusDead}
	for name, c := range map[string]struct {
		filter pawl.LetterFilter
		has    string
		lacks  string
	}{
		"all":      {pawl.LetterFilter{}, "SCAN l USING COVERING INDEX pawl_letter_group", sortsGroups},
		"status":   {pawl.LetterFilter{Status: dead, Since: time.Now()}, "SCAN l USING COVERING INDEX pawl_letter_group", sortsGroups},
		"statuses": {pawl.LetterFilter{Status: []pawl.Status{0, 2}}, "SCAN l USING COVERING INDEX pawl_letter_group", sortsGroups},
		"group":    {pawl.LetterFilter{Fingerprint: "1-x", Kind: "k"}, "pawl_letter_group (fingerprint=?", sortsGroups},
		"job":      {pawl.LetterFilter{JobID: pawl.NewID(), Kind: "k"}, "pawl_letter_job (job_id=?)", "SCAN l"},
		"kind":     {pawl.LetterFilter{Kind: "k", Status: dead}, "SCAN l", "pawl_letter_group"},
	} {
		q, err := newLetterQuery(c.filter)
		if err != nil {
			t.Fatal(err)
		}
		g := newGrouping(q)
		query, args := g.upTo(nil)
		checkPlan(t, name, plan(t, s, query, args...), c.has, c.lacks)
		if g.index != "pawl_letter_job" {
			query, args = g.ending(7)
			checkPlan(t, name+", end", plan(t, s, query, args...), c.has, c.lacks, sorts)
			g.from = []any{"1-x", 1, []byte{1}}[3-g.columns():]
			if g.order == inList {
				g.from[0] = int64(1)
			}
			for _, to := range [][]any{nil, g.from} {
				query, args = g.upTo(to)
				checkPlan(t, name+", further", plan(t, s, query, args...), "SEARCH l", sorts)
			}
		}
		query, args = q.ofGroup(pawl.LetterGroup{Fingerprint: "1-x", LastSeen: time.Now()})
		checkPlan(t, name+", newest", plan(t, s, query, args...), "pawl_letter_group (fingerprint=? AND dead_at=?", sorts)
	}
	checkPlan(t, "first", plan(t, s, firstGroup, "1-"), "SEARCH pawl_letter USING COVERING INDEX pawl_letter_group (fingerprint>?", sorts)
	checkPlan(t, "next", plan(t, s, nextGroup, "1-"), "SEARCH pawl_letter USING COVERING INDEX pawl_letter_group (fingerprint>?", sorts)
}

// Counts and picks of each state go along its own partial index.
func TestQueuePlans(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	checkPlan(t, "waiting", plan(t, s, waitingByQueue), "pawl_job_ready", sorts)
	checkPlan(t, "scheduled", plan(t, s, scheduledByQueue), "pawl_job_due")
	checkPlan(t, "reserved", plan(t, s, reservedByQueue), "pawl_job_held")
	checkPlan(t, "fronts", plan(t, s, selectFronts, "q", -1), "SEARCH n USING", sorts)
	checkPlan(t, "oldest", plan(t, s, oldestOfLane, "q", "k", 0), "pawl_job_ready (queue=? AND kind=? AND lane=? AND rowid", sorts, "SCAN pawl_job")
	for state, index := range map[string]string{clearWaiting: "pawl_job_ready", clearScheduled: "pawl_job_due", clearReserved: "pawl_job_held"} {
		checkPlan(t, "clear "+state, plan(t, s, pickToClear(state), "q", 1, 2), "SEARCH pawl_job USING INDEX "+index, sorts)
	}
	for _, statement := range removals {
		checkPlan(t, statement, plan(t, s, statement, "[1]"), "SEARCH pawl_", "SCAN pawl_")
	}
}

func TestAlertAndAuditPlans(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	for name, c := range map[string]struct {
		query, index string
		args         []any
	}{
		"state, fresh":    {selectSinkState, "COVERING INDEX pawl_alert_fresh (sink=? AND message=?)", []any{"mail", 1, 31, 4}},
		"state, due":      {selectSinkState, "COVERING INDEX pawl_message_due (sink=? AND due_at<?)", []any{"mail", 1, 31, 4}},
		"due":             {selectDueMessages, "pawl_message_due (sink=? AND due_at<?)", []any{"mail", 1, 4}},
		"first fresh":     {selectFresh, "pawl_alert_fresh (sink=? AND message=?)", []any{"mail", 4}},
		"exhausted":       {selectExhausted, "pawl_message_due (sink=?", []any{"mail", 6}},
		"open members":    {countOpenMembers, "pawl_alert_message (message=?)", []any{"mail", 6}},
		"member":          {selectMember, "pawl_alert_message (message=?)", []any{1}},
		"sink, fresh":     {countAlerts, "pawl_alert_fresh (sink=?", []any{"mail"}},
		"sink, messages":  {countAlerts, "pawl_message_due (sink=? AND due_at>?)", []any{"mail"}},
		"alerts of":       {selectAlertsOf, "sqlite_autoindex_pawl_alert_1 (letter=?)", []any{[]byte("x")}},
		"freed":           {freeMessages, "pawl_message_leased (session=?)", []any{1, 2}},
		"was it resolved": {selectGroupState, "pawl_letter_group (fingerprint=?)", []any{"f", []byte{0}}},
	} {
		checkPlan(t, name, plan(t, s, c.query, c.args...), c.index, "SCAN pawl_")
	}
	checkPlan(t, "needed", plan(t, s, selectNeeded, []byte{1}), "pawl_operation_needs (letter=?)", "SCAN pawl_", "SCAN o", "SCAN i")
	checkPlan(t, "expired", plan(t, s, selectExpired, 1, 2), "pawl_letter_closed (status_at<?)", sorts, "SCAN l", "SCAN i")
	prune, err := newLetterQuery(pawl.LetterFilter{Status: []pawl.Status{2, 3}, StatusBefore: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	p := pruning{letterQuery: prune}
	p.times.Behind(page.Cursor{At: 1})
	query, args := p.picking(10)
	checkPlan(t, "prune", plan(t, s, query, args...), "pawl_letter_time ((dead_at,id)>(?,?)", sorts)
	query, args, _, err = auditQuery(pawl.AuditFilter{Subject: "queue q"}, pawl.Page{})
	if err != nil {
		t.Fatal(err)
	}
	checkPlan(t, "audit of a subject", plan(t, s, query, args...), "pawl_audit_subject (subject=?)", sorts)
	query, args, _, err = auditQuery(pawl.AuditFilter{}, pawl.Page{})
	if err != nil {
		t.Fatal(err)
	}
	checkPlan(t, "audit", plan(t, s, query, args...), "SCAN pawl_audit", sorts)
}
