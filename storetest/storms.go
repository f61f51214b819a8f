package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/pawljobs/pawl"
)

// When many die at once, a sink gets few messages, and each death is still accounted for in one of them.
func stormPromises() []promise {
	return []promise{
		{name: "2,000 deaths in a minute are a few messages, and each is marked", check: storm},
		{name: "a storm that goes on is one digest a window", check: longStorm},
		{name: "what a quiet sink gets after a storm is a message of its own", check: afterStorm},
		{name: "a digest that was cut off is repeated as it was", check: digestRepeated},
		{name: "hosts at the same time make one digest", check: stormRaced},
		{name: "one sink's storm is none of the other's", check: stormOfOne},
		{name: "a digest counts its largest groups", check: digestGroups},
		{name: "a forgotten letter leaves its digest", check: digestForgets},
		{name: "a death in a group that was resolved is a regression", check: regression},
		{name: "a digest tells of regressions", check: digestRegression},
	}
}

// many records n deaths of one fingerprint and returns their ids.
func (f *fixture) many(n int, changes ...func(*pawl.DeadLetter)) (ids []pawl.ID) {
	f.Helper()
	letters := make([]pawl.DeadLetter, n)
	for i := range letters {
		letters[i] = f.looseLetter(changes...)
		ids = append(ids, letters[i].ID)
	}
	f.record(letters...)
	return ids
}

// deliver sends all that a sink has now, and returns the messages.
func (f *fixture) deliver(session pawl.SessionID, sink string) (all []pawl.AlertTask) {
	f.Helper()
	for {
		tasks := f.claimAlerts(session, sink)
		if len(tasks) == 0 {
			return all
		}
		for _, task := range tasks {
			f.settleAlert(task, pawl.AlertResult{Delivered: true})
		}
		all = append(all, tasks...)
	}
}

// spread lets a storm begin: the alerts of the first deaths go out.
func (f *fixture) spread(session pawl.SessionID, sink string) {
	f.Helper()
	f.equal("single alerts", len(f.deliver(session, sink)), 30)
}

func (f *fixture) sinkView(name string) pawl.SinkView {
	f.Helper()
	sinks, err := f.store.Sinks(f.ctx)
	f.ok("sinks", err)
	for _, s := range sinks {
		if s.Name == name {
			return s
		}
	}
	f.Fatalf("there is no sink %s", name)
	return pawl.SinkView{}
}

func (f *fixture) alertOf(letter pawl.ID, sink string) pawl.AlertView {
	f.Helper()
	alerts, err := f.store.AlertsOf(f.ctx, letter)
	f.ok("alerts of "+letter.String(), err)
	for _, a := range alerts {
		if a.Sink == sink {
			return a
		}
	}
	f.Fatalf("letter %s has no alert for %s: %+v", letter, sink, alerts)
	return pawl.AlertView{}
}

func storm(f *fixture) {
	const deaths = 2000
	session := f.host("a", "mail")
	ids := f.many(deaths)
	singles := f.deliver(session, "mail")
	f.equal("single alerts", len(singles), 30)
	for _, task := range singles {
		f.holds("it is about one death", task.Digest == nil && len(task.Letters) == 1)
	}
	f.equal("messages within the window", len(f.deliver(session, "mail")), 0)
	f.equal("waiting", f.sinkView("mail").Pending, deaths-30)
	f.pass(time.Minute)
	digest := f.oneAlert(session, "mail")
	f.holds("it is a digest", digest.Digest != nil)
	f.equal("deaths in it", digest.Digest.Deaths, deaths-30)
	f.equal("groups", len(digest.Digest.Groups), 1)
	f.equal("deaths of the group", digest.Digest.Groups[0].Deaths, deaths-30)
	f.equal("waiting while it is sent", f.sinkView("mail").Pending, deaths-30)
	f.settleAlert(digest, pawl.AlertResult{Delivered: true})
	view := f.sinkView("mail")
	f.equal("pending and delivered", []int{view.Pending, view.Delivered}, []int{0, deaths})
	keys := map[string]int{}
	for i := 0; i < deaths; i += 7 {
		a := f.alertOf(ids[i], "mail")
		f.holds("it is marked as told", !a.Pending && !a.DeliveredAt.IsZero() && a.Key != "")
		keys[a.Key] = a.Deaths
	}
	f.equal("deaths of the digest's key", keys[digest.Key], deaths-30)
	f.pass(time.Hour)
	f.equal("messages later", len(f.claimAlerts(session, "mail")), 0)
}

func longStorm(f *fixture) {
	session := f.host("a", "mail")
	f.many(100)
	f.spread(session, "mail")
	for minute := range 4 {
		f.many(100)
		f.equal("messages within the window", len(f.claimAlerts(session, "mail")), 0)
		f.pass(time.Minute)
		tasks := f.deliver(session, "mail")
		f.equal(fmt.Sprint("messages of minute ", minute), len(tasks), 1)
	}
	f.pass(time.Minute)
	f.equal("pending in the end", f.sinkView("mail").Pending, 0)
}

func afterStorm(f *fixture) {
	session := f.host("a", "mail")
	f.many(40)
	f.spread(session, "mail")
	f.pass(time.Minute)
	f.equal("deaths of the digest", f.oneAlert(session, "mail").Digest.Deaths, 10)
	f.many(2) // ten were no storm any more
	tasks := f.claimAlerts(session, "mail")
	f.equal("messages", len(tasks), 2)
	f.holds("each is about one death", tasks[0].Digest == nil && tasks[1].Digest == nil)
	f.pass(time.Hour)
	f.many(30)
	f.equal("messages in an hour's window", len(f.claimAlerts(session, "mail")), 33)
}

func digestRepeated(f *fixture) {
	a, b, c := f.host("a", "mail"), f.host("b", "mail"), f.host("c", "mail")
	f.many(50)
	f.spread(a, "mail")
	f.pass(time.Minute)
	first := f.oneAlert(a, "mail")
	late := f.many(5)
	f.kill(b, a)
	second := f.claimAlerts(b, "mail")[0]
	f.equal("key", second.Key, first.Key)
	f.equal("what it tells", second.Digest, first.Digest)
	f.equal("attempt", second.Attempt, 2)
	f.pass(pawl.AlertLease + time.Second)
	third := f.claimAlerts(c, "mail")[0]
	f.equal("key after the lease", third.Key, first.Key)
	f.equal("deaths after the lease", third.Digest.Deaths, first.Digest.Deaths)
	f.holds("late deaths are in another message", f.alertOf(late[0], "mail").Key != first.Key)
	errs, err := f.store.SettleAlerts(f.ctx, []pawl.AlertResult{{Row: first.Row, Token: first.Token, Delivered: true}})
	f.failsOne("settle by the dead", errs, err, pawl.ErrLeaseLost)
	f.settleAlert(third, pawl.AlertResult{Delivered: true})
}

func stormRaced(f *fixture) {
	const deaths, claimers = 500, 6
	session := f.host("a", "mail")
	ids := f.many(deaths)
	claim := func() (all []pawl.AlertTask) {
		tasks, errs := make([][]pawl.AlertTask, claimers), make([]error, claimers)
		var group sync.WaitGroup
		for n := range claimers {
			group.Go(func() {
				for range 60 {
					more, err := f.store.ClaimAlerts(f.ctx, pawl.AlertClaim{Session: session, Sinks: []string{"mail"}, Max: 2})
					tasks[n], errs[n] = append(tasks[n], more...), err
					if err != nil || len(more) == 0 {
						return
					}
				}
			})
		}
		group.Wait()
		f.allOK("claim alerts", errs, nil)
		for _, list := range tasks {
			all = append(all, list...)
		}
		return all
	}
	keys := map[string]bool{}
	for _, task := range claim() {
		f.holds("a key is claimed once", !keys[task.Key])
		keys[task.Key] = true
	}
	f.equal("single alerts", len(keys), 30)
	f.pass(50 * time.Second)
	many := f.many(20)
	f.pass(10 * time.Second)
	digests := 0
	for _, task := range claim() {
		if task.Digest != nil {
			digests++
			f.equal("deaths", task.Digest.Deaths, deaths-30+20)
		}
	}
	f.equal("digests", digests, 1)
	f.equal("deaths in the message of the last", f.alertOf(many[19], "mail").Deaths, deaths-30+20)
	f.equal("deaths in the message of an early one", f.alertOf(ids[deaths-1], "mail").Deaths > 0, true)
}

func stormOfOne(f *fixture) {
	a := f.host("a", "mail")
	f.many(40)
	f.spread(a, "mail")
	b := f.host("b", "hook")
	id := f.many(1)[0]
	task := f.oneAlert(b, "hook")
	f.equal("letter", task.Letters[0].ID, id)
	f.equal("messages to the one in the storm", len(f.claimAlerts(a, "mail")), 0)
}

func digestGroups(f *fixture) {
	session := f.host("a", "mail")
	var letters []pawl.DeadLetter
	for group := range 25 {
		for range group + 1 {
			letters = append(letters, f.looseLetter(func(l *pawl.DeadLetter) { l.Fingerprint = fmt.Sprintf("1-%02d", group) }))
		}
	}
	f.many(31)
	f.spread(session, "mail")
	f.record(letters...)
	f.pass(time.Minute)
	d := f.oneAlert(session, "mail")
	f.equal("deaths", d.Digest.Deaths, len(letters)+1)
	f.equal("groups that are not listed", d.Digest.More, 6)
	f.equal("groups", len(d.Digest.Groups), pawl.DigestGroups)
	f.equal("letters", len(d.Letters), pawl.DigestGroups)
	for i, group := range d.Digest.Groups {
		f.equal("deaths of the group", group.Deaths, 25-i)
		f.equal("fingerprint", d.Letters[i].Fingerprint, fmt.Sprintf("1-%02d", 24-i))
		f.holds("times", !group.First.IsZero() && !group.Last.Before(group.First) && !group.First.Before(d.Digest.First) && !group.Last.After(d.Digest.Last))
		f.equal("first of the group", d.Letters[i].DeadAt, group.First)
	}
}

func digestForgets(f *fixture) {
	session := f.host("a", "mail")
	f.many(30)
	f.spread(session, "mail")
	ids := f.many(3)
	f.equal("messages within the window", len(f.claimAlerts(session, "mail")), 0)
	f.pass(time.Minute)
	first := f.oneAlert(session, "mail")
	f.equal("deaths", first.Digest.Deaths, 3)
	forget := func(id pawl.ID) {
		there, err := f.store.ForgetLetter(f.ctx, id, operator("test"))
		f.ok("forget", err)
		f.holds("it was there", there)
	}
	forget(ids[0])
	f.settleAlert(first, pawl.AlertResult{After: time.Minute, Error: "no"})
	f.equal("pending", f.sinkView("mail").Pending, 2)
	f.pass(time.Minute)
	f.equal("deaths of the repeat", f.oneAlert(session, "mail").Digest.Deaths, 2)
	forget(ids[1])
	forget(ids[2])
	f.pass(time.Hour)
	f.equal("messages about nothing", len(f.claimAlerts(session, "mail")), 0)
	f.equal("pending in the end", f.sinkView("mail").Pending, 0)
}

func (f *fixture) close(action pawl.Action, ids ...pawl.ID) {
	f.Helper()
	for _, id := range ids {
		f.move(pawl.Move{Letter: id, Action: action})
	}
}

func regression(f *fixture) {
	session := f.host("a", "mail")
	died := func() (bool, pawl.ID) {
		id := f.many(1)[0]
		f.pass(time.Second)
		task := f.oneAlert(session, "mail")
		f.settleAlert(task, pawl.AlertResult{Delivered: true})
		f.equal("it says the same later", f.alertOf(id, "mail").Regression, task.Regression)
		return task.Regression, id
	}
	again, first := died()
	f.equal("the first of its group", again, false)
	again, second := died()
	f.equal("while it is open", again, false)
	f.close(pawl.ActionResolve, first, second)
	again, third := died()
	f.equal("after it was resolved", again, true)
	again, fourth := died()
	f.equal("the next one", again, false)
	f.close(pawl.ActionDiscard, third, fourth)
	again, _ = died()
	f.equal("after it was discarded", again, false)
}

func digestRegression(f *fixture) {
	session := f.host("a", "mail")
	other := func(l *pawl.DeadLetter) { l.Fingerprint = "1-other" }
	old := f.many(1, other)
	f.many(30)
	f.spread(session, "mail")
	f.close(pawl.ActionResolve, old...)
	f.many(3)
	f.many(2, other)
	f.close(pawl.ActionResolve, f.many(1, func(l *pawl.DeadLetter) { l.Fingerprint = "1-late" })...)
	f.equal("messages within the window", len(f.claimAlerts(session, "mail")), 0)
	f.pass(time.Minute)
	task := f.oneAlert(session, "mail")
	f.holds("the message says so", task.Regression)
	got := map[string]bool{}
	for i, group := range task.Digest.Groups {
		got[task.Letters[i].Fingerprint] = group.Regression
	}
	f.equal("groups that say so", len(got), 3)
	f.equal("of the resolved group", got["1-other"], true)
	f.equal("of the one that was resolved later", got["1-late"], false)
}
