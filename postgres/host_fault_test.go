package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
	"github.com/pawljobs/pawl/storetest"
)

// life is what happens to one job of the mixed run, and how that must end.
type life struct {
	kind    pawl.Kind[workArgs]
	options []pawl.Option
	run     func(ctx context.Context, job *pawl.Job) error
	state   pawl.JobState
	tries   int         // runs, and attempts counted
	reason  pawl.Reason // of the death
}

var errNoLuck = errors.New("no luck")

func failing(times int) func(context.Context, *pawl.Job) error {
	return func(_ context.Context, job *pawl.Job) error {
		if job.Attempt <= times {
			return errNoLuck
		}
		return nil
	}
}

func lives() []life {
	const moment = 20 * time.Millisecond
	three := []pawl.Option{pawl.MaxTries(3), pawl.Backoff(moment)}
	return []life{
		{kind: work, run: failing(0), state: pawl.JobDone, tries: 1},
		{kind: once, run: failing(0), state: pawl.JobDone, tries: 1},
		{kind: work, options: three, run: failing(2), state: pawl.JobDone, tries: 3},
		{kind: work, options: three, run: failing(9), state: pawl.JobDead, tries: 3, reason: pawl.ReasonBudget},
		{kind: work, run: func(context.Context, *pawl.Job) error { return pawl.Permanent(errNoLuck) }, state: pawl.JobDead, tries: 1, reason: pawl.ReasonPermanent},
		{kind: once, run: func(context.Context, *pawl.Job) error { panic("boom") }, state: pawl.JobDead, tries: 1, reason: pawl.ReasonBudget},
		{kind: work, run: func(ctx context.Context, job *pawl.Job) error {
			if job.Attempt > 1 {
				return job.Delete(ctx)
			}
			return job.Release(ctx, moment)
		}, state: pawl.JobDone, tries: 2},
		{kind: work, run: func(ctx context.Context, job *pawl.Job) error { return job.Fail(ctx, errNoLuck) }, state: pawl.JobDead, tries: 1, reason: pawl.ReasonExplicit},
		{kind: work, options: append(three, pawl.Timeout(moment)), run: func(ctx context.Context, job *pawl.Job) error {
			if job.Attempt > 1 {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		}, state: pawl.JobDone, tries: 2},
		{kind: work, options: []pawl.Option{pawl.Delay(5 * moment)}, run: failing(0), state: pawl.JobDone, tries: 1},
	}
}

// mailbox is a sink that keeps the keys of what it gets.
type mailbox struct {
	mu   sync.Mutex
	keys map[string]int
}

func (*mailbox) Name() string { return "mail" }

func (m *mailbox) Deliver(_ context.Context, alert pawl.Alert) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keys[alert.Key]++
	return nil
}

// For every N, the Nth call that a host makes fails, before the store sees it and after its commit: nothing is lost,
// no transition is doubled, deaths are letters and Error lines, each alert is delivered.
func TestEveryCallFails(t *testing.T) {
	server(t)
	step := 1
	if testing.Short() {
		step = 9
	}
	calls := 0
	t.Run("none", func(t *testing.T) { calls = len(mixedRun(t, 0, storetest.Before)) })
	t.Logf("%d calls", calls)
	for n := 1; n <= calls; n += step {
		for _, when := range []storetest.When{storetest.Before, storetest.After} {
			t.Run(fmt.Sprint(n, when), func(t *testing.T) {
				t.Parallel()
				mixedRun(t, n, when)
			})
		}
	}
}

// mixedRun runs fifty jobs while the nth call fails (0: none), and returns the calls that there were.
func mixedRun(t *testing.T, n int, when storetest.When) (calls []string) {
	const jobs = 50
	w := newWorld(t)
	all, runs, mail := lives(), newLedger(), &mailbox{keys: map[string]int{}}
	var ids []pawl.ID
	var mixed []pawl.NewJob
	for i := range jobs {
		l := all[i%len(all)]
		job, err := l.kind.New(t.Context(), w.store.Connection(), workArgs{i}, l.options...)
		if err != nil {
			t.Fatal(err)
		}
		ids, mixed = append(ids, job.ID), append(mixed, job)
	}
	put(t, w.store, mixed...)
	faulty := storetest.Fail(w.store.Store)
	if n > 0 {
		faulty.At(n, when)
	}
	config := w.config("a", 20, host.Intervals{
		Beat: 300 * time.Millisecond, Silence: 10 * time.Second, DeadAfter: 20 * time.Second, Poll: 100 * time.Millisecond,
		Sweep: 100 * time.Millisecond, Alerts: 100 * time.Millisecond, Call: 10 * time.Second,
	})
	config.Sinks = []pawl.Sink{mail}
	h := w.start(faulty, muxOf(func(ctx context.Context, job *pawl.Job, args workArgs) error {
		runs.add(job)
		return all[args.N%len(all)].run(ctx, job)
	}), config)
	w.until(patience, "the end of all jobs", func() bool {
		s := h.Stats()
		return s.Succeeded+s.Died() == jobs && s.Settling == 0
	})
	leased := false
	w.until(patience, "the delivery of all alerts", func() bool {
		if log := faulty.Log(); !leased && when == storetest.After && n > 0 && n < len(log) && log[n-1] == "ClaimAlerts" && slices.Contains(log[n:], "ClaimAlerts") {
			leased = true
			backdate(t, w.store, pawl.AlertLease) // what was claimed without anybody's knowledge comes free
		}
		return w.undelivered() == 0
	})
	h.cancel()
	<-h.done
	calls = faulty.Log()
	h.mayFail = n > 0 && n <= len(calls) && calls[n-1] == "CloseSession"
	if n > len(calls) {
		t.Logf("there were only %d calls this time", len(calls))
	}

	checkLives(w, all, ids, runs)
	for key, times := range mail.keys {
		if times > 1 && (when != storetest.After || calls[n-1] != "SettleAlerts") {
			t.Errorf("alert %s was delivered %d times", key, times)
		}
	}
	w.equal("queues", w.counts(), pawl.QueueView{})
	w.equal("strays", h.Stats().Strays, 0)
	return calls
}

func (w *world) undelivered() (n int) {
	w.Helper()
	sinks, err := w.store.Sinks(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	for _, sink := range sinks {
		n += sink.Pending
	}
	return n
}

// checkLives compares every job's end with its life.
func checkLives(w *world, all []life, ids []pawl.ID, runs *ledger) {
	w.Helper()
	deaths, retried := 0, 0
	views, letters := w.views(), w.letters()
	for i, id := range ids {
		l := all[i%len(all)]
		attempts := make([]int, l.tries)
		for n := range attempts {
			attempts[n] = n + 1
		}
		runs.ran(w, ids[i:i+1], attempts...)
		view := views[id]
		w.equal(fmt.Sprintf("end of job %d", i), fmt.Sprint(view.State, view.Attempt, view.Crashes), fmt.Sprint(l.state, l.tries, 0))
		reasons := []pawl.Reason{}
		if l.state == pawl.JobDead {
			deaths++
			reasons = append(reasons, l.reason)
		}
		w.equal(fmt.Sprintf("letters of job %d", i), letters[id], reasons)
		if l.tries > 1 && i%len(all) != 6 { // that one releases itself
			retried += l.tries - 1
		}
	}
	w.equal("lines of deaths", w.saying(slog.LevelError, "job dead-lettered"), deaths)
	w.equal("other errors", len(w.lines.at(slog.LevelError)), deaths)
	w.equal("lines of retried attempts", w.saying(slog.LevelWarn, "job attempt failed"), retried)
}

// letters returns the reasons of all deaths by their jobs.
func (w *world) letters() map[pawl.ID][]pawl.Reason {
	w.Helper()
	page, err := w.store.Letters(w.Context(), pawl.LetterFilter{}, pawl.Page{Limit: 1000})
	if err != nil {
		w.Fatal(err)
	}
	reasons := map[pawl.ID][]pawl.Reason{}
	for _, letter := range page.Letters {
		reasons[letter.JobID] = append(reasons[letter.JobID], letter.Reason)
	}
	return reasons
}

// saying counts the lines with a message.
func (w *world) saying(level slog.Level, message string) (n int) {
	for _, line := range w.lines.at(level) {
		if strings.Contains(line, message) {
			n++
		}
	}
	return n
}
