package storetest

import (
	"time"

	"github.com/pawljobs/pawl"
)

const day = 24 * time.Hour

// retirements are the lines in the trail that say that a sink was retired.
func (f *fixture) retirements() []pawl.AuditEntry {
	f.Helper()
	return f.audit(pawl.AuditFilter{Action: pawl.ActionRetire})
}

func sinkRetired(f *fixture) {
	gone, session := f.host("a", "old", "mail"), f.host("b", "mail")
	f.dead(session)
	f.closeSession(gone)
	f.sweep(session)
	f.pass(6*day + 20*time.Hour)
	f.sweep(session)
	f.equal("retired before the time", f.sinkView("old").RetiredAt.IsZero(), true)
	f.pass(5 * time.Hour)
	f.sweep(session)
	f.sweep(session)
	f.equal("retired", f.sinkView("old").RetiredAt.IsZero(), false)
	f.equal("the sink of a live host", f.sinkView("mail").RetiredAt.IsZero(), true)
	lines := f.retirements()
	f.equal("lines in the trail", len(lines), 1)
	f.equal("line", []string{lines[0].Who, lines[0].Door, lines[0].Subject, lines[0].From, lines[0].To, lines[0].Outcome, lines[0].Why},
		[]string{"pawl", "pawl", "sink old", "registered", "retired", "1 undelivered", "no host has had it for 7 days"})
	later := f.dead(session)
	alerts, err := f.store.AlertsOf(f.ctx, later.ID)
	f.ok("alerts of a later death", err)
	f.equal("sinks of a later death", len(alerts) == 1 && alerts[0].Sink == "mail", true)
	f.equal("what it was not told of", f.sinkView("old").Pending, 1)

	back := f.host("c", "old")
	f.equal("registered again", f.sinkView("old").RetiredAt.IsZero(), true)
	f.dead(session)
	f.equal("what it hears of", len(f.claimAlerts(back, "old")), 2)
	f.sweep(session)
	f.equal("lines in the trail after it came back", len(f.retirements()), 1)
}

func sinkNotRetired(f *fixture) {
	held, session := f.host("a", "mail"), f.host("b")
	f.pass(8 * day)
	f.sweep(session)
	f.equal("the sink of a host that goes on", f.sinkView("mail").RetiredAt.IsZero(), true)
	f.closeSession(held)
	f.sweep(session)
	f.pass(30 * time.Minute)
	f.closeSession(session)

	// After an outage of all hosts for a fortnight, the first one back leaves the others time.
	f.pass(14 * day)
	first := f.host("b")
	f.sweep(first)
	f.pass(50 * time.Minute)
	f.sweep(first)
	f.equal("before the others had time", f.sinkView("mail").RetiredAt.IsZero(), true)
	second := f.host("a", "mail")
	f.pass(time.Hour)
	f.sweep(first)
	f.equal("of a host that came back", f.sinkView("mail").RetiredAt.IsZero(), true)
	f.closeSession(second)
	f.pass(8 * day)
	_, err := f.store.ForgetSink(f.ctx, "mail", operator("test"))
	f.ok("forget", err)
	f.sweep(first)
	f.equal("lines in the trail", len(f.retirements()), 0)
}
