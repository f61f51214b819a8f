package postgres

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/page"
)

// openHere is a store in a schema of its own.
func openHere(t testing.TB) *Store {
	t.Helper()
	url := os.Getenv("PAWL_TEST_POSTGRES")
	if url == "" {
		t.Skip("PAWL_TEST_POSTGRES is not set: run the tests by scripts/with-services, which starts a server")
	}
	s, err := Open(t.Context(), url, Config{Schema: "plan_" + strings.ToLower(rand.Text())})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := s.pool.Exec(context.Background(), s.schema.text(`drop schema {s} cascade`)); err != nil {
			t.Errorf("drop schema: %v", err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	return s
}

// fill runs statements, in which {s} is the schema.
func (s *Store) fill(t testing.TB, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := s.pool.Exec(t.Context(), s.schema.text(statement)); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// allVisible vacuums jobs until no page has rows that somebody may not see yet: a transaction of another test holds that up,
// and without it plans do not go by the indexes alone.
func (s *Store) allVisible(t testing.TB) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		s.fill(t, `vacuum analyze {s}.job`)
		var done bool
		err := s.pool.QueryRow(t.Context(), `select relallvisible = relpages from pg_class where oid = $1::regclass`, s.schema.text(`{s}.job`)).Scan(&done)
		if err != nil {
			t.Fatal(err)
		}
		if done {
			return
		}
	}
	t.Fatal("the table is never vacuumed whole")
}

// vacuum leaves a table as the planner likes it: with its statistics, and all of its pages known to be visible to everybody,
// which they are not while a transaction of another test is older than their rows.
func (s *Store) vacuum(t testing.TB, table string) {
	t.Helper()
	for ctx := t.Context(); ; {
		s.fill(t, `vacuum analyze {s}.`+table)
		var visible bool
		err := s.pool.QueryRow(ctx, s.schema.text(`select relallvisible >= relpages from pg_catalog.pg_class where oid = '{l}.`+table+`'::regclass`)).Scan(&visible)
		if err != nil {
			t.Fatal(err)
		}
		if visible {
			return
		}
		if !wait(ctx, 50*time.Millisecond) {
			t.Fatalf("table %s is not all visible: %v", table, ctx.Err())
		}
	}
}

var parameter = regexp.MustCompile(`\$\d+`)

// hostPlan is how a statement of a host goes about it, whatever its arguments.
func hostPlan(t testing.TB, s *Store, statement string) string {
	t.Helper()
	most := 0
	for _, p := range parameter.FindAllString(statement, -1) {
		var n int
		if _, err := fmt.Sscanf(p, "$%d", &n); err != nil {
			t.Fatal(err)
		}
		most = max(most, n)
	}
	conn, err := s.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	simple := pgx.QueryExecModeSimpleProtocol
	if _, err := conn.Exec(t.Context(), "prepare planned as "+statement, simple); err != nil {
		t.Fatalf("prepare %s: %v", statement, err)
	}
	arguments := ""
	if most > 0 {
		arguments = " (" + strings.TrimSuffix(strings.Repeat("null, ", most), ", ") + ")"
	}
	plan, err := selectRows(t.Context(), conn, scanValue[string], "explain (costs off) execute planned"+arguments, simple)
	if err != nil {
		t.Fatalf("explain %s: %v", statement, err)
	}
	if _, err := conn.Exec(t.Context(), "deallocate planned", simple); err != nil {
		t.Fatal(err)
	}
	return strings.Join(plan, "\n")
}

// viewPlan is how an operator's query goes about it.
func viewPlan(t testing.TB, s *Store, query string, args ...any) string {
	t.Helper()
	return letterPlan(t, s, letterQuery{}, query, args...)
}

// letterPlan is how a query of what a filter picks goes about it.
func letterPlan(t testing.TB, s *Store, q letterQuery, query string, args ...any) string {
	t.Helper()
	var plan []string
	err := s.viewLetters(t.Context(), q, func(ctx context.Context, q querier) (err error) {
		plan, err = selectRows(ctx, q, scanValue[string], "explain (costs off) "+query, args...)
		return err
	})
	if err != nil {
		t.Fatalf("explain %s: %v", query, err)
	}
	return strings.Join(plan, "\n")
}

// The plan must have the first text and none of the others.
func checkPlan(t testing.TB, what, plan, has string, lacks ...string) {
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

const manyLetters = `insert into {s}.letter (id, dead_at, status, class, reason, fingerprint, kind, queue, connection, job_id,
  correlation_id, tags, exception_type, attempts, source_message, host, server, version, message)
select gen_random_uuid(), now() - g * interval '1 second', case when g % 10 = 0 then 1 else 0 end, g % 3, 'budget', '1-' || g % 100,
  'kind-' || g % 20, 'q', 'default', gen_random_uuid(), 'request-' || g, array['tag-' || g % 50], '*net.OpError', 6, '', 'host', 'io',
  'v1', repeat('no answer ', 20) from generate_series(1, 20000) g`

// bounded is an index that is searched from one place up to another.
var bounded = regexp.MustCompile(`Index Cond: .*ROW\(dead_at, id\) >= ROW\(.*ROW\(dead_at, id\) < ROW\(`)

// Lists go along an index that has their order, from the cursor on, and so read as many rows as they return.
func TestLetterPlans(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	s.fill(t, manyLetters, `vacuum analyze {s}.letter`)
	dead := []pawl.Status{pawl.StatusDead}
	for name, c := range map[string]struct {
		filter pawl.LetterFilter
		has    string
	}{
		"all":              {pawl.LetterFilter{}, "using letter_time"},
		"oldest first":     {pawl.LetterFilter{OldestFirst: true}, "using letter_time"},
		"status":           {pawl.LetterFilter{Status: []pawl.Status{pawl.StatusRedriven}}, "using letter_status"},
		"status and time":  {pawl.LetterFilter{Status: dead, Since: time.Now().Add(-time.Minute)}, "(ROW(dead_at, id) >= ROW("},
		"group":            {pawl.LetterFilter{Fingerprint: "1-7"}, "using letter_group"},
		"group and status": {pawl.LetterFilter{Fingerprint: "1-7", Status: dead}, "using letter_group"},
		"kind":             {pawl.LetterFilter{Kind: "kind-7", Status: dead}, "using letter_"},
		"batch":            {pawl.LetterFilter{Batch: pawl.NewID(), Status: dead}, "using letter_batch"},
	} {
		checkPlan(t, name, s.listPlan(t, c.filter, ""), c.has, "Seq Scan")
		c.filter.Since, c.filter.Until = time.Now().Add(-time.Hour), time.Now()
		after := page.Cursor{At: time.Now().Add(-30 * time.Minute).UnixMicro(), ID: pawl.NewID()}.Encode(page.Letters)
		plan := s.listPlan(t, c.filter, after)
		checkPlan(t, name+", next page", plan, "Index Cond", "Seq Scan")
		if !bounded.MatchString(plan) {
			t.Errorf("%s, next page: not bounded on both sides in\n%s", name, plan)
		}
	}
	checkPlan(t, "job", s.listPlan(t, pawl.LetterFilter{JobID: pawl.NewID(), Kind: "k"}, ""), "using letter_job", "Seq Scan")
	checkPlan(t, "count by status", viewPlan(t, s, s.schema.text("select count(*) from {s}.letter where status = 1")), "letter_status", "Seq Scan")

	rare, _, err := newLetterList(pawl.LetterFilter{Text: "x", Status: dead}, pawl.Page{})
	if err != nil {
		t.Fatal(err)
	}
	all := rare.sorted(50)
	checkPlan(t, "rare text", letterPlan(t, s, rare.letterQuery, s.schema.text(all.text), all.args...), "Seq Scan on letter", "letter_time")
}

// Groups are counted in one pass without sorting the letters, and each one's newest letter is found where it ends.
func TestGroupPlans(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	s.fill(t, manyLetters)
	s.vacuum(t, "letter")
	for name, filter := range map[string]pawl.LetterFilter{
		"all": {}, "status": {Status: []pawl.Status{pawl.StatusDead}}, "kind": {Kind: "kind-7"}, "text": {Text: "answer"},
	} {
		q, err := newLetterQuery(filter)
		if err != nil {
			t.Fatal(err)
		}
		groups := q.groups()
		plan := letterPlan(t, s, q, s.schema.text(groups.text), groups.args...)
		checkPlan(t, name, plan, "Group Key: letter.fingerprint", "Sort Key: letter.")
		newest := q.newest([]pawl.LetterGroup{{Fingerprint: "1-7", LastSeen: time.Now()}})
		checkPlan(t, name+", newest", viewPlan(t, s, s.schema.text(newest.text), newest.args...), "using letter_group", "Seq Scan")
	}
	following := viewPlan(t, s, s.sql.desk.selectFollowing, "1-")
	checkPlan(t, "following", following, "Index Only Scan using letter_group", "Seq Scan", "Sort Key: letter")
}

// listPlan is how the first look of a list goes about it.
func (s *Store) listPlan(t testing.TB, filter pawl.LetterFilter, after string) string {
	t.Helper()
	list, limit, err := newLetterList(filter, pawl.Page{After: after})
	if err != nil {
		t.Fatal(err)
	}
	first := list.first(limit + 1)
	return viewPlan(t, s, s.schema.text(first.text), first.args...)
}

// What hosts do for operators and alerts finds its rows by an index, however much there is of everything.
func TestDeskPlans(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	s.fill(t, manyLetters, `insert into {s}.sink (name) values ('mail'), ('hook')`,
		`insert into {s}.message (sink, key, letters, since_at, due_at)
		select 'mail', g::text, 1, now(), now() + interval '1 hour' from generate_series(1, 20000) g`,
		`insert into {s}.alert (letter, sink, message) select id, 'mail', row_number() over () from {s}.letter limit 20000`,
		`insert into {s}.audit (who, door, action, subject, "from", "to", why, outcome)
		select 'ann', 'cli', 'switch', 'kind k' || g % 100, '', '', '', '' from generate_series(1, 20000) g`,
		`insert into {s}.name (text) select 'k' || g from generate_series(1, 100) g`,
		`insert into {s}.switch (what, name, value) select 'kind', id, false from {s}.name where text like 'k%' limit 10`,
		`vacuum analyze {s}.audit`, `vacuum analyze {s}.letter`, `vacuum analyze {s}.alert`, `vacuum analyze {s}.message`)
	slots, err := s.currentSlots(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d := s.sql.desk
	for name, c := range map[string]struct{ statement, has string }{
		"lock letters":     {d.lockFates, "using letter_pkey"},
		"change letters":   {d.writeFates, "using letter_pkey"},
		"write outcomes":   {d.writeOutcomes, "using letter_pkey"},
		"next letter":      {d.selectNextLetter, "using letter_job"},
		"forget alerts":    {d.deleteAlerts, "using alert_letter_sink_key"},
		"forget evidence":  {d.deleteEvidence, "using evidence_pkey"},
		"fresh alerts":     {d.selectSinkStates, "using alert_fresh"},
		"due messages":     {d.leaseMessages, "using message_due"},
		"freed messages":   {d.freeMessages, "using message_held"},
		"settle messages":  {d.settleMessages, "using message_pkey"},
		"single messages":  {d.insertSingles, "using alert_fresh"},
		"members":          {d.selectMember, "using alert_message"},
		"alerts of":        {d.selectAlertsOf, "using alert_letter_sink_key"},
		"needed letters":   {d.selectNeeded, "using operation_needs"},
		"expired letters":  {d.selectExpired, "using letter_closed"},
		"run now":          {d.runNow, "using job_pkey"},
		"delete jobs":      {d.deleteJobs, "using job_pkey"},
		"clear ready":      {s.clearText(clearReady, slots), "using job_ready"},
		"clear scheduled":  {s.clearText(clearScheduled, slots), "using job_due"},
		"who has switched": {d.selectSettings, "using audit_subject"},
		"attempts cleared": {s.clearText(clearReady, slots), "using attempt_pkey"},
	} {
		checkPlan(t, name, hostPlan(t, s, c.statement), c.has, "Seq Scan", "using letter_status", "using letter_time")
	}
	checkPlan(t, "relapses", hostPlan(t, s, d.insertLetters), "using letter_group", "Seq Scan on letter") // the sinks are few
	for _, index := range []string{"alert_fresh", "message_due"} {
		checkPlan(t, "retired sinks", hostPlan(t, s, d.retireSinks), "using "+index, "Seq Scan on alert", "Seq Scan on message")
	}
}

// Counts of queues go by the indexes alone, but for the heads.
func TestQueuePlans(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	s.fill(t, `insert into {s}.name (text) select 'q' || g from generate_series(1, 5) g`,
		`insert into {s}.job (id, queue, kind, envelope) select gen_random_uuid(), 1 + g % 5, 1, '\x00' from generate_series(1, 50000) g`,
		`insert into {s}.job (id, queue, kind, run_at, envelope) select gen_random_uuid(), 1 + g % 5, 1, now() + g * interval '1 hour', '\x00'
		from generate_series(1, 20000) g`)
	s.allVisible(t)
	d := s.sql.desk
	checkPlan(t, "queues", viewPlan(t, s, d.selectQueues), "using job_ready", "Seq Scan on job", "Sort")
	checkPlan(t, "heads", viewPlan(t, s, d.selectHeads, 100), "using job_ready", "Seq Scan on job", "Sort Key: job")
	checkPlan(t, "head", viewPlan(t, s, d.countHead, 1, 100), "using job_ready", "Seq Scan", "Sort")
	checkPlan(t, "places", viewPlan(t, s, d.countPlaces, 1, 5000), "Index Only Scan using job_ready", "Seq Scan", "Sort")
	checkPlan(t, "standing", viewPlan(t, s, d.countStanding, 5000), "Index Scan using job_due", "Seq Scan on job")
	checkPlan(t, "scheduled", viewPlan(t, s, d.countScheduled, 5000), "Index Only Scan using job_due", "Seq Scan on job")
}
