package storetest

import (
	"github.com/pawljobs/pawl"
)

// The start mark is what tells a job that may have had its effect from one that surely has not. It is written for jobs
// that must not run twice (NewJob.Once).
func startPromises() []promise {
	return []promise{
		{name: "recovered without a mark a job goes back as if it had not been claimed", check: recoveredUnstarted},
		{name: "recovered with a mark a job says so", check: recoveredStarted},
		{name: "closed with a mark a job says so", check: closedStarted},
		{name: "a retry or a release takes the mark away", check: markIsOver},
		{name: "a give-back of what was not run takes its own mark away", check: giveBackUnmarks},
		{name: "a mark can be written again", check: startTwice},
		{name: "a mark by an old reservation is refused and leaves none", check: staleStart},
		{name: "a batch of marks is answered one by one", check: startBatch},
		{name: "a job retried under its id has no mark", check: retriedUnmarked},
	}
}

func (f *fixture) start(session pawl.SessionID, job pawl.ClaimedJob) {
	f.Helper()
	errs, err := f.store.Start(f.ctx, session, []pawl.Reservation{job.Reservation})
	f.failsOne("start", errs, err, nil)
}

func recoveredUnstarted(f *fixture) {
	observer, victim := f.host("a"), f.host("victim")
	first, second := f.onceJob(), f.job()
	f.enqueue(first, second)
	f.equal("claimed", ids(f.claim(victim, 1)), []pawl.ID{first.ID})
	f.kill(observer, victim)
	job := f.claimOne(observer)
	f.equal("job", job.ID, first.ID)
	f.equal("attempt", job.Attempt, 1)
	f.equal("crashes", job.Crashes, 0)
	f.equal("requeues", job.Requeues, 0)
	f.equal("started", job.Started, false)
	f.equal("history", job.History, []pawl.AttemptRecord(nil))
}

func recoveredStarted(f *fixture) {
	observer, victim := f.host("a"), f.host("victim")
	f.enqueue(f.onceJob())
	job := f.claimOne(victim)
	f.equal("started at the first claim", job.Started, false)
	f.start(victim, job)
	f.kill(observer, victim)
	job = f.claimOne(observer)
	f.equal("started", job.Started, true)
	f.equal("attempt", job.Attempt, 2)
	f.equal("crashes", job.Crashes, 1)
	f.equal("ending of the record", job.History[0].Ending, pawl.EndCrashed)
	f.settle(observer, end(job, pawl.GiveBack{}))
	f.equal("started after a give-back", f.claimOne(observer).Started, true)
}

// A host settles what it started. If it closes its session instead, the mark stays, since the effect may be there.
func closedStarted(f *fixture) {
	session, closing := f.host("a"), f.host("b")
	f.enqueue(f.onceJob())
	f.start(closing, f.claimOne(closing))
	f.closeSession(closing)
	f.equal("started", f.claimOne(session).Started, true)
}

// What is settled so was heard of again: its outcome is not unknown.
func markIsOver(f *fixture) {
	session := f.host("a")
	for _, outcome := range []pawl.Outcome{pawl.Retry{}, pawl.Release{}} {
		f.enqueue(f.onceJob())
		job := f.claimOne(session)
		f.start(session, job)
		f.settle(session, end(job, outcome))
		f.sweep(session)
		job = f.claimOne(session)
		f.equal("started", job.Started, false)
		f.settle(session, end(job, pawl.Done{}))
	}
}

// A host that did not learn whether its mark was written does not run the handler, and gives the job back. What a
// shutdown interrupted has run, and what an earlier reservation left is not this one's to take away.
func giveBackUnmarks(f *fixture) {
	session := f.host("a")
	f.enqueue(f.onceJob())
	for _, step := range []struct {
		start   bool
		outcome pawl.GiveBack
		started bool // at the next claim
	}{
		{true, pawl.GiveBack{}, false},
		{false, pawl.GiveBack{}, false},
		{true, pawl.GiveBack{Interrupted: true}, true},
		{true, pawl.GiveBack{}, true},
	} {
		job := f.claimOne(session)
		if step.start {
			f.start(session, job)
		}
		f.settle(session, end(job, step.outcome))
		job = f.claimOne(session)
		f.equal("started", job.Started, step.started)
		f.settle(session, end(job, pawl.GiveBack{}))
	}
}

func startTwice(f *fixture) {
	session := f.host("a")
	f.enqueue(f.onceJob())
	job := f.claimOne(session)
	f.start(session, job)
	f.start(session, job)
	f.settle(session, end(job, pawl.Done{}))
}

func staleStart(f *fixture) {
	session, other := f.host("a"), f.host("b")
	f.enqueue(f.onceJob())
	old := f.claimOne(session)
	f.settle(session, end(old, pawl.GiveBack{}))
	job := f.claimOne(other)
	errs, err := f.store.Start(f.ctx, session, []pawl.Reservation{old.Reservation})
	f.failsOne("start", errs, err, pawl.ErrLeaseLost)
	f.settle(other, end(job, pawl.GiveBack{}))
	f.equal("started", f.claimOne(session).Started, false)
}

func startBatch(f *fixture) {
	session := f.host("a")
	f.enqueue(f.onceJob(), f.onceJob(), f.onceJob())
	jobs := f.claimExactly(session, 3)
	f.settle(session, end(jobs[1], pawl.GiveBack{}))
	errs, err := f.store.Start(f.ctx, session, []pawl.Reservation{jobs[0].Reservation, jobs[1].Reservation, jobs[2].Reservation})
	f.ok("start", err)
	f.equal("results", len(errs), 3)
	f.ok("first", errs[0])
	f.fails("second", errs[1], pawl.ErrLeaseLost)
	f.ok("third", errs[2])
	f.closeSession(session)
	var started []bool
	for _, job := range f.claimExactly(f.host("b"), 3) {
		started = append(started, job.Started)
	}
	f.equal("started", started, []bool{true, false, true})
}

func retriedUnmarked(f *fixture) {
	session := f.host("a")
	f.enqueue(f.onceJob())
	job := f.claimOne(session)
	f.start(session, job)
	f.retry(f.die(session, job))
	f.equal("started", f.claimOne(session).Started, false)
}
