package ops_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/ops"
)

// A pause and a stop are obeyed within a second, whoever runs it, and a resume goes on there.
func TestOperationIsPausedAndStopped(t *testing.T) {
	onBoth(t, func(s shop) {
		s.dead(600, pawl.Policy{}, nil, nil)
		id := s.start(redriveOf(pawl.OperationOptions{Rate: 100})).ID
		other := newDesk(s.T, s.Store)
		control := func(action pawl.Action) pawl.Operation {
			var at time.Time
			o, err := s.desk.RunOperation(s.Context(), id, ops.RunOptions{Each: func(o pawl.Operation) {
				if at.IsZero() && o.Runner != "" && o.Done > 0 {
					if err := other.ControlOperation(s.Context(), id, action, pawl.By{Who: "grace", Why: "too fast"}); err != nil {
						s.Error(err)
					}
					at = time.Now()
				}
			}})
			if took := time.Since(at); err != nil || at.IsZero() || took > 2*time.Second {
				s.Fatalf("%s: %+v, %v, after %s", action, o, err, took)
			}
			return o
		}
		o := control(pawl.ActionPause)
		if o.State != pawl.OperationPaused || o.Reason != "by grace: too fast" || o.Done >= 500 || len(s.jobsOf()) != o.Done {
			s.Errorf("paused: %+v", o)
		}
		if err := other.ControlOperation(s.Context(), id, pawl.ActionResume, ann); err != nil {
			s.Fatal(err)
		}
		stopped := control(pawl.ActionStop)
		if stopped.State != pawl.OperationStopped || stopped.Done < o.Done || stopped.Waiting() == 0 || len(s.jobsOf()) != stopped.Done {
			s.Errorf("stopped: %+v", stopped)
		}
		if err := other.ControlOperation(s.Context(), id, pawl.ActionResume, ann); !errors.Is(err, pawl.ErrConflict) {
			s.Errorf("resume of a stopped one: %v", err)
		}
	})
}

// inVirtualTime is a test on SQLite, whose clock is the process's.
func inVirtualTime(t *testing.T, test func(s shop)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(newShop(t, openFile(t))) })
}

func TestOperationKeepsItsRate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate    float64
		letters int
		took    time.Duration
	}{{0, 1200, 0}, {2, 7, 3500 * time.Millisecond}, {50, 100, 2 * time.Second}, {0.1, 3, 30 * time.Second}} {
		t.Run(fmt.Sprint(c.rate), func(t *testing.T) {
			inVirtualTime(t, func(s shop) {
				s.dead(c.letters, pawl.Policy{}, nil, nil)
				id, start := s.start(redriveOf(pawl.OperationOptions{Rate: c.rate})).ID, time.Now()
				o := s.run(id)
				if took := time.Since(start); o.Done != c.letters || took > c.took+time.Second || took < c.took-time.Duration(float64(time.Second)/max(c.rate, 1)) {
					s.Errorf("it took %v, want %v: %+v", took, c.took, o)
				}
			})
		})
	}
}

// ending ends the jobs of letters as they are redriven, each after a time.
func (s shop) ending(ctx context.Context, after time.Duration, outcome func(n int) pawl.Outcome, fingerprint func(n int) string) {
	for n := 0; ctx.Err() == nil; {
		claimed, err := s.Claim(ctx, pawl.ClaimRequest{Session: s.session, Queues: []string{"2-default"}, Kinds: []string{workKind}, Max: 1})
		if err != nil || len(claimed.Jobs) == 0 {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		time.Sleep(after)
		n++
		settlement := pawl.Settlement{Reservation: claimed.Jobs[0].Reservation, Outcome: outcome(n)}
		if death, dead := settlement.Outcome.(pawl.Dead); dead {
			letter := pawl.NewDeadLetter(pawl.Undertaker{Connection: "default", Host: "h"}, claimed.Jobs[0], death, time.Now(), errors.New("down"))
			if f := fingerprint(n); f != "" {
				letter.Fingerprint = f
			}
			settlement.Letter = &letter
		}
		if _, err := s.Settle(ctx, s.session, []pawl.Settlement{settlement}); err != nil && ctx.Err() == nil {
			s.Error(err)
		}
	}
}

// alongside runs f beside an operation's run.
func (s shop) alongside(f func(ctx context.Context), run func()) {
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); f(ctx) }()
	run()
	cancel()
	<-ended
}

var (
	done     = func(int) pawl.Outcome { return pawl.Done{} }
	dies     = func(int) pawl.Outcome { return pawl.Dead{Class: pawl.DeathExhausted, Reason: pawl.ReasonBudget} }
	asBefore = func(int) string { return "" }
)

func TestOperationProbes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		outcome func(int) pawl.Outcome
		after   time.Duration
		wait    time.Duration
		done    int
		reason  string
	}{
		"well":      {done, 90 * time.Second, 0, 5, ""},
		"died":      {dies, time.Second, 0, 1, "ended so: died again"},
		"never":     {done, time.Hour, 0, 1, "has not ended within 10m0s"},
		"impatient": {done, time.Minute, time.Second, 1, "has not ended within 1s"},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(s shop) {
				s.dead(1, pawl.Policy{Redrive: pawl.RedriveNever}, nil, nil) // is no probe
				time.Sleep(time.Second)
				s.dead(5, pawl.Policy{}, nil, nil)
				id := s.start(redriveOf(pawl.OperationOptions{Probe: true, ProbeWait: c.wait})).ID
				s.alongside(func(ctx context.Context) { s.ending(ctx, c.after, c.outcome, asBefore) }, func() {
					most := 0
					o, err := s.desk.RunOperation(s.Context(), id, ops.RunOptions{Each: func(o pawl.Operation) {
						if o.State == pawl.OperationProbing {
							most = max(most, o.Done)
						}
					}})
					if err != nil || most != 1 || o.Done != c.done || o.Refused != 1 || !strings.Contains(o.Reason, c.reason) || (o.State == pawl.OperationStopped) != (c.reason != "") {
						s.Errorf("%+v, %d done while probing, %v", o, most, err)
					}
				})
			})
		})
	}
}

func TestOperationStopsWhenTheFirstDieAlike(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stopAfter int
		outcome   func(int) pawl.Outcome
		print     func(int) string
		stops     bool
	}{
		"all alike":  {3, dies, asBefore, true},
		"by default": {0, dies, asBefore, true},
		"one is not": {3, dies, func(n int) string { return map[bool]string{true: "1-other"}[n == 2] }, false},
		"one is well": {3, func(n int) pawl.Outcome {
			if n == 1 {
				return pawl.Done{}
			}
			return dies(n)
		}, asBefore, false},
		"not asked": {-1, dies, asBefore, false},
	} {
		t.Run(name, func(t *testing.T) {
			inVirtualTime(t, func(s shop) {
				s.dead(20, pawl.Policy{}, nil, nil)
				id := s.start(redriveOf(pawl.OperationOptions{Rate: 1, StopAfter: c.stopAfter})).ID
				s.alongside(func(ctx context.Context) { s.ending(ctx, 0, c.outcome, c.print) }, func() {
					o := s.run(id)
					if (o.State == pawl.OperationStopped) != c.stops || (o.Done < 20) != c.stops || strings.Contains(o.Reason, "died again as they had before") != c.stops {
						s.Errorf("%+v", o)
					}
				})
			})
		})
	}
}
