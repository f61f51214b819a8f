package postgres

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
)

// With 10,000 schedules, what a sweep and an operator ask goes along an index.
func TestSchedulePlans(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	addDue(t, s)
	s.fill(t, `insert into {s}.schedule (name, kind, says, args, declared, fingerprint, seen, removed, paused, created_at, changed_at, next_at, due_at)
select name || i, kind, says, args, declared, fingerprint, seen, removed, paused, created_at, changed_at, next_at, due_at + i * interval '1 second'
from {s}.schedule, generate_series(1, 9999) i`,
		`insert into {s}.run (schedule, tick_at, manual, job_id, check_at) select id, now(), false, gen_random_uuid(), now() + id * interval '1 second' from {s}.schedule`,
		`analyze {s}.schedule`, `analyze {s}.run`)
	texts := s.sql.schedules
	for name, c := range map[string]struct{ query, index string }{
		"next tick": {texts.selectNextTick, "using schedule_due"},
		"due":       {texts.lockDueSchedules, "using schedule_due"},
		"one":       {texts.selectScheduleRow, "using schedule_name_key"},
		"open runs": {texts.selectOpenRuns, "using run_schedule"},
		"any check": {texts.anyCheck, "using run_check"},
		"trim":      {texts.trimRuns, "using run_schedule"},
		"advance":   {texts.advanceSchedule, "using schedule_pkey"},
	} {
		checkPlan(t, name, strings.ToLower(hostPlan(t, s, c.query)), c.index, "seq scan", "sort key: s.due_at")
	}
	slots, err := s.currentSlots(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	checks := strings.ToLower(hostPlan(t, s, s.endedTexts(slots, checkRuns, "r.job_id")))
	checkPlan(t, "to check", checks, "using run_check", "seq scan")
	for name, filter := range map[string]pawl.ScheduleFilter{"all": {}, "kind": {Kind: "k"}, "prefix": {Prefix: "s1"}} {
		c, _, err := scheduleConditions(filter, pawl.Page{})
		if err != nil {
			t.Fatal(err)
		}
		query := s.endedTexts(slots, numbered(selectSchedules+c.where()+" order by s.name limit ?"), "s.last_job")
		checkPlan(t, "list "+name, viewPlan(t, s, query, append(c.args, 51)...), "Index Scan using schedule_", "Seq Scan on schedule")
	}
}

// addDue stores a schedule that is due.
func addDue(t testing.TB, s *Store) pawl.SessionID {
	t.Helper()
	session, err := s.OpenSession(t.Context(), pawl.HostInfo{Name: "a", Kinds: []string{"k"}})
	if err != nil {
		t.Fatal(err)
	}
	halfway := time.Now().Add(-90 * time.Minute) // the tick after the due one is half an hour away at any time of day
	added := pawl.Schedule{Name: "s", Spec: "1h", Kind: "k", Args: json.RawMessage("1"), From: halfway}
	if err := s.AddSchedule(t.Context(), added, pawl.By{Who: "test"}); err != nil {
		t.Fatal(err)
	}
	s.fill(t, `update {s}.schedule set next_at = next_at - interval '1 hour', due_at = due_at - interval '1 hour'`)
	return session
}

// A tick whose transaction cannot be finished is neither lost nor taken: schedule and job go together. One schedule that
// this program cannot read stops none of the others.
func TestTickIsOneTransaction(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	session := addDue(t, s)
	s.fill(t, `insert into {s}.schedule (name, kind, says, args, declared, fingerprint, seen, removed, paused, created_at, changed_at, next_at, due_at)
select 'damaged', kind, 'damaged', args, declared, fingerprint, seen, removed, paused, created_at, changed_at, next_at, due_at - interval '1 minute' from {s}.schedule`,
		`create function {s}.fault() returns trigger language plpgsql as $$ begin raise exception 'fault'; end $$`)
	for _, on := range []string{"insert on {s}.run", "insert on {s}.job", "update on {s}.schedule"} {
		s.fill(t, `create trigger fault before `+on+` for each row execute function {s}.fault()`)
		if _, err := s.Sweep(t.Context(), pawl.SweepRequest{Session: session}); err == nil {
			t.Errorf("%s: no error", on)
		}
		view, err := s.Schedule(t.Context(), "s")
		if err != nil || view.Fired != 0 || !view.DueAt.Before(time.Now()) || len(view.Runs) != 0 {
			t.Errorf("%s: view %+v, error %v", on, view, err)
		}
		s.fill(t, `drop trigger fault on `+strings.SplitN(on, " on ", 2)[1])
	}
	report, err := s.Sweep(t.Context(), pawl.SweepRequest{Session: session})
	if err != nil || report.Ticks != 1 || report.NextDue < 50*time.Second {
		t.Errorf("report %+v, error %v", report, err)
	}
	view, err := s.Schedule(t.Context(), "damaged")
	if err != nil || !strings.Contains(view.Problem, `invalid spec "damaged"`) {
		t.Errorf("view %+v, error %v", view, err)
	}
}

// BenchmarkDueSchedules has 10,000 schedules that are all due:
//
//	go test ./postgres -run '^$' -bench DueSchedules -benchtime 1x
func BenchmarkDueSchedules(b *testing.B) {
	for range b.N {
		b.StopTimer()
		s := openHere(b)
		session := addDue(b, s)
		s.fill(b, `insert into {s}.schedule (name, kind, says, args, declared, fingerprint, seen, removed, paused, created_at, changed_at, next_at, due_at)
select name || i, kind, says, args, declared, fingerprint, seen, removed, paused, created_at, changed_at, next_at, due_at from {s}.schedule, generate_series(1, 9999) i`)
		b.StartTimer()
		ticks, longest := 0, time.Duration(0)
		for more := true; more; {
			began := time.Now()
			report, err := s.Sweep(b.Context(), pawl.SweepRequest{Session: session})
			if err != nil {
				b.Fatal(err)
			}
			ticks, more, longest = ticks+report.Ticks, report.More, max(longest, time.Since(began))
		}
		if ticks != 10_000 {
			b.Fatalf("%d ticks", ticks)
		}
		b.ReportMetric(float64(longest.Microseconds())/1000, "ms/longest-sweep")
	}
}
