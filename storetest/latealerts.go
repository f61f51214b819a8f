package storetest

import (
	"time"

	"github.com/pawljobs/pawl"
)

// What a sink did not take in AlertTries tries is told of hourly, in one digest.
func latePromises() []promise {
	return []promise{
		{name: "messages that failed often become one digest", check: lateDigest},
		{name: "a digest to which nothing is added keeps its key", check: lateDigestKeeps},
		{name: "what failed since joins the digest", check: lateDigestGrows},
		{name: "closed letters leave the digest", check: lateDigestShrinks},
		{name: "a late delivery that was cut off is repeated as it was", check: lateDigestCutOff},
		{name: "what has not failed often is left alone", check: lateDigestIsPatient},
	}
}

// fail lets what a sink has now fail, once.
func (f *fixture) fail(session pawl.SessionID, sink string) (tasks []pawl.AlertTask) {
	f.Helper()
	tasks = f.claimAlerts(session, sink)
	for _, task := range tasks {
		f.settleAlert(task, pawl.AlertResult{After: pawl.AlertBackoff(task.Attempt), Error: "451 try later"})
	}
	return tasks
}

// exhaust lets what a sink has now fail as often as it is sent by itself.
func (f *fixture) exhaust(session pawl.SessionID, sink string, messages int) {
	f.Helper()
	for range pawl.AlertTries {
		f.equal("messages", len(f.fail(session, sink)), messages)
		f.pass(10 * time.Minute)
	}
}

func lateDigest(f *fixture) {
	session := f.host("a", "mail")
	f.many(3)
	f.exhaust(session, "mail", 3)
	f.equal("messages within the hour", len(f.claimAlerts(session, "mail")), 0)
	f.equal("pending", f.sinkView("mail").Pending, 3)
	f.equal("last error", f.sinkView("mail").LastError, "451 try later")
	f.pass(50 * time.Minute)
	task := f.oneAlert(session, "mail")
	f.equal("deaths", task.Digest.Deaths, 3)
	f.equal("attempt", task.Attempt, pawl.AlertTries+1)
	f.settleAlert(task, pawl.AlertResult{Delivered: true})
	view := f.sinkView("mail")
	f.equal("pending and delivered", []int{view.Pending, view.Delivered}, []int{0, 3})
	f.pass(2 * time.Hour)
	f.equal("messages later", len(f.claimAlerts(session, "mail")), 0)
}

func lateDigestKeeps(f *fixture) {
	session := f.host("a", "mail")
	ids := f.many(2)
	f.exhaust(session, "mail", 2)
	f.pass(time.Hour)
	first := f.fail(session, "mail")
	for range 3 {
		f.pass(time.Hour)
		again := f.fail(session, "mail")
		f.equal("messages", len(again), 1)
		f.equal("key", again[0].Key, first[0].Key)
		f.equal("deaths", again[0].Digest.Deaths, first[0].Digest.Deaths)
	}
	f.equal("key of a letter", f.alertOf(ids[0], "mail").Key, first[0].Key)
}

func lateDigestGrows(f *fixture) {
	session := f.host("a", "mail")
	ids := f.many(2)
	f.exhaust(session, "mail", 2)
	f.pass(time.Hour)
	first := f.fail(session, "mail")[0]
	f.many(1)
	f.exhaust(session, "mail", 1) // an hour
	second := f.fail(session, "mail")
	f.equal("messages", len(second), 1)
	f.equal("deaths", second[0].Digest.Deaths, 3)
	f.holds("another content has another key", second[0].Key != first.Key)
	f.equal("key of a letter", f.alertOf(ids[0], "mail").Key, second[0].Key)
	f.equal("pending", f.sinkView("mail").Pending, 3)
}

func lateDigestShrinks(f *fixture) {
	session := f.host("a", "mail")
	ids := f.many(4)
	f.exhaust(session, "mail", 4)
	f.pass(time.Hour)
	first := f.fail(session, "mail")[0]
	f.equal("deaths", first.Digest.Deaths, 4)
	f.close(pawl.ActionResolve, ids[0])
	f.close(pawl.ActionDiscard, ids[1])
	f.pass(time.Hour)
	second := f.fail(session, "mail")
	f.equal("messages", len(second), 1)
	f.equal("deaths left", second[0].Digest.Deaths, 2)
	f.holds("another content has another key", second[0].Key != first.Key)
	f.equal("pending", f.sinkView("mail").Pending, 2)
	closed := f.alertOf(ids[0], "mail")
	f.holds("a closed one is neither pending nor told", !closed.Pending && closed.DeliveredAt.IsZero() && closed.Key == first.Key)
	f.close(pawl.ActionResolve, ids[2], ids[3])
	f.pass(time.Hour)
	f.equal("messages about closed letters", len(f.claimAlerts(session, "mail")), 0)
	view := f.sinkView("mail")
	f.equal("pending and delivered", []int{view.Pending, view.Delivered}, []int{0, 0})
	f.equal("error of nothing pending", view.LastError, "")
}

func lateDigestCutOff(f *fixture) {
	a, b := f.host("a", "mail"), f.host("b", "mail")
	ids := f.many(2)
	f.exhaust(a, "mail", 2)
	f.pass(time.Hour)
	first := f.oneAlert(a, "mail")
	f.close(pawl.ActionResolve, ids...) // while nobody knows whether it was delivered
	f.kill(b, a)
	second := f.oneAlert(b, "mail")
	f.equal("key", second.Key, first.Key)
	f.equal("what it tells", second.Digest, first.Digest)
	f.settleAlert(second, pawl.AlertResult{After: time.Hour, Error: "no"})
	f.pass(time.Hour)
	f.equal("messages once that is known", len(f.claimAlerts(b, "mail")), 0)
}

func lateDigestIsPatient(f *fixture) {
	session := f.host("a", "mail")
	f.many(2)
	f.exhaust(session, "mail", 2)
	fresh := f.many(1)[0]
	task := f.fail(session, "mail")
	f.equal("messages", len(task), 1)
	f.equal("letter", task[0].Letters[0].ID, fresh)
	f.pass(time.Hour)
	tasks := f.claimAlerts(session, "mail")
	f.equal("messages", len(tasks), 2)
	for _, task := range tasks {
		f.equal("the digest is the late one", task.Digest != nil, task.Attempt > pawl.AlertTries)
		f.holds("the fresh one is not in it", task.Digest == nil || task.Digest.Deaths == 2)
	}
}
