package storetest

import (
	"fmt"
	"sync"
	"time"

	"pgregory.net/rapid"

	"github.com/pawljobs/pawl"
)

// An operator cancels jobs: what does not run is removed, what runs is asked to stop and removed when it has.
func cancelPromises() []promise {
	return []promise{
		{name: "jobs that wait or are scheduled are removed", check: cancelWaiting},
		{name: "a removed id stays accepted once", check: cancelRemembers},
		{name: "a removed id stays accepted once without history", options: Options{NoHistory: true}, check: cancelRemembers},
		{name: "a running job's host is told with every beat until it ends", check: cancelTold},
		{name: "what a cancelled job ends with while it runs", check: cancelEnds},
		{name: "and without history", options: Options{NoHistory: true}, check: cancelEnds},
		{name: "a cancelled job in a batch leaves the others alone", check: cancelInBatch},
		{name: "an earlier reservation cannot end a cancelled job", check: cancelFenced},
		{name: "a cancelled job whose host dies is removed", check: cancelCrashed},
		{name: "a cancelled job whose session is closed is removed", check: cancelClosed},
		{name: "a cancelled redrive is written back to its letter", check: cancelRedrive},
		{name: "a cancelled job frees its unique key", check: cancelFreesKey},
		{name: "what has ended, or never was, is refused", check: cancelRefused},
		{name: "a cancel that makes no sense changes nothing", check: cancelInvalid},
		{name: "cancelling is audited", check: cancelAudited},
		{name: "a cancel through another handle", check: cancelElsewhere},
		{name: "cancels at the same time as claims and ends", check: cancelRaces},
	}
}

func (f *fixture) cancel(ids ...pawl.ID) []pawl.Cancelled {
	f.Helper()
	results, err := f.store.CancelJobs(f.ctx, ids, operator("not wanted any more"))
	f.ok("cancel", err)
	if len(results) != len(ids) {
		f.Fatalf("cancel: %d results for %d ids", len(results), len(ids))
	}
	return results
}

// cancelled expects every one to be accepted.
func (f *fixture) cancelled(state pawl.JobState, ids ...pawl.ID) {
	f.Helper()
	for _, result := range f.cancel(ids...) {
		f.ok("cancel", result.Err)
		f.equal("state", result.State, state)
	}
}

func (f *fixture) state(id pawl.ID) pawl.JobState {
	f.Helper()
	return f.view(id).State
}

func cancelWaiting(f *fixture) {
	session := f.host("a")
	waiting, kept, scheduled, retried := f.put(), f.put(), f.put(pawl.Delay(time.Hour)), f.put(pawl.InQueue(critical))
	job := f.claimOne(session)
	f.equal("claimed", job.ID, retried)
	f.settle(session, pawl.Settlement{
		Reservation: job.Reservation, Outcome: pawl.Retry{After: time.Hour},
		Record: &pawl.AttemptRecord{Attempt: 1, Ending: pawl.EndReturned, Message: "no luck"},
	})
	f.cancelled(pawl.JobRemoved, waiting, scheduled, retried)
	for _, id := range []pawl.ID{waiting, scheduled, retried} {
		view := f.view(id)
		f.equal("state", view.State, pawl.JobRemoved)
		f.holds("its end is known", !view.FinishedAt.IsZero())
	}
	f.equal("attempts of the one that was retried", len(f.view(retried).History), 1)
	f.pass(2 * time.Hour)
	f.equal("due", f.sweep(session).Due, 0)
	f.equal("jobs left", ids(f.claim(session, 9)), []pawl.ID{kept})
}

func cancelRemembers(f *fixture) {
	job := f.job()
	f.enqueue(job)
	f.cancelled(pawl.JobRemoved, job.ID)
	f.equal("enqueued again", f.try(job)[0], pawl.Enqueued{ID: job.ID, Status: pawl.Repeated})
}

func cancelTold(f *fixture) {
	session := f.host("a")
	f.puts(3)
	jobs := f.claimExactly(session, 3)
	held := []pawl.Reservation{jobs[0].Reservation, jobs[1].Reservation, jobs[2].Reservation}
	f.equal("before", f.beat(session, pawl.Beat{Held: held}).Cancel, []pawl.Reservation(nil))
	for range 2 {
		f.cancelled(pawl.JobReserved, jobs[1].ID)
		reply := f.beat(session, pawl.Beat{Held: held})
		f.equal("cancel", reply.Cancel, []pawl.Reservation{jobs[1].Reservation})
		f.equal("lost", reply.Lost, []pawl.Reservation(nil))
		f.equal("state", f.state(jobs[1].ID), pawl.JobReserved)
	}
	f.equal("lines in the trail", len(f.audit(pawl.AuditFilter{Subject: "job " + jobs[1].ID.String()})), 1)
	f.settle(session, end(jobs[1], pawl.GiveBack{}))
	reply := f.beat(session, pawl.Beat{Held: held})
	f.equal("cancel after its end", reply.Cancel, []pawl.Reservation(nil))
	f.equal("lost after its end", reply.Lost, []pawl.Reservation{jobs[1].Reservation})
}

func cancelEnds(f *fixture) {
	session := f.host("a")
	record := &pawl.AttemptRecord{Attempt: 1, Ending: pawl.EndCancelled, Message: "stopped half way"}
	for _, c := range []struct {
		outcome pawl.Outcome
		want    pawl.JobState
	}{
		{pawl.Done{}, pawl.JobDone},
		{pawl.Dead{}, pawl.JobDead},
		{pawl.Retry{After: time.Minute}, pawl.JobRemoved},
		{pawl.Retry{}, pawl.JobRemoved},
		{pawl.Release{After: time.Minute}, pawl.JobRemoved},
		{pawl.GiveBack{}, pawl.JobRemoved},
		{pawl.GiveBack{Interrupted: true}, pawl.JobRemoved},
	} {
		for _, once := range []bool{false, true} {
			what := fmt.Sprintf("%T, once %v", c.outcome, once)
			job := f.job()
			if once {
				job = f.onceJob()
			}
			f.enqueue(job)
			claimed := f.claimOne(session)
			if once {
				errs, err := f.store.Start(f.ctx, session, []pawl.Reservation{claimed.Reservation})
				f.allOK("start", errs, err)
			}
			f.cancelled(pawl.JobReserved, job.ID)
			settlement := end(claimed, c.outcome)
			if settlement.Record = record; c.want == pawl.JobDead {
				settlement = f.death(claimed)
			} else if c.want == pawl.JobDone {
				settlement.Record = nil
			}
			f.settle(session, settlement)
			f.refusesAll(session, claimed)
			f.pass(time.Hour)
			f.sweep(session)
			f.claimNone(what, session)
			f.equal("enqueued again after "+what, f.try(job)[0].Status, pawl.Repeated)
			f.endedAs(what, job.ID, c.want, settlement.Record)
		}
	}
}

// endedAs checks what history shows of a job that has ended, where there is any.
func (f *fixture) endedAs(what string, id pawl.ID, state pawl.JobState, last *pawl.AttemptRecord) {
	f.Helper()
	view, err := f.store.Job(f.ctx, id)
	if err != nil {
		f.fails(what, err, pawl.ErrNotFound)
		f.equal("listed", len(f.jobs(pawl.JobFilter{})), 0)
		return
	}
	f.equal(what, view.State, state)
	if state == pawl.JobRemoved {
		f.equal("history of "+what, view.History, []pawl.AttemptRecord{*last})
	}
}

func cancelInBatch(f *fixture) {
	session := f.host("a")
	f.puts(6)
	jobs := f.claimExactly(session, 6)
	f.cancelled(pawl.JobReserved, jobs[1].ID, jobs[3].ID)
	lost := end(jobs[4], pawl.Retry{})
	lost.Token += 1000
	errs, err := f.store.Settle(f.ctx, session, []pawl.Settlement{
		end(jobs[0], pawl.Retry{After: time.Hour}), end(jobs[1], pawl.Retry{After: time.Hour}), end(jobs[2], pawl.GiveBack{}),
		end(jobs[3], pawl.GiveBack{}), lost, end(jobs[5], pawl.Done{}),
	})
	f.ok("settle", err)
	for i, err := range errs {
		if i == 4 {
			f.fails("the lost one", err, pawl.ErrLeaseLost)
		} else {
			f.ok(fmt.Sprint("member ", i), err)
		}
	}
	var states []pawl.JobState
	for _, job := range jobs {
		states = append(states, f.state(job.ID))
	}
	f.equal("states", states, []pawl.JobState{
		pawl.JobScheduled, pawl.JobRemoved, pawl.JobWaiting, pawl.JobRemoved, pawl.JobReserved, pawl.JobDone,
	})
}

func cancelFenced(f *fixture) {
	session := f.host("a")
	f.put()
	early := f.claimOne(session)
	f.settle(session, end(early, pawl.GiveBack{}))
	late := f.claimOne(session)
	f.cancelled(pawl.JobReserved, late.ID)
	f.refusesAll(session, early)
	f.refusesAll(f.host("b"), late)
	f.equal("state", f.state(late.ID), pawl.JobReserved)
}

func cancelCrashed(f *fixture) {
	observer, victim := f.host("a"), f.host("b")
	f.puts(3)
	jobs := f.claimExactly(victim, 3)
	f.cancelled(pawl.JobReserved, jobs[1].ID)
	f.kill(observer, victim)
	f.equal("state", f.state(jobs[1].ID), pawl.JobRemoved)
	f.equal("put back", ids(f.claim(observer, 9)), []pawl.ID{jobs[0].ID, jobs[2].ID})
	f.equal("lines in the trail", len(f.audit(pawl.AuditFilter{Subject: "job " + jobs[1].ID.String()})), 2)
}

func cancelClosed(f *fixture) {
	session, other := f.host("a"), f.host("b")
	f.puts(3)
	jobs := f.claimExactly(session, 3)
	f.cancelled(pawl.JobReserved, jobs[1].ID)
	f.closeSession(session)
	f.equal("state", f.state(jobs[1].ID), pawl.JobRemoved)
	f.equal("put back", ids(f.claim(other, 9)), []pawl.ID{jobs[0].ID, jobs[2].ID})
	f.equal("lines in the trail", len(f.audit(pawl.AuditFilter{Subject: "job " + jobs[1].ID.String()})), 2)
}

func cancelRedrive(f *fixture) {
	session := f.host("a")
	for name, cancel := range map[string]func(id pawl.ID){
		"waiting": func(id pawl.ID) { f.cancelled(pawl.JobRemoved, id) },
		"running": func(id pawl.ID) {
			job := f.claimOne(session)
			f.cancelled(pawl.JobReserved, id)
			f.settle(session, end(job, pawl.GiveBack{}))
		},
	} {
		letter := f.dead(session)
		id := f.redrive(letter)
		cancel(id)
		letter = f.letter(letter.ID)
		f.equal("status after "+name, letter.Status, pawl.StatusRedriven)
		f.equal("outcome after "+name, letter.Outcome, pawl.RedriveCancelled)
		f.move(pawl.Move{Letter: letter.ID, Action: pawl.ActionReopen})
	}
}

func cancelFreesKey(f *fixture) {
	session := f.host("a")
	for _, running := range []bool{false, true} {
		id := f.put(pawl.UniqueWhileUnfinished("invoice 7"))
		f.equal("while it is there", f.try(f.job(pawl.UniqueWhileUnfinished("invoice 7")))[0].Status, pawl.Duplicate)
		if running {
			job := f.claimOne(session)
			f.cancelled(pawl.JobReserved, id)
			f.equal("while it runs", f.try(f.job(pawl.UniqueWhileUnfinished("invoice 7")))[0].Status, pawl.Duplicate)
			f.settle(session, end(job, pawl.Retry{After: time.Hour}))
		} else {
			f.cancelled(pawl.JobRemoved, id)
		}
	}
	f.put(pawl.UniqueWhileUnfinished("invoice 7"))
}

func cancelRefused(f *fixture) {
	session := f.host("a")
	done := f.put()
	f.settle(session, end(f.claimOne(session), pawl.Done{}))
	died := f.dead(session).JobID
	removed, waiting, unknown := f.put(), f.put(), pawl.NewID()
	f.cancelled(pawl.JobRemoved, removed)
	before := f.everything()
	for id, with := range map[pawl.ID]error{done: pawl.ErrConflict, died: pawl.ErrConflict, removed: pawl.ErrConflict, unknown: pawl.ErrNotFound} {
		result := f.cancel(id)[0]
		f.fails(id.String(), result.Err, with)
		f.equal("state", result.State, pawl.JobState(""))
	}
	f.equal("everything", f.everything(), before)

	results := f.cancel(done, waiting, unknown, waiting)
	f.fails("done", results[0].Err, pawl.ErrConflict)
	f.equal("waiting", results[1], pawl.Cancelled{State: pawl.JobRemoved})
	f.fails("unknown", results[2].Err, pawl.ErrNotFound)
	f.fails("named again", results[3].Err, pawl.ErrConflict)
	f.equal("state", f.state(waiting), pawl.JobRemoved)
}

func cancelInvalid(f *fixture) {
	id := f.put()
	before := f.everything()
	_, err := f.store.CancelJobs(f.ctx, []pawl.ID{id}, pawl.By{Door: "test"})
	f.fails("nobody", err, pawl.ErrInvalid)
	many := make([]pawl.ID, pawl.MaxCancel+1)
	for i := range many {
		many[i] = id
	}
	_, err = f.store.CancelJobs(f.ctx, many, operator("all"))
	f.fails("too many", err, pawl.ErrInvalid)
	f.equal("none", len(f.cancel()), 0)
	f.equal("everything", f.everything(), before)
}

func cancelAudited(f *fixture) {
	session := f.host("a")
	running, waiting := f.put(pawl.InQueue(critical)), f.put()
	job := f.claimOne(session)
	f.equal("claimed", job.ID, running)
	f.cancel(running, waiting)
	f.settle(session, end(job, pawl.GiveBack{}))
	entries := func(id pawl.ID) []pawl.AuditEntry {
		f.Helper()
		return f.audit(pawl.AuditFilter{Subject: "job " + id.String(), Action: pawl.ActionCancel})
	}
	lines := entries(waiting)
	f.equal("lines of the one that waited", len(lines), 1)
	f.equal("by", pawl.By{Who: lines[0].Who, Door: lines[0].Door, Why: lines[0].Why}, operator("not wanted any more"))
	f.equal("from and to", lines[0].From+" "+lines[0].To, "waiting removed")
	lines = entries(running)
	f.equal("lines of the one that ran", len(lines), 2)
	f.equal("first by", lines[1].Who, operator("").Who)
	f.equal("first", lines[1].From+" "+lines[1].To, "reserved reserved")
	f.equal("then", lines[0].From+" "+lines[0].To, "reserved removed")
}

func cancelElsewhere(f *fixture) {
	other := f.elsewhere()
	session := f.host("a")
	ids := f.puts(2)
	job := f.claimOne(session)
	other.cancelled(pawl.JobReserved, ids[0])
	other.cancelled(pawl.JobRemoved, ids[1])
	f.equal("cancel", f.beat(session, pawl.Beat{Held: []pawl.Reservation{job.Reservation}}).Cancel, []pawl.Reservation{job.Reservation})
	f.settle(session, end(job, pawl.GiveBack{}))
	f.equal("state", other.state(ids[0]), pawl.JobRemoved)
	f.claimNone("none is left", session)
}

// Whatever comes first: a cancelled job is removed once, and nothing of it is left behind.
func cancelRaces(f *fixture) {
	const jobs = 60
	ids := f.puts(jobs)
	sessions := []pawl.SessionID{f.host("a"), f.host("b")}
	var group sync.WaitGroup
	stop := make(chan struct{})
	for _, session := range sessions {
		group.Go(func() {
			for {
				claimed, err := f.store.Claim(f.ctx, request(session, 7))
				var settlements []pawl.Settlement
				for i, job := range claimed.Jobs {
					settlements = append(settlements, end(job, []pawl.Outcome{pawl.Retry{}, pawl.GiveBack{}, pawl.Release{}}[i%3]))
				}
				if err == nil && len(settlements) > 0 {
					_, err = f.store.Settle(f.ctx, session, settlements)
				}
				if err != nil {
					f.Errorf("claim and settle: %v", err)
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for i := 0; i < jobs; i += 10 {
		for _, result := range f.cancel(ids[i : i+10]...) {
			if result.Err != nil {
				f.Errorf("cancel: %v", result.Err)
			}
		}
	}
	close(stop)
	group.Wait()
	for _, id := range ids {
		f.equal("state", f.state(id), pawl.JobRemoved)
		lines := f.audit(pawl.AuditFilter{Subject: "job " + id.String()})
		f.equal("last line", lines[0].To, string(pawl.JobRemoved))
	}
	f.claimNone("none is left", sessions[0])
}

// cancelOne is a step against the model.
func (r *modelRun) cancelOne(rt *rapid.T) {
	j := r.draw(rt, "job", r.model.jobs)
	result := r.cancel(j.new.ID)[0]
	if !j.unfinished() {
		r.fails("cancel of an ended job", result.Err, pawl.ErrConflict)
		return
	}
	r.equal("cancelled", result, pawl.Cancelled{State: r.model.cancel(j)})
}
