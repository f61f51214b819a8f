package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
)

var tester = pawl.By{Who: "test"}

func hostHere(t testing.TB, s *Store) pawl.SessionID {
	t.Helper()
	session, err := s.OpenSession(t.Context(), pawl.HostInfo{Name: "a", Kinds: []string{"k"}})
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// addHere stores n schedules, all of which are due.
func addHere(t testing.TB, s *Store, n int) {
	t.Helper()
	halfway := time.Now().Add(-90 * time.Minute) // the tick after the due one is half an hour away at any time of day
	added := pawl.Schedule{Name: "s", Spec: "1h", Kind: "k", Args: json.RawMessage("1"), From: halfway}
	if err := s.AddSchedule(t.Context(), added, tester); err != nil {
		t.Fatal(err)
	}
	execHere(t, s, fmt.Sprintf(`insert into pawl_schedule (name, kind, says, args, declared, fingerprint, seen, removed, paused, created_at, changed_at, next_at, due_at)
select name || i, kind, says, args, declared, fingerprint, seen, removed, paused, created_at, changed_at, next_at, due_at
from pawl_schedule, (with recursive n(i) as (select 1 union all select i + 1 from n where i < %d) select i from n where i < %d)`, n, n))
	execHere(t, s, `update pawl_schedule set next_at = next_at - 3600000, due_at = due_at - 3600000`)
}

func execHere(t testing.TB, s *Store, statement string) {
	t.Helper()
	db, err := openFile(s.path, s.config, false, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

// With 10,000 schedules, what a sweep and an operator ask goes along an index.
func TestSchedulePlans(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	hostHere(t, s)
	addHere(t, s, 10_000)
	execHere(t, s, "analyze")
	for name, c := range map[string]struct {
		query, index string
		args         []any
	}{
		"next tick":  {selectNextTick, "COVERING INDEX pawl_schedule_due", nil},
		"due":        {selectDueSchedules, "pawl_schedule_due (due_at>? AND due_at<?)", []any{1, 2}},
		"one":        {selectScheduleRow, "(name=?)", []any{"s"}},
		"open runs":  {selectOpenRuns, "pawl_run_schedule (schedule=?)", []any{1}},
		"next check": {selectNextCheck, "COVERING INDEX pawl_run_check", nil},
		"to check":   {selectToCheck, "pawl_run_check (check_at>? AND check_at<?)", []any{1, 2}},
		"runs":       {selectRuns, "pawl_run_schedule (schedule=?)", []any{1, 20}},
		"trim":       {trimRuns, "pawl_run_schedule (schedule=?", []any{1, 20}},
		"advance":    {advanceSchedule, "INTEGER PRIMARY KEY (rowid=?)", []any{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, ""}},
	} {
		checkPlan(t, name, plan(t, s, c.query, c.args...), c.index, sorts, "SCAN s\n", "SCAN r", "SCAN j", "SCAN d")
	}
	for name, filter := range map[string]pawl.ScheduleFilter{"all": {}, "kind": {Kind: "k"}, "prefix": {Prefix: "s1"}} {
		query, args, _, err := scheduleQuery(filter, pawl.Page{})
		if err != nil {
			t.Fatal(err)
		}
		checkPlan(t, "list "+name, plan(t, s, query, args...), "SEARCH s USING INDEX", sorts, "SCAN")
	}
}

// One schedule that this program cannot read is told of, looked at again a minute later, and stops none of the others.
func TestUnreadableScheduleStopsNoOther(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	session := hostHere(t, s)
	addHere(t, s, 3)
	execHere(t, s, `update pawl_schedule set says = '{"spec": "at dawn", "zone": "UTC"}' where name = 's1'`)
	execHere(t, s, `update pawl_schedule set says = 'damaged' where name = 's2'`)
	report, err := s.Sweep(t.Context(), pawl.SweepRequest{Session: session})
	if err != nil || report.Ticks != 1 || report.NextDue < 50*time.Second {
		t.Fatalf("report %+v, error %v", report, err)
	}
	for name, problem := range map[string]string{"s": "", "s1": `invalid spec "at dawn"`, "s2": `invalid spec "damaged"`} {
		view, err := s.Schedule(t.Context(), name)
		if err != nil || !strings.Contains(view.Problem, problem) || (problem == "") != (view.Problem == "") {
			t.Errorf("%s: problem %q, error %v", name, view.Problem, err)
		}
	}
	// It can be read again.
	execHere(t, s, `update pawl_schedule set says = (select says from pawl_schedule where name = 's'), due_at = due_at - 60000 where name = 's1'`)
	report, err = s.Sweep(t.Context(), pawl.SweepRequest{Session: session})
	view, viewErr := s.Schedule(t.Context(), "s1")
	if err != nil || viewErr != nil || report.Ticks != 1 || view.Problem != "" || !view.Next.After(time.Now()) {
		t.Errorf("report %+v, view %+v, errors %v %v", report, view, err, viewErr)
	}
}

// A tick whose transaction cannot be finished is neither lost nor taken: schedule and job go together.
func TestTickIsOneTransaction(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	session := hostHere(t, s)
	addHere(t, s, 1)
	for _, table := range []string{"pawl_run", "pawl_job", "pawl_schedule"} {
		execHere(t, s, `create trigger fault before `+map[bool]string{true: "update", false: "insert"}[table == "pawl_schedule"]+` on `+table+` begin select raise(abort, 'fault'); end`)
		if _, err := s.Sweep(t.Context(), pawl.SweepRequest{Session: session}); err == nil {
			t.Errorf("%s: no error", table)
		}
		view, err := s.Schedule(t.Context(), "s")
		if err != nil || view.Fired != 0 || !view.DueAt.Before(time.Now()) || len(view.Runs) != 0 {
			t.Errorf("%s: view %+v, error %v", table, view, err)
		}
		execHere(t, s, `drop trigger fault`)
	}
	report, err := s.Sweep(t.Context(), pawl.SweepRequest{Session: session})
	if err != nil || report.Ticks != 1 {
		t.Errorf("report %+v, error %v", report, err)
	}
}

// A schedule that somebody else has moved on is not moved on again.
func TestTickIsFenced(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	hostHere(t, s)
	addHere(t, s, 1)
	row, err := readScheduleRow(t.Context(), s.reads, "s")
	if err != nil {
		t.Fatal(err)
	}
	err = s.write(t.Context(), func(ctx context.Context, w *writer) error { return advanceRow(ctx, w, row, row.Next.Add(time.Second)) })
	if !errors.Is(err, pawl.ErrConflict) {
		t.Errorf("error %v", err)
	}
}

// BenchmarkDueSchedules has 10,000 schedules that are all due:
//
//	go test ./sqlite -run '^$' -bench DueSchedules -benchtime 1x
func BenchmarkDueSchedules(b *testing.B) {
	for range b.N {
		b.StopTimer()
		s := openHere(b)
		session := hostHere(b, s)
		addHere(b, s, 10_000)
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
