package storetest

import (
	"errors"
	"slices"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/schedule"
)

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
