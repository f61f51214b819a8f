package ops_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/ops"
)

// Case 26: one of 1,000 redrives cannot be pushed: it is skipped with its reason, and the rest proceed.
func TestCase26OneRedriveOfManyCannotBePushed(t *testing.T) {
	onBoth(t, func(s shop) {
		letters := s.dead(999, pawl.Policy{}, nil, nil)
		key := s.dead(1, pawl.Policy{}, []pawl.Option{pawl.UniqueWhileUnfinished("k")}, nil)[0]
		held, err := work.Enqueue(s.Context(), s.Store, args{2}, pawl.UniqueWhileUnfinished("k"))
		if err != nil {
			s.Fatal(err)
		}
		o := s.run(s.start(redriveOf(pawl.OperationOptions{})).ID)
		s.want("state, done, refused, pending", []any{o.State, o.Done, o.Refused, o.Pending}, []any{"finished", 999, 1, 999})
		refused := s.items(o.ID, pawl.ItemFilter{State: pawl.ItemRefused})
		if len(refused) != 1 || refused[0].Letter != key.ID || !strings.Contains(refused[0].Reason, held.ID.String()) {
			s.Errorf("refused: %+v", refused)
		}
		s.want("jobs", len(s.jobsOf()), 1000)
		s.want("letter of the last", s.jobsOf()[letters[998].ID].IsZero(), false)
	})
}

// What a kind or a letter forbids is refused among many as it is alone, and each is told why.
func TestOperationObeysPolicies(t *testing.T) {
	onBoth(t, func(s shop) {
		s.dead(2, pawl.Policy{}, nil, nil)
		never := s.dead(1, pawl.Policy{Redrive: pawl.RedriveNever}, nil, nil)[0]
		alone := s.dead(1, pawl.Policy{Redrive: pawl.RedriveOneByOne}, nil, nil)[0]
		unknown := s.dead(1, pawl.Policy{}, nil, func(_ int, l *pawl.DeadLetter) { l.Reason = pawl.ReasonLost })[0]
		damaged := s.dead(1, pawl.Policy{}, nil, func(_ int, l *pawl.DeadLetter) { l.Envelope[9] ^= 1 })[0]
		elsewhere := s.dead(1, pawl.Policy{}, nil, func(_ int, l *pawl.DeadLetter) { l.Connection = "mails" })[0]
		late := s.dead(1, pawl.Policy{}, []pawl.Option{pawl.RetryUntil(time.Now().Add(500 * time.Millisecond))}, nil)[0]
		time.Sleep(600 * time.Millisecond)

		var rehearsed []string
		n, err := s.desk.RehearseOperation(s.Context(), redriveOf(pawl.OperationOptions{}), func(r ops.Result) {
			if r.Err != nil {
				rehearsed = append(rehearsed, r.Err.Error())
			}
		})
		if err != nil || n != 8 || len(rehearsed) != 6 || len(s.jobsOf()) != 0 {
			s.Fatalf("rehearsed %d, refused %q, %v", n, rehearsed, err)
		}
		o := s.run(s.start(redriveOf(pawl.OperationOptions{Note: "n"})).ID)
		s.want("done and refused", []int{o.Done, o.Refused}, []int{2, 6})
		reasons := map[pawl.ID]string{
			never.ID: "is never run again", alone.ID: "one by one", unknown.ID: "outcome is unknown", damaged.ID: "damaged",
			elsewhere.ID: `connection "mails" is not known`, late.ID: "has passed",
		}
		for _, item := range s.items(o.ID, pawl.ItemFilter{State: pawl.ItemRefused}) {
			if want := reasons[item.Letter]; want == "" || !strings.Contains(item.Reason, want) {
				s.Errorf("refused with %q, want %q", item.Reason, want)
			}
		}
		confirmed := redriveOf(pawl.OperationOptions{Confirmed: true, RetryFor: time.Hour})
		o = s.run(s.start(confirmed).ID)
		s.want("done and refused, when confirmed and restated", []int{o.Done, o.Refused}, []int{2, 4})
		entries, err := s.Audit(s.Context(), pawl.AuditFilter{Action: pawl.ActionRedrive, Subject: late.ID.String()}, pawl.Page{})
		if err != nil || len(entries.Entries) != 1 || entries.Entries[0].Why != "mended; operation "+o.ID.String() || entries.Entries[0].Who != "ann" {
			s.Errorf("trail: %+v, %v", entries, err)
		}
	})
}

// Case 24: a redriven job dies again: a new record, linked; it alerts again; only the newest can be redriven, and a redrive
// of the group runs it once.
func TestCase24RedriveDiesAgain(t *testing.T) {
	onBoth(t, func(s shop) {
		first := s.dead(1, pawl.Policy{}, nil, nil)[0]
		all := redriveOf(pawl.OperationOptions{StopAfter: -1})
		all.Filter.Fingerprint = first.Fingerprint
		newest := first
		for range 3 {
			o := s.run(s.start(all).ID)
			s.want("done and refused", []int{o.Done, o.Refused}, []int{1, 0})
			claimed, err := s.Claim(s.Context(), pawl.ClaimRequest{Session: s.session, Queues: []string{"2-default"}, Kinds: []string{workKind}, Max: 10})
			if err != nil || len(claimed.Jobs) != 1 {
				s.Fatalf("%d jobs, %v", len(claimed.Jobs), err)
			}
			death := pawl.Dead{Class: pawl.DeathExhausted, Reason: pawl.ReasonBudget}
			again := pawl.NewDeadLetter(pawl.Undertaker{Connection: "default", Host: "h"}, claimed.Jobs[0], death, time.Now(), errors.New("down"))
			errs, err := s.Settle(s.Context(), s.session, []pawl.Settlement{{Reservation: claimed.Jobs[0].Reservation, Outcome: death, Letter: &again}})
			if err = errors.Join(err, errs[0]); err != nil {
				s.Fatal(err)
			}
			s.want("died again", s.operation(o.ID).DiedAgain, 1)
			old, err := s.Letter(s.Context(), newest.ID)
			if err != nil || old.NextLetter != again.ID || old.Outcome != pawl.RedriveDiedAgain {
				s.Fatalf("the old letter: %+v, %v", old, err)
			}
			if newest, err = s.Letter(s.Context(), again.ID); err != nil || newest.Previous != old.ID || newest.Fingerprint != first.Fingerprint {
				s.Fatalf("the new letter: %+v, %v", newest, err)
			}
		}
		every := all
		every.Filter.Status = []pawl.Status{pawl.StatusDead, pawl.StatusRedriven, pawl.StatusResolved}
		o := s.run(s.start(every).ID)
		s.want("of the whole lineage: done and refused", []int{o.Done, o.Refused}, []int{1, 3})
		for _, item := range s.items(o.ID, pawl.ItemFilter{State: pawl.ItemRefused}) {
			if item.Letter == newest.ID || !strings.Contains(item.Reason, "already redriven") {
				s.Errorf("refused: %+v", item)
			}
		}
		waiting, err := s.Jobs(s.Context(), pawl.JobFilter{State: pawl.JobWaiting}, pawl.Page{})
		if err != nil || len(waiting.Jobs) != 1 || waiting.Jobs[0].Letter != newest.ID {
			s.Errorf("waiting: %+v, %v", waiting, err)
		}
		tasks, err := s.ClaimAlerts(s.Context(), pawl.AlertClaim{Session: s.session, Sinks: []string{"one"}, Max: 100})
		if err != nil || len(tasks) != 4 {
			s.Errorf("%d alerts, %v", len(tasks), err)
		}
	})
}

// Case 25: 20,000 deaths: all can be listed, counted, grouped and redriven, in bounded memory; what is cut off in the middle
// goes on there. (Killed processes are in package app.)
func TestCase25ManyDeaths(t *testing.T) {
	onBoth(t, func(s shop) {
		const n = 20_000
		s.dead(n, pawl.Policy{}, nil, func(i int, l *pawl.DeadLetter) { l.Fingerprint = fmt.Sprint("1-", i%4) })
		listed := 0
		for page := (pawl.Page{Limit: 1000}); ; {
			found, err := s.Letters(s.Context(), pawl.LetterFilter{}, page)
			if err != nil {
				s.Fatal(err)
			}
			listed += len(found.Letters)
			if page.After = found.Next; found.Next == "" {
				break
			}
		}
		counted, err := s.CountLetters(s.Context(), pawl.LetterFilter{})
		groups, groupsErr := s.LetterGroups(s.Context(), pawl.LetterFilter{}, 0)
		s.want("listed, counted, groups, in groups", []any{listed, counted, len(groups.Groups), groups.Letters, err, groupsErr}, []any{n, n, 4, n, nil, nil})

		id := s.start(redriveOf(pawl.OperationOptions{Expect: n})).ID
		before, most := heap(), uint64(0)
		ctx, cancel := context.WithCancel(s.Context())
		defer cancel()
		_, err = s.desk.RunOperation(ctx, id, ops.RunOptions{Each: func(o pawl.Operation) {
			if most = max(most, heap()); o.Done > 0 {
				cancel()
			}
		}})
		cut := s.operation(id)
		if !errors.Is(err, context.Canceled) || cut.Done == 0 || cut.Waiting() == 0 || cut.State != pawl.OperationRunning {
			s.Fatalf("cut off: %+v, %v", cut, err)
		}
		o := s.run(id)
		s.want("state, done, refused", []any{o.State, o.Done, o.Refused}, []any{"finished", n, 0})
		s.want("jobs", len(s.jobsOf()), n)
		if grown := most - min(before, most); grown > 32<<20 {
			s.Errorf("the heap grew by %d MB", grown>>20)
		}
	})
}

// heap is what is live.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Closing and opening again many goes the same way.
func TestOperationClosesAndReopens(t *testing.T) {
	onBoth(t, func(s shop) {
		s.dead(1203, pawl.Policy{}, nil, nil)
		for _, step := range []struct {
			action pawl.Action
			to     pawl.Status
		}{{pawl.ActionResolve, pawl.StatusResolved}, {pawl.ActionReopen, pawl.StatusDead}, {pawl.ActionDiscard, pawl.StatusDiscarded}, {pawl.ActionReopen, pawl.StatusDead}} {
			o := s.run(s.start(pawl.NewOperation{Action: step.action, By: ann, Options: pawl.OperationOptions{Note: string(step.action)}}).ID)
			s.want("state, done, refused, pending", []any{o.State, o.Done, o.Refused, o.Pending}, []any{"finished", 1203, 0, 0})
			n, err := s.CountLetters(s.Context(), pawl.LetterFilter{Status: []pawl.Status{step.to}})
			s.want("letters", []any{n, err}, []any{1203, nil})
		}
		_, err := s.desk.StartOperation(s.Context(), pawl.NewOperation{Action: pawl.ActionReopen, By: ann})
		if !errors.Is(err, pawl.ErrNotFound) {
			s.Errorf("nothing to open: %v", err)
		}
	})
}

func TestOperationsNeedAStoreThatKeepsThem(t *testing.T) {
	t.Parallel()
	desk := newDesk(t, newStore("default"))
	if _, err := desk.StartOperation(t.Context(), redriveOf(pawl.OperationOptions{})); !errors.Is(err, pawl.ErrUnsupported) {
		t.Errorf("start: %v", err)
	}
	if _, err := desk.RunOperation(t.Context(), pawl.NewID(), ops.RunOptions{}); !errors.Is(err, pawl.ErrUnsupported) {
		t.Errorf("run: %v", err)
	}
	if err := desk.ControlOperation(t.Context(), pawl.NewID(), pawl.ActionStop, ann); !errors.Is(err, pawl.ErrUnsupported) {
		t.Errorf("stop: %v", err)
	}
	if _, err := ops.NewRunner(desk, ops.RunnerConfig{}); !errors.Is(err, pawl.ErrUnsupported) {
		t.Errorf("runner: %v", err)
	}
	s := newShop(t, openFile(t))
	if _, err := ops.NewRunner(s.desk, ops.RunnerConfig{Poll: -1}); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("poll: %v", err)
	}
	if _, err := s.desk.StartOperation(t.Context(), pawl.NewOperation{Action: pawl.ActionRedrive}); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("nobody: %v", err)
	}
	if _, err := s.desk.RunOperation(t.Context(), pawl.NewID(), ops.RunOptions{}); !errors.Is(err, pawl.ErrNotFound) {
		t.Errorf("none: %v", err)
	}
	if err := s.desk.ControlOperation(t.Context(), pawl.NewID(), pawl.ActionStop, ann); !errors.Is(err, pawl.ErrNotFound) {
		t.Errorf("stop of none: %v", err)
	}
}
