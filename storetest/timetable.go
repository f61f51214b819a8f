package storetest

import (
	"encoding/json"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/schedule"
)

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
