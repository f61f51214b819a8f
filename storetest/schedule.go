package storetest

import (
	"time"

	"github.com/pawljobs/pawl"
)

// A job that is not due yet is scheduled. It becomes ready by a sweep after its time has come.
func schedulePromises() []promise {
	return []promise{
		{name: "a delayed job is ready when the delay has passed", check: delayed},
		{name: "a job with a run-at is ready when its time has come", check: runAt},
		{name: "a run-at in the past means at once", check: runAtPast},
		{name: "a retry waits for as long as it says", check: retryWaits},
		{name: "a release waits for as long as it says", check: releaseWaits},
		{name: "a sweep says when the next job is due", check: nextDue},
		{name: "sweeps work in batches until all that is due is ready", check: dueInBatches},
		{name: "a due job becomes ready once", check: dueOnce},
	}
}

// waits checks that a job is scheduled for the wait and becomes ready after it.
func (f *fixture) waits(session pawl.SessionID, id pawl.ID, wait time.Duration) pawl.ClaimedJob {
	f.Helper()
	f.sweep(session)
	f.claimNone("claimed at once", session)
	view := f.view(id)
	f.equal("state", view.State, pawl.JobScheduled)
	left := view.RunAt.Sub(f.beat(session, pawl.Beat{}).Now)
	f.holds("its run-at is as far away as the wait", left <= wait && left > wait-patience)
	f.pass(wait - time.Minute)
	f.sweep(session)
	f.claimNone("claimed a minute early", session)
	f.pass(2 * time.Minute)
	f.equal("due", f.sweep(session).Due, 1)
	job := f.claimOne(session)
	f.equal("job", job.ID, id)
	return job
}

func delayed(f *fixture) {
	session := f.host("a")
	job := f.waits(session, f.put(pawl.Delay(3*time.Hour)), 3*time.Hour)
	f.equal("attempt", job.Attempt, 1)
	f.holds("it became ready after its enqueue", job.ReadyAt.After(job.EnqueuedAt))
}

func runAt(f *fixture) {
	session := f.host("a")
	now := f.beat(session, pawl.Beat{}).Now
	f.waits(session, f.put(pawl.RunAt(now.Add(3*time.Hour))), 3*time.Hour)
}

func runAtPast(f *fixture) {
	session := f.host("a")
	id := f.put(pawl.RunAt(time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC)))
	f.equal("state", f.view(id).State, pawl.JobWaiting)
	f.equal("job", f.claimOne(session).ID, id)
}

func retryWaits(f *fixture) {
	session := f.host("a")
	id := f.put()
	f.settle(session, end(f.claimOne(session), pawl.Retry{After: 3 * time.Hour}))
	f.equal("attempt", f.waits(session, id, 3*time.Hour).Attempt, 2)
}

func releaseWaits(f *fixture) {
	session := f.host("a")
	id := f.put()
	f.settle(session, end(f.claimOne(session), pawl.Release{After: 3 * time.Hour}))
	f.equal("attempt", f.waits(session, id, 3*time.Hour).Attempt, 2)
}

func nextDue(f *fixture) {
	session := f.host("a")
	f.holds("NextDue is negative with no job", f.sweep(session).NextDue < 0)
	f.put()
	f.holds("NextDue is negative with no scheduled job", f.sweep(session).NextDue < 0)
	f.put(pawl.Delay(5 * time.Hour))
	f.put(pawl.Delay(3 * time.Hour))
	left := f.sweep(session).NextDue
	f.holds("NextDue is that of the earliest", left <= 3*time.Hour && left > 3*time.Hour-patience)
	f.pass(4 * time.Hour)
	left = f.sweep(session).NextDue
	f.holds("NextDue is that of the one left", left <= time.Hour && left > time.Hour-patience)
}

func dueInBatches(f *fixture) {
	session := f.host("a")
	const n = 25
	f.puts(n, pawl.Delay(time.Hour))
	f.pass(2 * time.Hour)
	report, err := f.store.Sweep(f.ctx, pawl.SweepRequest{Session: session, Limit: 10})
	f.ok("sweep", err)
	f.holds("a sweep keeps to its limit", report.Due <= 10)
	f.holds("and says that there is more", report.More)
	f.equal("due", report.Due+f.sweepBy(10, session).Due, n)
	f.equal("jobs", len(f.claim(session, n+1)), n)
}

func dueOnce(f *fixture) {
	session := f.host("a")
	f.put(pawl.Delay(time.Hour))
	f.pass(2 * time.Hour)
	f.equal("due", f.sweep(session).Due, 1)
	f.equal("due again", f.sweep(session).Due, 0)
	f.claimOne(session)
	f.sweep(session)
	f.claimNone("claimed twice", session)
}
