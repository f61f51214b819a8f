//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
	"github.com/pawljobs/pawl/postgres"
)

// The lives of the jobs of a run, by their number.
func (a workArgs) once() bool { return a.N%20 == 0 }
func (a workArgs) dies() bool { return a.N%100 == 1 }
func (a workArgs) fail() bool { return a.N%25 == 2 } // its first attempt

// The server is crashed ten times while two hosts work through 20,000 jobs and others hand them in, who repeat what
// they do not know the outcome of. No job is lost and none ends twice, no host is taken for dead, and no attempt is
// charged. What must not run twice runs once. Of the others some run again, since a claim is not flushed by itself: at
// most what was in flight when the server crashed.
func TestServerCrashes(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	t.Parallel()
	const jobs, crashes, workers = 20_000, 10, 100
	own := startOwnServer(t)
	w := newWorldAt(t, own.url)
	w.watchEnds()
	runs := newLedger()
	mux := muxOf(func(_ context.Context, job *pawl.Job, args workArgs) error {
		runs.add(job)
		time.Sleep(time.Duration(args.N%7) * time.Millisecond) // what a handler does
		switch {
		case args.dies():
			return pawl.Permanent(errors.New("no"))
		case args.fail() && job.Attempt == 1:
			return errors.New("not yet")
		}
		return nil
	})
	intervals := host.Intervals{
		Beat: 500 * time.Millisecond, Silence: 5 * time.Second, DeadAfter: 8 * time.Second,
		Poll: 250 * time.Millisecond, Sweep: 250 * time.Millisecond, Call: 5 * time.Second,
	}
	books := []*bookkeeper{{Store: w.another()}, {Store: w.another()}}
	hosts := []*running{w.start(books[0], mux, w.config("a", workers, intervals)), w.start(books[1], mux, w.config("b", workers, intervals))}
	w.until(patience, "ready hosts", func() bool { return hosts[0].Ready() && hosts[1].Ready() })
	sessions := []pawl.SessionID{hosts[0].Stats().Session, hosts[1].Stats().Session}

	p := w.produce(jobs)
	began, inFlight := time.Now(), 0
	for n := range crashes {
		p.allow(jobs * (n + 1) / (crashes + 1)) // which are being handed in at the crash
		w.until(time.Minute, "jobs before the next crash", func() bool { return runs.count() > jobs*(2*n-1)/(crashes+1)/2 })
		_, _ = books[0].most(), books[1].most()
		own.crash()
		inFlight += books[0].most() + books[1].most()
	}
	t.Logf("%d crashes in %s, in which %d jobs ran", crashes, time.Since(began).Round(time.Millisecond), runs.count())
	p.allow(jobs)
	p.group.Wait()
	w.until(time.Minute, "the end of all jobs", func() bool {
		a, b := hosts[0].Stats(), hosts[1].Stats()
		return a.Running+a.Settling+b.Running+b.Settling == 0 && w.counts() == pawl.QueueView{}
	})
	t.Logf("all ended after %s; %d enqueues were repeated and %d jobs had been stored, %d settles failed and %d ends of them had been written, %d claims were given back",
		time.Since(began).Round(time.Millisecond), p.repeats.Load(), p.repeated.Load(),
		books[0].failed.Load()+books[1].failed.Load(), jobs-books[0].ends()-books[1].ends(), hosts[0].Stats().GivenBack+hosts[1].Stats().GivenBack)

	w.equal("sessions", []pawl.SessionID{hosts[0].Stats().Session, hosts[1].Stats().Session}, sessions)
	again := checkEnds(w, p.ids, runs)
	t.Logf("%d jobs ran again; at most %d were in flight at a crash", again, inFlight)
	if again > inFlight {
		t.Error("some jobs ran again for another reason than a crash")
	}
	for i := range books {
		books[i].check(w)
	}
	if p.repeats.Load() == 0 {
		t.Error("no enqueue had an unknown outcome: the crashes met none")
	}
}

// watchEnds makes the database note every end of a reserved job.
func (w *world) watchEnds() {
	w.Helper()
	schema := w.store.config.Schema
	execute(w, w.url, "create table "+table(schema, "ended")+" (id uuid, claim bigint)")
	execute(w, w.url, "create function "+table(schema, "note_end")+"() returns trigger language plpgsql as $$ begin insert into "+
		table(schema, "ended")+" values (old.id, old.claim); return old; end $$")
	execute(w, w.url, "create trigger note_end after delete on "+table(schema, "job")+
		" for each row when (old.claim is not null) execute function "+table(schema, "note_end")+"()")
}

// checkEnds compares what the database and the handlers know of every job with its life. It returns how many attempts
// ran again.
func checkEnds(w *world, ids []pawl.ID, runs *ledger) (again int) {
	w.Helper()
	ends := map[pawl.ID]int{}
	rows, err := beside(w, w.url).Query(w.Context(), "select id::text from "+table(w.store.config.Schema, "ended"))
	if err != nil {
		w.Fatal(err)
	}
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			w.Fatal(err)
		}
		id, err := pawl.ParseID(text)
		if err != nil {
			w.Fatal(err)
		}
		ends[id]++
	}
	if err := rows.Err(); err != nil {
		w.Fatal(err)
	}
	views := w.views()
	w.equal("jobs known", len(views), len(ids))
	runs.mu.Lock()
	defer runs.mu.Unlock()
	deaths, wrong := 0, 0
	for n, id := range ids {
		state, attempts := pawl.JobDone, []int{1}
		switch args := (workArgs{n}); {
		case args.dies():
			state = pawl.JobDead
			deaths++
		case args.fail():
			attempts = []int{1, 2}
		}
		view, ran := views[id], runs.runs[id]
		once := slices.Compact(slices.Clone(ran))
		again += len(ran) - len(once)
		if view.State == state && view.Attempt == len(attempts) && view.Crashes == 0 && ends[id] == 1 &&
			slices.Equal(once, attempts) && (len(ran) == len(once) || !(workArgs{n}).once()) {
			continue
		}
		if wrong++; wrong <= 20 {
			w.Errorf("job %d ran as attempts %v, is %s after attempt %d with %d crashes, and ended %d times; want attempts %v, %s",
				n, ran, view.State, view.Attempt, view.Crashes, ends[id], attempts, state)
		}
	}
	w.equal("jobs that did not go as they should", wrong, 0)
	letters, err := w.store.CountLetters(w.Context(), pawl.LetterFilter{})
	if err != nil {
		w.Fatal(err)
	}
	w.equal("letters", letters, deaths)
	return again
}

// producers hand in jobs, some one by one and some in batches.
type producers struct {
	w        *world
	ids      []pawl.ID
	group    sync.WaitGroup
	calls    chan []pawl.NewJob
	pending  []pawl.NewJob
	repeats  atomic.Int64 // calls that were repeated, their outcome being unknown
	repeated atomic.Int64 // jobs of those that had been stored
}

func (w *world) produce(n int) *producers {
	w.Helper()
	p := &producers{w: w, calls: make(chan []pawl.NewJob, n)}
	for i := range n {
		kind := work
		if (workArgs{i}).once() {
			kind = once
		}
		job, err := kind.New(w.Context(), w.store.Connection(), workArgs{i}, pawl.Backoff(0))
		if err != nil {
			w.Fatal(err)
		}
		p.ids, p.pending = append(p.ids, job.ID), append(p.pending, job)
	}
	store := w.another()
	for range 8 {
		p.group.Go(func() {
			for jobs := range p.calls {
				p.enqueue(store, jobs)
			}
		})
	}
	w.Cleanup(func() {
		if len(p.pending) > 0 {
			close(p.calls)
		}
		p.group.Wait()
	})
	return p
}

// allow hands jobs to the producers until they have had n.
func (p *producers) allow(n int) {
	n -= len(p.ids) - len(p.pending)
	for i := 0; n > 0; i++ {
		size := min(n, []int{1, 1, 1, 20, 100}[i%5])
		p.calls <- p.pending[:size:size]
		p.pending, n = p.pending[size:], n-size
	}
	if len(p.pending) == 0 {
		close(p.calls)
	}
}

// enqueue repeats a call under the same ids until its outcome is known.
func (p *producers) enqueue(store *postgres.Store, jobs []pawl.NewJob) {
	ctx := p.w.Context()
	for try := 0; ctx.Err() == nil; try++ {
		results, err := store.Enqueue(ctx, jobs)
		if err != nil {
			p.repeats.Add(1)
			time.Sleep(20 * time.Millisecond) // as a caller would
			continue
		}
		for i, result := range results {
			if result.ID != jobs[i].ID || result.Status != pawl.Accepted && (try == 0 || result.Status != pawl.Repeated) {
				p.w.Errorf("enqueue of %s in try %d: %+v", jobs[i].ID, try, result)
			}
			if result.Status == pawl.Repeated {
				p.repeated.Add(1)
			}
		}
		return
	}
}

// bookkeeper is a store that notes which ends it has accepted, and how many jobs its host holds.
type bookkeeper struct {
	*postgres.Store
	failed atomic.Int64 // settles

	mu         sync.Mutex
	accepted   map[pawl.ID]int
	held, peak int
}

func (b *bookkeeper) Claim(ctx context.Context, request pawl.ClaimRequest) (pawl.Claimed, error) {
	claimed, err := b.Store.Claim(ctx, request)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held += len(claimed.Jobs)
	b.peak = max(b.peak, b.held)
	return claimed, err
}

func (b *bookkeeper) Settle(ctx context.Context, session pawl.SessionID, settlements []pawl.Settlement) ([]error, error) {
	results, err := b.Store.Settle(ctx, session, settlements)
	if err != nil {
		b.failed.Add(1)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.accepted == nil {
		b.accepted = map[pawl.ID]int{}
	}
	for i, result := range results {
		if result == nil || errors.Is(result, pawl.ErrLeaseLost) {
			b.held--
		}
		switch settlements[i].Outcome.(type) {
		case pawl.Done, pawl.Dead:
			if result == nil {
				b.accepted[settlements[i].ID]++
			}
		}
	}
	return results, err
}

// most is the largest number of jobs that the host has held at a time since the last call.
func (b *bookkeeper) most() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	peak := b.peak
	b.peak = b.held
	return peak
}

// ends counts the jobs whose ends it has accepted.
func (b *bookkeeper) ends() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.accepted)
}

func (b *bookkeeper) check(w *world) {
	w.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, times := range b.accepted {
		if times > 1 {
			w.Errorf("the end of job %s was accepted %d times", id, times)
		}
	}
}
