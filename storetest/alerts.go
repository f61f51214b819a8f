package storetest

import (
	"slices"
	"sync"
	"time"

	"github.com/pawljobs/pawl"
)

// A death writes one alert row for each sink that a host has registered by then. Rows are leased to one host at a time.
func alertPromises() []promise {
	return []promise{
		{name: "one row for every registered sink", check: alertPerSink},
		{name: "sinks registered later hear of later deaths only", check: lateSink},
		{name: "sinks stay registered when their host has gone", check: sinksStay},
		{name: "a claim leases, exclusively", check: alertsLeased},
		{name: "claimers at the same time share no row", check: alertsRaced},
		{name: "a claim is bounded for each sink", check: alertsBounded},
		{name: "a lease ends by itself", check: alertLeaseEnds},
		{name: "a lease ends with its session", check: alertLeaseOfTheDead},
		{name: "settling is fenced by the lease", check: alertsFenced},
		{name: "a delivered alert never comes again", check: alertDelivered},
		{name: "a failed alert is due again after its wait", check: alertFailed},
		{name: "keys are stable over repeats and tell deliveries apart", check: alertKeys},
		{name: "sinks are counted", check: sinksCounted},
		{name: "a sink whose hosts are gone is forgotten", check: sinkForgotten},
		{name: "a sink that no host has had for a week is retired", check: sinkRetired},
		{name: "a sink that a host has is not retired", check: sinkNotRetired},
		{name: "only a sink that no host has is forgotten", check: sinkKept},
	}
}

func (f *fixture) claimAlerts(session pawl.SessionID, sinks ...string) []pawl.AlertTask {
	f.Helper()
	tasks, err := f.store.ClaimAlerts(f.ctx, pawl.AlertClaim{Session: session, Sinks: sinks, Max: 100})
	f.ok("claim alerts", err)
	return tasks
}

func (f *fixture) oneAlert(session pawl.SessionID, sink string) pawl.AlertTask {
	f.Helper()
	tasks := f.claimAlerts(session, sink)
	f.equal("alerts", len(tasks), 1)
	return tasks[0]
}

func (f *fixture) settleAlert(task pawl.AlertTask, result pawl.AlertResult) {
	f.Helper()
	result.Row, result.Token = task.Row, task.Token
	errs, err := f.store.SettleAlerts(f.ctx, []pawl.AlertResult{result})
	f.failsOne("settle alert", errs, err, nil)
}

func alertPerSink(f *fixture) {
	a := f.host("a", "mail", "hook")
	f.host("b", "mail") // a second host with a sink adds no second row
	letter := f.dead(a)
	tasks := f.claimAlerts(a, "mail", "hook", "unknown")
	var sinks []string
	for _, task := range tasks {
		sinks = append(sinks, task.Sink)
		f.equal("attempt", task.Attempt, 1)
		f.holds("the token is drawn", task.Token != 0)
		f.equal("letter", task.Letters[0].ID, letter.ID)
		f.equal("message in the letter", task.Letters[0].Message, letter.Message)
		f.equal("reason in the letter", task.Letters[0].Reason, letter.Reason)
	}
	slices.Sort(sinks)
	f.equal("sinks", sinks, []string{"hook", "mail"})
}

func lateSink(f *fixture) {
	a := f.host("a")
	f.dead(a)
	b := f.host("b", "mail")
	f.equal("alerts of the early death", len(f.claimAlerts(b, "mail")), 0)
	letter := f.dead(a)
	f.equal("letter", f.oneAlert(b, "mail").Letters[0].ID, letter.ID)
}

func sinksStay(f *fixture) {
	a := f.host("a")
	f.closeSession(f.host("b", "mail"))
	letter := f.dead(a)
	f.equal("letter", f.oneAlert(f.host("c", "mail"), "mail").Letters[0].ID, letter.ID)
}

func alertsLeased(f *fixture) {
	a, b := f.host("a", "mail"), f.host("b", "mail")
	f.dead(a)
	f.oneAlert(a, "mail")
	f.equal("alerts for another", len(f.claimAlerts(b, "mail")), 0)
	f.equal("alerts for the same", len(f.claimAlerts(a, "mail")), 0)
}

func alertsRaced(f *fixture) {
	const deaths, claimers = 30, 6
	session := f.host("a", "mail")
	for range deaths {
		f.record(f.looseLetter())
	}
	tasks, errs := make([][]pawl.AlertTask, claimers), make([]error, claimers)
	var group sync.WaitGroup
	for n := range claimers {
		group.Go(func() {
			for range deaths {
				more, err := f.store.ClaimAlerts(f.ctx, pawl.AlertClaim{Session: session, Sinks: []string{"mail"}, Max: 3})
				tasks[n] = append(tasks[n], more...)
				if err != nil || len(more) == 0 {
					errs[n] = err
					return
				}
			}
		})
	}
	group.Wait()
	f.allOK("claim alerts", errs, nil)
	seen := map[int64]bool{}
	for _, task := range slices.Concat(tasks...) {
		f.holds("a row is leased once", !seen[task.Row])
		seen[task.Row] = true
	}
	f.equal("rows", len(seen), deaths)
}

func alertsBounded(f *fixture) {
	session := f.host("a", "mail", "hook")
	var want []pawl.ID
	for range 4 {
		letter := f.looseLetter()
		f.record(letter)
		want = append(want, letter.ID)
	}
	tasks, err := f.store.ClaimAlerts(f.ctx, pawl.AlertClaim{Session: session, Sinks: []string{"mail", "hook"}, Max: 3})
	f.ok("claim alerts", err)
	got := map[string][]pawl.ID{}
	for _, task := range tasks {
		got[task.Sink] = append(got[task.Sink], task.Letters[0].ID)
	}
	f.equal("oldest first", got, map[string][]pawl.ID{"mail": want[:3], "hook": want[:3]})
}

func alertLeaseEnds(f *fixture) {
	a, b := f.host("a", "mail"), f.host("b", "mail")
	f.dead(a)
	first := f.oneAlert(a, "mail")
	f.pass(pawl.AlertLease - 10*time.Second)
	f.equal("alerts before the lease ends", len(f.claimAlerts(b, "mail")), 0)
	f.pass(11 * time.Second)
	second := f.oneAlert(b, "mail")
	f.equal("row", second.Row, first.Row)
	f.equal("attempt", second.Attempt, 2)
	f.holds("the token is another", second.Token != first.Token)
}

func alertLeaseOfTheDead(f *fixture) {
	a, b, c := f.host("a", "mail"), f.host("b", "mail"), f.host("c", "mail")
	f.dead(a)
	first := f.oneAlert(a, "mail")
	f.kill(b, a)
	second := f.oneAlert(b, "mail")
	f.equal("attempt", second.Attempt, 2)
	errs, err := f.store.SettleAlerts(f.ctx, []pawl.AlertResult{{Row: first.Row, Token: first.Token, Delivered: true}})
	f.failsOne("settle by the dead", errs, err, pawl.ErrLeaseLost)
	f.closeSession(b)
	f.equal("attempt", f.oneAlert(c, "mail").Attempt, 3)
}

func alertsFenced(f *fixture) {
	a, b := f.host("a", "mail"), f.host("b", "mail")
	f.dead(a)
	old := f.oneAlert(a, "mail")
	f.pass(pawl.AlertLease + time.Second)
	task := f.oneAlert(b, "mail")
	for _, result := range []pawl.AlertResult{
		{Row: old.Row, Token: old.Token, Delivered: true},
		{Row: old.Row, Token: old.Token, Error: "late"},
		{Row: task.Row, Token: 0, Delivered: true},
		{Row: task.Row + 1000, Token: task.Token, Delivered: true},
	} {
		errs, err := f.store.SettleAlerts(f.ctx, []pawl.AlertResult{result})
		f.failsOne("settle alert", errs, err, pawl.ErrLeaseLost)
	}
	f.settleAlert(task, pawl.AlertResult{Delivered: true})
	errs, err := f.store.SettleAlerts(f.ctx, []pawl.AlertResult{{Row: task.Row, Token: task.Token, Error: "again"}})
	f.failsOne("settle alert again", errs, err, pawl.ErrLeaseLost)
}

func alertDelivered(f *fixture) {
	a := f.host("a", "mail")
	f.dead(a)
	f.settleAlert(f.oneAlert(a, "mail"), pawl.AlertResult{Delivered: true})
	f.pass(48 * time.Hour)
	f.sweep(a)
	f.equal("alerts", len(f.claimAlerts(a, "mail")), 0)
}

func alertFailed(f *fixture) {
	a := f.host("a", "mail")
	f.dead(a)
	for attempt := 1; attempt <= 3; attempt++ {
		task := f.oneAlert(a, "mail")
		f.equal("attempt", task.Attempt, attempt)
		f.settleAlert(task, pawl.AlertResult{After: 10 * time.Minute, Error: "451 try later"})
		f.equal("alerts at once", len(f.claimAlerts(a, "mail")), 0)
		f.pass(9 * time.Minute)
		f.equal("alerts a minute early", len(f.claimAlerts(a, "mail")), 0)
		f.pass(2 * time.Minute)
	}
	f.oneAlert(a, "mail")
}

func alertKeys(f *fixture) {
	a := f.host("a", "mail", "hook")
	f.dead(a)
	f.dead(a)
	keys := map[int64]string{}
	distinct := map[string]bool{}
	tasks := f.claimAlerts(a, "mail", "hook")
	f.equal("alerts", len(tasks), 4)
	for _, task := range tasks {
		f.holds("there is a key", task.Key != "")
		keys[task.Row], distinct[task.Key] = task.Key, true
	}
	f.equal("keys", len(distinct), 4)
	f.pass(pawl.AlertLease + time.Second)
	for _, task := range f.claimAlerts(a, "mail", "hook") {
		f.equal("key of a repeat", task.Key, keys[task.Row])
	}
}

func sinksCounted(f *fixture) {
	sinks := func() map[string]pawl.SinkView {
		views, err := f.store.Sinks(f.ctx)
		f.ok("sinks", err)
		out := map[string]pawl.SinkView{}
		for _, view := range views {
			out[view.Name] = view
		}
		return out
	}
	f.equal("sinks", sinks(), map[string]pawl.SinkView{})
	a := f.host("a", "mail", "hook")
	f.equal("fresh sinks", sinks(), map[string]pawl.SinkView{"mail": {Name: "mail"}, "hook": {Name: "hook"}})
	f.dead(a)
	f.pass(time.Hour)
	f.dead(a)
	tasks := f.claimAlerts(a, "mail")
	f.settleAlert(tasks[0], pawl.AlertResult{Delivered: true})
	f.settleAlert(tasks[1], pawl.AlertResult{After: time.Hour, Error: "451 try later"})
	got := sinks()
	for name, view := range got {
		f.holds("age of the oldest pending one", view.OldestAge >= 0 && view.OldestAge < time.Hour+patience)
		f.equal("it is the early one of "+name, view.OldestAge >= time.Hour, name == "hook")
		view.OldestAge = 0
		got[name] = view
	}
	f.equal("sinks", got, map[string]pawl.SinkView{
		"mail": {Name: "mail", Pending: 1, Delivered: 1, LastError: "451 try later"}, "hook": {Name: "hook", Pending: 2},
	})
}
