package storetest

import (
	"encoding/json"
	"errors"
	"slices"
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

// timetablePromises are about what is stored, and by whom.
func timetablePromises() []promise {
	return []promise{
		{name: "schedules come back as they were added", check: scheduleStored},
		{name: "schedules are listed by name, in pages", check: scheduleList},
		{name: "what can never run is refused, and nothing is changed", check: scheduleRefused},
		{name: "a changed schedule goes on from now", check: scheduleSet},
		{name: "a deleted schedule makes no jobs", check: scheduleDelete},
		{name: "all that operators do is audited", check: scheduleAudit},
		{name: "a declaration is stored once, and keeps an operator's pause", check: declareKeeps},
		{name: "an older declaration does not undo a newer one", check: declareOutdated},
		{name: "a removed declaration stays removed", check: declareRemoved},
		{name: "operators do not change what live code declares", check: declareOwned},
		{name: "code does not take over an operator's schedule", check: declareForeign},
		{name: "a declaration that is refused does not stop the others", check: declareRefused},
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

func names(page pawl.SchedulePage) (out []string) {
	for _, s := range page.Schedules {
		out = append(out, s.Name)
	}
	return out
}

func scheduleStored(f *fixture) {
	f.host("a")
	s := schedule.Complete(pawl.Schedule{
		Name: nightly, Spec: "30 2 * * *", Zone: "Asia/Kathmandu", Kind: workKind, Args: json.RawMessage("{\"n\" : 9007199254740993,\n \"x\": \"<\\u0000>\"}"),
		Tags: []string{"a", "b"}, Missed: pawl.MissedAll, MaxMissed: 7, Overlap: pawl.OverlapAllow, Jitter: time.Minute,
		From: time.Now().Add(-time.Hour), Until: time.Now().Add(1000 * time.Hour),
		Policy: pawl.Policy{Queue: bulk, MaxTries: 3, Backoff: []time.Duration{time.Second}, Jitter: 0.2, Timeout: time.Hour, RetryFor: time.Hour, Redrive: pawl.RedriveOneByOne, StartsOff: true},
	})
	f.ok("add", f.store.AddSchedule(f.ctx, s, operator("test")))
	view := f.schedule()
	f.equal("schedule", view.Schedule, s)
	f.holds("times", !view.CreatedAt.IsZero() && view.ChangedAt.Equal(view.CreatedAt))
	f.holds("nothing has happened yet", view.LastTick.IsZero() && view.LastJob.IsZero() && view.LastState == "" && !view.Declared && !view.Paused)
	f.equal("next tick by the wall", view.Next.In(kathmandu()).Format("15:04"), "02:30")
	page, err := f.store.Schedules(f.ctx, pawl.ScheduleFilter{}, pawl.Page{})
	f.ok("list", err)
	f.equal("listed", page.Schedules, []pawl.ScheduleView{view})
	f.fails("add it again", f.store.AddSchedule(f.ctx, s, operator("test")), pawl.ErrConflict)
}

func kathmandu() *time.Location { return time.FixedZone("", 5*3600+45*60) }

func scheduleList(f *fixture) {
	f.host("a")
	for _, name := range []string{"b", "a%", "a_", "é", "B", "ab"} {
		f.add(func(s *pawl.Schedule) { s.Name = name })
	}
	f.add(func(s *pawl.Schedule) { s.Name, s.Kind = "other", otherKind })
	list := func(filter pawl.ScheduleFilter, page pawl.Page) pawl.SchedulePage {
		f.Helper()
		out, err := f.store.Schedules(f.ctx, filter, page)
		f.ok("list", err)
		return out
	}
	f.equal("all", names(list(pawl.ScheduleFilter{}, pawl.Page{})), []string{"B", "a%", "a_", "ab", "b", "other", "é"})
	f.equal("by kind", names(list(pawl.ScheduleFilter{Kind: otherKind}, pawl.Page{})), []string{"other"})
	f.equal("by prefix", names(list(pawl.ScheduleFilter{Prefix: "a"}, pawl.Page{})), []string{"a%", "a_", "ab"})
	f.equal("by a prefix with a sign", names(list(pawl.ScheduleFilter{Prefix: "a%"}, pawl.Page{})), []string{"a%"})
	var paged []string
	for page := (pawl.Page{Limit: 2}); ; {
		out := list(pawl.ScheduleFilter{}, page)
		paged = append(paged, names(out)...)
		if page.After = out.Next; out.Next == "" {
			break
		}
	}
	f.equal("by pages", paged, []string{"B", "a%", "a_", "ab", "b", "other", "é"})
	_, err := f.store.Schedules(f.ctx, pawl.ScheduleFilter{}, pawl.Page{After: "x"})
	f.fails("a page of another list", err, pawl.ErrInvalid)
	_, err = f.store.Schedules(f.ctx, pawl.ScheduleFilter{}, pawl.Page{Limit: 1001})
	f.fails("too large a page", err, pawl.ErrInvalid)
	_, err = f.store.Schedule(f.ctx, "none")
	f.fails("one that is not there", err, pawl.ErrNotFound)
}

func scheduleRefused(f *fixture) {
	f.host("a")
	f.add()
	before := f.everything()
	for name, change := range map[string]func(s *pawl.Schedule){
		"a kind that nobody has registered": func(s *pawl.Schedule) { s.Kind = "storetest.wrok.v1" },
		"30 February":                       func(s *pawl.Schedule) { s.Spec = "0 0 30 2 *" },
		"a wrong spec":                      func(s *pawl.Schedule) { s.Spec = "61 * * * *" },
		"an unknown zone":                   func(s *pawl.Schedule) { s.Zone = "Europe/Atlantis" },
		"damaged args":                      func(s *pawl.Schedule) { s.Args = json.RawMessage(`{"n":`) },
		"a wrong policy":                    func(s *pawl.Schedule) { s.Policy.Queue = "\x00" },
		"an end that has passed":            func(s *pawl.Schedule) { s.Until = time.Now().Add(-time.Hour) },
		"a name with control characters":    func(s *pawl.Schedule) { s.Name = "a\n" },
		"a removal":                         func(s *pawl.Schedule) { s.Removed = true },
	} {
		f.fails("add "+name, f.store.AddSchedule(f.ctx, f.hourly(func(s *pawl.Schedule) { s.Name = "new" }, change), operator("test")), pawl.ErrInvalid)
		if name != "a name with control characters" {
			f.fails("set "+name, f.store.SetSchedule(f.ctx, f.hourly(change), operator("test")), pawl.ErrInvalid)
		}
	}
	f.fails("add by nobody", f.store.AddSchedule(f.ctx, f.hourly(func(s *pawl.Schedule) { s.Name = "new" }), pawl.By{}), pawl.ErrInvalid)
	f.fails("set what is not there", f.store.SetSchedule(f.ctx, f.hourly(func(s *pawl.Schedule) { s.Name = "new" }), operator("test")), pawl.ErrNotFound)
	f.equal("everything", f.everything(), before)
	f.equal("spec", f.schedule().Spec, "1h")
}

func scheduleSet(f *fixture) {
	session := f.host("a")
	f.add()
	f.tick(session)
	f.ok("set", f.store.SetSchedule(f.ctx, f.hourly(func(s *pawl.Schedule) { s.Spec, s.Kind = "24h", otherKind }), operator("test")))
	view := f.schedule()
	f.holds("it says the new", view.Spec == "24h" && view.Kind == otherKind && view.Fired == 1 && !view.LastJob.IsZero())
	f.holds("its next tick is the first of the new", view.Next.Equal(time.Now().Truncate(24*time.Hour).Add(24*time.Hour)))
}

func scheduleDelete(f *fixture) {
	session := f.host("a")
	f.add()
	f.tick(session)
	f.ok("delete", f.store.DeleteSchedule(f.ctx, nightly, operator("test")))
	f.pass(3 * time.Hour)
	f.equal("ticks", f.sweep(session).Ticks, 0)
	f.equal("its jobs stay", len(f.claim(session, 5)), 1)
	f.fails("delete again", f.store.DeleteSchedule(f.ctx, nightly, operator("test")), pawl.ErrNotFound)
	f.add()
	f.equal("a new one of the name knows nothing of it", len(f.schedule().Runs), 0)
}

func scheduleAudit(f *fixture) {
	f.host("a")
	f.add()
	f.ok("set", f.store.SetSchedule(f.ctx, f.hourly(func(s *pawl.Schedule) { s.Spec = "2h" }), operator("test")))
	f.ok("pause", f.store.PauseSchedule(f.ctx, nightly, true, operator("test")))
	f.ok("pause again", f.store.PauseSchedule(f.ctx, nightly, true, operator("test")))
	f.ok("resume", f.store.PauseSchedule(f.ctx, nightly, false, operator("test")))
	f.ok("delete", f.store.DeleteSchedule(f.ctx, nightly, operator("test")))
	var actions []pawl.Action
	entries := f.audit(pawl.AuditFilter{Subject: "schedule " + nightly})
	for _, entry := range entries {
		actions = append(actions, entry.Action)
		f.equal("by", pawl.By{Who: entry.Who, Door: entry.Door, Why: entry.Why}, operator("test"))
	}
	f.equal("actions, newest first", actions, []pawl.Action{pawl.ActionDelete, pawl.ActionPause, pawl.ActionPause, pawl.ActionSet, pawl.ActionAdd})
	f.holds("a change tells before and after", entries[3].From != "" && entries[3].To != "" && entries[3].From != entries[3].To)
	f.equal("a pause", []string{entries[2].From, entries[2].To}, []string{"running", "paused"})
}

// declaring opens the session of a host whose code declares these schedules, and declares them.
func (f *fixture) declaring(host string, schedules ...pawl.Schedule) (pawl.SessionID, []pawl.Declared) {
	f.Helper()
	info := hostInfo(host)
	info.Schedules = map[string]string{}
	for _, s := range schedules {
		print, err := schedule.Fingerprint(schedule.Complete(s))
		f.ok("fingerprint", err)
		info.Schedules[s.Name] = print
	}
	session, err := f.store.OpenSession(f.ctx, info)
	f.ok("open session", err)
	return session, f.declare(session, schedules...)
}

func (f *fixture) declare(session pawl.SessionID, schedules ...pawl.Schedule) []pawl.Declared {
	f.Helper()
	results, err := f.store.DeclareSchedules(f.ctx, session, schedules)
	f.ok("declare", err)
	f.equal("results", len(results), len(schedules))
	return results
}

func (f *fixture) declared(what string, results []pawl.Declared, want pawl.DeclareStatus) {
	f.Helper()
	f.ok(what, results[0].Err)
	f.equal(what, results[0].Status.String(), want.String())
}

func declareKeeps(f *fixture) {
	first := f.hourly()
	a, results := f.declaring("a", first)
	f.declared("at first", results, pawl.DeclaredNew)
	f.declared("again", f.declare(a, first), pawl.DeclaredUnchanged)
	_, results = f.declaring("b", first)
	f.declared("by another host", results, pawl.DeclaredUnchanged)
	view := f.schedule()
	f.holds("it is code's", view.Declared)
	f.equal("declarers", view.Declarers, []string{"a", "b"})
	f.tick(a)
	f.ok("pause", f.store.PauseSchedule(f.ctx, nightly, true, operator("test")))
	_, results = f.declaring("c", f.hourly(func(s *pawl.Schedule) { s.Spec = "2h" }))
	f.declared("changed", results, pawl.DeclaredNew)
	view = f.schedule()
	f.holds("the change is there and the pause too", view.Spec == "2h" && view.Paused && view.Next.IsZero() && view.Fired == 1)
	f.equal("declared lines in the trail", len(f.audit(pawl.AuditFilter{Action: pawl.ActionDeclare})), 2)
}

// Two versions run side by side, and both restart.
func declareOutdated(f *fixture) {
	before, after := f.hourly(), f.hourly(func(s *pawl.Schedule) { s.Spec = "2h" })
	old, _ := f.declaring("old", before)
	newer, results := f.declaring("new", after)
	f.declared("the new version", results, pawl.DeclaredNew)
	for range 3 {
		f.declared("the old one looks again", f.declare(old, before), pawl.DeclaredOutdated)
		f.closeSession(old)
		old, results = f.declaring("old", before)
		f.declared("the old one restarts", results, pawl.DeclaredOutdated)
		second, results := f.declaring("new too", after)
		f.declared("another of the new", results, pawl.DeclaredUnchanged)
		f.closeSession(second)
	}
	f.equal("spec", f.schedule().Spec, "2h")
	f.closeSession(newer)
	f.declared("rolled back: the new one is gone", f.declare(old, before), pawl.DeclaredNew)
	f.equal("spec", f.schedule().Spec, "1h")
	newer, results = f.declaring("new", after)
	f.declared("the new one comes back beside the old", results, pawl.DeclaredOutdated)
	f.closeSession(old)
	f.declared("and is alone", f.declare(newer, after), pawl.DeclaredNew)
	f.equal("spec", f.schedule().Spec, "2h")
}

func declareRemoved(f *fixture) {
	old, _ := f.declaring("old", f.hourly())
	newer, results := f.declaring("new", schedule.Remove(nightly))
	f.declared("removed", results, pawl.DeclaredNew)
	_, err := f.store.Schedule(f.ctx, nightly)
	f.fails("read it", err, pawl.ErrNotFound)
	f.fails("pause it", f.store.PauseSchedule(f.ctx, nightly, true, operator("test")), pawl.ErrNotFound)
	f.fails("delete it", f.store.DeleteSchedule(f.ctx, nightly, operator("test")), pawl.ErrNotFound)
	page, err := f.store.Schedules(f.ctx, pawl.ScheduleFilter{}, pawl.Page{})
	f.ok("list", err)
	f.equal("listed", names(page), []string(nil))
	f.declared("the old version looks again", f.declare(old, f.hourly()), pawl.DeclaredOutdated)
	f.pass(3 * time.Hour)
	f.equal("ticks", f.sweep(newer).Ticks, 0)
	f.add()
	f.holds("an operator may use the name", !f.schedule().Declared)
	f.declared("which a removal leaves alone", f.declare(newer, schedule.Remove(nightly)), pawl.DeclaredUnchanged)
}

func declareOwned(f *fixture) {
	session, _ := f.declaring("a", f.hourly())
	f.fails("set", f.store.SetSchedule(f.ctx, f.hourly(func(s *pawl.Schedule) { s.Spec = "2h" }), operator("test")), pawl.ErrConflict)
	f.fails("delete", f.store.DeleteSchedule(f.ctx, nightly, operator("test")), pawl.ErrConflict)
	f.closeSession(session)
	view := f.schedule()
	f.holds("nobody declares it now, and it goes on", view.Declared && len(view.Declarers) == 0 && !view.Next.IsZero())
	f.ok("set", f.store.SetSchedule(f.ctx, f.hourly(func(s *pawl.Schedule) { s.Spec = "2h" }), operator("test")))
	f.holds("it is the operator's", !f.schedule().Declared)
	f.ok("delete", f.store.DeleteSchedule(f.ctx, nightly, operator("test")))
}

func declareForeign(f *fixture) {
	f.host("b")
	f.add()
	_, results := f.declaring("a", f.hourly(func(s *pawl.Schedule) { s.Spec = "2h" }))
	f.declared("over an operator's", results, pawl.DeclaredForeign)
	f.equal("spec", f.schedule().Spec, "1h")
}

func declareRefused(f *fixture) {
	session := f.host("a")
	results := f.declare(session,
		f.hourly(func(s *pawl.Schedule) { s.Name, s.Kind = "x", "nobody.v1" }),
		f.hourly(func(s *pawl.Schedule) { s.Name, s.Spec = "y", "61 * * * *" }),
		f.hourly(),
		f.hourly(func(s *pawl.Schedule) { s.Name, s.Until = "z", time.Now().Add(-time.Hour) }),
	)
	f.fails("an unknown kind", results[0].Err, pawl.ErrInvalid)
	f.fails("a wrong spec", results[1].Err, pawl.ErrInvalid)
	f.ok("the others", errors.Join(results[2].Err, results[3].Err))
	page, err := f.store.Schedules(f.ctx, pawl.ScheduleFilter{}, pawl.Page{})
	f.ok("list", err)
	f.equal("listed", names(page), []string{nightly, "z"})
	f.holds("one whose end has passed has no tick", page.Schedules[1].Next.IsZero())
	f.closeSession(session)
	results = f.declare(session, f.hourly(func(s *pawl.Schedule) { s.Spec = "3h" }))
	f.holds("a session that has ended declares nothing", slices.ContainsFunc(results, func(d pawl.Declared) bool { return errors.Is(d.Err, pawl.ErrSessionLost) }))
}
