package storetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/pawljobs/pawl"
)

// A session is a host's presence. Its reservations live as long as it does; who ends it is another host that has seen
// the same beat for too long.
func sessionPromises() []promise {
	return []promise{
		{name: "session ids are never used again", check: sessionIDs},
		{name: "every other session that has not ended is seen", check: others},
		{name: "every beat is a new one", check: beatsCount},
		{name: "a session that has beaten since it was seen is not ended", check: staleSight},
		{name: "a session whose beat stands is ended, once", check: endedOnce},
		{name: "an ended session hears of it", check: sessionLost},
		{name: "an ended session's jobs are all put back, in batches", check: recoveredInBatches},
		{name: "a silent session whose beat nobody reports lives on", check: silence},
		{name: "closing gives back what is held, uncounted", check: closing},
		{name: "a beat names what is lost", check: beatNamesLost},
		{name: "reconciling finds what the host does not know of", check: reconcile},
		{name: "hosts are listed as they told", check: hostsListed},
		{name: "of observers at the same time one ends a session", check: manyObservers},
	}
}

func sessionIDs(f *fixture) {
	seen := map[pawl.SessionID]bool{}
	observer := f.host("observer")
	for n := range 10 {
		session := f.host("a")
		f.holds("the id is new and not 0", session != 0 && session != observer && !seen[session])
		seen[session] = true
		if n%2 == 0 {
			f.closeSession(session)
		} else {
			f.kill(observer, session)
		}
		f.pass(50 * time.Hour)
		f.sweep(observer)
	}
}

func others(f *fixture) {
	a, b, c := f.host("a"), f.host("b"), f.host("c")
	see := func(session pawl.SessionID) []pawl.SessionID {
		var out []pawl.SessionID
		for _, other := range f.beat(session, pawl.Beat{}).Others {
			out = append(out, other.ID)
		}
		slices.Sort(out)
		return out
	}
	f.equal("others of a", see(a), []pawl.SessionID{b, c})
	f.equal("others of c", see(c), []pawl.SessionID{a, b})
	f.closeSession(b)
	f.equal("others of a", see(a), []pawl.SessionID{c})
}

func beatsCount(f *fixture) {
	a, b := f.host("a"), f.host("b")
	seen := map[int64]bool{f.see(a, b).Beat: true}
	f.equal("beat while it is silent", f.see(a, b), f.see(a, b))
	for range 5 {
		f.beat(b, pawl.Beat{})
		beat := f.see(a, b).Beat
		f.holds("the beat is new", !seen[beat])
		seen[beat] = true
	}
}

func staleSight(f *fixture) {
	observer, other := f.host("a"), f.host("b")
	id := f.put()
	job := f.claimOne(other)
	seen := f.see(observer, other)
	f.beat(other, pawl.Beat{})
	report := f.sweep(observer, seen)
	f.equal("ended", report.Ended, []pawl.SessionID(nil))
	f.equal("recovered", report.Recovered, 0)
	f.equal("state", f.view(id).State, pawl.JobReserved)
	f.settle(other, end(job, pawl.Done{}))
}

func endedOnce(f *fixture) {
	observer, victim := f.host("a"), f.host("victim")
	want := f.puts(3)
	f.claim(victim, 2)
	seen := f.see(observer, victim)
	report := f.sweep(observer, seen)
	f.equal("ended", report.Ended, []pawl.SessionID{victim})
	f.equal("recovered", report.Recovered, 2)
	report = f.sweep(observer, seen)
	f.equal("ended again", report.Ended, []pawl.SessionID(nil))
	f.equal("recovered again", report.Recovered, 0)
	jobs := f.claim(observer, 5)
	f.equal("jobs", ids(jobs), want)
	f.equal("attempts", []int{jobs[0].Attempt, jobs[1].Attempt, jobs[2].Attempt}, []int{2, 2, 1})
	f.equal("crashes", []int{jobs[0].Crashes, jobs[1].Crashes, jobs[2].Crashes}, []int{1, 1, 0})
	f.equal("records", len(jobs[0].History), 1)
	record := jobs[0].History[0]
	f.equal("ending", record.Ending, pawl.EndCrashed)
	f.equal("attempt of the record", record.Attempt, 1)
	f.equal("host", record.Host, "victim")
}

func sessionLost(f *fixture) {
	observer, victim, closed := f.host("a"), f.host("victim"), f.host("closed")
	f.kill(observer, victim)
	f.closeSession(closed)
	for _, session := range []pawl.SessionID{victim, closed, closed + 1000} {
		_, err := f.store.Beat(f.ctx, session, pawl.Beat{})
		f.fails("beat", err, pawl.ErrSessionLost)
	}
	f.beat(observer, pawl.Beat{})
}

func recoveredInBatches(f *fixture) {
	observer, victim := f.host("a"), f.host("victim")
	const n = 35
	want := f.puts(n)
	f.equal("claimed", len(f.claim(victim, n)), n)
	report := f.sweepBy(10, observer, f.see(observer, victim))
	f.equal("recovered", report.Recovered, n)
	f.equal("ended", report.Ended, []pawl.SessionID{victim})
	jobs := f.claim(observer, n+1)
	f.equal("jobs", ids(jobs), want)
	for _, job := range jobs {
		f.equal("attempt", job.Attempt, 2)
		f.equal("crashes", job.Crashes, 1)
	}
}

// Only an observer's look ends a session: an outage of the store, which silences all, ends none.
func silence(f *fixture) {
	observer, silent := f.host("a"), f.host("b")
	f.put()
	job := f.claimOne(silent)
	f.pass(time.Hour)
	report := f.sweep(observer)
	f.equal("ended", report.Ended, []pawl.SessionID(nil))
	f.equal("recovered", report.Recovered, 0)
	f.settle(silent, end(job, pawl.Done{}))
}

func closing(f *fixture) {
	session, closing := f.host("a"), f.host("b")
	f.puts(2)
	f.claimExactly(closing, 2)
	f.closeSession(closing)
	for _, job := range f.claimExactly(session, 2) {
		f.equal("attempt", job.Attempt, 1)
		f.equal("crashes", job.Crashes, 0)
		f.equal("history", job.History, []pawl.AttemptRecord(nil))
	}
	hosts, err := f.store.Hosts(f.ctx)
	f.ok("hosts", err)
	f.equal("hosts", len(hosts), 1)
}

func beatNamesLost(f *fixture) {
	session := f.host("a")
	f.puts(3)
	jobs := f.claimExactly(session, 3)
	f.settle(session, end(jobs[1], pawl.Done{}))
	held := []pawl.Reservation{jobs[0].Reservation, jobs[1].Reservation, jobs[2].Reservation}
	reply := f.beat(session, pawl.Beat{Held: held})
	f.equal("lost", reply.Lost, []pawl.Reservation{jobs[1].Reservation})
	f.equal("cancelled", reply.Cancel, []pawl.Reservation(nil))
	f.holds("the reply has the store's clock", time.Since(reply.Now).Abs() < time.Hour)
}

// Without Reconcile the store does not look: a claim whose reply is still on its way would be taken for a lost one.
func reconcile(f *fixture) {
	session, other := f.host("a"), f.host("b")
	f.puts(4)
	known, lost := f.claimExactly(session, 1), f.claimExactly(session, 2)
	f.claimOne(other)
	held := []pawl.Reservation{known[0].Reservation}
	f.equal("found without reconciling", f.beat(session, pawl.Beat{Held: held}).Found, []pawl.Reservation(nil))
	found := f.beat(session, pawl.Beat{Held: held, Reconcile: true}).Found
	slices.SortFunc(found, func(a, b pawl.Reservation) int { return int(a.Token - b.Token) })
	want := []pawl.Reservation{lost[0].Reservation, lost[1].Reservation}
	slices.SortFunc(want, func(a, b pawl.Reservation) int { return int(a.Token - b.Token) })
	f.equal("found", found, want)
	for _, reservation := range found {
		f.settle(session, pawl.Settlement{Reservation: reservation, Outcome: pawl.GiveBack{}})
	}
	f.equal("found again", f.beat(session, pawl.Beat{Held: held, Reconcile: true}).Found, []pawl.Reservation(nil))
	for _, job := range f.claimExactly(other, 2) {
		f.equal("attempt", job.Attempt, 1)
	}
}

func hostsListed(f *fixture) {
	session := f.host("desk-7:worker-io", "mail", "hook")
	view := func() pawl.HostView {
		f.Helper()
		hosts, err := f.store.Hosts(f.ctx)
		f.ok("hosts", err)
		f.equal("hosts", len(hosts), 1)
		return hosts[0]
	}
	first := view()
	f.equal("session", first.Session, session)
	f.equal("what it told", first.HostInfo, hostInfo("desk-7:worker-io", "mail", "hook"))
	f.equal("busy", first.Busy, 0)
	f.equal("draining", first.Draining, false)
	f.equal("unsettled", first.Unsettled, 0)
	f.pass(time.Hour)
	reply := f.beat(session, pawl.Beat{Busy: 7, Draining: true, Unsettled: 3})
	second := view()
	f.equal("busy", second.Busy, 7)
	f.equal("draining", second.Draining, true)
	f.equal("unsettled", second.Unsettled, 3)
	f.holds("it was opened an hour ago", reply.Now.Sub(second.OpenedAt) >= time.Hour)
	f.holds("it has just beaten", reply.Now.Sub(second.BeatAt).Abs() < patience)
}

func manyObservers(f *fixture) {
	const n = 8
	victim := f.host("victim")
	f.puts(5)
	f.claimExactly(victim, 5)
	var observers []pawl.SessionID
	for i := range n {
		observers = append(observers, f.host(fmt.Sprint("observer-", i)))
	}
	seen := f.see(observers[0], victim)
	reports, errs := make([]pawl.SweepReport, n), make([]error, n)
	var group sync.WaitGroup
	for i, observer := range observers {
		group.Go(func() {
			reports[i], errs[i] = f.store.Sweep(f.ctx, pawl.SweepRequest{Session: observer, Dead: []pawl.SeenSession{seen}})
		})
	}
	group.Wait()
	f.allOK("sweep", errs, nil)
	ended, recovered := 0, 0
	for _, report := range reports {
		ended += len(report.Ended)
		recovered += report.Recovered
	}
	f.equal("sweeps that ended it", ended, 1)
	f.equal("recovered", recovered+f.sweep(observers[0]).Recovered, 5)
	for _, job := range f.claimExactly(observers[0], 5) {
		f.equal("crashes", job.Crashes, 1)
	}
}
