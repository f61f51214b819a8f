package storetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawljobs/pawl"
)

// An operation is carried out by one runner at a time, in steps that are wholly done or not at all.
func operationWorkPromises() []promise {
	return []promise{
		{name: "a lease keeps others away until it runs out", check: leasesKeepAway},
		{name: "a lease that ran out is refused when another took it, and nothing is changed", check: lostLease},
		{name: "only operations that go on are leased, the oldest first", check: leasable},
		{name: "many who ask at once lease each operation once", check: leasedOnce},
		{name: "a step moves its letters, and comes on by them", check: stepMoves},
		{name: "a refused move is recorded with its reason and does not stop the others", check: stepRefusals},
		{name: "a step is made from where the operation is, and nowhere else", check: stepInOrder},
		{name: "a step while it is paused changes nothing", check: stepWhilePaused},
		{name: "a step that ends it", check: stepEnds},
		{name: "what is next comes with its envelopes, in pieces", check: nextLetters},
		{name: "a letter that was forgotten is next without its envelope", check: nextForgotten},
		{name: "the ends of its jobs are counted", check: outcomesCounted},
		{name: "the ends of its jobs are counted when it has stopped too", check: outcomesOfStopped},
		{name: "a letter that is redriven again later leaves the counts alone", check: outcomesOfLater},
		{name: "a job that goes elsewhere is handed over in two steps", check: stepHandsOver},
		{name: "closing letters has no jobs to wait for", check: stepCloses},
		{name: "two steps at the same time are made once", check: stepOnce},
	}
}

func (f *fixture) leases(request pawl.OperationLease) []pawl.LeasedOperation {
	f.Helper()
	if request.Runner == "" {
		request.Runner = "runner-1"
	}
	request.Max = max(request.Max, 1)
	leased, err := f.store.LeaseOperations(f.ctx, request)
	f.ok("lease operations", err)
	return leased
}

// lease takes an operation that is free.
func (f *fixture) lease(id pawl.ID) pawl.Token {
	f.Helper()
	leased := f.leases(pawl.OperationLease{Only: []pawl.ID{id}})
	if len(leased) != 1 {
		f.Fatalf("leased %d operations, want 1", len(leased))
	}
	return leased[0].Lease
}

func (f *fixture) advance(step pawl.OperationStep) []error {
	f.Helper()
	results, err := f.store.AdvanceOperation(f.ctx, step)
	f.ok("advance operation", err)
	f.equal("results", len(results), len(step.Items))
	return results
}

// notAdvanced makes a step that must be refused, with nothing changed.
func (f *fixture) notAdvanced(what string, step pawl.OperationStep, with error) {
	f.Helper()
	before, all, items := f.operation(step.Operation), f.everything(), f.items(step.Operation, pawl.ItemFilter{})
	_, err := f.store.AdvanceOperation(f.ctx, step)
	f.fails(what, err, with)
	f.equal(what+": operation", f.operation(step.Operation), before)
	f.equal(what+": items", f.items(step.Operation, pawl.ItemFilter{}), items)
	f.equal(what+": jobs, letters and audit trail", f.everything(), all)
}

func (f *fixture) redriveStep(position int, letter pawl.DeadLetter) pawl.ItemStep {
	f.Helper()
	return pawl.ItemStep{Position: position, Letter: letter.ID, Move: pawl.Move{
		Letter: letter.ID, Action: pawl.ActionRedrive, By: operator("mended"), Push: f.pushOf(letter, pawl.ActionRedrive),
	}}
}

func (f *fixture) redriveSteps(from int, letters []pawl.DeadLetter) []pawl.ItemStep {
	f.Helper()
	var steps []pawl.ItemStep
	for i, letter := range letters {
		steps = append(steps, f.redriveStep(from+i, letter))
	}
	return steps
}

// redriving has redriven letters by an operation with as many; the jobs wait.
func (f *fixture) redriving(n int) (o pawl.Operation, lease pawl.Token, letters []pawl.DeadLetter) {
	f.Helper()
	letters = f.lettersFor(n)
	o = f.begun(redriveAll())
	lease = f.lease(o.ID)
	for _, err := range f.advance(pawl.OperationStep{Operation: o.ID, Lease: lease, Items: f.redriveSteps(1, letters)}) {
		f.ok("redrive", err)
	}
	return o, lease, letters
}

func leasesKeepAway(f *fixture) {
	f.lettersFor(1)
	o := f.begun(redriveAll())
	f.equal("runner", o.Runner, "")
	first := f.leases(pawl.OperationLease{Runner: "first"})
	f.equal("leased", len(first), 1)
	f.equal("runner", first[0].Runner, "first")
	f.equal("operation", f.operation(o.ID), first[0].Operation)
	f.pass(pawl.OperationHold - 2*time.Second)
	f.equal("leased by another", len(f.leases(pawl.OperationLease{})), 0)
	f.advance(pawl.OperationStep{Operation: o.ID, Lease: first[0].Lease}) // renews
	f.pass(pawl.OperationHold - 2*time.Second)
	f.equal("leased by another", len(f.leases(pawl.OperationLease{})), 0)
	f.pass(2 * time.Second)
	f.equal("runner of a lease that ran out", f.operation(o.ID).Runner, "")
	second := f.leases(pawl.OperationLease{Runner: "second"})
	f.equal("leased after it ran out", len(second), 1)
	f.holds("the lease is another", second[0].Lease != first[0].Lease)
	f.equal("runner", second[0].Runner, "second")
	f.advance(pawl.OperationStep{Operation: o.ID, Lease: second[0].Lease, Release: true})
	f.equal("runner", f.operation(o.ID).Runner, "")
	f.equal("leased after it was given up", len(f.leases(pawl.OperationLease{Only: []pawl.ID{pawl.NewID(), o.ID}})), 1)
	for what, request := range map[string]pawl.OperationLease{"nobody": {Max: 1}, "none": {Runner: "a"}} {
		_, err := f.store.LeaseOperations(f.ctx, request)
		f.fails(what, err, pawl.ErrInvalid)
	}
}

func lostLease(f *fixture) {
	letters := f.lettersFor(2)
	o := f.begun(redriveAll())
	first := f.lease(o.ID)
	f.pass(pawl.OperationHold + time.Second)
	second := f.lease(o.ID)
	f.notAdvanced("a lost lease", pawl.OperationStep{Operation: o.ID, Lease: first, Items: f.redriveSteps(1, letters)}, pawl.ErrLeaseLost)
	f.notAdvanced("a lost lease that is given up", pawl.OperationStep{Operation: o.ID, Lease: first, Release: true}, pawl.ErrLeaseLost)
	f.advance(pawl.OperationStep{Operation: o.ID, Lease: second, Items: f.redriveSteps(1, letters)})
	_, err := f.store.AdvanceOperation(f.ctx, pawl.OperationStep{Operation: pawl.NewID(), Lease: second})
	f.fails("an operation of none", err, pawl.ErrNotFound)
}

func leasable(f *fixture) {
	f.lettersFor(1)
	var ids []pawl.ID
	for range 4 {
		ids = append(ids, f.begun(redriveAll()).ID)
		f.pass(time.Second)
	}
	f.control(ids[0], pawl.ActionPause)
	f.control(ids[2], pawl.ActionStop)
	f.equal("one", f.leases(pawl.OperationLease{})[0].ID, ids[1])
	leased := f.leases(pawl.OperationLease{Max: 5})
	f.equal("the rest", len(leased), 1)
	f.equal("the rest", leased[0].ID, ids[3])
	f.control(ids[0], pawl.ActionResume)
	f.equal("resumed", f.leases(pawl.OperationLease{Max: 5})[0].ID, ids[0])
	f.equal("one that has stopped", len(f.leases(pawl.OperationLease{Only: []pawl.ID{ids[2]}})), 0)
}

func leasedOnce(f *fixture) {
	f.lettersFor(1)
	want := map[pawl.ID]int{}
	for range 6 {
		want[f.begun(redriveAll()).ID] = 1
	}
	answers, errs := make([][]pawl.LeasedOperation, 6), make([]error, 6)
	var group sync.WaitGroup
	for n := range answers {
		group.Go(func() {
			answers[n], errs[n] = f.store.LeaseOperations(f.ctx, pawl.OperationLease{Runner: fmt.Sprint("runner-", n), Max: 6})
		})
	}
	group.Wait()
	f.allOK("lease operations", errs, nil)
	got := map[pawl.ID]int{}
	for _, o := range append(slices.Concat(answers...), f.leases(pawl.OperationLease{Max: 6})...) {
		got[o.ID]++
	}
	f.equal("leased", got, want)
}

func nextLetters(f *fixture) {
	letters := f.lettersFor(5)
	o := f.begun(redriveAll())
	lease := f.lease(o.ID)
	read := func(most int) []pawl.OperationLetter {
		next, err := f.store.OperationLetters(f.ctx, o.ID, most)
		f.ok("what is next", err)
		return next
	}
	next := read(2)
	f.equal("next", len(next), 2)
	for i, n := range next {
		whole := f.letter(letters[i].ID)
		f.equal("position", n.Position, i+1)
		f.holds("found", n.Found)
		f.same("envelope", n.Letter.Envelope, whole.Envelope)
		got := []any{n.Letter.ID, n.Letter.JobID, n.Letter.Connection, n.Letter.Kind, n.Letter.Reason, n.Letter.EnqueuedAt, n.Letter.Status, n.Letter.Fingerprint}
		f.equal("letter", got, []any{whole.ID, whole.JobID, whole.Connection, whole.Kind, whole.Reason, whole.EnqueuedAt, whole.Status, whole.Fingerprint})
	}
	f.advance(pawl.OperationStep{Operation: o.ID, Lease: lease, Items: f.redriveSteps(1, letters[:3])})
	next = read(10)
	f.equal("next", len(next), 2)
	f.equal("position", next[0].Position, 4)
	f.advance(pawl.OperationStep{Operation: o.ID, Lease: lease, Items: f.redriveSteps(4, letters[3:])})
	f.equal("after the last", len(read(10)), 0)
	_, err := f.store.OperationLetters(f.ctx, pawl.NewID(), 1)
	f.fails("of none", err, pawl.ErrNotFound)
}

func nextForgotten(f *fixture) {
	letters := f.lettersFor(2)
	o := f.begun(redriveAll())
	_, err := f.store.ForgetLetter(f.ctx, letters[0].ID, operator("private"))
	f.ok("forget", err)
	next, err := f.store.OperationLetters(f.ctx, o.ID, 10)
	f.ok("what is next", err)
	f.equal("first", next[0], pawl.OperationLetter{Position: 1, Letter: pawl.DeadLetter{ID: letters[0].ID}})
	f.equal("found", next[1].Found, true)
}

// counts are those of an operation's jobs: pending, succeeded, died again, cancelled.
func (f *fixture) counts(id pawl.ID) [4]int {
	f.Helper()
	f.leases(pawl.OperationLease{Max: 9}) // keeps the books too
	o := f.operation(id)
	page, err := f.store.Operations(f.ctx, pawl.OperationFilter{}, pawl.Page{})
	f.ok("list operations", err)
	i := slices.IndexFunc(page.Operations, func(o pawl.Operation) bool { return o.ID == id })
	f.equal("in the list", page.Operations[i], o)
	return [4]int{o.Pending, o.Succeeded, o.DiedAgain, o.Cancelled}
}

func (f *fixture) endJobs(o pawl.ID) {
	f.Helper()
	session := f.host("ends")
	for i, job := range f.claimExactly(session, 4) {
		switch i {
		case 0, 1:
			f.settle(session, end(job, pawl.Done{}))
		case 2:
			f.die(session, job)
		case 3:
			_, err := f.store.CancelJobs(f.ctx, []pawl.ID{job.ID}, operator("x"))
			f.ok("cancel", err)
			f.settle(session, end(job, pawl.Retry{}))
		}
	}
	f.equal("counts", f.counts(o), [4]int{1, 2, 1, 1})
	_, err := f.store.ClearQueue(f.ctx, normal, operator("clear"))
	f.ok("clear queue", err)
	f.equal("counts", f.counts(o), [4]int{0, 2, 1, 2})
}

func outcomesCounted(f *fixture) {
	o, lease, letters := f.redriving(5)
	f.equal("counts", f.counts(o.ID), [4]int{5, 0, 0, 0})
	f.endJobs(o.ID)
	for outcome, n := range map[pawl.RedriveOutcome]int{pawl.RedriveSucceeded: 2, pawl.RedriveDiedAgain: 1, pawl.RedriveCancelled: 2} {
		items := f.items(o.ID, pawl.ItemFilter{Outcome: outcome})
		f.equal(string(outcome), len(items), n)
		for _, item := range items {
			f.equal("outcome of the letter", f.letter(letters[item.Position-1].ID).Outcome, outcome)
		}
	}
	f.advance(pawl.OperationStep{Operation: o.ID, Lease: lease, State: pawl.OperationFinished})
	f.equal("counts of a finished one", f.counts(o.ID), [4]int{0, 2, 1, 2})
}

func outcomesOfStopped(f *fixture) {
	o, _, _ := f.redriving(5)
	f.control(o.ID, pawl.ActionStop)
	f.endJobs(o.ID)
	f.equal("counts", f.counts(o.ID), [4]int{0, 2, 1, 2})
}

func outcomesOfLater(f *fixture) {
	session := f.host("a")
	o, lease, letters := f.redriving(1)
	_, err := f.store.ClearQueue(f.ctx, normal, operator("clear"))
	f.ok("clear queue", err)
	f.advance(pawl.OperationStep{Operation: o.ID, Lease: lease, State: pawl.OperationFinished})
	f.move(pawl.Move{Letter: letters[0].ID, Action: pawl.ActionReopen})
	f.redrive(letters[0])
	f.settle(session, end(f.claimOne(session), pawl.Done{}))
	f.equal("counts", f.counts(o.ID), [4]int{0, 0, 0, 1})
}
