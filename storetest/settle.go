package storetest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawljobs/pawl"
)

func settlePromises() []promise {
	return []promise{
		{name: "done ends the job", check: doneEnds},
		{name: "retry and release count the attempt, give-back does not", check: whatCounts},
		{name: "give-back counts requeues by shutdowns apart", check: requeues},
		{name: "of many settles of one reservation at the same time one counts", check: settleOnce},
		{name: "a reservation that is named twice in a batch is settled once", check: settleTwice},
		{name: "a bad member does not keep the others from settling", check: badMembers},
		{name: "a thousand settle in one call", check: bigSettle},
		{name: "follow-up jobs are stored with the settle", check: followUps},
		{name: "follow-up jobs follow no refused settle", check: followUpsRefused},
	}
}

func doneEnds(f *fixture) {
	session := f.host("a")
	id := f.put()
	f.settle(session, end(f.claimOne(session), pawl.Done{}))
	f.equal("state", f.view(id).State, pawl.JobDone)
	f.pass(time.Hour)
	f.sweep(session)
	f.claimNone("a job that is done", session)
}

func whatCounts(f *fixture) {
	session := f.host("a")
	id := f.put()
	for _, step := range []struct {
		outcome pawl.Outcome
		attempt int // of the claim
	}{
		{pawl.GiveBack{}, 1},
		{pawl.Retry{}, 1},
		{pawl.GiveBack{Interrupted: true}, 2},
		{pawl.GiveBack{}, 2},
		{pawl.Release{}, 2},
		{pawl.Retry{}, 3},
		{pawl.Done{}, 4},
	} {
		f.sweep(session)
		job := f.claimOne(session)
		f.equal(fmt.Sprintf("attempt before %T", step.outcome), job.Attempt, step.attempt)
		f.equal("crashes", job.Crashes, 0)
		f.equal("state", f.view(id).State, pawl.JobReserved)
		f.settle(session, end(job, step.outcome))
	}
	f.equal("attempts of the ended job", f.view(id).Attempt, 4)
}

func requeues(f *fixture) {
	session := f.host("a")
	id := f.put()
	for n := range 12 {
		job := f.claimOne(session)
		f.equal("requeues", job.Requeues, n)
		f.equal("attempt", job.Attempt, 1)
		f.settle(session, end(job, pawl.GiveBack{Interrupted: true}))
	}
	f.settle(session, end(f.claimOne(session), pawl.GiveBack{}))
	f.equal("requeues", f.view(id).Requeues, 12)
}

func settleOnce(f *fixture) {
	session := f.host("a")
	f.put()
	job := f.claimOne(session)
	outcomes := []pawl.Outcome{pawl.Done{}, pawl.Retry{After: time.Hour}, pawl.Release{After: time.Hour}, pawl.Done{}}
	const calls = 24
	answers, errs := make([][]error, calls), make([]error, calls)
	var group sync.WaitGroup
	for n := range calls {
		group.Go(func() {
			answers[n], errs[n] = f.store.Settle(f.ctx, session, []pawl.Settlement{end(job, outcomes[n%len(outcomes)])})
		})
	}
	group.Wait()
	f.allOK("settle", errs, nil)
	settled := 0
	for _, answer := range answers {
		switch {
		case answer[0] == nil:
			settled++
		case !errors.Is(answer[0], pawl.ErrLeaseLost):
			f.Errorf("error is %v, want ErrLeaseLost", answer[0])
		}
	}
	f.equal("settles that counted", settled, 1)
}

func settleTwice(f *fixture) {
	session := f.host("a")
	id := f.put()
	job := f.claimOne(session)
	errs, err := f.store.Settle(f.ctx, session, []pawl.Settlement{end(job, pawl.Done{}), end(job, pawl.Retry{})})
	f.ok("settle", err)
	f.ok("first", errs[0])
	f.fails("second", errs[1], pawl.ErrLeaseLost)
	f.equal("state", f.view(id).State, pawl.JobDone)
}

// A bad member gets its own error and keeps its reservation, so that it can be settled in another way.
func badMembers(f *fixture) {
	session := f.host("a")
	f.puts(8)
	jobs := f.claimExactly(session, 8)
	noLetter, otherLetter, badFollowUp, stale := f.death(jobs[1]), f.death(jobs[2]), end(jobs[4], pawl.Done{}), end(jobs[6], pawl.Done{})
	noLetter.Letter = nil
	otherLetter.Letter.ID = pawl.ID{}
	badFollowUp.Enqueue = []pawl.NewJob{f.job(), {}}
	stale.Token++
	errs, err := f.store.Settle(f.ctx, session, []pawl.Settlement{
		end(jobs[0], pawl.Done{}), noLetter, otherLetter, end(jobs[3], nil), badFollowUp, end(jobs[5], pawl.Retry{After: time.Hour}),
		stale, f.death(jobs[7]),
	})
	f.ok("settle", err)
	good := map[int]bool{0: true, 5: true, 7: true}
	for i, err := range errs {
		f.equal(fmt.Sprintf("member %d settles (%v)", i, err), err == nil, good[i])
		if i == 6 {
			f.fails("the stale member", err, pawl.ErrLeaseLost)
		} else if err != nil {
			f.holds("the error of a bad member is its own", !errors.Is(err, pawl.ErrLeaseLost))
		}
	}
	for _, i := range []int{1, 2, 3, 4, 6} {
		f.equal("state of a bad member", f.view(jobs[i].ID).State, pawl.JobReserved)
		f.settle(session, end(jobs[i], pawl.Done{}))
	}
	f.claimNone("follow-ups of a bad member", session)
}

func bigSettle(f *fixture) {
	session := f.host("a")
	const n = 1000
	f.puts(n)
	var settlements []pawl.Settlement
	for _, job := range f.claimExactly(session, n) {
		settlements = append(settlements, end(job, pawl.Done{}))
	}
	f.settle(session, settlements...)
	queues, err := f.store.Queues(f.ctx)
	f.ok("queues", err)
	f.equal("jobs left", queues, []pawl.QueueView(nil))
}

func followUps(f *fixture) {
	session := f.host("a")
	f.puts(3)
	var want []pawl.ID
	for i, job := range f.claimExactly(session, 3) {
		next := f.job()
		settlement := []pawl.Settlement{end(job, pawl.Done{}), end(job, pawl.Retry{After: time.Hour}), f.death(job)}[i]
		settlement.Enqueue = []pawl.NewJob{next, next} // a repeat is no error
		f.settle(session, settlement)
		want = append(want, next.ID)
	}
	f.equal("follow-ups", ids(f.claim(session, 9)), want)
}

func followUpsRefused(f *fixture) {
	session := f.host("a")
	f.put()
	job := f.claimOne(session)
	f.settle(session, end(job, pawl.Done{}))
	late := end(job, pawl.Done{})
	late.Enqueue = []pawl.NewJob{f.job()}
	errs, err := f.store.Settle(f.ctx, session, []pawl.Settlement{late})
	f.failsOne("late settle", errs, err, pawl.ErrLeaseLost)
	f.claimNone("follow-ups", session)
}
