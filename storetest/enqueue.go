package storetest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/pawljobs/pawl"
)

func enqueuePromises() []promise {
	return []promise{
		{name: "a job comes out as it went in", check: comesOut},
		{name: "the store says its connection", options: Options{
			Connection: "reports", Policy: pawl.Policy{Queue: bulk, MaxTries: 3},
		}, check: saysConnection},
		{name: "result i belongs to job i", check: resultsInOrder},
		{name: "an empty batch is no error", check: emptyBatches},
		{name: "2500 jobs go in one call", check: bigBatch},
		{name: "an invalid job keeps its whole batch out", check: allOrNone},
		{name: "a call whose ctx is done stores nothing", check: doneContext},
		{name: "a job is there for a second handle", check: seenElsewhere},
		{name: "calls at the same time each store their job", check: concurrentEnqueues},
	}
}

func comesOut(f *fixture) {
	job := f.job(pawl.InQueue(critical), pawl.Tags("a", "b"), pawl.CorrelationID("req-7"))
	f.enqueue(job)
	claimed, err := f.store.Claim(f.ctx, request(f.host("a"), 5))
	f.ok("claim", err)
	f.equal("number of jobs", len(claimed.Jobs), 1)
	got := claimed.Jobs[0]
	f.holds("the token is drawn", got.Token != 0)
	f.holds("the enqueue time is the store's", !got.EnqueuedAt.IsZero() && !got.EnqueuedAt.After(claimed.Now))
	f.holds("the enqueue was just now", claimed.Now.Sub(got.EnqueuedAt) < patience)
	f.holds("it was ready at once", got.ReadyAt.Equal(got.EnqueuedAt))
	got.Token, got.EnqueuedAt, got.ReadyAt = 0, time.Time{}, time.Time{}
	f.equal("claimed job", got, pawl.ClaimedJob{
		Reservation: pawl.Reservation{ID: job.ID}, Kind: workKind, Queue: critical, Attempt: 1, Envelope: job.Envelope,
	})
}

func saysConnection(f *fixture) {
	f.equal("connection", f.store.Connection(), pawl.Connection{
		Name: "reports", Policy: pawl.Policy{Queue: bulk, MaxTries: 3},
	})
	f.put()
	f.equal("queue of the job", f.claimOne(f.host("a")).Queue, bulk)
}

func resultsInOrder(f *fixture) {
	held := f.job(pawl.UniqueWhileWaiting("k"))
	f.enqueue(held)
	fresh, rival, twice := f.job(), f.job(pawl.UniqueWhileWaiting("k")), f.job()
	f.equal("results", f.try(rival, fresh, held, twice, twice), []pawl.Enqueued{
		{ID: held.ID, Status: pawl.Duplicate},
		{ID: fresh.ID, Status: pawl.Accepted},
		{ID: held.ID, Status: pawl.Repeated},
		{ID: twice.ID, Status: pawl.Accepted},
		{ID: twice.ID, Status: pawl.Repeated},
	})
	f.equal("jobs", ids(f.claim(f.host("a"), 10)), []pawl.ID{held.ID, fresh.ID, twice.ID})
}

func emptyBatches(f *fixture) {
	session := f.host("a")
	f.equal("enqueue", f.try(), []pawl.Enqueued(nil))
	for name, call := range map[string]func() ([]error, error){
		"start":         func() ([]error, error) { return f.store.Start(f.ctx, session, nil) },
		"settle":        func() ([]error, error) { return f.store.Settle(f.ctx, session, nil) },
		"condemn":       func() ([]error, error) { return f.store.Condemn(f.ctx, session, nil) },
		"move letters":  func() ([]error, error) { return f.store.MoveLetters(f.ctx, nil) },
		"settle alerts": func() ([]error, error) { return f.store.SettleAlerts(f.ctx, nil) },
	} {
		errs, err := call()
		f.ok(name, err)
		f.equal(name, errs, []error(nil))
	}
	recorded, err := f.store.RecordDeaths(f.ctx, nil)
	f.ok("record deaths", err)
	f.equal("recorded", recorded, []pawl.Recorded(nil))
}

func bigBatch(f *fixture) {
	const n = 2500
	want := f.puts(n)
	f.equal("jobs in their order", ids(f.claim(f.host("a"), n+1)), want)
}

// A store looks at what is beside the envelope: without an id, a kind or a queue it could never hand the job out. What
// is in the envelope was checked when the job was made.
func allOrNone(f *fixture) {
	for name, spoil := range map[string]func(*pawl.NewJob){
		"no id":          func(j *pawl.NewJob) { j.ID = pawl.ID{} },
		"no kind":        func(j *pawl.NewJob) { j.Kind = "" },
		"no queue":       func(j *pawl.NewJob) { j.Queue = "" },
		"negative delay": func(j *pawl.NewJob) { j.Delay = -time.Second },
		"the year 10000": func(j *pawl.NewJob) { j.RunAt = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"beyond all":     func(j *pawl.NewJob) { j.RunAt = time.Unix(1<<60, 0) },
	} {
		bad := f.job()
		spoil(&bad)
		_, err := f.store.Enqueue(f.ctx, []pawl.NewJob{f.job(), bad, f.job()})
		f.fails(name, err, pawl.ErrInvalid)
	}
	f.claimNone("jobs of the refused batches", f.host("a"))
}

func doneContext(f *fixture) {
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	_, err := f.store.Enqueue(ctx, []pawl.NewJob{f.job()})
	f.holds("the call fails", err != nil)
	f.claimNone("jobs", f.host("a"))
}

func seenElsewhere(f *fixture) {
	other := f.elsewhere()
	id := f.put()
	job := other.claimOne(other.host("b"))
	f.equal("job", job.ID, id)
	f.claimNone("jobs left for the first handle", f.host("a"))
}

func concurrentEnqueues(f *fixture) {
	const callers, each = 20, 5
	var group sync.WaitGroup
	errs := make([]error, callers)
	for n := range callers {
		jobs := make([]pawl.NewJob, each)
		for i := range jobs {
			jobs[i] = f.job()
		}
		group.Go(func() {
			for _, job := range jobs {
				results, err := f.store.Enqueue(f.ctx, []pawl.NewJob{job})
				if err == nil && (len(results) != 1 || results[0] != pawl.Enqueued{ID: job.ID}) {
					err = errors.New("the result is another job's")
				}
				if err == nil {
					_, err = f.store.Job(f.ctx, job.ID) // it is durable by now
				}
				errs[n] = errors.Join(errs[n], err)
			}
		})
	}
	group.Wait()
	f.ok("enqueue", errors.Join(errs...))
	f.equal("number of jobs", len(f.claim(f.host("a"), callers*each+1)), callers*each)
}
