package storetest

import (
	"sync"
	"time"

	"github.com/pawljobs/pawl"
)

// keyEvent is something that happens to the one job that has a unique key, and whether the key is held afterwards.
type keyEvent struct {
	name string
	does func(f *fixture, session pawl.SessionID, id pawl.ID)

	waiting, unfinished bool // held in these scopes; one that counts for a period is held whatever happens
}

// keyEvents are all that can happen to a job.
func keyEvents() []keyEvent {
	settled := func(outcome pawl.Outcome) func(*fixture, pawl.SessionID, pawl.ID) {
		return func(f *fixture, session pawl.SessionID, _ pawl.ID) {
			f.settle(session, end(f.claimOne(session), outcome))
		}
	}
	return []keyEvent{
		{name: "nothing", does: func(*fixture, pawl.SessionID, pawl.ID) {}, waiting: true, unfinished: true},
		{name: "claimed", does: func(f *fixture, session pawl.SessionID, _ pawl.ID) { f.claimOne(session) }, unfinished: true},
		{name: "retried", does: settled(pawl.Retry{}), waiting: true, unfinished: true},
		{name: "retried later", does: settled(pawl.Retry{After: time.Hour}), waiting: true, unfinished: true},
		{name: "released later", does: settled(pawl.Release{After: time.Hour}), waiting: true, unfinished: true},
		{name: "given back", does: settled(pawl.GiveBack{}), waiting: true, unfinished: true},
		{name: "interrupted", does: settled(pawl.GiveBack{Interrupted: true}), waiting: true, unfinished: true},
		{name: "crashed", does: func(f *fixture, session pawl.SessionID, id pawl.ID) { f.crash(session, id, 1) }, waiting: true, unfinished: true},
		{name: "claimed again after a retry", does: func(f *fixture, session pawl.SessionID, id pawl.ID) {
			settled(pawl.Retry{})(f, session, id)
			f.sweep(session)
			f.claimOne(session)
		}, unfinished: true},
		{name: "done", does: settled(pawl.Done{})},
		{name: "dead", does: func(f *fixture, session pawl.SessionID, _ pawl.ID) { f.die(session, f.claimOne(session)) }},
		{name: "dead after a retry and a crash", does: func(f *fixture, session pawl.SessionID, id pawl.ID) {
			settled(pawl.Retry{})(f, session, id)
			f.sweep(session)
			f.crash(session, id, 1)
			f.die(session, f.claimOne(session))
		}},
		{name: "redriven", does: func(f *fixture, session pawl.SessionID, _ pawl.ID) {
			f.redrive(f.die(session, f.claimOne(session)))
		}, waiting: true, unfinished: true},
		{name: "retried under its id", does: func(f *fixture, session pawl.SessionID, _ pawl.ID) {
			f.retry(f.die(session, f.claimOne(session)))
		}, waiting: true, unfinished: true},
		{name: "redriven, and dead again", does: func(f *fixture, session pawl.SessionID, _ pawl.ID) {
			f.redrive(f.die(session, f.claimOne(session)))
			f.die(session, f.claimOne(session))
		}},
		{name: "cancelled while it waits", does: func(f *fixture, _ pawl.SessionID, id pawl.ID) { f.cancelKey(id) }},
		{name: "cancelled while it runs", does: func(f *fixture, session pawl.SessionID, id pawl.ID) {
			f.claimOne(session)
			f.cancelKey(id)
		}, unfinished: true},
		{name: "cancelled while it runs, and ended", does: func(f *fixture, session pawl.SessionID, id pawl.ID) {
			job := f.claimOne(session)
			f.cancelKey(id)
			f.settle(session, end(job, pawl.Retry{After: time.Hour}))
		}},
		{name: "cancelled while it runs, and crashed", does: func(f *fixture, session pawl.SessionID, id pawl.ID) {
			victim := f.host("victim")
			f.claimOne(victim)
			f.cancelKey(id)
			f.kill(session, victim)
		}},
		{name: "deleted", does: func(f *fixture, _ pawl.SessionID, id pawl.ID) {
			errs, err := f.store.DeleteJobs(f.ctx, []pawl.ID{id}, operator("delete"))
			f.allOK("delete", errs, err)
		}},
		{name: "cleared while it waits", does: func(f *fixture, _ pawl.SessionID, _ pawl.ID) { f.clearKeys() }},
		{name: "cleared while it runs", does: func(f *fixture, session pawl.SessionID, _ pawl.ID) {
			f.claimOne(session)
			f.clearKeys()
		}},
	}
}

func (f *fixture) cancelKey(id pawl.ID) {
	f.Helper()
	_, err := f.store.CancelJobs(f.ctx, []pawl.ID{id}, operator("cancel"))
	f.ok("cancel", err)
}

func (f *fixture) clearKeys() {
	f.Helper()
	_, err := f.store.ClearQueue(f.ctx, normal, operator("clear"))
	f.ok("clear queue", err)
}

// keyEndPromises are one for each thing that can happen.
func keyEndPromises() (out []promise) {
	for _, event := range keyEvents() {
		out = append(out, promise{name: "a job is " + event.name, check: event.check})
	}
	return append(out,
		promise{name: "a key that comes free is held by the next one", check: keyIsHeldAgain},
		promise{name: "a rival keeps its key through what becomes of the one before", check: rivalKeepsKey},
		promise{name: "of callers at the same time, in many processes, one is accepted", check: uniqueOverProcesses},
		promise{name: "in a batch, those whose keys are held keep no others out", check: uniqueBesideOthers},
	)
}

func (e keyEvent) check(f *fixture) {
	session := f.host("a")
	for _, c := range []struct {
		scope string
		key   pawl.Option
		held  bool
	}{
		{"while waiting", pawl.UniqueWhileWaiting("w"), e.waiting},
		{"while unfinished", pawl.UniqueWhileUnfinished("u"), e.unfinished},
		{"for a period", pawl.UniqueFor("p", 100*time.Hour), true},
	} {
		id := f.put(c.key)
		e.does(f, session, id)
		result := f.try(f.job(c.key))[0]
		want := pawl.Accepted
		if c.held {
			want = pawl.Duplicate
		}
		f.equal(c.scope, result.Status.String(), want.String())
		f.clearKeys()
	}
}

func keyIsHeldAgain(f *fixture) {
	session := f.host("a")
	for _, key := range []pawl.Option{pawl.UniqueWhileWaiting("w"), pawl.UniqueWhileUnfinished("u"), pawl.UniqueFor("p", time.Hour)} {
		for range 3 {
			holder := f.put(key)
			f.duplicates("while it waits", holder, key)
			f.settle(session, end(f.claimOne(session), pawl.Done{}))
			f.pass(2 * time.Hour)
		}
	}
	f.sweep(session)
	f.put(pawl.UniqueFor("p", time.Hour))
}

// A key of the one scope keeps out those of the others. What becomes of a job that has let its key go changes nothing for the
// one that has it now.
func rivalKeepsKey(f *fixture) {
	session, key := f.host("a"), pawl.UniqueWhileWaiting("k")
	f.put(key)
	first := f.claimOne(session)
	rival := f.put(pawl.UniqueWhileUnfinished("k"))
	beside := func(what string) {
		f.Helper()
		for _, option := range []pawl.Option{key, pawl.UniqueWhileUnfinished("k"), pawl.UniqueFor("k", time.Hour)} {
			f.equal(what, f.try(f.job(option))[0].Status.String(), pawl.Duplicate.String())
		}
	}
	beside("while the first runs")
	f.settle(session, end(first, pawl.Retry{After: time.Hour}))
	beside("while the first waits for a retry")
	job := f.claimOne(session)
	f.equal("claimed", job.ID, rival)
	beside("while the rival runs")
	f.pass(2 * time.Hour)
	f.sweep(session)
	f.die(session, f.claimOne(session))
	f.duplicates("after the first one's death", rival, key)
	f.settle(session, end(job, pawl.Done{}))
	f.put(key)
}

func uniqueOverProcesses(f *fixture) {
	stores := []*fixture{f, f.elsewhere(), f.elsewhere()}
	session := f.host("a")
	for round := range 5 {
		key := pawl.UniqueWhileUnfinished("k")
		if round%2 == 1 {
			key = pawl.UniqueWhileWaiting("k")
		}
		jobs, results := make([]pawl.NewJob, 9), make([]pawl.Enqueued, 9)
		for n := range jobs {
			jobs[n] = f.job(key)
		}
		var callers sync.WaitGroup
		for n := range jobs {
			callers.Go(func() {
				done, err := stores[n%len(stores)].store.Enqueue(f.ctx, jobs[n:n+1])
				if err != nil {
					f.Error(err)
					return
				}
				results[n] = done[0]
			})
		}
		callers.Wait()
		job := f.claimOne(session)
		accepted := 0
		for n, result := range results {
			f.equal("job that is named", result.ID, job.ID)
			if result.Status == pawl.Accepted {
				f.equal("job that was accepted", jobs[n].ID, job.ID)
				accepted++
			}
		}
		f.equal("accepted", accepted, 1)
		f.settle(session, end(job, pawl.Done{}))
	}
}

func uniqueBesideOthers(f *fixture) {
	session := f.host("a")
	held, repeated := f.put(pawl.UniqueWhileUnfinished("held")), f.job(pawl.UniqueWhileUnfinished("mine"))
	f.enqueue(repeated)
	late := f.job(pawl.UniqueWhileUnfinished("late"), pawl.Delay(time.Hour))
	period := f.job(pawl.UniqueFor("period", time.Hour))
	plain, kept, free := f.job(), f.job(pawl.UniqueWhileUnfinished("held")), f.job(pawl.UniqueWhileWaiting("free"))
	f.equal("results", f.try(plain, kept, repeated, free, late, period), []pawl.Enqueued{
		{ID: plain.ID}, {ID: held, Status: pawl.Duplicate}, {ID: repeated.ID, Status: pawl.Repeated}, {ID: free.ID}, {ID: late.ID}, {ID: period.ID},
	})
	f.equal("what waits", ids(f.claim(session, 10)), []pawl.ID{held, repeated.ID, plain.ID, free.ID, period.ID})
	f.duplicates("for a period", period.ID, pawl.UniqueFor("period", time.Hour))
	f.duplicates("while it is delayed", late.ID, pawl.UniqueWhileUnfinished("late"))
}
