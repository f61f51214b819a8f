package storetest

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/schedule"
)

// A schedule makes one job for each tick, whoever looks.
func recurringPromises() []promise {
	return []promise{
		{name: "a due tick makes one job", check: tickMakesJob},
		{name: "a tick makes one job however many look at once", check: tickOnce},
		{name: "a tick whose job is there already makes no other", check: tickKnown},
		{name: "a sweep says when the next tick is due", check: tickNextDue},
		{name: "what is due is worked on in batches", check: ticksInBatches},
		{name: "missed ticks are run once, skipped, or all run", check: ticksMissed},
		{name: "a tick is skipped while a job has not ended", check: overlapSkip},
		{name: "one job may wait behind one that runs", check: overlapQueue},
		{name: "jobs may overlap", check: overlapAllow},
		{name: "a paused schedule makes no jobs, and makes up for none", check: schedulePause},
		{name: "a schedule ends with its last tick", check: scheduleEnds},
		{name: "a jittered tick is late by its share", check: scheduleJitter},
		{name: "run now makes a job beside the ticks", check: scheduleRunNow},
		{name: "run now obeys the policy of the jobs", check: scheduleRunNowRefused},
		{name: "the last outcomes are known for longer than their jobs", check: scheduleOutcomes},
	}
}

const nightly = "report.nightly"

// add stores a schedule of jobs of workKind, every hour unless changed.
func (f *fixture) add(changes ...func(s *pawl.Schedule)) {
	f.Helper()
	f.ok("add schedule", f.store.AddSchedule(f.ctx, f.hourly(changes...), operator("test")))
}

func (f *fixture) hourly(changes ...func(s *pawl.Schedule)) pawl.Schedule {
	s := pawl.Schedule{Name: nightly, Spec: "1h", Kind: workKind, Args: json.RawMessage(`{"n": 1}`)}
	for _, change := range changes {
		change(&s)
	}
	return s
}

func (f *fixture) schedule() pawl.ScheduleView {
	f.Helper()
	view, err := f.store.Schedule(f.ctx, nightly)
	f.ok("read schedule", err)
	return view
}

// until lets time pass until the next tick is due, and a little more.
func (f *fixture) until(by time.Duration) {
	f.Helper()
	f.pass(time.Until(f.schedule().DueAt) + by)
}

// tick lets the next tick come, and has a sweep see it. A little more time passes at each, so that backdated ticks differ.
func (f *fixture) tick(session pawl.SessionID) int {
	f.Helper()
	f.until(time.Second + time.Duration(f.schedule().Fired+f.schedule().SkippedTicks)*time.Millisecond)
	return f.sweep1(session).Ticks
}

func (f *fixture) sweep1(session pawl.SessionID) pawl.SweepReport {
	f.Helper()
	report, err := f.store.Sweep(f.ctx, pawl.SweepRequest{Session: session})
	f.ok("sweep", err)
	return report
}

func tickMakesJob(f *fixture) {
	session := f.host("a")
	f.add(func(s *pawl.Schedule) {
		s.Policy, s.Tags = pawl.Policy{Queue: bulk, MaxTries: 1, Redrive: pawl.RedriveOneByOne}, []string{"night"}
	})
	f.equal("ticks at first", f.sweep1(session).Ticks, 0)
	f.claimNone("before the tick", session)
	f.until(time.Second)
	due := f.schedule().Next
	f.equal("ticks", f.sweep1(session).Ticks, 1)
	f.equal("ticks of the next sweep", f.sweep1(session).Ticks, 0)
	job := f.claimOne(session)
	f.equal("kind", job.Kind, workKind)
	f.equal("queue", job.Queue, bulk)
	e, err := pawl.DecodeEnvelope(job.Envelope)
	f.ok("decode", err)
	f.equal("args", string(e.Args), `{"n": 1}`)
	f.equal("tags", e.Tags, []string{"night"})
	f.equal("max tries", e.Policy.MaxTries, 1)
	f.equal("timeout", e.Policy.Timeout, pawl.DefaultPolicy().Timeout)
	name, tick, manual, ok := schedule.Origin(e.Origin)
	f.holds("its origin names schedule and tick", name == nightly && tick.Equal(due) && !manual && ok)
	f.equal("id", job.ID, schedule.TickID(f.store.Connection().Name, nightly, due))
	view := f.schedule()
	f.equal("last job", view.LastJob, job.ID)
	f.holds("last tick", view.LastTick.Equal(due))
	f.equal("last state", view.LastState, pawl.JobReserved)
	f.equal("fired", view.Fired, 1)
	f.holds("the next one comes later", view.Next.After(time.Now()) && view.Next.Before(time.Now().Add(time.Hour+patience)))
	f.equal("runs", view.Runs, []pawl.ScheduleRun{{Tick: view.LastTick, Job: job.ID, State: pawl.JobReserved}})
}

func tickOnce(f *fixture) {
	other := f.elsewhere()
	session, second := f.host("a"), other.host("b")
	for range 5 {
		name := "s" + pawl.NewID().String()
		f.add(func(s *pawl.Schedule) { s.Name, s.Overlap = name, pawl.OverlapAllow })
	}
	f.pass(time.Hour)
	var mu sync.Mutex
	var looks sync.WaitGroup
	ticks := 0
	for i := range 6 {
		looks.Go(func() {
			store, session := f.store, session
			if i%2 == 1 {
				store, session = other.store, second
			}
			for range 3 {
				report, err := store.Sweep(f.ctx, pawl.SweepRequest{Session: session})
				if err != nil {
					f.Errorf("sweep: %v", err)
				}
				mu.Lock()
				ticks += report.Ticks
				mu.Unlock()
			}
		})
	}
	looks.Wait()
	f.equal("ticks", ticks, 5)
	f.equal("jobs", len(f.claim(session, 10)), 5)
}

func tickKnown(f *fixture) {
	session := f.host("a")
	f.add()
	f.until(time.Second)
	view := f.schedule()
	made, err := schedule.JobOf(f.store.Connection(), view.Schedule, view.Next)
	f.ok("make the job of the tick", err)
	f.enqueue(made)
	f.sweep1(session)
	f.equal("jobs", ids(f.claim(session, 10)), []pawl.ID{made.ID})
	f.sweep1(session)
	f.holds("the schedule has moved on", f.schedule().Next.After(view.Next))
}

func tickNextDue(f *fixture) {
	session := f.host("a")
	f.holds("negative without a schedule", f.sweep1(session).NextDue < 0)
	f.add(func(s *pawl.Schedule) { s.Spec = "2h" })
	left := f.sweep1(session).NextDue
	want := time.Until(f.schedule().Next)
	f.holds("it is that of the tick", left <= want+patience && left >= want-patience)
	f.put(pawl.Delay(time.Minute))
	left = f.sweep1(session).NextDue
	f.holds("an earlier job's goes first", left > 0 && left <= time.Minute)
}

func ticksInBatches(f *fixture) {
	session := f.host("a")
	const n = 25
	for i := range n {
		f.add(func(s *pawl.Schedule) { s.Name = "s" + string(rune('a'+i)) })
	}
	f.pass(time.Hour)
	report, err := f.store.Sweep(f.ctx, pawl.SweepRequest{Session: session, Limit: 10})
	f.ok("sweep", err)
	f.holds("a sweep keeps to its limit, and says that there is more", report.Ticks == 10 && report.More)
	f.sweepBy(10, session)
	f.equal("jobs", len(f.claim(session, n+1)), n)
}

func ticksMissed(f *fixture) {
	session := f.host("a")
	jobsOf := func(rule pawl.MissedRule, most int, overlap pawl.OverlapRule) (jobs int, view pawl.ScheduleView) {
		f.Helper()
		name := string(rule)
		f.add(func(s *pawl.Schedule) {
			s.Name, s.Spec, s.Missed, s.MaxMissed, s.Overlap = name, "10m", rule, most, overlap
		})
		// Five ticks: the last is two minutes ago by the timetable.
		now := time.Now()
		f.pass(50*time.Minute + now.Truncate(10*time.Minute).Add(12*time.Minute).Sub(now))
		f.sweep(session)
		view, err := f.store.Schedule(f.ctx, name)
		f.ok("read schedule", err)
		claimed := f.claim(session, 20)
		for _, job := range claimed {
			f.settle(session, end(job, pawl.Done{}))
		}
		f.ok("delete", f.store.DeleteSchedule(f.ctx, name, operator("test")))
		return len(claimed), view
	}
	jobs, view := jobsOf(pawl.MissedOnce, 0, pawl.OverlapSkip)
	f.holds("once: one job, and the others are counted", jobs == 1 && view.Fired == 1 && view.MissedTicks >= 4 && !view.MissedAt.IsZero())
	jobs, view = jobsOf(pawl.MissedAll, 3, pawl.OverlapAllow)
	f.holds("all: the latest three", jobs == 3 && view.Fired == 3 && view.MissedTicks >= 2)
	f.equal("runs", len(view.Runs), 3)
	jobs, view = jobsOf(pawl.MissedSkip, 0, pawl.OverlapSkip)
	f.holds("skip: none but one that is on time by the clock", jobs <= 1 && view.Fired == jobs && view.MissedTicks >= 4)
}

func overlapSkip(f *fixture) {
	session := f.host("a")
	f.add()
	f.equal("first tick", f.tick(session), 1)
	f.equal("while it waits", f.tick(session), 0)
	job := f.claimOne(session)
	f.equal("while it runs", f.tick(session), 0)
	f.settle(session, end(job, pawl.Retry{After: 100 * time.Hour}))
	f.equal("while it waits for a retry", f.tick(session), 0)
	view := f.schedule()
	f.equal("skipped", view.SkippedTicks, 3)
	f.holds("and when", !view.SkippedAt.IsZero())
	f.equal("last job", view.LastJob, job.ID)
	errs, err := f.store.DeleteJobs(f.ctx, []pawl.ID{job.ID}, operator("test"))
	f.allOK("delete job", errs, err)
	f.equal("when it has ended", f.tick(session), 1)
}

func overlapQueue(f *fixture) {
	session := f.host("a")
	f.add(func(s *pawl.Schedule) { s.Overlap = pawl.OverlapQueue })
	f.equal("first tick", f.tick(session), 1)
	f.equal("while it waits", f.tick(session), 0)
	f.claimOne(session)
	f.equal("while it runs", f.tick(session), 1)
	f.equal("while one waits behind it", f.tick(session), 0)
	f.equal("skipped", f.schedule().SkippedTicks, 2)
}

func overlapAllow(f *fixture) {
	session := f.host("a")
	f.add(func(s *pawl.Schedule) { s.Overlap = pawl.OverlapAllow })
	for range pawl.ScheduleRuns + 3 {
		f.equal("tick", f.tick(session), 1)
	}
	f.equal("jobs", len(f.claim(session, 100)), pawl.ScheduleRuns+3)
	view := f.schedule()
	f.equal("runs that are remembered", len(view.Runs), pawl.ScheduleRuns)
	f.equal("the newest", view.Runs[0].Job, view.LastJob)
}

func schedulePause(f *fixture) {
	session := f.host("a")
	f.add(func(s *pawl.Schedule) { s.Overlap = pawl.OverlapAllow })
	pause := func(paused bool) {
		f.Helper()
		f.ok("pause", f.store.PauseSchedule(f.ctx, nightly, paused, operator("test")))
	}
	pause(true)
	view := f.schedule()
	f.holds("it is paused and has no next tick", view.Paused && view.Next.IsZero() && view.DueAt.IsZero())
	f.pass(5 * time.Hour)
	report := f.sweep1(session)
	f.holds("nothing is due", report.Ticks == 0 && report.NextDue < 0)
	f.ok("change while paused", f.store.SetSchedule(f.ctx, f.hourly(func(s *pawl.Schedule) { s.Spec, s.Overlap = "2h", pawl.OverlapAllow }), operator("test")))
	f.holds("a change does not resume", f.schedule().Next.IsZero())
	pause(false)
	f.equal("made up for", f.sweep1(session).Ticks, 0)
	f.holds("the next one is ahead", f.schedule().Next.After(time.Now()))
	f.equal("after the resume", f.tick(session), 1)
	f.fails("pause what is not there", f.store.PauseSchedule(f.ctx, "none", true, operator("test")), pawl.ErrNotFound)
}

func scheduleEnds(f *fixture) {
	session := f.host("a")
	now := time.Now()
	f.add(func(s *pawl.Schedule) { s.From, s.Until = now.Add(3*time.Hour), now.Add(4*time.Hour) })
	f.holds("its first tick is not before from", !f.schedule().Next.Before(now.Add(3*time.Hour).Truncate(time.Second)))
	f.pass(10 * time.Hour)
	f.equal("its one or two ticks are one job", f.sweep(session).Ticks, 1)
	view := f.schedule()
	f.holds("there is no next one", view.Next.IsZero() && view.Problem == "")
	f.equal("ticks", f.sweep1(session).Ticks, 0)
}

func scheduleJitter(f *fixture) {
	session := f.host("a")
	f.add(func(s *pawl.Schedule) { s.Jitter = 30 * time.Minute })
	view := f.schedule()
	late := view.DueAt.Sub(view.Next)
	f.holds("due later than the tick, by less than the jitter", late >= 0 && late < 30*time.Minute)
	f.until(-time.Minute)
	f.equal("before it is due", f.sweep1(session).Ticks, 0)
	f.until(time.Second)
	f.equal("when it is due", f.sweep1(session).Ticks, 1)
}

func scheduleRunNow(f *fixture) {
	session := f.host("a")
	f.add(func(s *pawl.Schedule) { s.Policy.StartsOff = true })
	next := f.schedule().Next
	f.ok("pause", f.store.PauseSchedule(f.ctx, nightly, true, operator("test")))
	id, err := f.store.RunSchedule(f.ctx, nightly, operator("test"))
	f.ok("run now, though it is paused", err)
	f.claimNone("its kind starts off", session)
	_, err = f.store.RunSchedule(f.ctx, nightly, operator("test"))
	f.fails("a second one", err, pawl.ErrConflict)
	f.switchKind(workKind, true)
	job := f.claimOne(session)
	f.equal("job", job.ID, id)
	e, err := pawl.DecodeEnvelope(job.Envelope)
	f.ok("decode", err)
	_, _, manual, _ := schedule.Origin(e.Origin)
	f.holds("its origin says so", manual)
	f.settle(session, end(job, pawl.Done{}))
	f.ok("resume", f.store.PauseSchedule(f.ctx, nightly, false, operator("test")))
	view := f.schedule()
	f.holds("the next tick is where it was", view.Next.Equal(next))
	f.equal("fired", view.Fired, 0)
	f.equal("runs", len(view.Runs), 1)
	f.holds("it was by hand, and done", view.Runs[0].Manual && view.Runs[0].State == pawl.JobDone && view.LastState == pawl.JobDone)
	f.holds("it was a success", !view.LastSuccess.IsZero())
	entries := f.audit(pawl.AuditFilter{Action: pawl.ActionRunNow})
	f.equal("audit", entries[0].Outcome, id.String())
}

func scheduleRunNowRefused(f *fixture) {
	f.host("a")
	f.add(func(s *pawl.Schedule) { s.Policy.Redrive = pawl.RedriveNever })
	before := f.everything()
	_, err := f.store.RunSchedule(f.ctx, nightly, operator("test"))
	f.fails("run now", err, pawl.ErrRedriveRefused)
	_, err = f.store.RunSchedule(f.ctx, "none", operator("test"))
	f.fails("run what is not there", err, pawl.ErrNotFound)
	_, err = f.store.RunSchedule(f.ctx, nightly, pawl.By{})
	f.fails("run by nobody", err, pawl.ErrInvalid)
	f.equal("everything", f.everything(), before)
}

func scheduleOutcomes(f *fixture) {
	session := f.host("a")
	f.add()
	f.tick(session)
	pause := func(paused bool) {
		f.Helper()
		f.ok("pause", f.store.PauseSchedule(f.ctx, nightly, paused, operator("test")))
	}
	pause(true)
	f.settle(session, end(f.claimOne(session), pawl.Done{}))
	success := f.schedule().LastSuccess
	f.holds("it is known at once", !success.IsZero() && f.schedule().LastState == pawl.JobDone)
	f.pass(2 * time.Minute)
	f.sweep(session)
	f.pass(100 * time.Hour)
	f.sweep(session)
	view := f.schedule()
	f.equal("state after days", view.LastState, pawl.JobDone)
	f.holds("last success after days", view.LastSuccess.Before(success.Add(-100*time.Hour)) && view.LastSuccess.Equal(view.LastEnded))
	pause(false)
	f.tick(session)
	pause(true)
	f.die(session, f.claimOne(session))
	f.pass(2 * time.Minute)
	f.sweep(session)
	view = f.schedule()
	f.equal("state of a death", view.LastState, pawl.JobDead)
	f.holds("last success stays", !view.LastSuccess.IsZero() && view.LastSuccess.Before(view.LastEnded))
	f.equal("states", []pawl.JobState{view.Runs[0].State, view.Runs[1].State}, []pawl.JobState{pawl.JobDead, pawl.JobDone})
}
