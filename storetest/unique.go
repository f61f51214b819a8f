package storetest

import (
	"strings"
	"sync"
	"time"

	"github.com/pawljobs/pawl"
)

// A unique key keeps others out for as long as its scope says; the one that is kept out learns who holds the key.
func uniquePromises() []promise {
	return []promise{
		{name: "while waiting: held until the job is claimed", check: uniqueWhileWaiting},
		{name: "while waiting: a retry does not collide with the job that took its place", check: retryBesideRival},
		{name: "while unfinished: held until the job has ended", check: uniqueWhileUnfinished},
		{name: "while unfinished: a retry does not collide with itself", check: uniqueRetry},
		{name: "for a period: held whatever becomes of the job", check: uniqueForPeriod},
		{name: "for a period: not again under the same id, though that is forgotten", check: uniqueForLongPeriod},
		{name: "a death frees the key as its scope says", check: uniqueAfterDeath},
		{name: "clearing a queue frees the keys of its unfinished jobs", check: uniqueAfterClear},
		{name: "in one batch the first holds the key", check: uniqueInBatch},
		{name: "of callers at the same time one is accepted", check: concurrentUnique},
		{name: "keys are compared bytewise", check: keysBytewise},
		{name: "a repeated id is a repeat, not a duplicate of itself", check: repeatedUnique},
	}
}

func (f *fixture) duplicates(what string, holder pawl.ID, option pawl.Option) {
	f.Helper()
	f.equal(what, f.try(f.job(option)), []pawl.Enqueued{{ID: holder, Status: pawl.Duplicate}})
}

func uniqueWhileWaiting(f *fixture) {
	session, key := f.host("a"), pawl.UniqueWhileWaiting("k")
	holder := f.put(key, pawl.Delay(time.Hour))
	f.duplicates("while it is scheduled", holder, key)
	f.pass(2 * time.Hour)
	f.sweep(session)
	f.duplicates("while it is ready", holder, key)
	job := f.claimOne(session)
	f.settle(session, end(job, pawl.GiveBack{}))
	f.duplicates("when it was given back", holder, key)
	job = f.claimOne(session)
	f.settle(session, end(job, pawl.Retry{After: time.Hour}))
	f.duplicates("while it waits for a retry", holder, key)
	f.pass(2 * time.Hour)
	f.sweep(session)
	f.claimOne(session)
	f.put(key) // it runs: the key is free
}

func retryBesideRival(f *fixture) {
	session, key := f.host("a"), pawl.UniqueWhileWaiting("k")
	first := f.put(key)
	job := f.claimOne(session)
	second := f.put(key)
	f.settle(session, end(job, pawl.Retry{}))
	f.sweep(session)
	result := f.try(f.job(key))[0]
	f.equal("status of a third", result.Status, pawl.Duplicate)
	f.holds("a waiting job is named", result.ID == first || result.ID == second)
	f.equal("the first of those that wait", f.claimOne(session).ID, second)
	f.duplicates("while the other one waits", first, key)
	f.equal("the other one", f.claimOne(session).ID, first)
	f.put(key) // both run
}

func uniqueWhileUnfinished(f *fixture) {
	session, key := f.host("a"), pawl.UniqueWhileUnfinished("k")
	holder := f.put(key)
	f.duplicates("while it waits", holder, key)
	job := f.claimOne(session)
	f.duplicates("while it runs", holder, key)
	f.settle(session, end(job, pawl.Done{}))
	f.put(key)
}

func uniqueRetry(f *fixture) {
	session, key := f.host("a"), pawl.UniqueWhileUnfinished("k")
	holder := f.put(key)
	for range 3 {
		f.settle(session, end(f.claimOne(session), pawl.Retry{After: time.Minute}))
		f.duplicates("while it waits for a retry", holder, key)
		f.pass(2 * time.Minute)
		f.sweep(session)
		f.duplicates("while it is ready again", holder, key)
	}
	f.equal("job", f.claimOne(session).ID, holder)
}

func uniqueForPeriod(f *fixture) {
	session, key := f.host("a"), pawl.UniqueFor("k", 10*time.Hour)
	holder := f.put(key)
	f.settle(session, end(f.claimOne(session), pawl.Done{}))
	f.duplicates("after it is done", holder, key)
	f.pass(9 * time.Hour)
	f.sweep(session)
	f.duplicates("before the period's end", holder, key)
	f.pass(2 * time.Hour)
	f.put(key)
}

func uniqueForLongPeriod(f *fixture) {
	session, key := f.host("a"), pawl.UniqueFor("k", 100*24*time.Hour)
	job := f.job(key)
	f.enqueue(job)
	f.settle(session, end(f.claimOne(session), pawl.Done{}))
	repeated := pawl.Enqueued{ID: job.ID, Status: pawl.Repeated}
	for range 5 { // until nothing but the key remembers the id
		f.pass(24 * time.Hour)
		session = f.host("a")
		f.sweep(session)
		f.equal("the same job", f.try(job)[0], repeated)
		f.equal("the same job among others", f.try(f.job(), job)[1], repeated)
	}
}

func uniqueAfterDeath(f *fixture) {
	session := f.host("a")
	f.dead(session, pawl.UniqueWhileWaiting("w"))
	f.dead(session, pawl.UniqueWhileUnfinished("u"))
	letter := f.dead(session, pawl.UniqueFor("p", time.Hour))
	f.put(pawl.UniqueWhileWaiting("w"))
	f.put(pawl.UniqueWhileUnfinished("u"))
	f.duplicates("for a period", letter.JobID, pawl.UniqueFor("p", time.Hour))
	f.pass(2 * time.Hour)
	f.put(pawl.UniqueFor("p", time.Hour))
}

func uniqueAfterClear(f *fixture) {
	session, key := f.host("a"), pawl.UniqueWhileUnfinished("k")
	f.put(key)
	f.claimOne(session)
	_, err := f.store.ClearQueue(f.ctx, normal, operator("clear"))
	f.ok("clear queue", err)
	f.put(key)
}

func uniqueInBatch(f *fixture) {
	key := pawl.UniqueWhileUnfinished("k")
	first, second, third := f.job(key), f.job(key), f.job()
	f.equal("results", f.try(first, second, third), []pawl.Enqueued{
		{ID: first.ID, Status: pawl.Accepted}, {ID: first.ID, Status: pawl.Duplicate}, {ID: third.ID, Status: pawl.Accepted},
	})
}

func concurrentUnique(f *fixture) {
	const callers = 20
	jobs := make([]pawl.NewJob, callers)
	for n := range jobs {
		jobs[n] = f.job(pawl.UniqueWhileUnfinished("k"))
	}
	results, errs := make([][]pawl.Enqueued, callers), make([]error, callers)
	var group sync.WaitGroup
	for n := range callers {
		group.Go(func() { results[n], errs[n] = f.store.Enqueue(f.ctx, jobs[n:n+1]) })
	}
	group.Wait()
	f.allOK("enqueue", errs, nil)
	holder, accepted := f.claimOne(f.host("a")).ID, 0
	for n, result := range results {
		f.equal("job named by every result", result[0].ID, holder)
		if result[0].Status == pawl.Accepted {
			f.equal("job that was accepted", jobs[n].ID, holder)
			accepted++
		}
	}
	f.equal("accepted", accepted, 1)
}

func keysBytewise(f *fixture) {
	for _, key := range []string{"k", "K", "k ", "é", "e\u0301", "%", "_", strings.Repeat("k", 256)} {
		holder := f.put(pawl.UniqueWhileUnfinished(key))
		f.duplicates("key "+key, holder, pawl.UniqueWhileUnfinished(key))
	}
}

func repeatedUnique(f *fixture) {
	job := f.job(pawl.UniqueFor("k", time.Hour))
	f.enqueue(job)
	f.repeats("while it waits", job)
	session := f.host("a")
	f.settle(session, end(f.claimOne(session), pawl.Done{}))
	f.repeats("after its end", job)
}
