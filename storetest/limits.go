package storetest

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/pawljobs/pawl"
)

// No more jobs of a kind run at once, in all or for each key, and no more start in a time, than it states or an operator says.
func limitPromises() []promise {
	return []promise{
		{name: "no more are claimed than may run at once, over all hosts", check: limitedConcurrency},
		{name: "every end of a job gives its slot to the next", check: slotsComeBack},
		{name: "a job that is given back, or whose host is dead, goes before those that wait", check: slotsAreKept},
		{name: "a job that is cancelled or deleted gives its slot to the next", check: removalGivesSlot},
		{name: "clearing a queue gives all slots", check: clearGivesSlots},
		{name: "those of other kinds do not wait", check: othersPass},
		{name: "a key has a limit of its own, within that of the kind", check: limitPerKey},
		{name: "a key means nothing to a kind without that limit", check: keyWithoutLimit},
		{name: "jobs that wait go in their order", check: limitedOrder},
		{name: "an ordered job that waits for a slot holds its line", check: orderedAndLimited},
		{name: "starts come at the rate, and the sweep says when the next may", check: limitedRate},
		{name: "a token that was not used is not lost, and the burst bounds them", check: rateBurst},
		{name: "nothing piles up for a burst while a queue is paused", check: rateWhilePaused},
		{name: "a given-back job takes no second token", check: rateGiveBack},
		{name: "a retry takes a token", check: rateRetry},
		{name: "rate and concurrency hold together", check: rateAndConcurrency},
		{name: "an operator limits a kind that has jobs already", check: limitLater},
		{name: "an operator limits ordered jobs that wait already", check: limitOrderedLater},
		{name: "a limit that is raised lets through at once, one that is lowered later", check: limitChanges},
		{name: "a limit that is taken away lets all through", check: limitTakenAway},
		{name: "what an operator sets outlives hosts, until it is taken back", check: limitOverruled},
		{name: "a host registers what its kinds state", check: limitRegistered},
		{name: "limits are listed with what waits", check: limitsListed},
		{name: "changes are audited, and impossible ones refused", check: limitAudit},
		{name: "of claims at the same time none gets more than may run", check: concurrentLimits},
		{name: "nor where ended jobs pass their slots on", check: concurrentSlots},
		{name: "in a transaction", check: limitInTransaction},
	}
}

func (f *fixture) limited(limit pawl.Limit, n int, options ...pawl.Option) []pawl.ID {
	f.Helper()
	f.limit = limit
	jobs := make([]pawl.NewJob, n)
	for i := range jobs {
		jobs[i] = f.jobOf(workKind, pawl.Policy{Limit: limit}, `1`, options...)
	}
	return f.enqueue(jobs...)
}

func (f *fixture) setLimit(limit *pawl.Limit) {
	f.Helper()
	f.ok("set limit", f.store.SetLimit(f.ctx, workKind, limit, operator("limit")))
}

func limitedConcurrency(f *fixture) {
	all := f.limited(pawl.Limit{Concurrency: 3}, 8)
	a, b := f.host("a"), f.host("b")
	first := f.claimExactly(a, 2)
	f.equal("claimed", ids(first), all[:2])
	f.equal("by another host", ids(f.claim(b, 5)), all[2:3])
	f.claimNone("beside three", a)
	f.settle(a, end(first[0], pawl.Done{}), end(first[1], pawl.Done{}))
	f.equal("then", ids(f.claim(b, 5)), all[3:5])
}

func slotsComeBack(f *fixture) {
	session := f.host("a")
	all := f.limited(pawl.Limit{Concurrency: 1}, 5)
	for i, outcome := range []pawl.Outcome{pawl.Done{}, pawl.Retry{After: time.Hour}, pawl.Release{After: time.Hour}} {
		f.settle(session, end(f.orders("claimed", session, all[i])[0], outcome))
	}
	f.die(session, f.orders("claimed", session, all[3])[0])
	job := f.orders("claimed", session, all[4])[0]
	f.pass(2 * time.Hour)
	f.sweep(session)
	f.claimNone("those that are due wait for the slot", session)
	f.settle(session, end(job, pawl.Done{}))
	f.settle(session, end(f.orders("then", session, all[1])[0], pawl.Release{}))
	f.orders("a released job joins at the end", session, all[2])
}

func slotsAreKept(f *fixture) {
	session := f.host("a")
	all := f.limited(pawl.Limit{Concurrency: 1}, 2)
	f.settle(session, end(f.orders("claimed", session, all[0])[0], pawl.GiveBack{}))
	f.settle(session, end(f.orders("claimed", session, all[0])[0], pawl.GiveBack{Interrupted: true}))
	victim := f.host("b")
	f.orders("claimed", victim, all[0])
	f.kill(session, victim)
	closing := f.host("c")
	f.orders("claimed", closing, all[0])
	f.closeSession(closing)
	f.settle(session, end(f.orders("claimed", session, all[0])[0], pawl.Done{}))
	f.orders("then", session, all[1])
}

func removalGivesSlot(f *fixture) {
	session := f.host("a")
	all := f.limited(pawl.Limit{Concurrency: 1}, 6)
	_, err := f.store.CancelJobs(f.ctx, []pawl.ID{all[0], all[2]}, operator("cancel"))
	f.ok("cancel", err)
	job := f.orders("after cancels", session, all[1])[0]
	_, err = f.store.CancelJobs(f.ctx, all[1:2], operator("cancel"))
	f.ok("cancel", err)
	f.claimNone("while it runs", session)
	f.settle(session, end(job, pawl.Retry{}))
	f.orders("after its end", session, all[3])
	errs, err := f.store.DeleteJobs(f.ctx, []pawl.ID{all[3], all[4]}, operator("delete"))
	f.allOK("delete", errs, err)
	f.orders("after deletes", session, all[5])
}

func clearGivesSlots(f *fixture) {
	session := f.host("a")
	f.limited(pawl.Limit{Concurrency: 2}, 5)
	f.claimExactly(session, 1)
	other := f.limited(pawl.Limit{Concurrency: 2}, 3, pawl.InQueue(bulk))
	count, err := f.store.ClearQueue(f.ctx, normal, operator("clear"))
	f.ok("clear", err)
	f.equal("cleared", count, 5)
	f.equal("of another queue", ids(f.claim(session, 5)), other[:2])
}

func othersPass(f *fixture) {
	session := f.host("a")
	f.limited(pawl.Limit{Concurrency: 1}, 10)
	others := f.enqueue(f.jobOf(otherKind, pawl.Policy{}, `1`), f.jobOf(otherKind, pawl.Policy{}, `1`))
	got := ids(f.claim(session, 20))
	f.equal("number claimed", len(got), 3)
	f.holds("others are among them", slices.Contains(got, others[0]) && slices.Contains(got, others[1]))
}

func limitPerKey(f *fixture) {
	session := f.host("a")
	limit := pawl.Limit{PerKey: 1, Concurrency: 3}
	seven := f.limited(limit, 3, pawl.LimitKey("customer-7"))
	eight := f.limited(limit, 2, pawl.LimitKey("customer-8"))
	free := f.limited(limit, 2)
	jobs := f.orders("claimed", session, seven[0], eight[0], free[0])
	f.settle(session, end(jobs[2], pawl.Done{}))
	jobs = append(jobs, f.orders("then", session, free[1])...)
	f.settle(session, end(jobs[0], pawl.Done{}), end(jobs[3], pawl.Done{}))
	f.orders("and then", session, seven[1])
	f.settle(session, end(jobs[1], pawl.Retry{After: time.Hour}))
	f.orders("while the first of a key waits for a retry", session, eight[1])
}

func keyWithoutLimit(f *fixture) {
	session := f.host("a")
	all := f.puts(3, pawl.LimitKey("customer-7"))
	f.orders("claimed", session, all...)
}

func limitedOrder(f *fixture) {
	session := f.host("a")
	all := f.limited(pawl.Limit{Concurrency: 2}, 7)
	jobs := f.orders("claimed", session, all[:2]...)
	for next := 2; next < len(all); next++ {
		f.settle(session, end(jobs[0], pawl.Done{}))
		jobs = append(jobs[1:], f.orders("then", session, all[next])...)
	}
}

func orderedAndLimited(f *fixture) {
	session := f.host("a")
	limit := pawl.Limit{Concurrency: 1}
	busy := f.limited(limit, 1)[0]
	line := append(f.limited(limit, 1, pawl.OrderingKey("k")), f.put(pawl.OrderingKey("k"), pawl.InQueue(critical)))
	job := f.orders("claimed", session, busy)[0]
	f.settle(session, end(job, pawl.Done{}))
	job = f.orders("the head of the line", session, line[0])[0]
	f.settle(session, end(job, pawl.Retry{After: time.Hour}))
	f.claimNone("the line waits for the retry", session)
	last := f.limited(limit, 1)[0]
	f.settle(session, end(f.orders("the slot is free meanwhile", session, last)[0], pawl.Done{}))
	f.pass(2 * time.Hour)
	f.settle(session, end(f.orders("due again", session, line[0])[0], pawl.Done{}))
	f.orders("and the next", session, line[1])
}

// perHour has tokens that no test waits for.
func perHour(n, burst int) pawl.Limit { return pawl.Limit{Starts: n, Per: time.Hour, Burst: burst} }

func limitedRate(f *fixture) {
	session := f.host("a")
	all := f.limited(perHour(2, 2), 6)
	jobs := f.orders("the burst", session, all[:2]...)
	f.settle(session, end(jobs[0], pawl.Done{}), end(jobs[1], pawl.Done{}))
	next := f.sweep(session).NextDue
	f.holds("the next is due in half an hour: "+next.String(), next > 25*time.Minute && next <= 30*time.Minute)
	f.claimNone("before", session)
	f.pass(31 * time.Minute)
	f.orders("after half an hour", session, all[2])
	f.pass(59 * time.Minute)
	f.orders("after an hour and a half", session, all[3], all[4])
}

func rateBurst(f *fixture) {
	session := f.host("a")
	limit := perHour(1, 3)
	f.settle(session, end(f.orders("one", session, f.limited(limit, 1)...)[0], pawl.Done{}))
	f.pass(10 * time.Hour)
	all := f.limited(limit, 5)
	f.orders("a burst", session, all[:3]...)
}

func rateWhilePaused(f *fixture) {
	session := f.host("a")
	f.pauseQueue(normal, true)
	all := f.limited(perHour(1, 2), 6)
	for range 5 {
		f.pass(5 * time.Hour)
		f.sweep(session)
		f.claimNone("while the queue is paused", session)
	}
	f.pauseQueue(normal, false)
	f.orders("then", session, all[:2]...)
	f.claimNone("and no more", session)
	f.pass(61 * time.Minute)
	f.orders("after an hour", session, all[2])
}

func rateGiveBack(f *fixture) {
	session := f.host("a")
	all := f.limited(perHour(1, 2), 3)
	for range 3 {
		job := f.claimExactly(session, 1)[0]
		f.equal("job", job.ID, all[0])
		f.settle(session, end(job, pawl.GiveBack{}))
	}
	f.orders("the burst", session, all[:2]...)
}

func rateRetry(f *fixture) {
	session := f.host("a")
	all := f.limited(perHour(1, 2), 1)
	for range 2 {
		f.settle(session, end(f.orders("claimed", session, all[0])[0], pawl.Retry{}))
	}
	f.sweep(session)
	f.claimNone("without a token", session)
	f.pass(61 * time.Minute)
	f.orders("with one", session, all[0])
}

func rateAndConcurrency(f *fixture) {
	session := f.host("a")
	limit := perHour(10, 3)
	limit.Concurrency = 2
	all := f.limited(limit, 6)
	jobs := f.orders("at once", session, all[:2]...)
	f.settle(session, end(jobs[0], pawl.Done{}))
	jobs = append(jobs[1:], f.orders("the last token", session, all[2])...)
	f.settle(session, end(jobs[0], pawl.Done{}), end(jobs[1], pawl.Done{}))
	f.claimNone("without a token", session)
	f.pass(time.Hour)
	f.orders("with ten", session, all[3:5]...)
}

func concurrentLimits(f *fixture) {
	of := map[pawl.ID]string{}
	limit := pawl.Limit{Concurrency: 5, PerKey: 2}
	for i := range 60 {
		key := []string{"k", "l", "m"}[i%3]
		of[f.limited(limit, 1, pawl.LimitKey(key))[0]] = key
	}
	f.contend(of, limit, 2)
}

func concurrentSlots(f *fixture) {
	of := map[pawl.ID]string{}
	limit := pawl.Limit{Concurrency: 5}
	for _, id := range f.limited(limit, 90) {
		of[id] = ""
	}
	f.contend(of, limit, 3)
}

// contend works jobs, by their limit keys, off on three hosts at once. Of those of a claim every retry-th is retried.
func (f *fixture) contend(of map[pawl.ID]string, limit pawl.Limit, retry int) {
	jobs, most, perKey := len(of), limit.Concurrency, cmp.Or(limit.PerKey, len(of))
	var mu sync.Mutex
	running, all, done := map[string]int{}, 0, 0
	var group sync.WaitGroup
	for n, other := range []*fixture{f, f.elsewhere(), f.elsewhere()} {
		session := other.host([]string{"a", "b", "c"}[n])
		group.Go(func() {
			for f.ctx.Err() == nil {
				mu.Lock()
				over := done == jobs
				mu.Unlock()
				if over {
					return
				}
				claimed, err := other.store.Claim(f.ctx, request(session, 4))
				if err != nil {
					f.Errorf("claim: %v", err)
					return
				}
				mu.Lock()
				for _, job := range claimed.Jobs {
					running[of[job.ID]]++
					all++
					if all > most || running[of[job.ID]] > perKey {
						f.Errorf("%d run at once, %d of key %s", all, running[of[job.ID]], of[job.ID])
					}
				}
				mu.Unlock()
				for i, job := range claimed.Jobs {
					var outcome pawl.Outcome = pawl.Done{}
					if i%retry == retry-1 {
						outcome = pawl.Retry{}
					}
					mu.Lock()
					running[of[job.ID]]--
					all--
					if _, ended := outcome.(pawl.Done); ended {
						done++
					}
					mu.Unlock()
					if errs, err := other.store.Settle(f.ctx, session, []pawl.Settlement{end(job, outcome)}); err != nil || errs[0] != nil {
						f.Errorf("settle: %v, %v", errs, err)
					}
				}
			}
		})
	}
	group.Wait()
	f.equal("jobs done", done, jobs)
}

func limitInTransaction(f *fixture) {
	session := f.host("a")
	tx := f.begin()
	policy := pawl.Policy{Limit: pawl.Limit{Concurrency: 1}}
	jobs := []pawl.NewJob{f.jobOf(workKind, policy, `1`), f.jobOf(workKind, policy, `2`)}
	_, err := tx.Enqueue(f.ctx, jobs)
	f.ok("enqueue in transaction", err)
	f.ok("commit", tx.Commit())
	f.settle(session, end(f.orders("claimed", session, jobs[0].ID)[0], pawl.Done{}))
	f.orders("then", session, jobs[1].ID)
}
