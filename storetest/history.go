package storetest

import (
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
)

// A job's failed attempts come with its claims, oldest first, and go with it into its letter.
func historyPromises() []promise {
	return []promise{
		{name: "records of failed attempts come with the next claim", check: recordsCome},
		{name: "the latest 20 records are kept", check: recordsAreBounded},
		{name: "records do not outlive the job", check: recordsEnd},
		{name: "finished jobs are found for as long as history is kept", check: historyKept},
		{name: "without history finished jobs are not found", options: Options{NoHistory: true}, check: noHistory},
	}
}

func record(n int) *pawl.AttemptRecord {
	return &pawl.AttemptRecord{
		Attempt: n, Ending: pawl.EndReturned, StartedAt: time.Date(2024, 5, 6, 7, 8, 9, 123e6, time.UTC).Add(time.Duration(n) * time.Second),
		Duration: 1500 * time.Millisecond, Host: "host-a", Type: "*net.OpError", Message: fmt.Sprintf("no answer %d: \"x\" é", n),
	}
}

func recordsCome(f *fixture) {
	session := f.host("a")
	id := f.put()
	job := f.claimOne(session)
	f.equal("history of the first claim", job.History, []pawl.AttemptRecord(nil))
	settlement := end(job, pawl.Retry{})
	settlement.Record = record(1)
	f.settle(session, settlement)

	f.sweep(session)
	settlement = end(f.claimOne(session), pawl.Release{})
	settlement.Record = record(2)
	settlement.Record.Ending = pawl.EndReleased
	f.settle(session, settlement)

	f.sweep(session)
	want := []pawl.AttemptRecord{*record(1), *settlement.Record}
	job = f.claimOne(session)
	f.equal("history of the third claim", job.History, want)
	f.equal("history in the view", f.view(id).History, want)
	f.settle(session, end(job, pawl.GiveBack{Interrupted: true}))
	job = f.claimOne(session)
	f.equal("history after a give-back", job.History, want)
	f.equal("history in the letter", f.die(session, job).History, want)
}

func recordsAreBounded(f *fixture) {
	session := f.host("a")
	f.put()
	for n := range pawl.HistoryLimit + 5 {
		settlement := end(f.claimOne(session), pawl.Retry{})
		settlement.Record = record(n + 1)
		f.settle(session, settlement)
		f.sweep(session)
	}
	var want []pawl.AttemptRecord
	for n := range pawl.HistoryLimit {
		want = append(want, *record(n + 6))
	}
	f.equal("history", f.claimOne(session).History, want)
}

func recordsEnd(f *fixture) {
	session := f.host("a")
	f.put()
	settlement := end(f.claimOne(session), pawl.Retry{})
	settlement.Record = record(1)
	f.settle(session, settlement)
	f.sweep(session)
	letter := f.die(session, f.claimOne(session))
	f.retry(letter)
	job := f.claimOne(session)
	f.equal("attempt of the job retried under its id", job.Attempt, 1)
	f.equal("history of the job retried under its id", job.History, []pawl.AttemptRecord(nil))
}

// endAll makes one job for each way to end.
func (f *fixture) endAll(session pawl.SessionID) (done, removed pawl.ID, dead pawl.DeadLetter) {
	f.Helper()
	done = f.put()
	f.settle(session, end(f.claimOne(session), pawl.Done{}))
	dead = f.dead(session)
	removed = f.put()
	_, err := f.store.ClearQueue(f.ctx, normal, operator("clear"))
	f.ok("clear queue", err)
	return done, removed, dead
}

func historyKept(f *fixture) {
	session := f.host("a")
	done, removed, dead := f.endAll(session)
	now := f.beat(session, pawl.Beat{}).Now
	for id, state := range map[pawl.ID]pawl.JobState{done: pawl.JobDone, removed: pawl.JobRemoved, dead.JobID: pawl.JobDead} {
		view := f.view(id)
		f.equal("state", view.State, state)
		f.equal("kind", view.Kind, workKind)
		f.equal("queue", view.Queue, normal)
		f.holds("the time of its end", !view.FinishedAt.Before(view.EnqueuedAt) && now.Sub(view.FinishedAt) < patience)
	}
	f.equal("letter of the dead one", f.view(dead.JobID).Letter, dead.ID)
}

func noHistory(f *fixture) {
	session := f.host("a")
	done, removed, dead := f.endAll(session)
	for _, id := range []pawl.ID{done, removed, dead.JobID} {
		_, err := f.store.Job(f.ctx, id)
		f.fails("job", err, pawl.ErrNotFound)
	}
	f.equal("jobs", f.jobs(pawl.JobFilter{}), []pawl.JobView(nil))
	f.letter(dead.ID) // letters are not history
}
