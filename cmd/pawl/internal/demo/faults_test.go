package demo

import (
	"fmt"
	"testing"
	"time"
)

func plannedRows(n int) []signUp {
	rows := make([]signUp, n)
	for i := range rows {
		rows[i] = signUp{ID: fmt.Sprint(i), Role: roles[i%len(roles)]}
	}
	return rows
}

func TestFaultPlanHasEveryFault(t *testing.T) {
	t.Parallel()
	rows := plannedRows(200)
	rows[0].Role = "astronaut"
	counts := map[fault]int{}
	plan := newFaultPlan(rows, "1", time.Second)
	for _, f := range plan.faults {
		counts[f]++
	}
	if counts[faultDown] != 2 || counts[faultHang] != 1 || counts[faultBad] != 1 || counts[faultBusy] < 10 {
		t.Errorf("faults %v", counts)
	}
	if plan.faults["0"] != faultNone || plan.faults["1"] != faultNone {
		t.Error("a profile that is never posted has a fault")
	}
}

func TestFaultPlanOfFewRows(t *testing.T) {
	t.Parallel()
	for n := range 6 {
		plan := newFaultPlan(plannedRows(n), "", time.Second)
		if want := min(n, 4); len(plan.faults) < want {
			t.Errorf("%d rows: %d faults, want %d", n, len(plan.faults), want)
		}
	}
}

func TestFaultsHappenAsPlanned(t *testing.T) {
	t.Parallel()
	at := time.Now()
	plan := &faultPlan{
		faults:      map[string]fault{"busy": faultBusy, "hang": faultHang, "bad": faultBad, "down": faultDown},
		met:         map[string]bool{},
		outageAfter: 2, outage: time.Second,
	}
	meet := func(id string, want verdict) {
		t.Helper()
		got := plan.meet(id, at)
		if got.status != want.status || got.hang != want.hang || got.retryAfter != want.retryAfter {
			t.Errorf("%s at %s: got %+v, want %+v", id, at, got, want)
		}
	}
	meet("busy", verdict{status: 429, retryAfter: "1"})
	meet("busy", taken)
	meet("hang", verdict{hang: true})
	meet("hang", taken)
	for range 3 { // two are taken: the outage begins
		meet("fine", verdict{status: 503})
		at = at.Add(300 * time.Millisecond)
	}
	at = at.Add(300 * time.Millisecond)
	meet("fine", taken)
	for range 3 {
		meet("bad", verdict{status: 400})
		meet("down", verdict{status: 503})
	}
	at = at.Add(time.Hour)
	meet("fine", taken) // one outage only

	plan = healedPlan()
	for _, id := range []string{"busy", "hang", "bad", "down", "fine"} {
		meet(id, taken)
	}
}
