package host_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/sqlite"
	"github.com/pawljobs/pawl/storetest"
)

// life is what happens to one job of the mixed run, and how that must end.
type life struct {
	kind    pawl.Kind[workArgs]
	options []pawl.Option
	run     func(ctx context.Context, job *pawl.Job) error
	ends    string
	tries   int // runs, and attempts counted
	warns   int // of failed attempts that were retried
	reason  pawl.Reason
}

var errNoLuck = errors.New("no luck")

func lives() []life {
	three := []pawl.Option{pawl.MaxTries(3), pawl.Backoff(time.Second)}
	failing := func(times int) func(context.Context, *pawl.Job) error {
		return func(_ context.Context, job *pawl.Job) error {
			if job.Attempt <= times {
				return errNoLuck
			}
			return nil
		}
	}
	return []life{
		{kind: work, run: failing(0), ends: "done", tries: 1},
		{kind: once, run: failing(0), ends: "done", tries: 1},
		{kind: work, options: three, run: failing(2), ends: "done", tries: 3, warns: 2},
		{kind: work, options: three, run: failing(9), ends: "dead", tries: 3, warns: 2, reason: pawl.ReasonBudget},
		{kind: work, run: func(context.Context, *pawl.Job) error { return pawl.Permanent(errNoLuck) }, ends: "dead", tries: 1, reason: pawl.ReasonPermanent},
		{kind: once, run: func(context.Context, *pawl.Job) error { panic("boom") }, ends: "dead", tries: 1, reason: pawl.ReasonBudget},
		{kind: work, run: func(ctx context.Context, job *pawl.Job) error {
			if job.Attempt > 1 {
				return job.Delete(ctx)
			}
			return job.Release(ctx, time.Second)
		}, ends: "done", tries: 2},
		{kind: work, run: func(ctx context.Context, job *pawl.Job) error { return job.Fail(ctx, errNoLuck) }, ends: "dead", tries: 1, reason: pawl.ReasonExplicit},
		{kind: work, options: append(three, pawl.Timeout(time.Second)), run: func(ctx context.Context, job *pawl.Job) error {
			if job.Attempt > 1 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}, ends: "done", tries: 2, warns: 1},
		{kind: work, options: []pawl.Option{pawl.Delay(2 * time.Second)}, run: failing(0), ends: "done", tries: 1},
	}
}

// inspected is a store whose jobs' ends can be read.
type inspected interface {
	pawl.Store
	end(t *testing.T, id pawl.ID) (how string, attempts int)
	deaths(t *testing.T) []pawl.DeadLetter
	undelivered(t *testing.T) int
}

type inspectedSQLite struct{ *sqlite.Store }

func (s inspectedSQLite) end(t *testing.T, id pawl.ID) (string, int) {
	view, err := s.Job(context.Background(), id)
	if err != nil {
		t.Errorf("job %s: %v", id, err)
	}
	return string(view.State), view.Attempt
}

func (s inspectedSQLite) deaths(t *testing.T) []pawl.DeadLetter {
	page, err := s.Letters(context.Background(), pawl.LetterFilter{}, pawl.Page{Limit: 1000})
	if err != nil {
		t.Error(err)
	}
	return page.Letters
}

func (s inspectedSQLite) undelivered(t *testing.T) (n int) {
	sinks, err := s.Sinks(context.Background())
	if err != nil {
		t.Error(err)
	}
	for _, sink := range sinks {
		n += sink.Pending
	}
	return n
}

func openSQLite(t testing.TB) inspected {
	store, err := sqlite.Open(context.Background(), filepath.Join(t.TempDir(), "jobs.db"), sqlite.Config{PollInterval: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return inspectedSQLite{store}
}

type inspectedFake struct{ *fakeStore }

func (f inspectedFake) end(_ *testing.T, id pawl.ID) (how string, attempts int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range f.ended[id] {
		how += h
	}
	return how, f.attempts[id]
}

func (f inspectedFake) deaths(*testing.T) (all []pawl.DeadLetter) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range f.letters {
		all = append(all, l)
	}
	return all
}

func (f inspectedFake) undelivered(*testing.T) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.alerts {
		if !a.delivered {
			n++
		}
	}
	return n
}

// mixedRun runs fifty jobs with the nth store call failing (0: none), checks that nothing is lost and nothing is
// doubled, and returns how many calls there were.
func mixedRun(w *world, store inspected, n int, when storetest.When) (calls int) {
	faulty := storetest.Fail(store)
	if n > 0 {
		faulty.At(n, when)
	}
	all := lives()
	var mu sync.Mutex
	runs := map[pawl.ID]int{}
	handle := func(ctx context.Context, args workArgs) error {
		job := pawl.FromContext(ctx)
		mu.Lock()
		runs[job.ID]++
		mu.Unlock()
		return all[args.N%len(all)].run(ctx, job)
	}
	w.handle(handle)
	pawl.Handle(w.mux, once, handle)
	alerts := &sink{name: "mail"}
	w.config.Sinks = []pawl.Sink{alerts}
	w.config.Servers = oneServer(20)
	const jobs = 50
	ids := make([]pawl.ID, jobs)
	for i := range ids {
		l := all[i%len(all)]
		done, err := l.kind.Enqueue(context.Background(), store, workArgs{i}, l.options...)
		if err != nil {
			w.Fatal(err)
		}
		ids[i] = done.ID
	}
	h := w.startOn(faulty)
	for range 60 {
		w.pass(2 * time.Second)
		if s := h.Stats(); s.Succeeded+s.Died() == jobs && s.Settling == 0 && store.undelivered(w.T) == 0 {
			break
		}
	}
	_, err := h.stop()
	if log := faulty.Log(); err != nil && (n > len(log) || n < 1 || log[n-1] != "CloseSession") {
		w.Errorf("Run returned %v", err)
	}
	checkLives(w, store, all, ids, runs)
	w.equal("strays", h.Stats().Strays, 0)
	for key, times := range keysOf(alerts) {
		if times > 1 && when != storetest.After {
			w.Errorf("alert %s was delivered %d times", key, times)
		}
	}
	return faulty.Calls()
}

func keysOf(s *sink) map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := map[string]int{}
	for _, alert := range s.got {
		keys[alert.Key]++
	}
	return keys
}

// checkLives compares every job's end with its life.
func checkLives(w *world, store inspected, all []life, ids []pawl.ID, runs map[pawl.ID]int) {
	w.Helper()
	letters := map[pawl.ID][]pawl.DeadLetter{}
	for _, l := range store.deaths(w.T) {
		letters[l.JobID] = append(letters[l.JobID], l)
	}
	lines := w.deathLines()
	warned := map[string]int{}
	for _, e := range w.lines.at(slog.LevelWarn, "job attempt failed") {
		warned[fmt.Sprint(e["job"])]++
	}
	for i, id := range ids {
		l := all[i%len(all)]
		how, attempts := store.end(w.T, id)
		got := words(how, attempts, runs[id], len(letters[id]), lines[id.String()], warned[id.String()])
		deaths := map[string]int{"dead": 1}[l.ends]
		if want := words(l.ends, l.tries, l.tries, deaths, deaths, l.warns); got != want {
			w.Errorf("job %d (end, attempts, runs, letters, error lines, warnings): got %s, want %s", i, got, want)
		}
		if deaths == 1 && len(letters[id]) == 1 && letters[id][0].Reason != l.reason {
			w.Errorf("job %d died by %s, want %s", i, letters[id][0].Reason, l.reason)
		}
	}
	w.equal("undelivered alerts", store.undelivered(w.T), 0)
}

// For every N, the Nth call of the store fails, before it and after its commit: nothing is lost, no transition is
// doubled, deaths are letters are Error lines, retried attempts are warnings.
func TestEveryStoreCallFails(t *testing.T) {
	stores := map[string]struct {
		open func(t testing.TB) inspected
		step int // every so many calls only; 1 is all
	}{
		"fake":   {func(testing.TB) inspected { return inspectedFake{newFake()} }, 1},
		"sqlite": {openSQLite, 1},
	}
	for name, s := range stores {
		if testing.Short() {
			s.step = 9
		}
		t.Run(name, func(t *testing.T) {
			slots := make(chan struct{}, runtime.GOMAXPROCS(0))
			run := func(t *testing.T, n int, when storetest.When) (calls int) {
				slots <- struct{}{}
				defer func() { <-slots }()
				synctest.Test(t, func(t *testing.T) {
					store := s.open(t)
					calls = mixedRun(newWorld(t), store, n, when)
					if closer, ok := store.(interface{ Close() error }); ok {
						if err := closer.Close(); err != nil {
							t.Error(err)
						}
					}
				})
				return calls
			}
			calls := run(t, 0, storetest.Before)
			t.Logf("%d calls", calls)
			for n := 1; n <= calls; n += s.step {
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
