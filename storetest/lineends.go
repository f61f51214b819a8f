package storetest

import (
	"github.com/pawljobs/pawl"
)

func deathLetsGo(f *fixture) {
	session := f.host("a")
	line := f.puts(2, pawl.OrderingKey("k"))
	f.die(session, f.orders("claimed", session, line[0])[0])
	f.orders("then", session, line[1])
}

func removalLetsGo(f *fixture) {
	session := f.host("a")
	line := f.puts(4, pawl.OrderingKey("k"))
	_, err := f.store.CancelJobs(f.ctx, line[:1], operator("cancel"))
	f.ok("cancel", err)
	job := f.orders("after a cancel", session, line[1])[0]
	errs, err := f.store.DeleteJobs(f.ctx, line[1:2], operator("delete"))
	f.allOK("delete", errs, err)
	f.failsOne("late acknowledgement", f.settleErrs(session, end(job, pawl.Done{})), nil, pawl.ErrLeaseLost)
	f.orders("after a delete", session, line[2])
	elsewhere := f.put(pawl.OrderingKey("k"), pawl.InQueue(bulk))
	_, err = f.store.ClearQueue(f.ctx, normal, operator("clear"))
	f.ok("clear", err)
	f.orders("after a clear of all that is in the queue", session, elsewhere)
}

func (f *fixture) settleErrs(session pawl.SessionID, settlements ...pawl.Settlement) []error {
	f.Helper()
	errs, err := f.store.Settle(f.ctx, session, settlements)
	f.ok("settle", err)
	return errs
}

func cancelledRunnerLetsGo(f *fixture) {
	session := f.host("a")
	line := f.puts(3, pawl.OrderingKey("k"))
	job := f.orders("claimed", session, line[0])[0]
	_, err := f.store.CancelJobs(f.ctx, line[:1], operator("cancel"))
	f.ok("cancel", err)
	f.claimNone("while it runs", session)
	f.settle(session, end(job, pawl.GiveBack{}))
	victim := f.host("b")
	f.orders("then", victim, line[1])
	_, err = f.store.CancelJobs(f.ctx, line[1:2], operator("cancel"))
	f.ok("cancel", err)
	f.kill(session, victim)
	f.orders("after its host's death", session, line[2])
}

func removedFromMiddle(f *fixture) {
	session := f.host("a")
	line := f.puts(4, pawl.OrderingKey("k"))
	_, err := f.store.CancelJobs(f.ctx, line[1:2], operator("cancel"))
	f.ok("cancel", err)
	errs, err := f.store.DeleteJobs(f.ctx, line[2:3], operator("delete"))
	f.allOK("delete", errs, err)
	f.settle(session, end(f.orders("claimed", session, line[0])[0], pawl.Done{}))
	f.orders("then", session, line[3])
}

func redriveJoinsAtEnd(f *fixture) {
	session := f.host("a")
	line := f.puts(2, pawl.OrderingKey("k"))
	letter := f.die(session, f.orders("claimed", session, line[0])[0])
	push := f.pushOf(letter, pawl.ActionRedrive)
	f.ok("redrive", f.tryMove(pawl.Move{Letter: letter.ID, Action: pawl.ActionRedrive, Push: push}))
	f.settle(session, end(f.orders("first", session, line[1])[0], pawl.Done{}))
	f.orders("then", session, push.ID)
}

func retriedLetterJoinsAtEnd(f *fixture) {
	session := f.host("a")
	line := f.puts(2, pawl.OrderingKey("k"))
	letter := f.die(session, f.orders("claimed", session, line[0])[0])
	f.ok("retry", f.tryMove(pawl.Move{Letter: letter.ID, Action: pawl.ActionRetry, Push: f.pushOf(letter, pawl.ActionRetry)}))
	f.settle(session, end(f.orders("first", session, line[1])[0], pawl.Done{}))
	f.orders("then", session, line[0])
}

func refusedAckMovesNobody(f *fixture) {
	observer, victim := f.host("a"), f.host("b")
	line := f.puts(2, pawl.OrderingKey("k"))
	lost := f.orders("claimed", victim, line[0])[0]
	f.kill(observer, victim)
	for _, late := range []pawl.Settlement{end(lost, pawl.Done{}), end(lost, pawl.Retry{}), f.death(lost)} {
		f.failsOne("late settlement", f.settleErrs(victim, late), nil, pawl.ErrLeaseLost)
		f.equal("jobs in front", ids(f.claim(observer, 5, onlyKinds())), []pawl.ID(nil))
	}
	f.orders("claimed", observer, line[0])
	f.claimNone("beside it", observer)
}
