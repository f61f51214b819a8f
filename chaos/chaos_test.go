//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/pawljobs/pawl/chaos/internal/proof"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(taskVariable); text != "" {
		os.Exit(runTask(text))
	}
	goleak.VerifyTestMain(m)
}

// A short run, so that the program cannot rot: every process, link and check takes part. What the promises are worth is
// shown by `make chaos`.
func TestPromisesHold(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes 20 seconds")
	}
	t.Parallel()
	for _, store := range []string{postgresStore, sqliteStore} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			if store == postgresStore && os.Getenv("PAWL_TEST_PGBIN") == "" {
				t.Skip("PAWL_TEST_PGBIN is not set: run the tests by scripts/with-services, which finds PostgreSQL's programs")
			}
			plan := NewPlan(store, 5, 10*time.Second)
			rules := demands(plan.Span)
			rules.Share = 0.2              // of four or five
			rules.Bound = 20 * time.Second // beside other tests
			report, err := Play(t.Context(), plan, rules, "")
			if err != nil {
				t.Fatal(err)
			}
			var text bytes.Buffer
			report.Print(&text)
			t.Log(text.String())
			if len(report.Findings) > 0 || !strings.Contains(text.String(), "the promises held") {
				t.Errorf("the promises did not hold; the histories are in %s", report.Kept)
			}
			if f := report.Figures; f.Accepted < 50 || f.Done < 30 || f.Dead < 5 || f.Orders == 0 {
				t.Errorf("hardly anything was done: %+v", f)
			}
		})
	}
}

// A run in which a promise was broken keeps what is needed to look at it again. (Here it is a demand that cannot be met.)
func TestBrokenRunIsKept(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes some seconds")
	}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	plan := NewPlan(sqliteStore, 3, 4*time.Second)
	rules := demands(plan.Span)
	rules.Bound, rules.Share = 20*time.Second, 2
	report, err := Play(t.Context(), plan, rules, "")
	if err != nil {
		t.Fatal(err)
	}
	again, err := checkAgain(report.Kept)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(report, again); d != "" || len(again.Findings) != 1 || again.Findings[0].Rule != "empty" || verdict(again) != exitBroken {
		t.Errorf("-run +again:\n%s\n%v", d, again.Findings)
	}
}

// An interrupt ends all that was started, and leaves nothing behind.
func TestInterrupt(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes")
	}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
	defer cancel()
	_, err := Play(ctx, NewPlan(sqliteStore, 1, time.Minute), demands(time.Minute), "")
	if err == nil || ctx.Err() == nil {
		t.Errorf("the run was not interrupted: %v", err)
	}
	left, err := filepath.Glob(filepath.Join(temp, "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	for _, store := range []string{postgresStore, sqliteStore} {
		span := 10 * time.Minute
		plan := NewPlan(store, 7, span)
		if d := cmp.Diff(plan, NewPlan(store, 7, span)); d != "" || plan.Digest() != NewPlan(store, 7, span).Digest() {
			t.Errorf("%s: two plans of one seed differ: %s", store, d)
		}
		if plan.Digest() == NewPlan(store, 8, span).Digest() {
			t.Errorf("%s: two seeds make one plan", store)
		}
		rules := demands(span)
		plan.demand(&rules)
		for _, fault := range faultsOf(store) {
			if rules.Faults[fault] != 10 {
				t.Errorf("%s: in %s at least %d faults of kind %s are asked for, want 10", store, span, rules.Faults[fault], fault)
			}
		}
		for _, step := range plan.Steps {
			if step.At < warmUp || step.At >= span || step.Slot < 0 || step.Slot > hosts {
				t.Errorf("%s: %+v", store, step)
			}
			if step.Fault == proof.Stop && step.Hold <= intervals.DeadAfter {
				t.Errorf("%s: a host is stopped for no longer than its session lives: %+v", store, step)
			}
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, bad := range [][]string{{"-store", "redis"}, {"-minutes", "0"}, {"-minutes", "NaN"}, {"extra"}, {"-seed", "-1"}, {"-nonsense"}} {
		if o, err := parse(bad); err == nil {
			t.Errorf("%q was accepted: %+v", bad, o)
		}
	}
	o, err := parse(nil)
	if err != nil || o.seed == 0 || o.minutes != 2 || o.store != "" {
		t.Errorf("without arguments: %+v, %v", o, err)
	}
}

// Every kind has a handler, a weight and a fate, or it would not be looked at.
func TestKindsAreComplete(t *testing.T) {
	t.Parallel()
	drawn := map[string]bool{follow.Name(): true} // by parent
	for _, m := range mix {
		drawn[m.kind.Name()] = true
	}
	for name := range fates {
		if !drawn[name] {
			t.Errorf("no job of %s is ever handed in", name)
		}
	}
	for name := range drawn {
		if _, known := fates[name]; !known {
			t.Errorf("%s has no fate", name)
		}
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	r := Report{Store: sqliteStore, Seed: 3, Kept: "/somewhere", Findings: []proof.Finding{{Rule: "fence", Text: "token 1"}}}
	for range 10 {
		r.Findings = append(r.Findings, proof.Finding{Rule: "lost", Text: "a job"})
	}
	var text bytes.Buffer
	r.Print(&text)
	for _, want := range []string{"BROKEN fence: token 1", "11 findings: 1 fence, 10 lost", "/somewhere"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is missing in\n%s", want, text.String())
		}
	}
	if n := strings.Count(text.String(), "BROKEN lost"); n != shown {
		t.Errorf("%d findings of one rule are printed", n)
	}
	file := filepath.Join(t.TempDir(), "figures.json")
	if err := writeJSON(file, []Report{r}); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var back []Report
	if err := json.Unmarshal(written, &back); err != nil || len(back) != 1 || len(back[0].Findings) != 11 {
		t.Errorf("%v: %s", err, written)
	}
	if _, err := checkAgain(t.TempDir()); err == nil {
		t.Error("an empty folder was checked")
	}
	if writeJSON(filepath.Join(file, "no"), nil) == nil {
		t.Error("figures were written to nowhere")
	}
}
