package pawltest

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
)

// Store is what can be drained: the stores that hold jobs and let an operator look at them.
type Store interface {
	pawl.Store
	pawl.Jobs
	pawl.DeadLetters
	pawl.Batches
}

// Report says what a Drain did.
type Report struct {
	Attempts  int               // handlers that were started
	Succeeded int               // jobs that are done
	Dead      []pawl.DeadLetter // of the jobs that died meanwhile, oldest first, with their evidence
	Left      int               // jobs that have not ended: scheduled, held back, or of kinds that the mux has no handler for
}

// Drain runs the ready jobs of all queues with the mux's handlers, and what these enqueue in their turn, until nothing is
// ready that they can run. What is delayed, or waits for a retry, is left. It runs one job at a time, in the order of
// their queues, and returns when the end of the last one is recorded. The test fails at once where the store does.
func Drain(t testing.TB, store Store, mux *pawl.Mux) Report {
	t.Helper()
	return drain(t, store, mux, false)
}

// DrainAll is Drain that also waits until delayed jobs and retries are due, and runs them, until no job is left that could
// ever run. Call it inside a bubble of testing/synctest, with a store that was opened there: it waits as long as the delays
// say.
func DrainAll(t testing.TB, store Store, mux *pawl.Mux) Report {
	t.Helper()
	return drain(t, store, mux, true)
}

// Run enqueues one job and drains the store, waiting for its retries as DrainAll does, and returns the job as it ended:
// State, Attempt, History, and with JobDead the id of its Letter.
func Run[T any](t testing.TB, store Store, mux *pawl.Mux, kind pawl.Kind[T], args T, options ...pawl.Option) pawl.JobView {
	t.Helper()
	job, err := kind.New(t.Context(), store.Connection(), args, options...)
	if err != nil {
		t.Fatalf("pawltest: enqueue: %v", err)
	}
	return run(t, store, mux, job)
}

func run(t testing.TB, store Store, mux *pawl.Mux, job pawl.NewJob) pawl.JobView {
	t.Helper()
	enqueued, err := store.Enqueue(t.Context(), []pawl.NewJob{job})
	if err != nil {
		t.Fatalf("pawltest: enqueue: %v", err)
	}
	DrainAll(t, store, mux)
	view, err := store.Job(t.Context(), enqueued[0].ID)
	if err != nil {
		t.Fatalf("pawltest: %v", err)
	}
	return view
}

func drain(t testing.TB, store Store, mux *pawl.Mux, all bool) (r Report) {
	t.Helper()
	d := draining{store: store, mux: mux}
	ctx := t.Context()
	began, err := d.known(ctx)
	for err == nil {
		if err = d.work(ctx, &r); err != nil {
			break
		}
		var wait time.Duration
		var waiting bool
		if wait, waiting, err = d.next(ctx); err != nil || !all || !waiting {
			break
		}
		if wait > 0 {
			time.Sleep(wait)
		}
	}
	if err == nil {
		err = d.report(ctx, began, &r)
	}
	if err != nil {
		t.Fatalf("pawltest: drain: %v", err)
	}
	return r
}

// draining is one Drain under way.
type draining struct {
	store Store
	mux   *pawl.Mux
}

// known are the letters that are there already.
func (d draining) known(ctx context.Context) (map[pawl.ID]bool, error) {
	letters, err := d.letters(ctx)
	known := make(map[pawl.ID]bool, len(letters))
	for _, letter := range letters {
		known[letter.ID] = true
	}
	return known, err
}

func (d draining) letters(ctx context.Context) (all []pawl.DeadLetter, err error) {
	for page := (pawl.Page{Limit: 1000}); ; {
		found, err := d.store.Letters(ctx, pawl.LetterFilter{OldestFirst: true}, page)
		if err != nil {
			return nil, err
		}
		all = append(all, found.Letters...)
		if page.After = found.Next; found.Next == "" {
			return all, nil
		}
	}
}

// work runs what is ready in the queues that there are, and what follows batches whose members have ended, until nothing is.
func (d draining) work(ctx context.Context, r *Report) error {
	for held := time.Duration(0); ; {
		views, err := d.store.Queues(ctx)
		if err != nil {
			return err
		}
		over, err := d.over(ctx)
		if err != nil || len(views)+len(over) == 0 {
			return err
		}
		queues := map[string]bool{}
		for _, view := range views {
			queues[view.Name] = true
		}
		for _, batch := range over { // that hosts end
			queues[batch.Queue] = true
		}
		begun, err := d.host(ctx, slices.Sorted(maps.Keys(queues)), r)
		switch {
		case err != nil:
			return err
		case begun > 0:
			held = 0
		case len(over) == 0 || held > mostHeld:
			return nil
		default:
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(pauseHeld):
				held += pauseHeld
			}
		}
	}
}

const (
	// mostHeld is how long a Drain waits for a batch that could end: a transaction may be adding members.
	mostHeld  = 2 * time.Second
	pauseHeld = 10 * time.Millisecond
)

// over are the batches that are open though all their members have ended.
func (d draining) over(ctx context.Context) (over []pawl.Batch, err error) {
	for page := (pawl.Page{Limit: 1000}); ; {
		found, err := d.store.Batches(ctx, pawl.BatchFilter{State: pawl.BatchIsOpen}, page)
		if err != nil {
			return nil, err
		}
		for _, batch := range found.Batches {
			if batch.Pending() == 0 {
				over = append(over, batch)
			}
		}
		if page.After = found.Next; found.Next == "" {
			return over, nil
		}
	}
}

// host runs one host until nothing is ready, and returns how many jobs it had to do with. Its upkeep makes ready what is due.
func (d draining) host(ctx context.Context, queues []string, r *Report) (begun int, err error) {
	h, err := host.New(d.store, d.mux, host.Config{
		Name: "pawltest", Logger: quiet(), StopWhenEmpty: true,
		Servers: []host.Server{{Name: "test", Queues: queues, Workers: 1}},
	})
	if err != nil {
		return 0, err
	}
	err = h.Run(ctx)
	stats := h.Stats()
	r.Attempts += int(stats.Started)
	r.Succeeded += int(stats.Succeeded)
	return int(stats.Started + stats.Died()), errors.Join(err, context.Cause(ctx))
}

// next is the time until the next scheduled job that the mux can run is due.
func (d draining) next(ctx context.Context) (wait time.Duration, waiting bool, err error) {
	for page := (pawl.Page{Limit: 1000}); ; {
		found, err := d.store.Jobs(ctx, pawl.JobFilter{State: pawl.JobScheduled}, page)
		if err != nil {
			return 0, false, err
		}
		for _, job := range found.Jobs {
			if job.HeldByKind || job.HeldByQueue || !d.mux.Handles(job.Kind) || job.RunAt.IsZero() {
				continue
			}
			if in := time.Until(job.RunAt); !waiting || in < wait {
				wait, waiting = in, true
			}
		}
		if page.After = found.Next; found.Next == "" {
			return wait, waiting, nil
		}
	}
}

// report adds what the store says.
func (d draining) report(ctx context.Context, known map[pawl.ID]bool, r *Report) error {
	letters, err := d.letters(ctx)
	if err != nil {
		return err
	}
	for _, letter := range letters {
		if known[letter.ID] {
			continue
		}
		if letter, err = d.store.Letter(ctx, letter.ID); err != nil {
			return err
		}
		r.Dead = append(r.Dead, letter)
	}
	queues, err := d.store.Queues(ctx)
	for _, queue := range queues {
		r.Left += queue.Waiting + queue.Scheduled + queue.Reserved
	}
	slices.SortStableFunc(r.Dead, func(a, b pawl.DeadLetter) int { return a.DeadAt.Compare(b.DeadAt) })
	return err
}

// quiet keeps the host's lines out of the test's output: what matters is in the report.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
