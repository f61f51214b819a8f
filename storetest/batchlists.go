package storetest

import (
	"bytes"
	"slices"
	"time"

	"github.com/pawljobs/pawl"
)

func batchListPromises() []promise {
	return []promise{
		{name: "batches are listed, the last that was opened first, and picked", check: batchesListed},
		{name: "of many batches that were opened at once, pages name each once", check: batchesPaged},
		{name: "the members that have not ended are listed, with what they wait for", check: batchMembersListed},
		{name: "a list of batches that cannot be is refused", check: batchListsRefused},
	}
}

// batches lists by pages of this size.
func (f *fixture) batches(filter pawl.BatchFilter, size int) (ids []pawl.ID) {
	f.Helper()
	for page := (pawl.Page{Limit: size}); ; {
		found, err := f.store.Batches(f.ctx, filter, page)
		f.ok("list batches", err)
		for _, b := range found.Batches {
			f.equal("in the list", b, f.batch(b.BatchEnd.Batch))
			ids = append(ids, b.BatchEnd.Batch)
		}
		if page.After = found.Next; found.Next == "" {
			return ids
		}
		f.equal("the size of a page", len(found.Batches), size)
	}
}

func batchesListed(f *fixture) {
	session := f.host("a")
	f.equal("without any", f.batches(pawl.BatchFilter{}, 10), []pawl.ID(nil))
	ended := f.openOf(1)
	f.done(session, f.claimOne(session))
	f.done(session, f.follows(session, ended, 1, 0, 0))
	f.pass(time.Hour)
	cancelled, err := pawl.NewKind[int](workKind, pawl.Policy{}).EnqueueAfter(f.ctx, f.store, []pawl.NewJob{f.job(), f.job()}, 7, pawl.InQueue(bulk))
	f.ok("open batch", err)
	_, err = f.store.CancelJobs(f.ctx, []pawl.ID{cancelled.ID}, pawl.By{Who: "ada"})
	f.ok("cancel", err)
	f.pass(time.Hour)
	session = f.host("b")
	open := f.openOf(3)
	f.done(session, f.claimOne(session)) // of the one that was cancelled
	for _, c := range []struct {
		what   string
		filter pawl.BatchFilter
		want   []pawl.ID
	}{
		{"all", pawl.BatchFilter{}, []pawl.ID{open, cancelled.ID, ended}},
		{"open ones", pawl.BatchFilter{State: pawl.BatchIsOpen}, []pawl.ID{open, cancelled.ID}},
		{"ended ones", pawl.BatchFilter{State: pawl.BatchHasEnded}, []pawl.ID{ended}},
		{"of a kind", pawl.BatchFilter{Kind: otherKind}, []pawl.ID{open, ended}},
		{"of a kind, open", pawl.BatchFilter{Kind: otherKind, State: pawl.BatchIsOpen}, []pawl.ID{open}},
		{"of a kind that nobody knows", pawl.BatchFilter{Kind: "nobody's"}, nil},
		{"of a queue", pawl.BatchFilter{Queue: bulk}, []pawl.ID{cancelled.ID}},
		{"of a queue that nobody knows", pawl.BatchFilter{Queue: "nobody's"}, nil},
		{"recent ones", pawl.BatchFilter{Since: time.Now().Add(-90 * time.Minute)}, []pawl.ID{open, cancelled.ID}},
		{"from its time on", pawl.BatchFilter{Since: f.batch(cancelled.ID).CreatedAt, Queue: bulk}, []pawl.ID{cancelled.ID}},
	} {
		for _, size := range []int{1, 2, 10} {
			f.equal(c.what, f.batches(c.filter, size), c.want)
		}
	}
	view := f.batch(cancelled.ID)
	f.equal("the one that was cancelled", []any{view.State(), view.Cancelled, view.Members, view.Done}, []any{pawl.BatchIsOpen, true, 2, 1})
}

func batchesPaged(f *fixture) {
	const batches = 7
	var opened []pawl.NewJob
	want := make([]pawl.ID, batches)
	for i := range want {
		callback := f.jobOf(otherKind, pawl.Policy{}, "7")
		callback.Opens = true
		opened, want[i] = append(opened, callback, f.job(pawl.InBatch(callback.ID))), callback.ID
	}
	f.enqueue(opened...)
	slices.SortFunc(want, func(a, b pawl.ID) int { return bytes.Compare(b[:], a[:]) })
	for _, size := range []int{1, 3, batches} {
		f.equal("by pages", f.batches(pawl.BatchFilter{State: pawl.BatchIsOpen}, size), want)
	}
}

// members lists by pages of this size.
func (f *fixture) members(batch pawl.ID, size int) (jobs []pawl.JobView) {
	f.Helper()
	for page := (pawl.Page{Limit: size}); ; {
		found, err := f.store.BatchMembers(f.ctx, batch, page)
		f.ok("list members", err)
		jobs = append(jobs, found.Jobs...)
		if page.After = found.Next; found.Next == "" {
			return jobs
		}
		f.equal("the size of a page", len(found.Jobs), size)
	}
}

func batchMembersListed(f *fixture) {
	session := f.host("a")
	over := f.openOf(1)
	f.done(session, f.claimOne(session))
	f.done(session, f.follows(session, over, 1, 0, 0))
	ended := []pawl.NewJob{f.job(), f.job(), f.job()}
	states := map[pawl.ID]pawl.JobState{}
	pending := []pawl.NewJob{
		f.job(), f.job(pawl.InQueue(bulk)), f.job(pawl.Delay(time.Hour)),
		f.job(pawl.OrderingKey("k"), pawl.InQueue(critical)), f.job(pawl.OrderingKey("k"), pawl.InQueue(critical)),
	}
	for i, state := range []pawl.JobState{pawl.JobWaiting, pawl.JobWaiting, pawl.JobScheduled, pawl.JobReserved, pawl.JobWaiting} {
		states[pending[i].ID] = state
	}
	batch := f.open(append(ended, pending...)...)
	other := f.openOf(1)
	f.put()
	jobs := f.claimExactly(session, 3, func(r *pawl.ClaimRequest) { r.Queues = []string{normal} })
	f.done(session, jobs[0])
	f.die(session, jobs[1])
	_, err := f.store.DeleteJobs(f.ctx, []pawl.ID{jobs[2].ID}, pawl.By{Who: "ada"})
	f.ok("delete", err)
	f.claimOne(session, func(r *pawl.ClaimRequest) { r.Queues = []string{critical} })
	f.ok("pause", f.store.PauseQueue(f.ctx, pawl.QueuePause{Queue: bulk, Paused: true}, pawl.By{Who: "ada"}))
	slices.SortFunc(pending, func(a, b pawl.NewJob) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	for _, size := range []int{1, 2, 100} {
		found := f.members(batch, size)
		f.equal("how many", len(found), len(pending))
		for i, job := range found {
			view := f.view(job.ID)
			view.Envelope, view.History = nil, nil
			f.equal("as it is by itself", job, view)
			f.equal("in order", []any{job.ID, job.State}, []any{pending[i].ID, states[job.ID]})
			f.equal("held by its queue", job.HeldByQueue, job.Queue == bulk)
		}
	}
	inLine := 0
	for _, job := range f.members(batch, 100) {
		if job.HeldInLine {
			inLine++
		}
	}
	f.equal("held in line", inLine, 1)
	f.equal("of another", len(f.members(other, 10)), 1)
	_, err = f.store.BatchMembers(f.ctx, pawl.NewID(), pawl.Page{})
	f.fails("of none", err, pawl.ErrNotFound)
	f.equal("of one that has ended", len(f.members(over, 10)), 0)
}

func batchListsRefused(f *fixture) {
	batch, second := f.openOf(2), f.openOf(1)
	page, err := f.store.Batches(f.ctx, pawl.BatchFilter{}, pawl.Page{Limit: 1})
	f.ok("list", err)
	members, err := f.store.BatchMembers(f.ctx, batch, pawl.Page{Limit: 1})
	f.ok("members", err)
	f.equal("there are more", []bool{page.Next != "", members.Next != "", second.IsZero()}, []bool{true, true, false})
	for _, bad := range []pawl.Page{{Limit: -1}, {Limit: 1001}, {After: "x"}} {
		_, err := f.store.Batches(f.ctx, pawl.BatchFilter{}, bad)
		f.fails("a page", err, pawl.ErrInvalid)
		_, err = f.store.BatchMembers(f.ctx, batch, bad)
		f.fails("a page of members", err, pawl.ErrInvalid)
	}
	_, err = f.store.Batches(f.ctx, pawl.BatchFilter{}, pawl.Page{After: members.Next})
	f.fails("a place in another list", err, pawl.ErrInvalid)
	_, err = f.store.BatchMembers(f.ctx, batch, pawl.Page{After: page.Next})
	f.fails("a place in another list", err, pawl.ErrInvalid)
	for _, filter := range []pawl.BatchFilter{{State: "closed"}, {Kind: "a\x00"}, {Queue: "a\xff"}} {
		_, err := f.store.Batches(f.ctx, filter, pawl.Page{})
		f.fails("a filter", err, pawl.ErrInvalid)
	}
}
