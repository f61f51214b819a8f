package storetest

import (
	"sync"
	"time"

	"github.com/pawljobs/pawl"
)

// An id is accepted once, for as long as its job lives and 24 hours after its end, whether or not history is kept:
// an enqueue whose outcome is unknown can simply be repeated.
func idPromises() []promise {
	var out []promise
	for suffix, o := range map[string]Options{"": {}, ", without history": {NoHistory: true}} {
		out = append(out,
			promise{"a living job's id is not accepted again" + suffix, o, livingIDs},
			promise{"an ended job's id is not accepted again" + suffix, o, endedIDs},
			promise{"an ended job's id is remembered for 24 hours" + suffix, o, idsAreForgotten},
			promise{"of callers with one id at the same time one is accepted" + suffix, o, concurrentIDs})
	}
	return out
}

func (f *fixture) repeats(what string, job pawl.NewJob) {
	f.Helper()
	f.equal(what, f.try(job), []pawl.Enqueued{{ID: job.ID, Status: pawl.Repeated}})
}

func livingIDs(f *fixture) {
	session := f.host("a")
	job := f.job(pawl.Delay(time.Hour))
	f.enqueue(job)
	f.repeats("while scheduled", job)
	f.pass(2 * time.Hour)
	f.sweep(session)
	f.repeats("while waiting", job)
	claimed := f.claimOne(session)
	f.repeats("while reserved", job)
	f.settle(session, end(claimed, pawl.Retry{After: time.Hour}))
	f.repeats("while it waits for a retry", job)
	f.claimNone("copies of it", session)
}

func endedIDs(f *fixture) {
	session := f.host("a")
	done, dead, cleared := f.job(), f.job(), f.job()
	f.enqueue(done)
	f.settle(session, end(f.claimOne(session), pawl.Done{}))
	f.enqueue(dead)
	f.die(session, f.claimOne(session))
	f.enqueue(cleared)
	_, err := f.store.ClearQueue(f.ctx, normal, operator("clear"))
	f.ok("clear queue", err)
	check := func() {
		f.repeats("after done", done)
		f.repeats("after death", dead)
		f.repeats("after it was removed", cleared)
	}
	check()
	f.pass(23 * time.Hour)
	f.sweep(session)
	check()
	f.claimNone("copies of them", session)
}

func idsAreForgotten(f *fixture) {
	session := f.host("a")
	job := f.job()
	f.enqueue(job)
	f.settle(session, end(f.claimOne(session), pawl.Done{}))
	f.pass(25 * time.Hour)
	report := f.sweep(session)
	f.holds("the sweep purged what is over age", report.Purged > 0)
	f.enqueue(job)
	f.equal("job", f.claimOne(session).ID, job.ID)
}

func concurrentIDs(f *fixture) {
	const callers = 20
	job := f.job()
	results, errs := make([][]pawl.Enqueued, callers), make([]error, callers)
	var group sync.WaitGroup
	for n := range callers {
		group.Go(func() { results[n], errs[n] = f.store.Enqueue(f.ctx, []pawl.NewJob{job}) })
	}
	group.Wait()
	f.allOK("enqueue", errs, nil)
	counts := map[pawl.EnqueueStatus]int{}
	for _, result := range results {
		f.equal("id", result[0].ID, job.ID)
		counts[result[0].Status]++
	}
	f.equal("results", counts, map[pawl.EnqueueStatus]int{pawl.Accepted: 1, pawl.Repeated: callers - 1})
	f.equal("jobs", ids(f.claim(f.host("a"), 5)), []pawl.ID{job.ID})
}
