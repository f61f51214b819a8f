package storetest

import (
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
)

// The death of a host counts a crash for each job that it was running, until one of them is a suspect: from then on
// hosts run suspects one at a time, and only the suspect is charged.
func crashPromises() []promise {
	return []promise{
		{name: "every death of a host counts", check: crashesCount},
		{name: "a claim without Suspect gets no suspect", check: suspectsApart},
		{name: "a claim with Suspect gets one at most", check: oneSuspect},
		{name: "a claim with Suspect gets one at most over all its queues", check: oneSuspectOverQueues},
		{name: "suspects at the head hide nothing", check: suspectsHideNothing},
		{name: "only the suspect is charged", check: suspectIsCharged},
		{name: "a job that is only to be buried shields nobody", check: condemnedShieldsNobody},
		{name: "the records of crashes name the hosts", check: crashRecords},
		{name: "crashes do not outlive the job", check: crashesEnd},
	}
}

func crashesCount(f *fixture) {
	observer := f.host("observer")
	id := f.put()
	f.crash(observer, id, pawl.CrashLimit)
	f.equal("crashes in the view", f.view(id).Crashes, pawl.CrashLimit)
	job := f.claimOne(observer, withSuspect)
	f.equal("crashes", job.Crashes, pawl.CrashLimit)
	f.equal("attempt", job.Attempt, pawl.CrashLimit+1)
}

func suspectsApart(f *fixture) {
	observer := f.host("observer")
	suspect := f.put()
	f.crash(observer, suspect, pawl.CrashSuspect-1)
	job := f.claimOne(observer)
	f.equal("a job with one crash fewer", job.ID, suspect)
	f.settle(observer, end(job, pawl.GiveBack{}))
	f.crash(observer, suspect, 1)
	f.claimNone("a suspect", observer)
	f.equal("state", f.view(suspect).State, pawl.JobWaiting)
	f.equal("with Suspect", f.claimOne(observer, withSuspect).ID, suspect)
}

func oneSuspect(f *fixture) {
	observer := f.host("observer")
	suspects := f.puts(3)
	f.crashTogether(observer, suspects, pawl.CrashSuspect)
	good := f.puts(2)
	f.equal("jobs of one claim", f.claimOnce(observer), []pawl.ID{suspects[0], good[0], good[1]})
	f.equal("jobs of the next", ids(f.claim(observer, 10, withSuspect)), []pawl.ID{suspects[1]})
}

func oneSuspectOverQueues(f *fixture) {
	observer := f.host("observer")
	suspects := append(f.puts(1, pawl.InQueue(critical)), f.puts(1, pawl.InQueue(bulk))...)
	f.crashTogether(observer, suspects, pawl.CrashSuspect)
	good := f.put()
	f.equal("jobs of one claim", f.claimOnce(observer), []pawl.ID{suspects[0], good})
}

// claimOnce makes a single claim with Suspect.
func (f *fixture) claimOnce(session pawl.SessionID) []pawl.ID {
	f.Helper()
	r := request(session, 10)
	r.Suspect = true
	claimed, err := f.store.Claim(f.ctx, r)
	f.ok("claim", err)
	return ids(claimed.Jobs)
}

// crashTogether makes hosts die that run all the jobs, which must be all that wait.
func (f *fixture) crashTogether(observer pawl.SessionID, all []pawl.ID, times int) {
	f.Helper()
	for range times {
		victim := f.host("victim")
		f.equal("jobs of the victim", ids(f.claim(victim, len(all)+1)), all)
		f.kill(observer, victim)
	}
}

func suspectsHideNothing(f *fixture) {
	observer := f.host("observer")
	suspects := f.puts(100)
	f.crashTogether(observer, suspects, pawl.CrashSuspect)
	want := f.puts(2)
	f.equal("jobs behind 100 suspects", ids(f.claim(observer, 5)), want)
	f.equal("one of the suspects", ids(f.claim(observer, 5, withSuspect)), suspects[:1])
}

func suspectIsCharged(f *fixture) {
	observer, victim := f.host("observer"), f.host("victim")
	suspect := f.put()
	f.crash(observer, suspect, pawl.CrashSuspect)
	neighbours := f.puts(2)
	f.equal("claimed", ids(f.claim(victim, 5, withSuspect)), []pawl.ID{suspect, neighbours[0], neighbours[1]})
	f.kill(observer, victim)
	f.equal("crashes of the suspect", f.view(suspect).Crashes, pawl.CrashSuspect+1)
	jobs := f.claim(observer, 5)
	f.equal("neighbours", ids(jobs), neighbours)
	for _, job := range jobs {
		f.equal("crashes of a neighbour", job.Crashes, 0)
		f.equal("attempt of a neighbour", job.Attempt, 2) // the run was lost all the same
	}
}

// A job that has reached the limit is not run any more: whatever takes its hosts down while it waits to be buried must be
// charged, or it goes on for ever.
func condemnedShieldsNobody(f *fixture) {
	observer, victim := f.host("observer"), f.host("victim")
	condemned := f.put()
	f.crash(observer, condemned, pawl.CrashLimit)
	culprit := f.put()
	f.equal("claimed", ids(f.claim(victim, 5, withSuspect)), []pawl.ID{condemned, culprit})
	f.kill(observer, victim)
	f.equal("crashes of what ran beside it", f.view(culprit).Crashes, 1)
}

func crashRecords(f *fixture) {
	observer := f.host("observer")
	id := f.put()
	f.crash(observer, id, pawl.CrashLimit)
	job := f.claimOne(observer, withSuspect)
	f.equal("records", len(job.History), pawl.CrashLimit)
	for n, record := range job.History {
		f.equal("ending", record.Ending, pawl.EndCrashed)
		f.equal("attempt", record.Attempt, n+1)
		f.equal("host", record.Host, fmt.Sprintf("victim-%d", n))
		f.holds("a time of its start", !record.StartedAt.IsZero())
		f.holds("a sensible duration", record.Duration >= 0 && record.Duration < time.Hour)
	}
}

func crashesEnd(f *fixture) {
	observer := f.host("observer")
	id := f.put()
	f.crash(observer, id, pawl.CrashLimit)
	f.retry(f.die(observer, f.claimOne(observer, withSuspect)))
	f.equal("crashes of the job retried under its id", f.claimOne(observer).Crashes, 0)
}
