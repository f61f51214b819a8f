package ops_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/ops"
)

// many are the letters of n jobs, whose ids are in the order of their deaths.
func (s *store) many(t *testing.T, n int) []pawl.ID {
	t.Helper()
	ids := make([]pawl.ID, n)
	for i := range ids {
		ids[i] = s.die(t, "main", pawl.Policy{}, nil, nil).ID
	}
	return ids
}

// end writes how a redrive has ended; with a fingerprint it has died again, as a new letter.
func (s *store) end(letter pawl.ID, outcome pawl.RedriveOutcome, fingerprint string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old := s.letters[letter]
	old.Outcome = outcome
	if fingerprint != "" {
		next := pawl.DeadLetter{ID: pawl.NewID(), Fingerprint: fingerprint, Previous: letter}
		s.letters[next.ID], old.NextLetter = &next, next.ID
	}
}

func bulkOptions() ops.BulkOptions {
	return ops.BulkOptions{RedriveOptions: ops.RedriveOptions{By: ann}}
}

// bulk redrives within virtual time, and says in which order and for how long.
func bulk(t *testing.T, s *store, ids []pawl.ID, o ops.BulkOptions) (report ops.BulkReport, done []pawl.ID, took time.Duration) {
	t.Helper()
	start, each := time.Now(), o.Each
	o.Each = func(r ops.Result) {
		if r.Err == nil {
			done = append(done, r.Letter)
		}
		if each != nil {
			each(r)
		}
	}
	report, err := newDesk(t, s).RedriveBulk(t.Context(), ids, o)
	if err != nil {
		t.Fatal(err)
	}
	return report, done, time.Since(start)
}

func TestBulkKeepsItsRate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate    float64
		letters int
		took    time.Duration
	}{{0, 1200, 0}, {2, 7, 3 * time.Second}, {50, 100, 1800 * time.Millisecond}, {0.1, 3, 20 * time.Second}} {
		t.Run(fmt.Sprint(c.rate), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStore("main")
				ids := s.many(t, c.letters)
				o := bulkOptions()
				o.Rate = c.rate
				report, done, took := bulk(t, s, ids, o)
				if report != (ops.BulkReport{Letters: c.letters, Redriven: c.letters}) || !slices.Equal(done, ids) {
					t.Errorf("report is %+v, of %d in order", report, len(done))
				}
				if took != c.took {
					t.Errorf("it took %v, want %v", took, c.took)
				}
			})
		})
	}
}

func TestBulkGoesOnAfterRefusals(t *testing.T) {
	t.Parallel()
	s := newStore("main")
	ids := s.many(t, 3)
	never := s.die(t, "main", pawl.Policy{Redrive: pawl.RedriveNever}, nil, nil).ID
	alone := s.die(t, "main", pawl.Policy{Redrive: pawl.RedriveOneByOne}, nil, nil).ID
	var errs []error
	o := bulkOptions()
	o.Each = func(r ops.Result) { errs = append(errs, r.Err) }
	all := []pawl.ID{ids[0], never, ids[0], pawl.NewID(), alone, ids[1], ids[2]}
	report, done, _ := bulk(t, s, all, o)
	if report != (ops.BulkReport{Letters: 7, Redriven: 3, Refused: 4}) || !slices.Equal(done, ids) {
		t.Errorf("report is %+v", report)
	}
	for i, want := range []error{nil, pawl.ErrRedriveRefused, pawl.ErrAlreadyRedriven, pawl.ErrNotFound, pawl.ErrRedriveRefused, nil, nil} {
		if !errors.Is(errs[i], want) {
			t.Errorf("letter %d: error is %v, want %v", i, errs[i], want)
		}
	}
	// Of one alone too: it is one of many that there might have been.
	report, _, _ = bulk(t, s, []pawl.ID{alone}, bulkOptions())
	if report.Redriven != 0 || newDesk(t, s).CheckRedriveMany(t.Context(), alone, ops.RedriveOptions{}) == nil {
		t.Errorf("one by one, in bulk: %+v", report)
	}
}

func TestBulkProbes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		outcome  pawl.RedriveOutcome
		after    time.Duration
		redriven int
		stopped  string
	}{
		"well":      {pawl.RedriveSucceeded, 90 * time.Second, 5, ""},
		"died":      {pawl.RedriveDiedAgain, time.Second, 1, "ended so: died again"},
		"cancelled": {pawl.RedriveCancelled, time.Second, 1, "ended so: cancelled"},
		"never":     {pawl.RedriveSucceeded, time.Hour, 1, "has not ended within 10m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStore("main")
				ids := s.many(t, 5)
				never := s.die(t, "main", pawl.Policy{Redrive: pawl.RedriveNever}, nil, nil).ID // is no probe
				time.AfterFunc(c.after, func() { s.end(ids[0], c.outcome, "") })
				o := bulkOptions()
				o.Probe = true
				report, _, _ := bulk(t, s, append([]pawl.ID{never}, ids...), o)
				if report.Redriven != c.redriven || report.Refused != 1 || !strings.Contains(report.Stopped, c.stopped) || (c.stopped == "") != (report.Stopped == "") {
					t.Errorf("report is %+v", report)
				}
				if c.stopped != "" && s.status(t, ids[1]).Status != pawl.StatusDead {
					t.Error("the second letter was touched")
				}
				synctest.Wait()
			})
		})
	}
}

func TestBulkStopsWhenTheFirstDieAlike(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		alike, stopAfter, redriven int
	}{
		"all":       {99, 3, 3},
		"not one":   {2, 3, 8},
		"too few":   {99, 9, 8},
		"not asked": {99, -1, 8},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newStore("main")
				ids := s.many(t, 8)
				o, n := bulkOptions(), 0
				o.Rate, o.StopAfter = 1, c.stopAfter
				o.Each = func(r ops.Result) {
					fingerprint := s.status(t, r.Letter).Fingerprint
					if n++; n > c.alike {
						fingerprint = "1-other"
					}
					s.end(r.Letter, pawl.RedriveDiedAgain, fingerprint)
				}
				report, _, _ := bulk(t, s, ids, o)
				if report.Redriven != c.redriven || (report.Stopped != "") != (c.redriven < 8) {
					t.Errorf("report is %+v", report)
				}
			})
		})
	}
}

// What was broken off is done again, and every letter has one new job.
func TestBulkIsTakenUpAgain(t *testing.T) {
	t.Parallel()
	s := newStore("main")
	ids := s.many(t, 1700)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o, n := bulkOptions(), 0
	o.Each = func(ops.Result) {
		if n++; n == 700 {
			cancel()
		}
	}
	report, err := newDesk(t, s).RedriveBulk(ctx, ids, o)
	if !errors.Is(err, context.Canceled) || report.Redriven == 0 || report.Redriven == len(ids) {
		t.Fatalf("broken off: %+v, %v", report, err)
	}
	again, _, _ := bulk(t, s, ids, bulkOptions())
	if again.Refused != report.Redriven || again.Redriven+report.Redriven != len(ids) || len(s.jobs) != len(ids) {
		t.Errorf("first %+v, then %+v, %d jobs", report, again, len(s.jobs))
	}
}

func TestBulkEndsWithTheStore(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		s := newStore("main")
		ids := s.many(t, 1200)
		calls := 0
		s.failMoves = func(done bool) error {
			if calls++; calls > 3 && done == after {
				return errAway
			}
			return nil
		}
		report, err := newDesk(t, s).RedriveBulk(t.Context(), ids, bulkOptions())
		switch {
		case !after && (!errors.Is(err, errAway) || report.Redriven >= len(ids)):
			t.Errorf("before: %+v, %v", report, err)
		case after && (err != nil || report.Redriven != len(ids)): // each move shows that it has happened
			t.Errorf("after: %+v, %v", report, err)
		}
	}
}

func TestBulkRefusesNonsense(t *testing.T) {
	t.Parallel()
	s := newStore("main")
	ids := s.many(t, 2)
	desk := newDesk(t, s)
	for name, c := range map[string]struct {
		change func(*ops.BulkOptions)
		want   error
	}{
		"nobody":     {func(o *ops.BulkOptions) { o.By = pawl.By{} }, pawl.ErrInvalid},
		"args":       {func(o *ops.BulkOptions) { o.Args = []byte(`1`) }, pawl.ErrInvalid},
		"rate":       {func(o *ops.BulkOptions) { o.Rate = -1 }, pawl.ErrInvalid},
		"probe wait": {func(o *ops.BulkOptions) { o.ProbeWait = -1 }, pawl.ErrInvalid},
		"expect":     {func(o *ops.BulkOptions) { o.Expect = 3 }, pawl.ErrConflict},
	} {
		o := bulkOptions()
		c.change(&o)
		report, err := desk.RedriveBulk(t.Context(), ids, o)
		if !errors.Is(err, c.want) || report.Redriven != 0 || len(s.jobs) != 0 {
			t.Errorf("%s: %+v, %v", name, report, err)
		}
	}
	if _, err := desk.Select(t.Context(), pawl.LetterFilter{}, -1); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("select fewer than none: %v", err)
	}
}

// A set is frozen: oldest first, as many as may be, whatever dies later.
func TestSelect(t *testing.T) {
	t.Parallel()
	r := openReal(t)
	var letters []pawl.DeadLetter
	for range 1203 {
		letters = append(letters, deadLetter(t, "default", pawl.Policy{}))
	}
	if _, err := r.RecordDeaths(t.Context(), letters); err != nil {
		t.Fatal(err)
	}
	open := pawl.LetterFilter{Status: []pawl.Status{pawl.StatusDead}}
	all, err := r.desk.Select(t.Context(), open, 0)
	if err != nil || len(all) != len(letters) {
		t.Fatalf("%d letters, %v", len(all), err)
	}
	newest, err := r.Letters(t.Context(), open, pawl.Page{Limit: 1})
	if err != nil || newest.Letters[0].ID != all[len(all)-1] {
		t.Errorf("the last is not the newest, %v", err)
	}
	some, err := r.desk.Select(t.Context(), open, 5)
	if err != nil || !slices.Equal(some, all[:5]) {
		t.Errorf("some are %v, %v", some, err)
	}
	o := bulkOptions()
	report, err := r.desk.RedriveBulk(t.Context(), all, o)
	if err != nil || report.Redriven != len(all) {
		t.Errorf("report is %+v, %v", report, err)
	}
	if none, err := r.desk.Select(t.Context(), open, 0); err != nil || len(none) != 0 {
		t.Errorf("%d letters are still open, %v", len(none), err)
	}
}
