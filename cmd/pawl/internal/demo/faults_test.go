package demo

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
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

func TestAnswersAreClassified(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]pawl.Class{
		400: pawl.ClassPermanent, 401: pawl.ClassPermanent, 404: pawl.ClassPermanent, 409: pawl.ClassPermanent,
		422: pawl.ClassPermanent, 501: pawl.ClassPermanent, 505: pawl.ClassPermanent,
		408: pawl.ClassTransient, 423: pawl.ClassTransient, 425: pawl.ClassTransient, 429: pawl.ClassTransient,
		500: pawl.ClassTransient, 502: pawl.ClassTransient, 503: pawl.ClassTransient, 504: pawl.ClassTransient,
		301: pawl.ClassTransient, 199: pawl.ClassTransient,
	} {
		err := classifyAnswer(status, http.Header{}, nil, time.Now())
		var answer *answerError
		if pawl.ClassOf(err) != want || !errors.As(err, &answer) || answer.Status != status {
			t.Errorf("%d: %v is %s, want %s", status, err, pawl.ClassOf(err), want)
		}
	}
	for _, status := range []int{200, 201, 204} {
		if err := classifyAnswer(status, http.Header{}, nil, time.Now()); err != nil {
			t.Errorf("%d: %v", status, err)
		}
	}
}

func TestRetryAfterIsRead(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "soon": 0, "-3": 0, "0": 0, "2": 2 * time.Second, " 7 ": 7 * time.Second, "999999999": time.Hour,
		"99999999999999999999":          0,
		"Mon, 02 Mar 2026 12:00:30 GMT": 30 * time.Second,
		"Mon, 02 Mar 2026 11:00:00 GMT": 0,
		"Tue, 03 Mar 2026 12:00:00 GMT": time.Hour,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("%q: got %s, want %s", value, got, want)
		}
	}
	err := classifyAnswer(429, http.Header{"Retry-After": {"2"}}, nil, now)
	var classified *pawl.ClassifiedError
	if !errors.As(err, &classified) || classified.After != 2*time.Second {
		t.Errorf("429 with Retry-After: %v", err)
	}
}
