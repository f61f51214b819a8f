package storetest

import (
	"slices"
	"time"

	"github.com/pawljobs/pawl"
)

// Queues are drained in the order that the claim names them. In a queue, jobs come as they became ready; retried and
// due ones join at the end, recovered and given-back ones at the front, in their old order among themselves.
func orderPromises() []promise {
	return []promise{
		{name: "queues are drained strictly in the order given", check: strictQueues},
		{name: "jobs come in the order in which they were enqueued", check: inOrder},
		{name: "a retried job joins at the end", check: retriedLast},
		{name: "a released job joins at the end", check: releasedLast},
		{name: "due jobs join at the end, in the order of their times", check: dueLast},
		{name: "given-back jobs go to the front in their old order", check: givenBackFirst},
		{name: "jobs given back one by one keep their old order", check: givenBackSingly},
		{name: "a closed session's jobs go to the front in their old order", check: closedFirst},
		{name: "recovered jobs go to the front in their old order", check: recoveredFirst},
		{name: "the front is before jobs that were never claimed, also older ones", check: frontIsBeforeOlder},
		{name: "after a retry a given-back job is not at the front again", check: frontIsNotForEver},
	}
}

func strictQueues(f *fixture) {
	session := f.host("a")
	low, mid, high := f.puts(2, pawl.InQueue(bulk)), f.puts(2, pawl.InQueue(normal)), f.puts(2, pawl.InQueue(critical))
	queues := func(names ...string) func(*pawl.ClaimRequest) {
		return func(r *pawl.ClaimRequest) { r.Queues = names }
	}
	f.equal("three of critical, normal, bulk",
		ids(f.claim(session, 3, queues(critical, normal, bulk))), []pawl.ID{high[0], high[1], mid[0]})
	f.equal("the rest of bulk, normal", ids(f.claim(session, 9, queues(bulk, normal))), []pawl.ID{low[0], low[1], mid[1]})
}

func inOrder(f *fixture) {
	session := f.host("a")
	want := slices.Concat(f.puts(1), f.puts(3), f.puts(2))
	var got []pawl.ID
	for range want {
		got = append(got, f.claimOne(session).ID)
	}
	f.equal("order", got, want)
}

func retriedLast(f *fixture) { f.putLast(pawl.Retry{}) }

func releasedLast(f *fixture) { f.putLast(pawl.Release{}) }

func (f *fixture) putLast(outcome pawl.Outcome) {
	f.Helper()
	session := f.host("a")
	want := f.puts(3)
	f.settle(session, end(f.claimOne(session), outcome))
	f.sweep(session)
	f.equal("order", ids(f.claim(session, 5)), []pawl.ID{want[1], want[2], want[0]})
}

func dueLast(f *fixture) {
	session := f.host("a")
	late, early := f.put(pawl.Delay(2*time.Hour)), f.put(pawl.Delay(time.Hour))
	ready := f.put()
	f.pass(3 * time.Hour)
	f.equal("due", f.sweep(session).Due, 2)
	f.equal("order", ids(f.claim(session, 5)), []pawl.ID{ready, early, late})
}

func givenBackFirst(f *fixture) {
	session := f.host("a")
	want := f.puts(5)
	jobs := f.claimExactly(session, 3)
	f.settle(session, end(jobs[1], pawl.GiveBack{}), end(jobs[2], pawl.GiveBack{Interrupted: true}), end(jobs[0], pawl.GiveBack{}))
	f.equal("order", ids(f.claim(session, 9)), want)
}

func givenBackSingly(f *fixture) {
	session := f.host("a")
	want := f.puts(4)
	jobs := f.claimExactly(session, 3)
	for _, n := range []int{1, 0, 2} {
		f.settle(session, end(jobs[n], pawl.GiveBack{}))
	}
	f.equal("order", ids(f.claim(session, 9)), want)
}

func closedFirst(f *fixture) {
	session, closing := f.host("a"), f.host("b")
	want := f.puts(5)
	f.equal("claimed", ids(f.claim(closing, 3)), want[:3])
	f.closeSession(closing)
	f.equal("order", ids(f.claim(session, 9)), want)
}

func recoveredFirst(f *fixture) {
	observer, victim := f.host("a"), f.host("b")
	want := f.puts(5)
	f.equal("claimed", ids(f.claim(victim, 3)), want[:3])
	f.kill(observer, victim)
	f.equal("order", ids(f.claim(observer, 9)), want)
}

func frontIsBeforeOlder(f *fixture) {
	onlyOthers := func(r *pawl.ClaimRequest) { r.Kinds = []string{otherKind} }
	for name, putBack := range map[string]func(observer, holder pawl.SessionID, job pawl.ClaimedJob){
		"given back":     func(_, holder pawl.SessionID, job pawl.ClaimedJob) { f.settle(holder, end(job, pawl.GiveBack{})) },
		"session closed": func(_, holder pawl.SessionID, _ pawl.ClaimedJob) { f.closeSession(holder) },
		"recovered":      func(observer, holder pawl.SessionID, _ pawl.ClaimedJob) { f.kill(observer, holder) },
	} {
		observer, holder := f.host("a"), f.host("b")
		older := f.put()
		other := f.enqueue(f.jobOf(otherKind, pawl.Policy{}, `1`))[0]
		putBack(observer, holder, f.claimOne(holder, onlyOthers))
		jobs := f.claim(observer, 5)
		f.equal("order when "+name, ids(jobs), []pawl.ID{other, older})
		f.settle(observer, end(jobs[0], pawl.Done{}), end(jobs[1], pawl.Done{}))
	}
}

func frontIsNotForEver(f *fixture) {
	session := f.host("a")
	want := f.puts(2)
	f.settle(session, end(f.claimOne(session), pawl.GiveBack{}))
	f.settle(session, end(f.claimOne(session), pawl.Retry{}))
	f.sweep(session)
	f.equal("order", ids(f.claim(session, 9)), []pawl.ID{want[1], want[0]})
}
