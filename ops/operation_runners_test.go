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
	"github.com/pawljobs/pawl/storetest"
)

// A runner that is killed leaves a lease that runs out; another one then goes on, and until then only watches.
func TestOperationIsTakenUp(t *testing.T) {
	inVirtualTime(t, func(s shop) {
		s.dead(3, pawl.Policy{}, nil, nil)
		id := s.start(redriveOf(pawl.OperationOptions{})).ID
		killed, err := s.LeaseOperations(s.Context(), pawl.OperationLease{Runner: "killed", Max: 1})
		if err != nil || len(killed) != 1 {
			s.Fatal(len(killed), err)
		}
		start, runners := time.Now(), []string{}
		o, err := s.desk.RunOperation(s.Context(), id, ops.RunOptions{Runner: "next", Each: func(o pawl.Operation) { runners = append(runners, o.Runner) }})
		if took := time.Since(start); err != nil || o.Done != 3 || took < 4*time.Second || took > 7*time.Second {
			s.Errorf("after %s: %+v, %v", took, o, err)
		}
		if runners[0] != "killed" {
			s.Errorf("runners %q", runners)
		}
		if _, err := s.AdvanceOperation(s.Context(), pawl.OperationStep{Operation: id, Lease: killed[0].Lease}); !errors.Is(err, pawl.ErrLeaseLost) {
			s.Errorf("the killed one comes back: %v", err)
		}
	})
}

// Several runners share what there is; each operation is run once, and a runner that stops lets go at once.
func TestRunners(t *testing.T) {
	onBoth(t, func(s shop) {
		s.dead(2000, pawl.Policy{}, nil, nil)
		var all []pawl.ID
		for range 3 {
			all = append(all, s.start(redriveOf(pawl.OperationOptions{})).ID)
		}
		runners := func(ctx context.Context) {
			ended := make(chan struct{})
			for n := range 2 {
				runner, err := ops.NewRunner(newDesk(s.T, s.Store), ops.RunnerConfig{Name: fmt.Sprint("runner-", n), Poll: 50 * time.Millisecond})
				if err != nil {
					s.Error(err)
				}
				go func() { defer func() { ended <- struct{}{} }(); runner.Run(ctx) }()
			}
			<-ended
			<-ended
		}
		s.alongside(runners, func() {
			sum := 0
			for _, id := range all {
				o := s.run(id)
				if o.State != pawl.OperationFinished || o.Done+o.Refused != 2000 {
					s.Errorf("%+v", o)
				}
				sum += o.Done
			}
			s.want("redriven", sum, 2000)
			s.want("jobs", len(s.jobsOf()), 2000)
		})
		slow := s.start(pawl.NewOperation{Action: pawl.ActionResolve, Filter: pawl.LetterFilter{Status: []pawl.Status{pawl.StatusRedriven}}, By: ann, Options: pawl.OperationOptions{Rate: 1}}).ID
		s.alongside(runners, func() {
			for s.operation(slow).Runner == "" {
				time.Sleep(20 * time.Millisecond)
			}
		})
		s.want("runner after it has stopped", s.operation(slow).Runner, "")
	})
}

// Every call of a run fails in turn, before and after the store has done it: each letter has one new job in the end.
func TestOperationSurvivesFaults(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, fault int, when storetest.When) (calls int) {
		synctest.Test(t, func(t *testing.T) {
			real := newShop(t, openFile(t))
			real.dead(7, pawl.Policy{}, nil, nil)
			faulty := storetest.Fail(real.Store)
			if fault > 0 {
				faulty.At(fault, when)
			}
			s := real
			s.Store, s.desk = faulty, newDesk(t, faulty)
			o := redriveOf(pawl.OperationOptions{Rate: 2})
			o.ID = pawl.NewID()
			for try := 0; ; try++ {
				_, err := s.desk.StartOperation(t.Context(), o)
				if err == nil {
					_, err = s.desk.RunOperation(t.Context(), o.ID, ops.RunOptions{})
				}
				if err == nil {
					break
				}
				if !errors.Is(err, storetest.ErrFault) || try > 2 {
					t.Fatalf("call %d fails %s: %v", fault, when, err)
				}
			}
			got := real.operation(o.ID)
			if got.State != pawl.OperationFinished || got.Done != 7 || got.Refused != 0 || len(real.jobsOf()) != 7 {
				t.Errorf("call %d fails %s: %+v", fault, when, got)
			}
			calls = faulty.Calls()
		})
		return calls
	}
	calls := run(t, 0, storetest.Before)
	if calls < 10 {
		t.Fatalf("%d calls", calls)
	}
	for n := 1; n <= calls; n++ {
		for _, when := range []storetest.When{storetest.Before, storetest.After} {
			run(t, n, when)
		}
	}
}

// A letter with which every step fails is refused, and the others go on.
func TestOperationRefusesTheCulprit(t *testing.T) {
	inVirtualTime(t, func(s shop) {
		letters := s.dead(700, pawl.Policy{}, nil, nil)
		faulty := storetest.Fail(s.Store)
		id := s.start(redriveOf(pawl.OperationOptions{})).ID
		culprit := s.items(id, pawl.ItemFilter{})[300].Letter
		broken := brokenBy{faulty, culprit}
		o, err := newDesk(s.T, broken).RunOperation(s.Context(), id, ops.RunOptions{})
		if err != nil || o.Done != len(letters)-1 || o.Refused != 1 {
			s.Errorf("%+v, %v", o, err)
		}
		if refused := s.items(id, pawl.ItemFilter{State: pawl.ItemRefused}); len(refused) != 1 || refused[0].Letter != culprit || !strings.Contains(refused[0].Reason, "the page is damaged") {
			s.Errorf("refused: %+v", refused)
		}
	})
}

// brokenBy is a store in which one letter cannot be moved.
type brokenBy struct {
	*storetest.Faulty
	letter pawl.ID
}

func (b brokenBy) AdvanceOperation(ctx context.Context, step pawl.OperationStep) ([]error, error) {
	for _, item := range step.Items {
		if item.Letter == b.letter && item.Refused == "" {
			return nil, errors.New("the page is damaged")
		}
	}
	return b.Faulty.AdvanceOperation(ctx, step)
}
