package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/pawljobs/pawl"
)

func jobPromises() []promise {
	return []promise{
		{name: "a job is shown in every state", check: jobShown},
		{name: "a job that is not there is not found", check: jobNotFound},
		{name: "progress is shown with the job", check: progressShown},
		{name: "listed newest enqueue first, in complete pages", check: jobsListed},
		{name: "every field of the filter picks", check: jobFilters},
		{name: "queues are counted, in order of priority", check: queuesCounted},
		{name: "the age of the job that has been ready for longest", check: oldestReady},
		{name: "the kinds that wait in each queue, and for how long", check: headsOfQueues},
		{name: "clearing a queue removes all of it and nothing else", check: clearQueue},
		{name: "clearing is audited", check: clearAudited},
	}
}

func jobShown(f *fixture) {
	session := f.host("desk-7")
	job := f.job(pawl.Delay(time.Hour))
	f.enqueue(job)
	view := f.view(job.ID)
	f.holds("the enqueue was just now", f.beat(session, pawl.Beat{}).Now.Sub(view.EnqueuedAt).Abs() < patience)
	f.equal("run at", view.RunAt.Sub(view.EnqueuedAt), time.Hour)
	view.EnqueuedAt, view.RunAt = time.Time{}, time.Time{}
	want := pawl.JobView{ID: job.ID, Kind: workKind, Queue: normal, State: pawl.JobScheduled, Envelope: job.Envelope}
	f.equal("scheduled", view, want)

	shown := func(what string) {
		f.Helper()
		view := f.view(job.ID)
		view.EnqueuedAt = time.Time{}
		f.equal(what, view, want)
	}
	f.pass(2 * time.Hour)
	f.sweep(session)
	want.State = pawl.JobWaiting
	shown("waiting")
	claimed := f.claimOne(session)
	want.State, want.Attempt, want.Host = pawl.JobReserved, 1, "desk-7"
	shown("reserved")
	f.settle(session, end(claimed, pawl.GiveBack{}))
	want.State, want.Attempt, want.Host = pawl.JobWaiting, 0, ""
	shown("given back")
	f.settle(session, end(f.claimOne(session), pawl.Done{}))
	view = f.view(job.ID)
	f.equal("state", view.State, pawl.JobDone)
	f.equal("attempt", view.Attempt, 1)
	f.holds("its end is known", !view.FinishedAt.IsZero())
}

func jobNotFound(f *fixture) {
	f.put()
	_, err := f.store.Job(f.ctx, pawl.NewID())
	f.fails("job", err, pawl.ErrNotFound)
	_, err = f.store.Job(f.ctx, pawl.ID{})
	f.fails("the zero id", err, pawl.ErrNotFound)
}

func progressShown(f *fixture) {
	session := f.host("a")
	id := f.put()
	job := f.claimOne(session)
	for _, step := range []struct {
		percent    int
		note, want string
	}{{40, "half é", "40 % half é"}, {90, "", "90 %"}} {
		f.beat(session, pawl.Beat{
			Held:     []pawl.Reservation{job.Reservation},
			Progress: []pawl.Progress{{Reservation: job.Reservation, Percent: step.percent, Note: step.note}},
		})
		f.equal("progress", f.view(id).Progress, step.want)
	}
	f.settle(session, end(job, pawl.Retry{}))
	f.sweep(session)
	f.claimOne(session)
	f.equal("progress of the next attempt", f.view(id).Progress, "")
}

func viewIDs(views []pawl.JobView) []pawl.ID {
	var out []pawl.ID
	for _, view := range views {
		out = append(out, view.ID)
	}
	return out
}

// With one batch, and so equal enqueue times, any order will do as long as it is the same on every page.
func jobsListed(f *fixture) {
	session := f.host("a")
	for range 3 {
		f.puts(4)
		f.settle(session, end(f.claimOne(session), pawl.Done{})) // ended ones are among them
		f.pass(time.Hour)
	}
	all := f.jobs(pawl.JobFilter{})
	f.equal("jobs", len(all), 12)
	for i := range all[1:] {
		f.holds("newest enqueue first", !all[i+1].EnqueuedAt.After(all[i].EnqueuedAt))
	}
	for _, limit := range []int{1, 5, 12, 50} {
		var got []pawl.ID
		page := pawl.Page{Limit: limit}
		for range 20 {
			part, err := f.store.Jobs(f.ctx, pawl.JobFilter{}, page)
			f.ok("list jobs", err)
			f.holds("a page keeps to its limit", len(part.Jobs) <= limit)
			got = append(got, viewIDs(part.Jobs)...)
			if page.After = part.Next; part.Next == "" {
				break
			}
		}
		f.equal(fmt.Sprint("pages of ", limit), got, viewIDs(all))
	}
}

func jobFilters(f *fixture) {
	session := f.host("a")
	old := f.put(pawl.Delay(10 * time.Hour))
	f.pass(2 * time.Hour)
	done, removed, dead := f.endAll(session)
	f.put()
	reserved := f.claimOne(session).ID
	waiting := f.put(pawl.InQueue(bulk))
	other := f.enqueue(f.jobOf(otherKind, pawl.Policy{}, `1`))[0]
	picks := func(what string, filter pawl.JobFilter, want ...pawl.ID) {
		f.Helper()
		f.equal("jobs by "+what, sorted(viewIDs(f.jobs(filter))), sorted(want))
	}
	picks("scheduled", pawl.JobFilter{State: pawl.JobScheduled})
	picks("waiting", pawl.JobFilter{State: pawl.JobWaiting}, waiting, other)
	picks("reserved", pawl.JobFilter{State: pawl.JobReserved}, reserved)
	picks("done", pawl.JobFilter{State: pawl.JobDone}, done)
	picks("dead", pawl.JobFilter{State: pawl.JobDead}, dead.JobID)
	picks("removed", pawl.JobFilter{State: pawl.JobRemoved}, removed, old)
	picks("kind", pawl.JobFilter{Kind: otherKind}, other)
	picks("queue", pawl.JobFilter{Queue: bulk}, waiting)
	picks("queue and state", pawl.JobFilter{Queue: bulk, State: pawl.JobReserved})
	since := f.beat(session, pawl.Beat{}).Now.Add(-time.Hour)
	picks("since", pawl.JobFilter{Since: since}, done, removed, dead.JobID, reserved, waiting, other)
	f.put(pawl.Delay(time.Hour))
	f.equal("scheduled", len(f.jobs(pawl.JobFilter{State: pawl.JobScheduled})), 1)
}

func (f *fixture) queues() []pawl.QueueView {
	f.Helper()
	queues, err := f.store.Queues(f.ctx)
	f.ok("queues", err)
	return queues
}

func queuesCounted(f *fixture) {
	f.equal("queues at first", f.queues(), []pawl.QueueView(nil))
	session := f.host("a")
	f.puts(4, pawl.InQueue(critical))
	f.puts(2, pawl.InQueue(bulk), pawl.Delay(time.Hour))
	f.put(pawl.InQueue("10-late")) // after 1-critical, since '-' comes before '0'
	f.claim(session, 1)
	f.settle(session, end(f.claimOne(session), pawl.Done{}))
	f.pauseQueue(bulk, true)
	f.pauseQueue("9-empty", true)
	got := f.queues()
	for i := range got {
		got[i].OldestReady = 0
	}
	busy, err := f.store.BusyQueues(f.ctx)
	f.ok("busy queues", err)
	f.equal("busy queues", busy, []string{critical, "10-late"})
	f.equal("queues", got, []pawl.QueueView{
		{Name: critical, Waiting: 2, Reserved: 1},
		{Name: "10-late", Waiting: 1},
		{Name: bulk, Scheduled: 2, Paused: true},
		{Name: "9-empty", Paused: true},
	})
}

func headsOfQueues(f *fixture) {
	heads := func() []pawl.QueueHead {
		f.Helper()
		heads, err := f.store.QueueHeads(f.ctx)
		f.ok("heads", err)
		return heads
	}
	f.equal("of an empty store", heads(), []pawl.QueueHead(nil))
	session := f.host("a")
	f.put(pawl.InQueue(bulk))
	f.pass(time.Hour)
	f.enqueue(f.jobOf(otherKind, pawl.Policy{}, `1`), f.jobOf(workKind, pawl.Policy{StartsOff: true}, `1`), f.jobOf(workKind, pawl.Policy{}, `1`))
	f.put(pawl.InQueue(critical), pawl.Delay(time.Hour)) // waits for its time
	f.put(pawl.InQueue(bulk))
	f.pass(time.Minute)
	var got []pawl.QueueHead
	for _, head := range heads() {
		for _, waited := range []time.Duration{time.Hour + time.Minute, time.Minute} {
			if head.OldestReady >= waited {
				f.holds("not older than it is", head.OldestReady < waited+patience)
				head.OldestReady = waited
				break
			}
		}
		got = append(got, head)
	}
	slices.SortFunc(got, func(a, b pawl.QueueHead) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	f.equal("heads", got, []pawl.QueueHead{
		{Queue: normal, Kind: otherKind, OldestReady: time.Minute},
		{Queue: normal, Kind: workKind, OldestReady: time.Minute},
		{Queue: normal, Kind: workKind, StartsOff: true, OldestReady: time.Minute},
		{Queue: bulk, Kind: workKind, OldestReady: time.Hour + time.Minute},
	})
	f.equal("claimed", len(f.claim(session, 9)), 4)
	after := heads()
	f.equal("what is reserved does not wait", len(after), 1)
	f.holds("what starts off does", after[0].StartsOff)
}

func oldestReady(f *fixture) {
	session := f.host("a")
	f.put()
	f.pass(time.Hour)
	f.puts(2, pawl.Delay(5*time.Hour))
	f.put()
	age := func() time.Duration { f.Helper(); return f.queues()[0].OldestReady }
	f.holds("an hour", age() >= time.Hour && age() < time.Hour+patience)
	f.claimOne(session)
	f.holds("the reserved one does not count", age() < patience)
}

func clearQueue(f *fixture) {
	session := f.host("a")
	kept := f.put(pawl.InQueue(bulk))
	f.puts(3)
	f.puts(2, pawl.Delay(time.Hour))
	running := f.claimOne(session)
	retried := f.claimOne(session)
	f.settle(session, end(retried, pawl.Retry{After: time.Hour}))
	count, err := f.store.ClearQueue(f.ctx, normal, operator("wrong import"))
	f.ok("clear queue", err)
	f.equal("removed", count, 5)
	f.refusesAll(session, running)
	f.equal("lost", f.beat(session, pawl.Beat{Held: []pawl.Reservation{running.Reservation}}).Lost, []pawl.Reservation{running.Reservation})
	f.pass(2 * time.Hour)
	f.sweep(session)
	f.equal("jobs left", ids(f.claim(session, 9)), []pawl.ID{kept})
	f.equal("state", f.view(running.ID).State, pawl.JobRemoved)
	for _, queue := range []string{normal, "no-such"} {
		count, err = f.store.ClearQueue(f.ctx, queue, operator("again"))
		f.ok("clear queue", err)
		f.equal("removed from an empty queue", count, 0)
	}
}

func clearAudited(f *fixture) {
	f.puts(3)
	_, err := f.store.ClearQueue(f.ctx, normal, operator("wrong import"))
	f.ok("clear queue", err)
	entries := f.audit(pawl.AuditFilter{Subject: "queue " + normal})
	f.equal("entries", len(entries), 1)
	f.equal("action", entries[0].Action, pawl.ActionClear)
	f.equal("by", pawl.By{Who: entries[0].Who, Door: entries[0].Door, Why: entries[0].Why}, operator("wrong import"))
	f.holds("it says how many", entries[0].Outcome != "")
}
