package storetest

import (
	"errors"
	"time"

	"github.com/pawljobs/pawl"
)

// What an operator does to single jobs beside cancelling them.
func jobActPromises() []promise {
	return []promise{
		{name: "a scheduled job is made ready, behind those that are", check: runNow},
		{name: "it has waited since then", check: runNowAges},
		{name: "only a scheduled job can be run now", check: runNowRefused},
		{name: "a job is deleted in every state before its end", check: deleteEverywhere},
		{name: "and without history", options: Options{NoHistory: true}, check: deleteEverywhere},
		{name: "a deleted redrive is written back to its letter, and its key is free", check: deleteRedrive},
		{name: "what has ended, or never was, cannot be deleted", check: deleteRefused},
		{name: "acts on jobs are audited", check: jobActsAudited},
		{name: "acts that make no sense change nothing", check: jobActsInvalid},
	}
}

func (f *fixture) runJobsNow(ids ...pawl.ID) []error {
	f.Helper()
	errs, err := f.store.RunJobsNow(f.ctx, ids, operator("now"))
	f.ok("run now", err)
	f.equal("results", len(errs), len(ids))
	return errs
}

func (f *fixture) deleteJobs(ids ...pawl.ID) []error {
	f.Helper()
	errs, err := f.store.DeleteJobs(f.ctx, ids, operator("away with it"))
	f.ok("delete", err)
	f.equal("results", len(errs), len(ids))
	return errs
}

func runNow(f *fixture) {
	session := f.host("a")
	first := f.put(pawl.Delay(time.Hour))
	second := f.put(pawl.Delay(2 * time.Hour))
	later := f.put(pawl.Delay(time.Minute))
	ready := f.put()
	f.allOK("run now", f.runJobsNow(second, first), nil)
	view := f.view(first)
	f.equal("state", view.State, pawl.JobWaiting)
	f.holds("it has no time to wait for", view.RunAt.IsZero())
	f.equal("order", ids(f.claim(session, 9)), []pawl.ID{ready, second, first})
	f.equal("the other", f.state(later), pawl.JobScheduled)
	queues, err := f.store.Queues(f.ctx)
	f.ok("queues", err)
	f.holds("nothing is older than it is", queues[0].OldestReady < patience)
	f.pass(3 * time.Hour)
	f.equal("due", f.sweep(session).Due, 1)
}

func runNowAges(f *fixture) {
	f.allOK("run now", f.runJobsNow(f.put(pawl.Delay(time.Hour))), nil)
	f.pass(10 * time.Minute)
	heads, err := f.store.QueueHeads(f.ctx)
	f.ok("heads", err)
	f.equal("heads", len(heads), 1)
	f.holds("it has waited since it was made ready", heads[0].OldestReady >= 10*time.Minute && heads[0].OldestReady < 10*time.Minute+patience)
}

func runNowRefused(f *fixture) {
	session := f.host("a")
	reserved := f.put()
	f.claimOne(session)
	waiting, scheduled, removed := f.put(), f.put(pawl.Delay(time.Hour)), f.put()
	f.cancelled(pawl.JobRemoved, removed)
	errs := f.runJobsNow(reserved, waiting, scheduled, removed, pawl.NewID(), scheduled)
	for i, want := range []error{pawl.ErrConflict, pawl.ErrConflict, nil, pawl.ErrConflict, pawl.ErrNotFound, pawl.ErrConflict} {
		f.holds("the refusal of "+[]string{"reserved", "waiting", "scheduled", "removed", "unknown", "the same again"}[i], errors.Is(errs[i], want))
	}
	f.equal("reserved", f.state(reserved), pawl.JobReserved)
}

func deleteEverywhere(f *fixture) {
	session := f.host("a")
	reserved := f.put(pawl.InQueue(critical))
	job := f.claimOne(session)
	f.equal("claimed", job.ID, reserved)
	waiting, scheduled, kept := f.put(), f.put(pawl.Delay(time.Hour)), f.put(pawl.InQueue(bulk))
	f.allOK("delete", f.deleteJobs(reserved, scheduled, waiting), nil)
	for _, id := range []pawl.ID{reserved, waiting, scheduled} {
		view, err := f.store.Job(f.ctx, id)
		if err == nil { // with history
			f.equal("state", view.State, pawl.JobRemoved)
		}
	}
	errs, err := f.store.Settle(f.ctx, session, []pawl.Settlement{end(job, pawl.Done{})})
	f.failsOne("the end of the one that ran", errs, err, pawl.ErrLeaseLost)
	f.pass(2 * time.Hour)
	f.equal("due", f.sweep(session).Due, 0)
	f.equal("left", ids(f.claim(session, 9)), []pawl.ID{kept})
}

func deleteRedrive(f *fixture) {
	letter := f.looseLetter()
	f.record(letter)
	job := f.job(pawl.UniqueWhileUnfinished("k"))
	f.move(pawl.Move{Letter: letter.ID, Action: pawl.ActionRedrive, Push: &job})
	f.allOK("delete", f.deleteJobs(job.ID), nil)
	f.equal("outcome", f.letter(letter.ID).Outcome, pawl.RedriveCancelled)
	f.equal("the key is free", f.try(f.job(pawl.UniqueWhileUnfinished("k")))[0].Status, pawl.Accepted)
}

func deleteRefused(f *fixture) {
	session := f.host("a")
	done := f.put()
	f.settle(session, end(f.claimOne(session), pawl.Done{}))
	waiting := f.put()
	errs := f.deleteJobs(done, pawl.NewID(), waiting, waiting)
	for i, want := range []error{pawl.ErrConflict, pawl.ErrNotFound, nil, pawl.ErrConflict} {
		f.holds("the refusal of "+[]string{"done", "unknown", "waiting", "the same again"}[i], errors.Is(errs[i], want))
	}
	f.equal("done", f.state(done), pawl.JobDone)
}

func jobActsAudited(f *fixture) {
	id := f.put(pawl.Delay(time.Hour))
	f.allOK("run now", f.runJobsNow(id), nil)
	f.allOK("delete", f.deleteJobs(id), nil)
	trail := f.audit(pawl.AuditFilter{Subject: "job " + id.String()})
	f.equal("lines", len(trail), 2)
	for i, want := range []pawl.AuditEntry{
		{Action: pawl.ActionDelete, From: "waiting", To: "removed", Why: "away with it"},
		{Action: pawl.ActionRunNow, From: "scheduled", To: "waiting", Why: "now"},
	} {
		got := trail[i]
		f.equal("line", pawl.AuditEntry{Action: got.Action, From: got.From, To: got.To, Why: got.Why}, want)
		f.equal("who", got.Who, operator("").Who)
	}
}

func jobActsInvalid(f *fixture) {
	id := f.put(pawl.Delay(time.Hour))
	many := make([]pawl.ID, pawl.MaxCancel+1)
	for name, act := range map[string]func([]pawl.ID, pawl.By) ([]error, error){
		"run now": func(ids []pawl.ID, by pawl.By) ([]error, error) { return f.store.RunJobsNow(f.ctx, ids, by) },
		"delete":  func(ids []pawl.ID, by pawl.By) ([]error, error) { return f.store.DeleteJobs(f.ctx, ids, by) },
	} {
		_, err := act([]pawl.ID{id}, pawl.By{})
		f.fails(name+" by nobody", err, pawl.ErrInvalid)
		_, err = act(many, operator(""))
		f.fails(name+" of too many", err, pawl.ErrInvalid)
		errs, err := act(nil, operator(""))
		f.ok(name+" of none", err)
		f.equal("results", len(errs), 0)
	}
	f.equal("state", f.state(id), pawl.JobScheduled)
}
