package storetest

import "github.com/pawljobs/pawl"

func (f *fixture) sinkNames() (names []string) {
	f.Helper()
	sinks, err := f.store.Sinks(f.ctx)
	f.ok("sinks", err)
	for _, sink := range sinks {
		names = append(names, sink.Name)
	}
	return names
}

func sinkForgotten(f *fixture) {
	gone, session := f.host("a", "old", "mail"), f.host("b", "mail")
	told := f.dead(session)
	for _, task := range f.claimAlerts(gone, "old") {
		f.settleAlert(task, pawl.AlertResult{Delivered: true})
	}
	f.dead(session) // waits for a message
	f.dead(session)
	f.equal("claimed", len(f.claimAlerts(gone, "old")), 2) // and its host dies
	f.dead(session)
	f.closeSession(gone)
	undelivered, err := f.store.ForgetSink(f.ctx, "old", operator("it was moved"))
	f.ok("forget", err)
	f.equal("undelivered", undelivered, 3)
	f.equal("sinks", f.sinkNames(), []string{"mail"})
	later := f.dead(session)
	alerts, err := f.store.AlertsOf(f.ctx, later.ID)
	f.ok("alerts of a later death", err)
	f.equal("sinks of a later death", len(alerts), 1)
	alerts, err = f.store.AlertsOf(f.ctx, told.ID)
	f.ok("alerts of an earlier death", err)
	f.equal("what it was told of stays", len(alerts) == 2 && !alerts[1].DeliveredAt.IsZero(), true)
	f.equal("the other sink's", len(f.claimAlerts(session, "mail")), 5)
	entries := f.audit(pawl.AuditFilter{Subject: "sink old"})
	f.equal("lines in the trail", len(entries), 1)
	f.equal("line", []string{string(entries[0].Action), entries[0].To, entries[0].Outcome}, []string{"forget", "forgotten", "3 undelivered"})

	back := f.host("c", "old")
	f.dead(session)
	f.equal("registered again, it hears of what dies from then on", len(f.claimAlerts(back, "old")), 1)
}

func sinkKept(f *fixture) {
	session := f.host("a", "mail")
	_, err := f.store.ForgetSink(f.ctx, "mail", operator("test"))
	f.fails("of a live host", err, pawl.ErrConflict)
	_, err = f.store.ForgetSink(f.ctx, "Mail", operator("test"))
	f.fails("misspelt", err, pawl.ErrNotFound)
	_, err = f.store.ForgetSink(f.ctx, "mail", pawl.By{})
	f.fails("nobody", err, pawl.ErrInvalid)
	f.equal("sinks", f.sinkNames(), []string{"mail"})
	f.equal("lines in the trail", len(f.audit(pawl.AuditFilter{})), 0)
	f.dead(session)
	f.equal("alerts", len(f.claimAlerts(session, "mail")), 1)
}
