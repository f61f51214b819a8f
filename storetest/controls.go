package storetest

import (
	"slices"
	"time"

	"github.com/pawljobs/pawl"
)

// Switches hold back jobs: nothing of them is spent, and claims obey at once.
func controlPromises() []promise {
	return []promise{
		{name: "a kind that is off waits, and nothing is spent", check: offWaits},
		{name: "a kind that starts off waits until it is switched on", check: startsOff},
		{name: "a misspelt name switches nothing on", check: misspelt},
		{name: "a switch counts until its end", check: switchEnds},
		{name: "an end may be stated from the store's now", check: switchedFor},
		{name: "a kind that starts off is off again when its switch has ended", check: startsOffEnds},
		{name: "a paused queue waits, and is resumed", check: pauses},
		{name: "a pause counts until its end", check: pauseEnds},
		{name: "jobs that are held back hide nothing", check: heldHideNothing},
		{name: "running jobs of a kind that is switched off can be settled", check: offWhileRunning},
		{name: "switches are listed, with who has set them, when and why", check: switchesListed},
		{name: "a kind whose switch is reset runs or waits as it says itself", check: switchReset},
		{name: "only a switch that is set can be reset", check: resetRefused},
		{name: "every switch and pause is audited", check: switchesAudited},
		{name: "hosts hear of every change with their next beat", check: switchVersion},
		{name: "switches hold for every handle", check: switchesElsewhere},
	}
}

func (f *fixture) switchKind(kind string, on bool, until ...time.Time) {
	f.Helper()
	s := pawl.KindSwitch{Kind: kind, On: on}
	if len(until) > 0 {
		s.Until = until[0]
	}
	f.ok("switch kind", f.store.SwitchKind(f.ctx, s, operator("test")))
}

func (f *fixture) pauseQueue(queue string, paused bool, until ...time.Time) {
	f.Helper()
	p := pawl.QueuePause{Queue: queue, Paused: paused}
	if len(until) > 0 {
		p.Until = until[0]
	}
	f.ok("pause queue", f.store.PauseQueue(f.ctx, p, operator("test")))
}

func offWaits(f *fixture) {
	session := f.host("a")
	id := f.put()
	other := f.enqueue(f.jobOf(otherKind, pawl.Policy{}, `1`))
	f.switchKind(workKind, false)
	f.equal("other kinds", ids(f.claim(session, 5)), other)
	f.pass(time.Hour)
	f.sweep(session)
	f.claimNone("jobs of a kind that is off", session)
	view := f.view(id)
	f.equal("state", view.State, pawl.JobWaiting)
	f.equal("held by its kind", view.HeldByKind, true)
	f.equal("held by its queue", view.HeldByQueue, false)
	f.equal("attempt", view.Attempt, 0)
	f.switchKind(workKind, true)
	f.equal("held by its kind", f.view(id).HeldByKind, false)
	job := f.claimOne(session)
	f.equal("job", job.ID, id)
	f.equal("attempt", job.Attempt, 1)
}

func (f *fixture) startsOffJob() pawl.ID {
	f.Helper()
	return f.enqueue(f.jobOf(workKind, pawl.Policy{StartsOff: true}, `1`))[0]
}

func startsOff(f *fixture) {
	session := f.host("a")
	id := f.startsOffJob()
	other := f.put() // of the same kind, but enqueued without StartsOff
	f.equal("jobs that do not start off", ids(f.claim(session, 5)), []pawl.ID{other})
	f.equal("held by its kind", f.view(id).HeldByKind, true)
	f.switchKind(workKind, true)
	f.equal("held by its kind", f.view(id).HeldByKind, false)
	job := f.claimOne(session)
	f.equal("job", job.ID, id)
	f.settle(session, end(job, pawl.GiveBack{}))
	f.switchKind(workKind, false)
	f.claimNone("switched off again", session)
}

func misspelt(f *fixture) {
	session := f.host("a")
	f.startsOffJob()
	for _, name := range []string{"storetest.work.v2", "Storetest.Work.V1", workKind + " ", "storetest.work", "*", "%"} {
		f.switchKind(name, true)
		f.claimNone("with "+name+" on", session)
	}
}

func switchEnds(f *fixture) {
	session := f.host("a")
	f.put()
	f.switchKind(workKind, false, f.beat(session, pawl.Beat{}).Now.Add(time.Hour))
	f.claimNone("before the end", session)
	f.pass(2 * time.Hour)
	f.claimOne(session)
}

func startsOffEnds(f *fixture) {
	session := f.host("a")
	f.startsOffJob()
	f.switchKind(workKind, true, f.beat(session, pawl.Beat{}).Now.Add(time.Hour))
	f.settle(session, end(f.claimOne(session), pawl.GiveBack{}))
	f.pass(2 * time.Hour)
	f.claimNone("after the end", session)
}

func pauses(f *fixture) {
	session := f.host("a")
	id := f.put()
	other := f.put(pawl.InQueue(bulk))
	f.pauseQueue(normal, true)
	f.equal("other queues", ids(f.claim(session, 5)), []pawl.ID{other})
	view := f.view(id)
	f.equal("state", view.State, pawl.JobWaiting)
	f.equal("held by its queue", view.HeldByQueue, true)
	f.equal("held by its kind", view.HeldByKind, false)
	f.pauseQueue(normal, false)
	f.equal("held by its queue", f.view(id).HeldByQueue, false)
	job := f.claimOne(session)
	f.equal("job", job.ID, id)
	f.equal("attempt", job.Attempt, 1)
}

func pauseEnds(f *fixture) {
	session := f.host("a")
	f.put()
	f.pauseQueue(normal, true, f.beat(session, pawl.Beat{}).Now.Add(time.Hour))
	f.claimNone("before the end", session)
	f.pass(2 * time.Hour)
	f.claimOne(session)
}

func heldHideNothing(f *fixture) {
	session := f.host("a")
	f.puts(300)
	for range 5 {
		f.startsOffJob()
	}
	other := f.enqueue(f.jobOf(otherKind, pawl.Policy{}, `1`))
	f.switchKind(workKind, false)
	f.equal("jobs behind 300 that are held", ids(f.claim(session, 5)), other)
}

func offWhileRunning(f *fixture) {
	session := f.host("a")
	f.put()
	job := f.claimOne(session)
	f.switchKind(workKind, false)
	f.pauseQueue(normal, true)
	f.equal("lost", f.beat(session, pawl.Beat{Held: []pawl.Reservation{job.Reservation}}).Lost, []pawl.Reservation(nil))
	f.settle(session, end(job, pawl.Done{}))
}

func switchesListed(f *fixture) {
	list := func() pawl.Switches {
		f.Helper()
		s, err := f.store.Switches(f.ctx)
		f.ok("switches", err)
		slices.SortFunc(s.Kinds, func(a, b pawl.KindSwitch) int { return slices.Compare([]byte(a.Kind), []byte(b.Kind)) })
		return s
	}
	f.equal("switches at first", list(), pawl.Switches{})
	until := f.beat(f.host("a"), pawl.Beat{}).Now.Add(time.Hour).Truncate(time.Millisecond)
	f.switchKind("a.v1", true)
	f.ok("turn", f.store.SwitchKind(f.ctx, pawl.KindSwitch{Kind: "a.v1"}, operator("bank is down")))
	f.switchKind("b.v1", true, until)
	f.pauseQueue("q", true, until)
	f.ok("limit", f.store.SetLimit(f.ctx, "a.v1", &pawl.Limit{Concurrency: 1}, operator("no switch")))
	at := func(subject string, action pawl.Action) time.Time {
		f.Helper()
		return f.audit(pawl.AuditFilter{Subject: subject, Action: action})[0].At
	}
	a := pawl.KindSwitch{Kind: "a.v1", Setting: pawl.Setting{By: operator("bank is down"), At: at("kind a.v1", pawl.ActionSwitch)}}
	f.equal("switches", list(), pawl.Switches{
		Kinds: []pawl.KindSwitch{a, {Kind: "b.v1", On: true, Until: until, Setting: pawl.Setting{By: operator("test"), At: at("kind b.v1", pawl.ActionSwitch)}}},
		Queues: []pawl.QueuePause{{
			Queue: "q", Paused: true, Until: until, Setting: pawl.Setting{By: operator("test"), At: at("queue q", pawl.ActionPause)},
		}},
	})
	for _, late := range []time.Time{time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(1<<60, 0)} {
		f.fails("a switch with two ends", f.store.SwitchKind(f.ctx, pawl.KindSwitch{Kind: "a.v1", Until: time.Now().Add(time.Hour), For: time.Hour}, operator("test")), pawl.ErrInvalid)
		f.fails("a pause that has ended before", f.store.PauseQueue(f.ctx, pawl.QueuePause{Queue: "q", Paused: true, For: -time.Hour}, operator("test")), pawl.ErrInvalid)
		f.fails("a switch without a last day", f.store.SwitchKind(f.ctx, pawl.KindSwitch{Kind: "a.v1", Until: late}, operator("test")), pawl.ErrInvalid)
		f.fails("a pause without a last day", f.store.PauseQueue(f.ctx, pawl.QueuePause{Queue: "q", Paused: true, Until: late}, operator("test")), pawl.ErrInvalid)
	}
	f.pass(2 * time.Hour)
	a.At = at("kind a.v1", pawl.ActionSwitch)
	f.equal("switches past their end", list(), pawl.Switches{Kinds: []pawl.KindSwitch{a}})
}

// An end that is stated as a time from now is counted from the store's.
func switchedFor(f *fixture) {
	f.ok("turn", f.store.SwitchKind(f.ctx, pawl.KindSwitch{Kind: "a.v1", For: time.Hour}, operator("bank is down")))
	f.ok("pause", f.store.PauseQueue(f.ctx, pawl.QueuePause{Queue: "q", Paused: true, For: 30 * time.Minute}, operator("wait")))
	set := func() pawl.Switches {
		f.Helper()
		s, err := f.store.Switches(f.ctx)
		f.ok("switches", err)
		return s
	}
	s := set()
	f.equal("set", []int{len(s.Kinds), len(s.Queues)}, []int{1, 1})
	f.equal("end of the switch", s.Kinds[0].Until.Sub(s.Kinds[0].At).Round(time.Second), time.Hour)
	f.equal("end of the pause", s.Queues[0].Until.Sub(s.Queues[0].At).Round(time.Second), 30*time.Minute)
	f.equal("as a time from now", []time.Duration{s.Kinds[0].For, s.Queues[0].For}, []time.Duration{0, 0})
	to := f.audit(pawl.AuditFilter{Subject: "kind a.v1"})[0].To
	f.equal("the trail", to, "off until "+s.Kinds[0].Until.UTC().Format(time.RFC3339))
	f.pass(31 * time.Minute)
	s = set()
	f.equal("after half an hour", []int{len(s.Kinds), len(s.Queues)}, []int{1, 0})
	f.pass(30 * time.Minute)
	f.equal("after an hour", set(), pawl.Switches{})
}

func (f *fixture) resetKind(kind string) {
	f.Helper()
	f.ok("reset kind", f.store.ResetKind(f.ctx, kind, operator("test")))
}

func switchReset(f *fixture) {
	session := f.host("a")
	plain, off := f.put(), f.startsOffJob()
	f.switchKind(workKind, false)
	f.claimNone("of a kind that is off", session)
	f.resetKind(workKind)
	job := f.claimOne(session)
	f.equal("what does not start off runs again", job.ID, plain)
	f.settle(session, end(job, pawl.Done{}))
	f.switchKind(workKind, true)
	f.resetKind(workKind)
	f.claimNone("what starts off waits again", session)
	f.equal("held by its kind", f.view(off).HeldByKind, true)
	switches, err := f.store.Switches(f.ctx)
	f.ok("switches", err)
	f.equal("switches", switches, pawl.Switches{})
	line := f.audit(pawl.AuditFilter{Subject: "kind " + workKind})[0]
	f.equal("line in the trail", [3]string{string(line.Action), line.From, line.To}, [3]string{"reset", "on", "not set"})
	f.switchKind(workKind, true)
	f.equal("what it came from", f.audit(pawl.AuditFilter{Subject: "kind " + workKind})[0].From, "not set")
	f.equal("job", f.claimOne(session).ID, off)
}

func resetRefused(f *fixture) {
	session := f.host("a")
	f.switchKind(workKind, false, f.beat(session, pawl.Beat{}).Now.Add(time.Hour))
	f.pauseQueue(otherKind, true)
	before := f.audit(pawl.AuditFilter{})
	f.fails("never set", f.store.ResetKind(f.ctx, "Storetest.work.v1", operator("test")), pawl.ErrNotFound)
	f.fails("a queue of that name", f.store.ResetKind(f.ctx, otherKind, operator("test")), pawl.ErrNotFound)
	f.fails("no name", f.store.ResetKind(f.ctx, "", operator("test")), pawl.ErrInvalid)
	f.fails("nobody", f.store.ResetKind(f.ctx, workKind, pawl.By{}), pawl.ErrInvalid)
	f.equal("lines in the trail", len(f.audit(pawl.AuditFilter{})), len(before))
	f.pass(2 * time.Hour)
	f.fails("past its end", f.store.ResetKind(f.ctx, workKind, operator("test")), pawl.ErrNotFound)
}

func switchesAudited(f *fixture) {
	f.switchKind(workKind, false)
	f.switchKind(workKind, true)
	f.pauseQueue(normal, true)
	f.pauseQueue(normal, false)
	for subject, action := range map[string]pawl.Action{"kind " + workKind: pawl.ActionSwitch, "queue " + normal: pawl.ActionPause} {
		entries := f.audit(pawl.AuditFilter{Subject: subject})
		f.equal("entries", len(entries), 2)
		for _, entry := range entries {
			f.equal("action", entry.Action, action)
			f.equal("by", pawl.By{Who: entry.Who, Door: entry.Door, Why: entry.Why}, operator("test"))
		}
		f.holds("what it led to", entries[0].To != "" && entries[1].To != "" && entries[0].To != entries[1].To)
		f.equal("it came from where the one before led to", entries[0].From, entries[1].To)
	}
}

func switchVersion(f *fixture) {
	session := f.host("a")
	version := func() int64 { return f.beat(session, pawl.Beat{}).Switches }
	f.switchKind(otherKind, true)
	seen := map[int64]bool{version(): true}
	f.equal("without a change", version(), version())
	for name, change := range map[string]func(){
		"off": func() { f.switchKind(workKind, false) }, "on": func() { f.switchKind(workKind, true) },
		"pause": func() { f.pauseQueue(normal, true) }, "resume": func() { f.pauseQueue(normal, false) },
		"reset": func() { f.resetKind(otherKind) },
	} {
		change()
		v := version()
		f.holds("the version is new after "+name, !seen[v])
		seen[v] = true
	}
}

func switchesElsewhere(f *fixture) {
	other := f.elsewhere()
	session := other.host("b")
	f.puts(2)
	other.claimOne(session)
	f.switchKind(workKind, false)
	other.claimNone("after it was switched off through another handle", session)
	f.switchKind(workKind, true)
	f.pauseQueue(normal, true)
	other.claimNone("after its queue was paused through another handle", session)
	f.pauseQueue(normal, false)
	other.claimOne(session)
}
