package host_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/storetest"
)

// follow is the kind of what follows a batch.
var follow = pawl.NewKind[workArgs]("test.follow.v1", pawl.Policy{})

// part is what becomes of one member of every batch.
type part struct {
	kind    pawl.Kind[workArgs]
	options []pawl.Option
	run     func(ctx context.Context, r *batchRun, job *pawl.Job) error // nil: an operator deletes it before
}

// What became of them: every batch has these members and the two that the last one adds.
const (
	partsDone, partsDead, partsRemoved = 7, 2, 1
	partsAdded                         = 2
	batchesAtOnce                      = 3 // and one without members
)

// parts are slow enough for a member to end while others are retried.
func parts(moment time.Duration) []part {
	done := func(context.Context, *batchRun, *pawl.Job) error { return nil }
	again := []pawl.Option{pawl.Backoff(moment), pawl.MaxTries(9)}
	return []part{
		{kind: work, run: done},
		{kind: once, run: done},
		{kind: work, options: []pawl.Option{pawl.Delay(3 * moment)}, run: done},
		{kind: work, options: again, run: func(_ context.Context, _ *batchRun, job *pawl.Job) error {
			if job.Attempt < 3 {
				return errNoLuck
			}
			return nil
		}},
		{kind: work, run: func(context.Context, *batchRun, *pawl.Job) error { return pawl.Permanent(errNoLuck) }},
		{kind: once, run: func(context.Context, *batchRun, *pawl.Job) error { panic("boom") }},
		{kind: work, options: []pawl.Option{pawl.Delay(time.Hour)}},
		{kind: work, options: again, run: func(ctx context.Context, r *batchRun, job *pawl.Job) error { return r.add(ctx, job.Batch) }},
	}
}

// batchRun is batches on a store of which one call fails, whoever makes it.
type batchRun struct {
	*testing.T
	store  database
	faulty *storetest.Faulty
	parts  []part
	pass   func() // lets a little time go by

	mu       sync.Mutex
	added    map[pawl.ID][]pawl.NewJob   // by their batch: what a member adds, at each of its tries the same
	followed map[pawl.ID][]pawl.BatchEnd // what each run of what follows has seen
}

// add is what a member's handler does.
func (r *batchRun) add(ctx context.Context, batch pawl.ID) error {
	r.mu.Lock()
	jobs := r.added[batch]
	for len(jobs) < partsAdded {
		job, err := work.New(ctx, r.store.Connection(), workArgs{0}, pawl.InBatch(batch))
		if err != nil {
			r.mu.Unlock()
			return err
		}
		jobs = append(jobs, job)
	}
	r.added[batch] = jobs
	r.mu.Unlock()
	_, err := r.faulty.Enqueue(ctx, jobs)
	return err
}

// insist makes a call until its outcome is known.
func insist(call func() error) (err error) {
	for range 3 {
		if err = call(); !errors.Is(err, storetest.ErrFault) {
			break
		}
	}
	return err
}

// open opens a batch, and deletes those of its members that are to be deleted.
func (r *batchRun) open(parts []part) pawl.ID {
	r.Helper()
	ctx := context.Background()
	members, removed := make([]pawl.NewJob, len(parts)), []pawl.ID(nil)
	for i, p := range parts {
		job, err := p.kind.New(ctx, r.store.Connection(), workArgs{i}, p.options...)
		if err != nil {
			r.Fatal(err)
		}
		if members[i] = job; p.run == nil {
			removed = append(removed, job.ID)
		}
	}
	batch := pawl.NewID()
	err := insist(func() error {
		_, err := follow.EnqueueAfter(ctx, r.faulty, members, workArgs{}, pawl.WithID(batch), pawl.Backoff(time.Millisecond))
		return err
	})
	if err != nil {
		r.Fatalf("open batch: %v", err)
	}
	for try := 1; len(removed) > 0; try++ {
		results, err := r.faulty.DeleteJobs(ctx, removed, operator("not wanted"))
		if errors.Is(err, storetest.ErrFault) {
			continue
		}
		if err = errors.Join(append(results, err)...); err != nil && (try == 1 || !errors.Is(err, pawl.ErrConflict)) {
			r.Fatalf("delete members at try %d: %v", try, err)
		}
		break
	}
	return batch
}

// handlers do what each member is there for. What follows fails the first time.
func (r *batchRun) handlers(w *world) {
	run := func(ctx context.Context, args workArgs) error {
		return r.parts[args.N].run(ctx, r, pawl.FromContext(ctx))
	}
	w.handle(run)
	pawl.Handle(w.mux, once, run)
	pawl.Handle(w.mux, follow, func(ctx context.Context, _ workArgs) error {
		job := pawl.FromContext(ctx)
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.followed[job.ID] = append(r.followed[job.ID], job.After); job.Attempt == 1 {
			return errNoLuck
		}
		return nil
	})
}

// run runs batches with the nth store call failing (0: none), checks what followed, and returns how many calls there were.
func (r *batchRun) run(w *world, n int, when storetest.When) (calls int) {
	if n > 0 {
		r.faulty.At(n, when)
	}
	r.handlers(w)
	w.config.Servers = oneServer(20)
	h := w.startOn(r.faulty)
	want := map[pawl.ID]pawl.BatchEnd{}
	for range batchesAtOnce {
		id := r.open(r.parts)
		want[id] = pawl.BatchEnd{Batch: id, Done: partsDone, Dead: partsDead, Removed: partsRemoved}
	}
	empty := r.open(nil)
	want[empty] = pawl.BatchEnd{Batch: empty}
	jobs := int64(batchesAtOnce*(partsDone+partsDead+1) + 1)
	for end := time.Now().Add(2 * patience); ; r.pass() {
		if s := h.Stats(); s.Succeeded+s.Died() == jobs && s.Settling == 0 {
			break
		}
		if time.Now().After(end) {
			r.Errorf("%d of %d jobs have ended", h.Stats().Succeeded+h.Stats().Died(), jobs)
			break
		}
	}
	_, err := h.stop()
	if log := r.faulty.Log(); err != nil && (n > len(log) || n < 1 || log[n-1] != "CloseSession") {
		r.Errorf("Run returned %v", err)
	}
	r.check(want)
	return r.faulty.Calls()
}

// check compares what followed with how the members have ended.
func (r *batchRun) check(want map[pawl.ID]pawl.BatchEnd) {
	r.Helper()
	ctx := context.Background()
	page, err := r.store.Jobs(ctx, pawl.JobFilter{Kind: follow.Name()}, pawl.Page{Limit: 1000})
	if err != nil || len(page.Jobs) != len(want) {
		r.Errorf("%d jobs follow %d batches, error %v", len(page.Jobs), len(want), err)
	}
	for _, job := range page.Jobs {
		if want[job.ID].Batch != job.ID || job.State != pawl.JobDone {
			r.Errorf("what follows: %+v", job)
		}
	}
	for id, end := range want {
		if got := fmt.Sprint(r.followed[id]); got != fmt.Sprint([]pawl.BatchEnd{end, end}) {
			r.Errorf("the runs of what follows saw %s, want %+v twice", got, end)
		}
		batch, err := r.store.(pawl.Batches).Batch(ctx, id)
		if err != nil || batch.BatchEnd != end || batch.Pending() != 0 || batch.EndedAt.IsZero() {
			r.Errorf("batch %+v, error %v, want %+v", batch, err, end)
		}
	}
	if queues, err := r.store.Queues(ctx); err != nil || len(queues) > 0 {
		r.Errorf("queues %+v, error %v", queues, err)
	}
}

func runBatches(t *testing.T, store database, moment time.Duration, n int, when storetest.When) (calls int) {
	t.Helper()
	w := newWorld(t)
	r := &batchRun{
		T: t, store: store, faulty: storetest.Fail(store), parts: parts(moment), pass: func() { time.Sleep(moment) },
		added: map[pawl.ID][]pawl.NewJob{}, followed: map[pawl.ID][]pawl.BatchEnd{},
	}
	if moment < time.Second { // in real time
		w.config.Intervals = quick()
		w.config.Intervals.Beat, w.config.Intervals.Silence, w.config.Intervals.DeadAfter = 300*time.Millisecond, 10*time.Second, 20*time.Second
	}
	return r.run(w, n, when)
}

// For every N, the Nth call of the store fails, be it a host's, that of who opens a batch, that of a member that adds to its own,
// or an operator's, before it and after its commit: one job follows each batch, and knows how its members have ended. On SQLite it
// is tried in virtual time.
func TestBatchesWhenEveryCallFails(t *testing.T) {
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			slots := make(chan struct{}, 4*runtime.GOMAXPROCS(0)) // they wait more than they work
			run := func(t *testing.T, n int, when storetest.When) (calls int) {
				slots <- struct{}{}
				defer func() { <-slots }()
				where := e.fresh(t)
				test := func(t *testing.T, moment time.Duration) {
					store, err := e.open(context.Background(), where)
					if err != nil {
						t.Fatal(err)
					}
					calls = runBatches(t, store, moment, n, when)
					if err := store.Close(); err != nil {
						t.Error(err)
					}
				}
				if e.name == "sqlite" {
					synctest.Test(t, func(t *testing.T) { test(t, time.Second) })
				} else {
					test(t, 20*time.Millisecond)
				}
				return calls
			}
			calls := run(t, 0, storetest.Before)
			t.Logf("%d calls", calls)
			step := 1
			if testing.Short() {
				step = 9
			}
			for n := 1; n <= calls; n += step {
				for _, when := range []storetest.When{storetest.Before, storetest.After} {
					t.Run(fmt.Sprint(n, when), func(t *testing.T) {
						t.Parallel()
						run(t, n, when)
					})
				}
			}
		})
	}
}
