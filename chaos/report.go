//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pawljobs/pawl/chaos/internal/proof"
)

// Report is the outcome of a run on one store.
type Report struct {
	Store    string          `json:"store"`
	Seed     uint64          `json:"seed"`
	Plan     string          `json:"plan"` // its digest
	Seconds  float64         `json:"seconds"`
	Bound    float64         `json:"bound_s"`
	Figures  proof.Figures   `json:"figures"`
	Findings []proof.Finding `json:"findings"`
	Kept     string          `json:"kept,omitempty"` // the folder of the histories
}

// conclude reads the histories and checks them.
func (a *arena) conclude(final proof.Final, rules proof.Rules, took time.Duration) (Report, error) {
	r := Report{
		Store: a.plan.Store, Seed: a.plan.Seed, Plan: a.plan.Digest(), Seconds: took.Seconds(), Bound: rules.Bound.Seconds(),
	}
	if err := a.history.Close(); err != nil {
		return r, err
	}
	if err := r.check(a.folder, final, rules); err != nil || len(r.Findings) == 0 {
		return r, err
	}
	r.Kept = a.folder
	text, err := json.Marshal(evidence{Report: r, Final: final, Rules: rules})
	if err == nil {
		err = os.WriteFile(filepath.Join(a.folder, evidenceFile), text, 0o644)
	}
	return r, err
}

// check reads the histories in a folder and fills in what comes of them.
func (r *Report) check(folder string, final proof.Final, rules proof.Rules) error {
	histories, err := proof.Read(folder)
	if err == nil {
		r.Findings, r.Figures = proof.Check(proof.Input{Histories: histories, Final: final, Kinds: fates, Rules: rules})
	}
	return err
}

// evidence is what is kept beside the histories when a promise was broken.
type evidence struct {
	Report Report
	Final  proof.Final
	Rules  proof.Rules
}

const evidenceFile = "evidence.json"

// checkAgain reports on the folder of an earlier run.
func checkAgain(folder string) (Report, error) {
	var e evidence
	text, err := os.ReadFile(filepath.Join(folder, evidenceFile))
	if err == nil {
		err = json.Unmarshal(text, &e)
	}
	if err == nil {
		err = e.Report.check(folder, e.Final, e.Rules)
	}
	if err != nil {
		return Report{}, fmt.Errorf("check again: %w", err)
	}
	return e.Report, nil
}

// shown is how many findings of a rule are printed.
const shown = 5

// Print writes the figures and the verdict.
func (r Report) Print(out io.Writer) {
	f := r.Figures
	fmt.Fprintf(out, "  jobs: %d accepted, %d more stored by calls that failed; %d done, %d dead; %d committed with a row\n", f.Accepted, f.Unsure, f.Done, f.Dead, f.Orders)
	fmt.Fprintf(out, "  deaths: %d letters, %d alert rows, %d delivered, %d repeated\n", f.Letters, f.AlertRows, f.Alerted, f.AlertsRepeated)
	fmt.Fprint(out, "  faults:")
	for i, kind := range slices.Sorted(maps.Keys(f.Faults)) {
		fmt.Fprintf(out, "%s %d %s", map[bool]string{true: ",", false: ""}[i > 0], f.Faults[kind], kind)
	}
	fmt.Fprintf(out, "; %.0f %% hit running jobs\n", 100*f.Share)
	fmt.Fprintf(out, "  late acknowledgements refused: %d; sessions lost: %d; crashes looked at: %d\n", f.Refused, f.SessionsLost, f.Charged)
	if f.Freezes+f.Starved > 0 {
		fmt.Fprintf(out, "  the machine stood still %d times, for %.1f s, and single processes %d times\n", f.Freezes, f.Frozen, f.Starved)
	}
	fmt.Fprintf(out, "  runs repeated: %d, of %d in flight at faults\n", f.Reruns, f.InFlight)
	fmt.Fprintf(out, "  recovery of %d jobs: p50 %.2f s, p99 %.2f s, max %.2f s, bound %.2f s; and of %d suspects\n",
		f.Recovery.Jobs, f.Recovery.P50, f.Recovery.P99, f.Recovery.Max, r.Bound, f.Suspects)
	r.printVerdict(out)
}

func (r Report) printVerdict(out io.Writer) {
	if len(r.Findings) == 0 {
		fmt.Fprintf(out, "  the promises held (%.0f s)\n", r.Seconds)
		return
	}
	printed := map[string]int{}
	for _, finding := range r.Findings {
		if printed[finding.Rule]++; printed[finding.Rule] <= shown {
			fmt.Fprintf(out, "  BROKEN %s: %s\n", finding.Rule, finding.Text)
		}
	}
	fmt.Fprintf(out, "  %d findings:", len(r.Findings))
	for i, rule := range slices.Sorted(maps.Keys(printed)) {
		fmt.Fprintf(out, "%s %d %s", map[bool]string{true: ",", false: ""}[i > 0], printed[rule], rule)
	}
	fmt.Fprintf(out, "; the histories are kept in %s\n", r.Kept)
}

// writeJSON writes the figures of a run on all its stores.
func writeJSON(path string, reports []Report) error {
	if path == "" {
		return nil
	}
	text, err := json.MarshalIndent(reports, "", "  ")
	if err == nil {
		err = os.WriteFile(path, append(text, '\n'), 0o644)
	}
	return errors.Join(err)
}
