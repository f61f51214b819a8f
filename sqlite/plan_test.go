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

// everyFact are filters by what the index of lists has.
var everyFact = map[string]pawl.LetterFilter{
	"class": {Class: []pawl.DeathClass{1, 2}}, "reason": {Reason: "budget"}, "kind": {Kind: "k"}, "queue": {Queue: "q"}, "connection": {Connection: "c"},
	"correlation": {CorrelationID: "c"}, "before": {StatusBefore: time.Now()}, "regression": {Regression: true}, "tag": {Tag: "t"}, "odd tag": {Tag: ",t"},
	"statuses": {Status: []pawl.Status{0, 2}}, "kind and status": {Kind: "k", Status: []pawl.Status{0}}, "time": {Since: time.Now()},
	"several": {Kind: "k", Tag: "t", Until: time.Now(), Class: []pawl.DeathClass{0}},
}

// Lists go along an index that has their order and all that the filter asks for, from the cursor on, and then look at what they
// return. Counts do with the index.
func TestLetterPlans(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	dead := []pawl.Status{pawl.StatusDead}
	type expected struct {
		filter pawl.LetterFilter
		index  string
	}
	cases := map[string]expected{
		"all":              {pawl.LetterFilter{}, listIndex},
		"status":           {pawl.LetterFilter{Status: dead}, "pawl_letter_status (status=?"},
		"status and time":  {pawl.LetterFilter{Status: dead, Since: time.Now()}, "pawl_letter_status (status=? AND (dead_at,id)>(?,?)"},
		"group":            {pawl.LetterFilter{Fingerprint: "1-x"}, "pawl_letter_group (fingerprint=?"},
		"group and status": {pawl.LetterFilter{Fingerprint: "1-x", Status: dead}, "pawl_letter_group (fingerprint=?"},
		"time":             {pawl.LetterFilter{Since: time.Now()}, listIndex + " ((dead_at,id)>(?,?)"},
	}
	for name, filter := range everyFact {
		cases["fact "+name] = expected{filter, listIndex}
	}
	for name, c := range cases {
		q := letterQueryOf(t, c.filter)
		for _, order := range []string{newestFirst, oldestFirst} {
			query, args := q.first(q.times, order, 51)
			steps := plan(t, s, query, args...)
			checkPlan(t, name, steps, "COVERING INDEX "+c.index, sorts)
			checkPlan(t, name, steps, "SEARCH l USING PRIMARY KEY (id=?)")
			next := q.times
			next.NotBefore(page.Cursor{At: 1 << 50})
			next.Before(page.Cursor{At: 1 << 51})
			query, args = q.first(next, order, 51)
			checkPlan(t, name+", next page", plan(t, s, query, args...), "(dead_at,id)>(?,?) AND (dead_at,id)<(?,?)", sorts, "SCAN l", "SCAN p")
		}
		query, args := q.matching("count(*)", false)
		if name == "all" {
			c.index = "pawl_letter_" // the smallest
		}
		checkPlan(t, name+", count", plan(t, s, query, args...), "COVERING INDEX "+c.index, sorts)
	}
}

func letterQueryOf(t *testing.T, filter pawl.LetterFilter) letterQuery {
	t.Helper()
	q, err := newLetterQuery(filter)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// A text is looked for in the letters that the rest of the filter leaves when those are few, else in the table itself. A job, and a
// small group, leave few for any filter.
func TestUnindexedLetterPlans(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	for name, c := range map[string]struct {
		filter pawl.LetterFilter
		index  string
	}{
		"text":            {pawl.LetterFilter{Text: "x"}, listIndex},
		"text and kind":   {pawl.LetterFilter{Text: "x", Kind: "k", Status: []pawl.Status{0}}, listIndex},
		"text of group":   {pawl.LetterFilter{Text: "x", Fingerprint: "1-x"}, groupIndex + " (fingerprint=?"},
		"kind of a group": {pawl.LetterFilter{Kind: "k", Fingerprint: "1-x"}, groupIndex + " (fingerprint=?"},
		"job":             {pawl.LetterFilter{JobID: pawl.NewID(), Kind: "k", Fingerprint: "f", Text: "x"}, jobIndex + " (job_id=?"},
		"batch":           {pawl.LetterFilter{Batch: pawl.NewID(), Kind: "k", Fingerprint: "f", Text: "x"}, batchIndex + " (batch=?"},
	} {
		q := letterQueryOf(t, c.filter)
		query, args := q.first(q.times, newestFirst, 51)
		checkPlan(t, name, plan(t, s, query, args...), "INDEX "+c.index, "SCAN p", "l USING INDEX "+listIndex)
		query, args = q.matching("count(*)", false)
		checkPlan(t, name+", count", plan(t, s, query, args...), "SEARCH l USING PRIMARY KEY (id=?)", sorts, "SCAN l USING INDEX", "SCAN l\n")
		query, args = q.matching("count(*)", true)
		checkPlan(t, name+", count of many", plan(t, s, query, args...), "SCAN l", "INDEX pawl_letter_", sorts)
		query, args = q.anywhere(newestFirst, 51)
		checkPlan(t, name+", anywhere", plan(t, s, query, args...), "SEARCH l USING PRIMARY KEY (id=?)", "INDEX pawl_letter_")
		w := q.within(q.times)
		if q.index != jobIndex {
			checkPlan(t, name+", far", plan(t, s, q.by("dead_at, id")+w.sql()+newestFirst, w.args...), "COVERING INDEX "+c.index, sorts)
		}
	}
	q := letterQueryOf(t, pawl.LetterFilter{Kind: "k", Fingerprint: "1-x"}).listed()
	query, args := q.matching("count(*)", false)
	checkPlan(t, "kind of a large group", plan(t, s, query, args...), "COVERING INDEX "+listIndex, sorts)
}

// Groups come in the order of their index, which has all that a filter by status and time asks for. Other filters go
// by the index of lists, or through the table for a text. The letter that stands for a group is found where the group ends.
func TestGroupPlans(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	dead := []pawl.Status{pawl.StatusDead}
	type expected struct {
		filter pawl.LetterFilter
		has    string
	}
	cases := map[string]expected{
		"all":           {pawl.LetterFilter{}, "SCAN l USING COVERING INDEX pawl_letter_group"},
		"status":        {pawl.LetterFilter{Status: dead, Since: time.Now()}, "SCAN l USING COVERING INDEX pawl_letter_group"},
		"two statuses":  {pawl.LetterFilter{Status: []pawl.Status{0, 2}}, "SCAN l USING COVERING INDEX pawl_letter_group"},
		"group":         {pawl.LetterFilter{Fingerprint: "1-x", Status: dead}, "COVERING INDEX pawl_letter_group (fingerprint=?"},
		"kind of group": {pawl.LetterFilter{Fingerprint: "1-x", Kind: "k"}, "COVERING INDEX pawl_letter_list"},
	}
	for name, filter := range everyFact {
		if name != "statuses" && name != "time" {
			cases["fact "+name] = expected{filter, "COVERING INDEX pawl_letter_list"}
		}
	}
	for name, c := range cases {
		q := letterQueryOf(t, c.filter)
		if len(q.facts.terms) > 0 {
			q = q.listed() // as a large group is
		}
		g := newGrouping(q)
		query, args := g.next(7)
		checkPlan(t, name, plan(t, s, query, args...), c.has, sorts)
		g.from = &died{fingerprint: []byte("1-x"), at: 1}
		query, args = g.next(7)
		checkPlan(t, name+", further", plan(t, s, query, args...), "SEARCH l USING COVERING INDEX", sorts)
		query, args = q.ofGroup(pawl.LetterGroup{Fingerprint: "1-x", LastSeen: time.Now()})
		checkPlan(t, name+", newest", plan(t, s, query, args...), "pawl_letter_group (fingerprint=? AND dead_at=?", sorts)
	}
	text := letterQueryOf(t, pawl.LetterFilter{Text: "x", Kind: "k", Status: dead})
	for _, to := range [][]byte{nil, {2}} {
		query, args := text.stretchOfTable([]byte{1}, to)
		checkPlan(t, "text", plan(t, s, query, args...), "SEARCH l USING PRIMARY KEY (id>?", sorts)
	}
	checkPlan(t, "letters", plan(t, s, countLetters), "COVERING INDEX sqlite_autoindex_pawl_evidence_1")
	checkPlan(t, "end of a stretch", plan(t, s, nextLetters, []byte{1}, 7), "COVERING INDEX sqlite_autoindex_pawl_evidence_1 (letter>?)", sorts)
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
	checkPlan(t, "sinks of hosts", plan(t, s, selectInfos), "SCAN pawl_session USING INDEX pawl_session_live")
	checkPlan(t, "who retires", plan(t, s, retireSinks, 1, 2, 3, 4), "SEARCH pawl_session USING INTEGER PRIMARY KEY (rowid=?)")
	checkPlan(t, "needed", plan(t, s, selectNeeded, []byte{1}), "pawl_operation_needs (letter=?)", "SCAN pawl_", "SCAN o", "SCAN i")
	checkPlan(t, "expired", plan(t, s, selectExpired, 1, 2), "pawl_letter_closed (status_at<?)", sorts, "SCAN l", "SCAN i")
	p := pruning{letterQuery: letterQueryOf(t, pawl.LetterFilter{Status: []pawl.Status{2, 3}, StatusBefore: time.Now()})}
	p.times.Behind(page.Cursor{At: 1})
	query, args := p.picking(10)
	checkPlan(t, "prune", plan(t, s, query, args...), "COVERING INDEX pawl_letter_list ((dead_at,id)>(?,?)", sorts)
	query, args, _, err := auditQuery(pawl.AuditFilter{Subject: "queue q"}, pawl.Page{})
	if err != nil {
		t.Fatal(err)
	}
	checkPlan(t, "audit of a subject", plan(t, s, query, args...), "pawl_audit_subject (subject=?)", sorts)
	checkPlan(t, "who has switched", plan(t, s, selectSettings, 1), "pawl_audit_subject (subject=?)", sorts, "SCAN pawl_audit", "SCAN a")
	query, args, _, err = auditQuery(pawl.AuditFilter{}, pawl.Page{})
	if err != nil {
		t.Fatal(err)
	}
	checkPlan(t, "audit", plan(t, s, query, args...), "SCAN pawl_audit", sorts)
}
