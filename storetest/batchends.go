package storetest

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pawljobs/pawl"
)

func batchRedriven(f *fixture) {
	session := f.host("a")
	batch := f.openOf(2)
	jobs := f.claimExactly(session, 2)
	letter := f.die(session, jobs[0])
	f.equal("the batch of the letter", letter.Batch, batch)
	f.picks("batch", pawl.LetterFilter{Batch: batch}, letter.ID)
	f.enqueue(f.again(letter))
	f.done(session, f.claimOne(session))
	f.sweep(session)
	f.claimNone("while a member runs", session)
	f.done(session, jobs[1])
	f.done(session, f.follows(session, batch, 1, 1, 0))

	letter = f.die(session, func() pawl.ClaimedJob { batch = f.openOf(1); return f.claimOne(session) }())
	f.done(session, f.follows(session, batch, 0, 1, 0))
	for _, job := range []pawl.NewJob{f.again(letter), f.anew(letter)} { // after the end
		f.enqueue(job)
		f.done(session, f.claimOne(session))
		f.sweep(session)
		f.claimNone("after what comes from a letter", session)
	}
	view := f.batch(batch)
	f.equal("the batch", []int{view.Members, view.Done, view.Dead}, []int{1, 0, 1})
}

// again is the job of a letter, under its own id.
func (f *fixture) again(letter pawl.DeadLetter) pawl.NewJob {
	f.Helper()
	e, err := pawl.DecodeEnvelope(letter.Envelope)
	f.ok("envelope", err)
	job := pawl.NewJobFrom(e)
	job.Letter = letter.ID
	return job
}

// anew is the job of a letter under a new id.
func (f *fixture) anew(letter pawl.DeadLetter) pawl.NewJob {
	f.Helper()
	e, err := pawl.DecodeEnvelope(letter.Envelope)
	f.ok("envelope", err)
	e.ID = pawl.NewID()
	job := pawl.NewJobFrom(e)
	job.Letter = letter.ID
	return job
}

func batchFollowerRedriven(f *fixture) {
	session := f.host("a")
	batch := f.openOf(1)
	f.done(session, f.claimOne(session))
	letter := f.die(session, f.follows(session, batch, 1, 0, 0))
	f.enqueue(f.anew(letter))
	e, err := pawl.DecodeEnvelope(f.claimOne(session).Envelope)
	f.ok("envelope", err)
	f.equal("how members ended", e.After, pawl.BatchEnd{Batch: batch, Done: 1})
}

func batchUnique(f *fixture) {
	session := f.host("a")
	f.put(pawl.UniqueWhileUnfinished("k"))
	other := f.claimOne(session)
	batch := f.open(f.job(pawl.UniqueWhileUnfinished("k")), f.job(pawl.UniqueWhileUnfinished("l")), f.job(pawl.UniqueWhileUnfinished("l")))
	f.equal("members", f.batch(batch).Members, 1)
	f.done(session, f.claimOne(session))
	f.done(session, f.follows(session, batch, 1, 0, 0))
	batch = f.open(f.job(pawl.UniqueWhileUnfinished("k")))
	f.done(session, f.follows(session, batch, 0, 0, 0))
	f.done(session, other)
	f.sweep(session)
	f.claimNone("after all", session)
}

func batchInLine(f *fixture) {
	session := f.host("a")
	limited := func() pawl.NewJob { return f.jobOf(workKind, pawl.Policy{Limit: pawl.Limit{Concurrency: 1}}, "1") }
	ordered := func() pawl.NewJob { return f.jobOf(otherKind, pawl.Policy{}, "1", pawl.OrderingKey("o")) }
	batch := f.open(limited(), limited(), ordered(), ordered(), f.jobOf(otherKind, pawl.Policy{}, "1", pawl.Delay(time.Hour)))
	for range 2 {
		f.sweep(session)
		f.done(session, f.claimExactly(session, 2)...)
	}
	f.sweep(session)
	f.claimNone("while one is scheduled", session)
	f.pass(2 * time.Hour)
	session = f.host("b")
	f.sweep(session)
	f.done(session, f.claimOne(session))
	f.follows(session, batch, 5, 0, 0)
}

func batchMany(f *fixture) {
	const batches = 150
	session := f.host("a")
	want := map[pawl.ID]bool{}
	var opened []pawl.NewJob
	for range batches {
		callback := f.jobOf(otherKind, pawl.Policy{}, "7")
		callback.Opens = true
		opened = append(opened, callback, f.job(pawl.InBatch(callback.ID)))
		want[callback.ID] = true
	}
	f.enqueue(opened...)
	jobs := f.claimExactly(session, batches)
	settlements := make([]pawl.Settlement, batches)
	for i, job := range jobs {
		settlements[i] = end(job, pawl.Done{})
	}
	f.settle(session, settlements...)
	for deadline := time.Now().Add(time.Minute); len(want) > 0; f.sweep(session) {
		for _, job := range f.claim(session, batches) {
			f.equal("expected", want[job.ID], true)
			delete(want, job.ID)
		}
		if time.Now().After(deadline) {
			f.Fatalf("%d batches were not followed", len(want))
		}
	}
}

func batchVerdict(f *fixture) {
	session := f.host("a")
	batch := f.openOf(1)
	job := f.claimOne(session)
	errs, err := f.store.Condemn(f.ctx, session, []pawl.Settlement{f.death(job)})
	f.ok("condemn", err)
	f.ok("condemn one", errs[0])
	f.sweep(session)
	f.equal("while it is not buried", f.batch(batch).Pending(), 1)
	f.closeSession(session)
	session = f.host("b")
	job = f.claimOne(session)
	f.settle(session, pawl.Settlement{Reservation: job.Reservation, Outcome: pawl.Dead{Class: job.Verdict.Class, Reason: job.Verdict.Reason}, Letter: job.Verdict})
	f.follows(session, batch, 0, 1, 0)
}

func batchRace(f *fixture) {
	session, there := f.host("a"), f.elsewhere()
	for range 10 {
		batch := f.openOf(1)
		job := f.claimOne(session)
		var both sync.WaitGroup
		var added, ended error
		both.Go(func() { _, added = there.store.Enqueue(there.ctx, []pawl.NewJob{there.job(pawl.InBatch(batch))}) })
		both.Go(func() {
			errs, err := f.store.Settle(f.ctx, session, []pawl.Settlement{end(job, pawl.Done{})})
			ended = errors.Join(append(errs, err)...)
		})
		both.Wait()
		f.ok("settle", ended)
		done := 1
		if added == nil {
			f.done(session, f.claimOne(session, func(r *pawl.ClaimRequest) { r.Kinds = []string{workKind} }))
			done = 2
		} else {
			f.fails("added too late", added, pawl.ErrBatchEnded)
		}
		f.done(session, f.follows(session, batch, done, 0, 0))
	}
}

func batchStorm(f *fixture) {
	const batches, members = 6, 12
	fixtures := []*fixture{f, f.elsewhere()}
	sessions := []pawl.SessionID{f.host("a"), fixtures[1].host("b")}
	s := crowd{want: map[pawl.ID]*pawl.BatchEnd{}, followed: map[pawl.ID]pawl.BatchEnd{}}
	for range batches {
		id := f.openOf(members)
		s.want[id] = &pawl.BatchEnd{Batch: id}
	}
	var both sync.WaitGroup
	for i, g := range fixtures {
		both.Go(func() { s.run(g, sessions[i]) })
	}
	both.Wait()
	for id, want := range s.want {
		f.equal("how members ended", s.followed[id], *want)
	}
}

// crowd is what several hosts do to the members of batches, and what followed.
type crowd struct {
	mu       sync.Mutex
	want     map[pawl.ID]*pawl.BatchEnd
	followed map[pawl.ID]pawl.BatchEnd
}

func (s *crowd) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.followed) == len(s.want)
}

func (s *crowd) run(f *fixture, session pawl.SessionID) {
	for deadline := time.Now().Add(2 * time.Minute); !s.over(); {
		if time.Now().After(deadline) {
			f.Errorf("of %d batches, %d were followed", len(s.want), len(s.followed))
			return
		}
		jobs, err := f.store.Claim(f.ctx, pawl.ClaimRequest{Session: session, Queues: []string{normal}, Kinds: []string{workKind, otherKind}, Max: 3})
		if err == nil {
			_, err = f.store.Sweep(f.ctx, pawl.SweepRequest{Session: session})
		}
		for _, job := range jobs.Jobs {
			err = errors.Join(err, s.end(f, session, job))
		}
		if err != nil {
			f.Errorf("host: %v", err)
			return
		}
	}
}

// end does something to a job.
func (s *crowd) end(f *fixture, session pawl.SessionID, job pawl.ClaimedJob) error {
	e, err := pawl.DecodeEnvelope(job.Envelope)
	if err != nil {
		return err
	}
	settlement := end(job, pawl.Done{})
	s.mu.Lock()
	want := s.want[e.Batch]
	if _, twice := s.followed[job.ID]; twice {
		f.Errorf("batch %s was followed twice", job.ID)
	}
	if want == nil {
		s.followed[job.ID] = e.After
	}
	s.mu.Unlock()
	var count *int
	if want != nil {
		switch rand.IntN(6) {
		case 0:
			count, settlement = &want.Dead, f.death(job)
		case 1:
			settlement.Outcome = pawl.Retry{}
		case 2:
			if _, err := f.store.Enqueue(f.ctx, []pawl.NewJob{f.job(pawl.InBatch(e.Batch))}); err != nil {
				return err
			}
			count = &want.Done
		case 3:
			errs, err := f.store.DeleteJobs(f.ctx, []pawl.ID{job.ID}, pawl.By{Who: "ada"})
			s.count(&want.Removed)
			return errors.Join(append(errs, err)...)
		default:
			count = &want.Done
		}
	}
	errs, err := f.store.Settle(f.ctx, session, []pawl.Settlement{settlement})
	s.count(count)
	return errors.Join(append(errs, err)...)
}

func (s *crowd) count(n *int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n != nil {
		*n++
	}
}

func batchCleared(f *fixture) {
	session := f.host("a")
	batch := f.openOf(3)
	by := pawl.By{Who: "ada"}
	running := f.claimOne(session)
	_, err := f.store.CancelJobs(f.ctx, []pawl.ID{running.ID}, by)
	f.ok("cancel", err)
	f.settle(session, end(running, pawl.Retry{}))
	f.equal("removed", f.batch(batch).Removed, 1)
	_, err = f.store.ClearQueue(f.ctx, normal, by)
	f.ok("clear", err)
	f.follows(session, batch, 0, 0, 3)
}

func batchCancelled(f *fixture) {
	session := f.host("a")
	batch := f.openOf(2)
	by := pawl.By{Who: "ada"}
	results, err := f.store.CancelJobs(f.ctx, []pawl.ID{batch, batch}, by)
	f.ok("cancel", err)
	f.equal("state", results[0], pawl.Cancelled{State: pawl.JobRemoved})
	f.fails("a second time", results[1].Err, pawl.ErrConflict)
	entry := f.audit(pawl.AuditFilter{Action: pawl.ActionCancel})[0]
	f.equal("audit", []string{entry.Subject, entry.From, entry.To}, []string{"job " + batch.String(), "", "removed"})
	f.equal("what was to follow", f.view(batch).State, pawl.JobRemoved)
	f.equal("cancelled", f.batch(batch).Cancelled, true)
	jobs := f.claimExactly(session, 2)
	f.put(pawl.InBatch(batch))
	f.done(session, jobs...)
	f.done(session, f.claimOne(session))
	f.awaitEnd(session, batch)
	f.claimNone("after the last member", session)
	f.equal("done", f.batch(batch).Done, 3)
	again, err := pawl.NewKind[int](otherKind, pawl.Policy{}).EnqueueAfter(f.ctx, f.store, nil, 7, pawl.WithID(batch))
	f.ok("open again", err)
	f.equal("status", again.Status, pawl.Repeated)
}

// awaitEnd sweeps until a batch has ended.
func (f *fixture) awaitEnd(session pawl.SessionID, batch pawl.ID) {
	f.Helper()
	for end := time.Now().Add(time.Minute); f.batch(batch).EndedAt.IsZero(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			f.Fatalf("batch %s does not end: %+v", batch, f.batch(batch))
		}
		f.sweep(session)
	}
}

func batchErased(f *fixture) {
	session := f.host("a")
	kind := pawl.NewKind[string](otherKind, pawl.Policy{})
	by := pawl.By{Who: "ada"}
	opened, err := kind.EnqueueAfter(f.ctx, f.store, []pawl.NewJob{f.job()}, "grace", pawl.Tags("person"))
	f.ok("open", err)
	found, err := f.store.EraseArgs(f.ctx, pawl.Erase{Text: "grace", By: by})
	f.ok("erase what has ended", err)
	f.equal("left", []int{found.Left, found.Removed}, []int{1, 0})
	found, err = f.store.EraseArgs(f.ctx, pawl.Erase{Tag: "person", Unfinished: true, By: by})
	f.ok("erase all", err)
	f.equal("removed", []int{found.Left, found.Removed}, []int{0, 1})
	f.equal("cancelled", f.batch(opened.ID).Cancelled, true)
	f.done(session, f.claimOne(session))
	f.awaitEnd(session, opened.ID)
	f.claimNone("after the last member", session)

	opened, err = kind.EnqueueAfter(f.ctx, f.store, []pawl.NewJob{f.job()}, "grace")
	f.ok("open", err)
	f.done(session, f.claimOne(session))
	f.done(session, f.follows(session, opened.ID, 1, 0, 0))
	found, err = f.store.EraseArgs(f.ctx, pawl.Erase{Text: "grace", Unfinished: true, By: by})
	f.ok("erase after the end", err)
	f.equal("finished jobs", []int{found.Left, found.Removed, found.History}, []int{0, 0, 1})
}

func batchRefusedInTransaction(f *fixture) {
	session := f.host("a")
	batch := f.openOf(1)
	job := f.claimOne(session)
	other := func() pawl.NewJob { return f.jobOf(otherKind, pawl.Policy{}, "1", pawl.WithID(job.ID)) }
	tx := f.begin()
	opened, err := pawl.NewKind[int](otherKind, pawl.Policy{}).EnqueueAfter(f.ctx, tx, []pawl.NewJob{f.job(), other()}, 7)
	f.fails("open", err, pawl.ErrConflict)
	_, err = tx.Enqueue(f.ctx, []pawl.NewJob{f.job(pawl.InBatch(batch)), other()})
	f.fails("add", err, pawl.ErrConflict)
	f.ok("commit", tx.Commit())
	_, err = f.store.Batch(f.ctx, opened.ID)
	f.fails("the batch", err, pawl.ErrNotFound)
	f.equal("members", f.batch(batch).Members, 1)
	f.done(session, job)
	f.follows(session, batch, 1, 0, 0)
}

func batchTooLateInTransaction(f *fixture) {
	session := f.host("a")
	kind := pawl.NewKind[int](otherKind, pawl.Policy{})
	callback := func(id pawl.ID, members ...pawl.NewJob) []pawl.NewJob {
		job, err := kind.New(f.ctx, f.store.Connection(), 7, pawl.WithID(id))
		f.ok("make callback", err)
		jobs, err := pawl.NewBatch(job, members)
		f.ok("make batch", err)
		return jobs
	}
	over, never := pawl.NewID(), pawl.NewID()
	_, err := f.store.Enqueue(f.ctx, callback(over, f.job()))
	f.ok("open", err)
	f.done(session, f.claimOne(session))
	f.done(session, f.follows(session, over, 1, 0, 0))
	tx := f.begin()
	_, err = tx.Enqueue(f.ctx, append(callback(never, f.job()), callback(over, f.job())...))
	f.fails("too late", err, pawl.ErrBatchEnded)
	f.ok("commit", tx.Commit())
	f.sweep(session)
	_, err = f.store.Batch(f.ctx, never)
	f.fails("the other batch", err, pawl.ErrNotFound)
	f.claimNone("after a refusal", session)
}
