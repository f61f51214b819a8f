package storetest

import (
	"slices"
	"sync"
	"time"

	"github.com/pawljobs/pawl"
)

// A batch is followed by one job, once, when all of its members have ended.
func batchPromises() []promise {
	return []promise{
		{name: "one job follows when all members are done, and knows it", check: batchAllDone},
		{name: "those that died and those that were removed are counted apart", check: batchCountsApart},
		{name: "a retry, a release, a give-back and a crash end no member", check: batchNothingEnds},
		{name: "a running member adds members", check: batchGrows},
		{name: "a member's follow-ups join the batch with its end", check: batchFollowUps},
		{name: "nothing joins a batch that has ended, or never was", check: batchTooLate},
		{name: "a repeat opens nothing and joins nothing", check: batchRepeats},
		{name: "a batch without members is over at once", check: batchEmpty},
		{name: "what is no member of the batch does not count", check: batchOthers},
		{name: "a redrive and a retry of a letter are no members", check: batchRedriven},
		{name: "what follows is redriven with its counts", check: batchFollowerRedriven},
		{name: "a job that a unique key kept out is no member", check: batchUnique},
		{name: "members may stand in line", check: batchInLine},
		{name: "many batches end at once", check: batchMany},
		{name: "a death that another host buries is counted once", check: batchVerdict},
		{name: "who adds while the last member ends is counted or refused", check: batchRace},
		{name: "whatever becomes of members on two hosts, each batch is followed once, with its counts", check: batchStorm},
		{name: "a clear, and a cancel of what runs, remove members", check: batchCleared},
		{name: "a cancel of what was to follow leaves the members", check: batchCancelled},
		{name: "an erase finds what was to follow, and nothing is kept of it after the end", check: batchErased},
		{name: "what follows has its delay from the end", check: batchDelay},
		{name: "what follows may be limited", check: batchLimited},
		{name: "members that end at the same time on two hosts are followed once", check: batchTwoHosts},
		{name: "a transaction that is rolled back opens and adds nothing", check: batchRolledBack},
		{name: "a batch that a transaction fills does not end before the commit", check: batchInTransaction},
		{name: "whoever adds members in a transaction holds the batch open", check: batchHeldOpen},
		{name: "a batch is forgotten a day after its end", check: batchForgotten},
		{name: "a follower that cannot follow is refused", check: batchRefused},
	}
}

func (f *fixture) batch(id pawl.ID) pawl.Batch {
	f.Helper()
	batch, err := f.store.Batch(f.ctx, id)
	f.ok("batch", err)
	return batch
}

// open opens a batch that otherKind follows.
func (f *fixture) open(members ...pawl.NewJob) pawl.ID {
	f.Helper()
	result, err := pawl.NewKind[int](otherKind, pawl.Policy{}).EnqueueAfter(f.ctx, f.store, members, 7)
	f.ok("open batch", err)
	f.equal("status", result.Status, pawl.Accepted)
	return result.ID
}

// openOf opens a batch with n members.
func (f *fixture) openOf(n int) pawl.ID {
	f.Helper()
	members := make([]pawl.NewJob, n)
	for i := range members {
		members[i] = f.job()
	}
	return f.open(members...)
}

// follows claims the job that follows a batch, and nothing else.
func (f *fixture) follows(session pawl.SessionID, batch pawl.ID, done, dead, removed int) pawl.ClaimedJob {
	f.Helper()
	f.sweep(session)
	jobs := f.claim(session, 10)
	for end := time.Now().Add(time.Minute); len(jobs) == 0 && time.Now().Before(end); jobs = f.claim(session, 10) {
		time.Sleep(time.Millisecond) // another host may be counting: then the sweep has left it to that one
		f.sweep(session)
	}
	f.equal("what follows", ids(jobs), []pawl.ID{batch})
	e, err := pawl.DecodeEnvelope(jobs[0].Envelope)
	f.ok("envelope", err)
	want := pawl.BatchEnd{Batch: batch, Done: done, Dead: dead, Removed: removed}
	f.equal("how members ended", e.After, want)
	f.equal("origin", e.Origin, pawl.Origin{Source: pawl.OriginBatch, Ref: batch.String()})
	view := f.batch(batch)
	f.equal("the batch", view.BatchEnd, want)
	f.equal("ended", !view.EndedAt.IsZero(), true)
	return jobs[0]
}

func (f *fixture) done(session pawl.SessionID, jobs ...pawl.ClaimedJob) {
	f.Helper()
	for _, job := range jobs {
		f.settle(session, end(job, pawl.Done{}))
	}
}

func batchAllDone(f *fixture) {
	session := f.host("a")
	batch := f.openOf(3)
	jobs := f.claimExactly(session, 3)
	f.done(session, jobs[:2]...)
	view := f.batch(batch)
	f.equal("members and done", []int{view.Members, view.Done, view.Pending()}, []int{3, 2, 1})
	f.sweep(session)
	f.claimNone("while one runs", session)
	f.done(session, jobs[2])
	follower := f.follows(session, batch, 3, 0, 0)
	f.equal("kind", follower.Kind, otherKind)
	f.done(session, follower)
	f.sweep(session)
	f.claimNone("after it", session)
	view = f.batch(batch)
	f.equal("members", []int{view.Members, view.Done, view.Pending()}, []int{3, 3, 0})
	f.equal("kind and queue", view.Kind+" "+view.Queue, otherKind+" "+normal)
}

func batchCountsApart(f *fixture) {
	session := f.host("a")
	batch := f.openOf(4)
	jobs := f.claimExactly(session, 2)
	f.die(session, jobs[0])
	f.done(session, jobs[1])
	by := pawl.By{Who: "ada"}
	waiting := ids(f.claimExactly(session, 2))
	_, err := f.store.DeleteJobs(f.ctx, waiting[:1], by)
	f.ok("delete", err)
	_, err = f.store.DeleteJobs(f.ctx, waiting[1:], by)
	f.ok("delete", err)
	f.follows(session, batch, 1, 1, 2)
}

func batchNothingEnds(f *fixture) {
	session := f.host("a")
	batch := f.openOf(1)
	for _, outcome := range []pawl.Outcome{pawl.Retry{}, pawl.Release{}, pawl.GiveBack{}, pawl.Retry{After: time.Hour}} {
		f.settle(session, end(f.claimOne(session), outcome))
		f.sweep(session)
	}
	f.claimNone("while the member waits", session)
	f.pass(2 * time.Hour)
	session = f.host("c")
	f.sweep(session)
	victim := f.host("d")
	f.claimOne(victim)
	f.kill(session, victim)
	f.done(session, f.claimOne(session))
	f.follows(session, batch, 1, 0, 0)
}

func batchGrows(f *fixture) {
	session := f.host("a")
	batch := f.openOf(1)
	first := f.claimOne(session)
	f.equal("added", len(f.puts(2, pawl.InBatch(batch))), 2)
	f.done(session, first)
	two := f.claimExactly(session, 2)
	f.done(session, two[0])
	f.put(pawl.InBatch(batch), pawl.Delay(time.Hour), pawl.OrderingKey("k"))
	f.done(session, two[1])
	f.sweep(session)
	f.claimNone("while one is scheduled", session)
	f.pass(2 * time.Hour)
	session = f.host("b")
	f.sweep(session)
	f.done(session, f.claimOne(session))
	f.follows(session, batch, 4, 0, 0)
}

func batchFollowUps(f *fixture) {
	session := f.host("a")
	batch := f.openOf(1)
	last := end(f.claimOne(session), pawl.Done{})
	last.Enqueue = []pawl.NewJob{f.job(pawl.InBatch(batch))}
	f.settle(session, last)
	f.done(session, f.claimOne(session))
	follower := end(f.follows(session, batch, 2, 0, 0), pawl.Done{})
	follower.Enqueue = []pawl.NewJob{f.job(pawl.InBatch(batch))}
	errs, err := f.store.Settle(f.ctx, session, []pawl.Settlement{follower})
	f.ok("settle", err)
	f.fails("a follow-up that comes too late", errs[0], pawl.ErrBatchEnded)
}

func batchTooLate(f *fixture) {
	session := f.host("a")
	batch := f.openOf(1)
	f.done(session, f.claimOne(session))
	f.follows(session, batch, 1, 0, 0)
	before := f.everything()
	for _, id := range []pawl.ID{batch, pawl.NewID()} {
		_, err := f.store.Enqueue(f.ctx, []pawl.NewJob{f.job(), f.job(pawl.InBatch(id))})
		f.fails("too late", err, pawl.ErrBatchEnded)
	}
	f.equal("everything", f.everything(), before)
}

func batchRepeats(f *fixture) {
	session := f.host("a")
	kind := pawl.NewKind[int](otherKind, pawl.Policy{})
	batch, members := pawl.NewID(), []pawl.NewJob{f.job(), f.job()}
	for _, want := range []pawl.EnqueueStatus{pawl.Accepted, pawl.Repeated} {
		result, err := kind.EnqueueAfter(f.ctx, f.store, members, 7, pawl.WithID(batch))
		f.ok("open", err)
		f.equal("result", result, pawl.Enqueued{ID: batch, Status: want})
	}
	jobs := f.claimExactly(session, 2)
	f.done(session, jobs...)
	follower := f.follows(session, batch, 2, 0, 0)
	late, err := kind.EnqueueAfter(f.ctx, f.store, members, 7, pawl.WithID(batch))
	f.ok("repeat after the end", err)
	f.equal("result after the end", late.Status, pawl.Repeated)
	f.done(session, follower)
	f.sweep(session)
	f.claimNone("after all", session)
	f.equal("members", f.batch(batch).Members, 2)
}

func batchEmpty(f *fixture) {
	session := f.host("a")
	batch := f.open()
	f.done(session, f.follows(session, batch, 0, 0, 0))
}

func batchOthers(f *fixture) {
	session := f.host("a")
	f.put()
	f.done(session, f.claimOne(session))
	other := f.openOf(1)
	job := f.claimOne(session)
	batch := f.openOf(1)
	f.done(session, f.claimOne(session))
	f.follows(session, batch, 1, 0, 0)
	f.equal("the other is open", f.batch(other).EndedAt.IsZero(), true)
	f.done(session, job)
	f.follows(session, other, 1, 0, 0)
}

func batchDelay(f *fixture) {
	session := f.host("a")
	result, err := pawl.NewKind[int](otherKind, pawl.Policy{}).EnqueueAfter(f.ctx, f.store, nil, 7, pawl.Delay(time.Hour))
	f.ok("open", err)
	f.sweep(session)
	f.claimNone("before its delay is over", session)
	f.equal("state", f.view(result.ID).State, pawl.JobScheduled)
	f.pass(2 * time.Hour)
	session = f.host("b")
	f.follows(session, result.ID, 0, 0, 0)
}

func batchLimited(f *fixture) {
	session := f.host("a")
	kind := pawl.NewKind[int](otherKind, pawl.Policy{Limit: pawl.Limit{Concurrency: 1}})
	first, err := kind.EnqueueAfter(f.ctx, f.store, nil, 1)
	f.ok("open", err)
	second, err := kind.EnqueueAfter(f.ctx, f.store, nil, 2)
	f.ok("open", err)
	follower := f.follows(session, first.ID, 0, 0, 0)
	f.claimNone("beside it", session)
	f.done(session, follower)
	f.follows(session, second.ID, 0, 0, 0)
}

func batchTwoHosts(f *fixture) {
	const rounds = 10
	here, there := f, f.elsewhere()
	session := f.host("a")
	for range rounds {
		batch := f.openOf(2)
		jobs := f.claimExactly(session, 2)
		var both sync.WaitGroup
		for i, g := range []*fixture{here, there} {
			both.Go(func() {
				errs, err := g.store.Settle(g.ctx, session, []pawl.Settlement{end(jobs[i], pawl.Done{})})
				if err != nil || errs[0] != nil {
					g.Errorf("settle: %v, %v", err, errs)
				}
			})
		}
		both.Wait()
		f.done(session, f.follows(session, batch, 2, 0, 0))
	}
	f.sweep(session)
	f.claimNone("after all", session)
}

func batchRolledBack(f *fixture) {
	session := f.host("a")
	tx := f.begin()
	gone, err := pawl.NewKind[int](otherKind, pawl.Policy{}).EnqueueAfter(f.ctx, tx, []pawl.NewJob{f.job()}, 7)
	f.ok("open", err)
	f.ok("rollback", tx.Rollback())
	_, err = f.store.Batch(f.ctx, gone.ID)
	f.fails("the batch", err, pawl.ErrNotFound)
	batch := f.openOf(1)
	job := f.claimOne(session)
	tx = f.begin()
	_, err = tx.Enqueue(f.ctx, []pawl.NewJob{f.job(pawl.InBatch(batch))})
	f.ok("add", err)
	f.ok("rollback", tx.Rollback())
	f.done(session, job)
	f.follows(session, batch, 1, 0, 0)
}

func batchInTransaction(f *fixture) {
	session := f.host("a")
	tx := f.begin()
	opened, err := pawl.NewKind[int](otherKind, pawl.Policy{}).EnqueueAfter(f.ctx, tx, nil, 7)
	f.ok("open", err)
	_, err = tx.Enqueue(f.ctx, []pawl.NewJob{f.job(pawl.InBatch(opened.ID))})
	f.ok("add", err)
	_, err = tx.Enqueue(f.ctx, []pawl.NewJob{f.job(pawl.InBatch(opened.ID)), f.job(pawl.InBatch(opened.ID))})
	f.ok("add", err)
	f.ok("commit", tx.Commit())
	f.sweep(session)
	jobs := f.claimExactly(session, 3)
	f.equal("the follower is among them", slices.Contains(ids(jobs), opened.ID), false)
	f.done(session, jobs...)
	f.follows(session, opened.ID, 3, 0, 0)
}

func batchHeldOpen(f *fixture) {
	session := f.host("a")
	batch := f.openOf(1)
	job := f.claimOne(session)
	tx := f.begin()
	_, err := tx.Enqueue(f.ctx, []pawl.NewJob{f.job(pawl.InBatch(batch))})
	f.ok("add", err)
	settled := make(chan error, 1)
	go func() { // where one writes at a time it waits for the commit
		errs, err := f.store.Settle(f.ctx, session, []pawl.Settlement{end(job, pawl.Done{})})
		if err == nil {
			err = errs[0]
		}
		settled <- err
	}()
	select {
	case err := <-settled:
		f.ok("settle", err)
		settled <- nil
	case <-time.After(100 * time.Millisecond):
	}
	f.ok("commit", tx.Commit())
	f.ok("settle", <-settled)
	f.sweep(session)
	f.done(session, f.claimOne(session))
	f.follows(session, batch, 2, 0, 0)
}

func batchForgotten(f *fixture) {
	session := f.host("a")
	batch := f.open()
	f.done(session, f.follows(session, batch, 0, 0, 0))
	stays := f.openOf(1)
	f.pass(25 * time.Hour)
	f.sweep(f.host("b"))
	_, err := f.store.Batch(f.ctx, batch)
	f.fails("the batch", err, pawl.ErrNotFound)
	f.equal("one that is open", f.batch(stays).Members, 1)
}

func batchRefused(f *fixture) {
	kind := pawl.NewKind[int](otherKind, pawl.Policy{})
	before := f.everything()
	for _, option := range []pawl.Option{pawl.RunAt(time.Now()), pawl.UniqueWhileUnfinished("k"), pawl.InBatch(pawl.NewID())} {
		_, err := kind.EnqueueAfter(f.ctx, f.store, []pawl.NewJob{f.job()}, 7, option)
		f.fails("open", err, pawl.ErrInvalid)
	}
	_, err := kind.EnqueueAfter(f.ctx, f.store, []pawl.NewJob{f.job(pawl.InBatch(pawl.NewID()))}, 7)
	f.fails("a member of another batch", err, pawl.ErrInvalid)
	f.equal("everything", f.everything(), before)
}
