package postgres

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// manyLines are 100,000 jobs that wait in lines: of ordering keys, of limit keys, a thousand each, and of a kind (1) of which
// 40 are through.
var manyLines = []string{
	`insert into {s}.name (text) select 'k' || g from generate_series(1, 5) g`,
	`insert into {s}.kind_limit (kind, source, value) values (1, 0, '{"concurrency":40}'), (2, 0, '{"per_key":2}'), (4, 0, '{"starts":10}')`,
	`insert into {s}.turn (job_id, place, okey, lkey, kind, stage, pending)
	select md5(g::text)::uuid, g, null, null, 1, case when g <= 40 then 3 else 2 end, g > 40 from generate_series(1, 40000) g`,
	`insert into {s}.turn (job_id, place, okey, lkey, kind, stage, pending)
	select md5(g::text)::uuid, g, null, md5('l' || g % 1000)::uuid, 2, 1, true from generate_series(40001, 70000) g`,
	`insert into {s}.turn (job_id, place, okey, lkey, kind, stage, pending)
	select md5(g::text)::uuid, g, md5('o' || g % 1000)::uuid, null, null, 0, true from generate_series(70001, 100000) g`,
	`insert into {s}.job (id, seq, queue, kind, flags, run_at, envelope)
	select job_id, place, 5, coalesce(kind, 3), 32, case when stage < 3 then 'infinity'::timestamptz end, '\x00' from {s}.turn`,
	`insert into {s}.arrival (kind) values (1)`,
	`vacuum analyze {s}.turn`, `vacuum analyze {s}.job`, `vacuum analyze {s}.kind_limit`,
}

// Every statement about lines finds its rows by the index that is meant for it, in the order that it needs, in empty tables
// and in full ones.
func TestTurnPlans(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	checkTurnPlans(t, s)
	s.fill(t, manyLines...)
	checkTurnPlans(t, s)
}

func checkTurnPlans(t *testing.T, s *Store) {
	t.Helper()
	slots, err := s.currentSlots(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	q, d := &s.sql, s.sql.desk
	for name, c := range map[string]struct {
		statement string
		uses      []string
	}{
		"enqueue":           {q.insertLined, nil},
		"enqueue, repeated": {q.insertLinedUnless, nil},
		"taken back":        {q.arriveTakenBack, []string{"turn_pkey", "job_pkey"}},
		"acknowledge":       {slots.texts.settleDone, []string{"job_pkey", "turn_pkey"}},
		"pass slots on":     {slots.texts.settlePassing, []string{"job_pkey", "turn_pkey", "turn_kind"}},
		"any untaken":       {q.anyWaits, []string{"job_pkey"}},
		"put back":          {q.putBack, []string{"job_pkey"}},
		"take arrivals":     {q.takeArrivals, []string{"arrival_pkey"}},
		"any arrival":       {q.anyArrival, nil},
		"give quickly":      {q.giveQuickly, []string{"arrival_pkey", "turn_kind", "turn_pkey", "job_pkey"}},
		"leave lines":       {q.leaveLines, []string{"turn_pkey", "job_pkey"}},
		"leave limits":      {q.leaveLimits, []string{"turn_pkey", "job_pkey"}},
		"pass orders":       {q.passOrders, []string{"turn_order", "turn_pkey", "job_pkey"}},
		"pass keys":         {q.passKeys, []string{"turn_key", "turn_pkey"}},
		"pass kinds":        {q.passKinds, []string{"turn_kind", "turn_pkey"}},
		"let through":       {q.letThrough, []string{"job_pkey"}},
		"count piles":       {q.countPiles, []string{"turn_kind"}},
		"count starts":      {q.countStarts, []string{"turn_pkey"}},
		"park":              {q.parkUnlined, []string{"job_pkey"}},
		"stand back":        {d.standBack, []string{"turn_kind", "turn_pkey"}},
		"count lines":       {d.countLines, []string{"turn_kind"}},
	} {
		plan := hostPlan(t, s, c.statement)
		for _, index := range c.uses {
			checkPlan(t, name, plan, index)
		}
		checkPlan(t, name, plan, "", "Seq Scan on turn", "Seq Scan on job", "Seq Scan on arrival", "Sort Key: t.place", "Hash Join", "Merge Join")
		if unbounded(plan) {
			t.Errorf("%s: more than the lines that are asked for is read:\n%s", name, plan)
		}
	}
}

var (
	turnScan  = regexp.MustCompile(`(?m)^.*Scan using turn_\w+ on .*\n.*$`)
	ofOneLine = regexp.MustCompile(`Index Cond: \(+(kind|okey|lkey|job_id) = `)
)

// unbounded reports whether some look at an index of lines is not for one line, or one job.
func unbounded(plan string) bool {
	return slices.ContainsFunc(turnScan.FindAllString(plan, -1), func(scan string) bool { return !ofOneLine.MatchString(scan) })
}

var buffers = regexp.MustCompile(`Buffers: shared hit=(\d+)(?: read=(\d+))?`)

// pages is how many pages a statement looks at, in a transaction that is undone.
func pages(t *testing.T, s *Store, statement string, args ...any) (n int) {
	t.Helper()
	conn, err := s.pool.Acquire(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Release()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	if _, err := tx.Exec(t.Context(), seizeTurns, s.schema.lock("turns")); err != nil {
		t.Fatal(err)
	}
	plan, err := selectRows(t.Context(), tx, scanValue[string], "explain (analyze, buffers, costs off, timing off) "+statement, args...)
	if err != nil {
		t.Fatalf("explain %s: %v", statement, err)
	}
	found := buffers.FindStringSubmatch(strings.Join(plan, "\n"))
	if found == nil {
		t.Fatalf("no buffers in %v", plan)
	}
	for _, digits := range found[1:] {
		if count, err := strconv.Atoi(digits); err == nil {
			n += count
		}
	}
	return n
}

// What is read for a turn, and for a claim, does not grow with what waits.
func TestLongLinesAreNotRead(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	s.fill(t, manyLines...)
	s.fill(t, `insert into {s}.session (name, info, kinds) values ('a', '{}', '{1,2,3}')`,
		`update {s}.job set holder = 1, claim = 5 where id = md5('9')::uuid`,
		`delete from {s}.turn where job_id = md5('7')::uuid`) // a slot is free
	slots, err := s.currentSlots(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	one := func(text string) idList {
		var id idColumn
		if err := s.pool.QueryRow(t.Context(), `select md5($1::text)::uuid`, text).Scan(&id); err != nil {
			t.Fatal(err)
		}
		return idList{[16]byte(id)}
	}
	for name, c := range map[string]struct {
		statement string
		args      []any
		most      int
	}{
		"give quickly": {s.sql.giveQuickly, []any{turnsAtOnce - 1, arrivalsAtOnce, int64(0)}, 200},
		"pass kinds":   {s.sql.passKinds, []any{[]int32{1}, []int32{40}, turnsAtOnce, []int32{-1}}, 200},
		"pass keys":    {s.sql.passKeys, []any{one("l7"), []int32{2}, turnsAtOnce}, 100},
		"pass orders":  {s.sql.passOrders, []any{one("o7")}, 100},
		"count piles":  {s.sql.countPiles, []any{[]int32{1}, []int32{10}}, 50},
		"claim": {s.sql.claim, []any{
			int64(1),
			[]int32{5},
			[]int64{frontStart},
			[]int64{bandsEnd},
			[]int64{1 << 40},
			[]int32{1, 2, 3},
			100, int64(0),
			int64(-1),
			[]int32{0},
			int64(1),
		}, 500},
		"pass slots on": {slots.texts.settlePassing, []any{one("9"), []int64{5}, int64(1), turnsAtOnce - 1}, 150},
	} {
		if n := pages(t, s, c.statement, c.args...); n > c.most {
			t.Errorf("%s looks at %d pages, want at most %d", name, n, c.most)
		}
	}
}
