package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/pawljobs/pawl"
)

func stepMoves(f *fixture) {
	session := f.host("a")
	letters := f.lettersFor(3)
	o := f.begun(redriveAll())
	lease := f.lease(o.ID)
	steps := f.redriveSteps(1, letters[:2])
	f.equal("refusals", f.advance(pawl.OperationStep{Operation: o.ID, Lease: lease, Items: steps}), []error{nil, nil})
	got := f.operation(o.ID)
	f.equal("done, refused, pending, waiting", [4]int{got.Done, got.Refused, got.Pending, got.Waiting()}, [4]int{2, 0, 2, 1})
	for i, item := range f.items(o.ID, pawl.ItemFilter{State: pawl.ItemDone}) {
		f.equal("item", item, pawl.OperationItem{
			Position: i + 1, Letter: letters[i].ID, State: pawl.ItemDone, Job: steps[i].Move.Push.ID, Outcome: pawl.RedrivePending,
		})
		f.equal("new job", f.letter(letters[i].ID).NewJobID, steps[i].Move.Push.ID)
	}
	f.equal("jobs", len(f.claim(session, 9)), 2)
	f.equal("audit entries", len(f.audit(pawl.AuditFilter{Action: pawl.ActionRedrive})), 2)
	f.equal("the third", f.letter(letters[2].ID).Status, pawl.StatusDead)
}

func stepRefusals(f *fixture) {
	letters := f.lettersFor(6)
	o := f.begun(redriveAll())
	lease := f.lease(o.ID)
	f.move(pawl.Move{Letter: letters[1].ID, Action: pawl.ActionResolve})
	_, err := f.store.ForgetLetter(f.ctx, letters[2].ID, operator("private"))
	f.ok("forget", err)
	steps := f.redriveSteps(1, letters)
	steps[3].Move, steps[3].Refused = pawl.Move{}, "it is never run again"
	f.redrive(letters[4])
	results := f.advance(pawl.OperationStep{Operation: o.ID, Lease: lease, Items: steps})
	for i, want := range []error{nil, pawl.ErrConflict, pawl.ErrNotFound, nil, pawl.ErrAlreadyRedriven, nil} {
		if i == 3 {
			f.equal("refused by the runner", results[i].Error(), "it is never run again")
			continue
		}
		f.fails(fmt.Sprint("letter ", i), results[i], want)
	}
	for _, item := range f.items(o.ID, pawl.ItemFilter{State: pawl.ItemRefused}) {
		f.equal("reason", item.Reason, results[item.Position-1].Error())
		f.equal("job", item.Job, pawl.ID{})
	}
	got := f.operation(o.ID)
	f.equal("done, refused, pending", [3]int{got.Done, got.Refused, got.Pending}, [3]int{2, 4, 2})
}

func stepInOrder(f *fixture) {
	letters := f.lettersFor(4)
	o := f.begun(redriveAll())
	lease := f.lease(o.ID)
	step := func(items ...pawl.ItemStep) pawl.OperationStep {
		return pawl.OperationStep{Operation: o.ID, Lease: lease, Items: items}
	}
	f.notAdvanced("not the first", step(f.redriveStep(2, letters[1])), pawl.ErrConflict)
	f.notAdvanced("with a gap", step(f.redriveStep(1, letters[0]), f.redriveStep(3, letters[2])), pawl.ErrInvalid)
	f.notAdvanced("another letter", step(f.redriveStep(1, letters[1])), pawl.ErrConflict)
	wrong := f.redriveStep(1, letters[0])
	wrong.Move.Letter = letters[1].ID
	f.notAdvanced("a move of another", step(wrong), pawl.ErrInvalid)
	f.notAdvanced("finished too early", pawl.OperationStep{Operation: o.ID, Lease: lease, State: pawl.OperationFinished}, pawl.ErrConflict)
	f.notAdvanced("to a state of none", pawl.OperationStep{Operation: o.ID, Lease: lease, State: pawl.OperationPaused}, pawl.ErrInvalid)
	f.advance(step(f.redriveStep(1, letters[0])))
	f.notAdvanced("the same again", step(f.redriveStep(1, letters[0])), pawl.ErrConflict)
	f.advance(step(f.redriveSteps(2, letters[1:])...))
	f.notAdvanced("past the end", step(f.redriveStep(5, letters[0])), pawl.ErrConflict)
	f.notAdvanced("too many", step(make([]pawl.ItemStep, pawl.MaxStep+1)...), pawl.ErrInvalid)
}

func stepWhilePaused(f *fixture) {
	letters := f.lettersFor(2)
	o := f.begun(redriveAll())
	lease := f.lease(o.ID)
	f.control(o.ID, pawl.ActionPause)
	f.notAdvanced("paused", pawl.OperationStep{Operation: o.ID, Lease: lease, Items: f.redriveSteps(1, letters)}, pawl.ErrConflict)
	f.notAdvanced("paused", pawl.OperationStep{Operation: o.ID, Lease: lease, State: pawl.OperationStopped}, pawl.ErrConflict)
	next, err := f.store.OperationLetters(f.ctx, o.ID, 10)
	f.ok("what is next", err)
	f.equal("what is next", len(next), 0)
	f.advance(pawl.OperationStep{Operation: o.ID, Lease: lease})
	f.advance(pawl.OperationStep{Operation: o.ID, Lease: lease, Release: true})
	f.control(o.ID, pawl.ActionResume)
	f.advance(pawl.OperationStep{Operation: o.ID, Lease: f.lease(o.ID), Items: f.redriveSteps(1, letters)})
}

func stepEnds(f *fixture) {
	o, lease, _ := f.redriving(2)
	f.advance(pawl.OperationStep{Operation: o.ID, Lease: lease, State: pawl.OperationFinished, Release: true})
	got := f.operation(o.ID)
	f.equal("state", got.State, pawl.OperationFinished)
	f.holds("it ended just now", got.EndedAt.Equal(got.ChangedAt) && got.EndedAt.Sub(got.CreatedAt) < patience)
	f.equal("controls", len(f.audit(pawl.AuditFilter{Subject: "operation " + o.ID.String()})), 1)

	f.lettersFor(1)
	begin := redriveAll()
	begin.Options.Probe = true
	o = f.begun(begin)
	lease = f.lease(o.ID)
	f.advance(pawl.OperationStep{Operation: o.ID, Lease: lease, State: pawl.OperationRunning})
	f.control(o.ID, pawl.ActionPause)
	f.control(o.ID, pawl.ActionResume)
	f.equal("state after the probe", f.operation(o.ID).State, pawl.OperationRunning)
	f.advance(pawl.OperationStep{Operation: o.ID, Lease: lease, State: pawl.OperationStopped, Reason: "they die alike"})
	got = f.operation(o.ID)
	f.equal("state", got.State, pawl.OperationStopped)
	f.equal("reason", got.Reason, "they die alike")
	entry := f.audit(pawl.AuditFilter{Action: pawl.ActionStop})[0]
	entry.ID, entry.At = 0, time.Time{}
	f.equal("entry", entry, pawl.AuditEntry{
		Who: "pawl", Door: "pawl", Why: "they die alike", Action: pawl.ActionStop, Subject: "operation " + o.ID.String(), From: "running", To: "stopped",
	})
}

func stepHandsOver(f *fixture) {
	letters := f.lettersFor(3)
	o := f.begun(redriveAll())
	lease := f.lease(o.ID)
	steps := f.redriveSteps(1, letters)
	for i := range steps {
		steps[i].Move.NewJob, steps[i].Move.Push = steps[i].Move.Push.ID, nil
	}
	f.advance(pawl.OperationStep{Operation: o.ID, Lease: lease, Items: steps})
	f.equal("handing over", len(f.items(o.ID, pawl.ItemFilter{State: pawl.ItemHandover})), 3)
	f.move(pawl.Move{Letter: letters[1].ID, Action: pawl.ActionOutcome, Outcome: pawl.RedriveSucceeded})
	f.move(pawl.Move{Letter: letters[2].ID, Action: pawl.ActionOutcome, Outcome: pawl.RedriveCancelled})
	f.control(o.ID, pawl.ActionPause)
	f.advance(pawl.OperationStep{Operation: o.ID, Lease: lease, Handed: []pawl.ItemStep{
		{Position: 1, Letter: letters[0].ID}, {Position: 2, Letter: letters[1].ID}, {Position: 3, Letter: letters[2].ID, Refused: "no room"},
	}})
	f.equal("counts", f.counts(o.ID), [4]int{1, 1, 0, 0})
	got := f.operation(o.ID)
	f.equal("done and refused", [2]int{got.Done, got.Refused}, [2]int{2, 1})
	f.equal("refused", f.items(o.ID, pawl.ItemFilter{State: pawl.ItemRefused}), []pawl.OperationItem{
		{Position: 3, Letter: letters[2].ID, State: pawl.ItemRefused, Reason: "no room"},
	})
	f.notAdvanced("handed over twice", pawl.OperationStep{Operation: o.ID, Lease: lease, Handed: []pawl.ItemStep{
		{Position: 1, Letter: letters[0].ID},
	}}, pawl.ErrConflict)
}

func stepCloses(f *fixture) {
	for _, action := range []pawl.Action{pawl.ActionResolve, pawl.ActionReopen, pawl.ActionDiscard} {
		if action == pawl.ActionResolve {
			f.lettersFor(2)
		}
		begin := redriveAll()
		begin.Action, begin.Filter = action, pawl.LetterFilter{}
		o := f.begun(begin)
		lease := f.lease(o.ID)
		next, err := f.store.OperationLetters(f.ctx, o.ID, 10)
		f.ok("what is next", err)
		var steps []pawl.ItemStep
		for _, n := range next {
			steps = append(steps, pawl.ItemStep{Position: n.Position, Letter: n.Letter.ID, Move: pawl.Move{Letter: n.Letter.ID, Action: action, By: operator("x")}})
		}
		f.equal("refusals", f.advance(pawl.OperationStep{Operation: o.ID, Lease: lease, Items: steps, State: pawl.OperationFinished}), []error{nil, nil})
		got := f.operation(o.ID)
		f.equal("done, pending", [2]int{got.Done, got.Pending}, [2]int{2, 0})
		f.equal("state", got.State, pawl.OperationFinished)
		f.equal("letters", len(f.letters(pawl.LetterFilter{Status: []pawl.Status{pawl.Move{Action: action}.To()}})), 2)
	}
}

// A step whose reply was lost may be tried again while the first is still under way.
func stepOnce(f *fixture) {
	letters := f.lettersFor(3)
	o := f.begun(redriveAll())
	lease := f.lease(o.ID)
	errs := make([]error, 4)
	steps := make([][]pawl.ItemStep, len(errs))
	for n := range steps {
		steps[n] = f.redriveSteps(1, letters)
	}
	var group sync.WaitGroup
	for n := range errs {
		group.Go(func() {
			_, errs[n] = f.store.AdvanceOperation(f.ctx, pawl.OperationStep{Operation: o.ID, Lease: lease, Items: steps[n]})
		})
	}
	group.Wait()
	made := 0
	for _, err := range errs {
		if err == nil {
			made++
			continue
		}
		f.fails("the others", err, pawl.ErrConflict)
	}
	f.equal("steps that were made", made, 1)
	f.equal("jobs", len(f.claim(f.host("a"), 9)), 3)
}
