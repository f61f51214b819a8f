package host_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/storetest"
)

// The store is down for a minute: handlers go on, nobody is declared dead, nothing is charged, the log stays short, the
// calls stay few, and it all goes on by itself.
func TestOutage(t *testing.T) {
	virtual(t, func(w *world) {
		faulty := newOutage(w.store)
		w.handle(func(ctx context.Context, args workArgs) error {
			if pawl.FromContext(ctx).Attempt != 1 {
				t.Errorf("job %d is charged an attempt", args.N)
			}
			select {
			case <-time.After(time.Duration(args.N) * time.Second):
			case <-ctx.Done():
				t.Errorf("job %d was cancelled: %v", args.N, context.Cause(ctx))
			}
			return nil
		})
		first, second := w.startOn(faulty), w.startOn(faulty)
		w.pass(time.Second)
		var ids []pawl.ID
		for n := range 30 {
			ids = append(ids, w.put(3*n))
		}
		w.pass(2 * time.Second)
		faulty.down.Store(true)
		w.pass(time.Minute)
		w.equal("ready", words(first.Ready(), second.Ready()), "false false")
		if calls := faulty.calls.Load(); calls > 500 {
			t.Errorf("%d calls in a minute without a store", calls)
		}
		faulty.down.Store(false)
		w.pass(10 * time.Second)
		w.equal("ready", words(first.Ready(), second.Ready()), "true true")
		w.pass(5 * time.Minute)
		if n := len(w.lines.at(slog.LevelWarn, "")); n == 0 || n > 20 {
			t.Errorf("%d warnings", n)
		}
		first.clean()
		second.clean()
		for _, id := range ids {
			w.equal("end", w.ended(id), "done")
		}
		w.store.mu.Lock()
		w.equal("sessions", len(w.store.sessions), 2)
		w.store.mu.Unlock()
		w.equal("leases lost", first.Stats().LeasesLost+second.Stats().LeasesLost, 0)
	})
}

// A host that cannot beat starts nothing after 15 seconds, although claims would work.
func TestSilentHostStartsNothing(t *testing.T) {
	virtual(t, func(w *world) {
		store := storetest.Fail(w.store)
		var mute atomic.Bool
		store.Hook("Beat", func(_ context.Context, call func() error) error {
			if mute.Load() {
				return errDown
			}
			return call()
		})
		w.handle(func(context.Context, workArgs) error { return nil })
		h := w.startOn(store)
		w.pass(time.Second)
		mute.Store(true)
		w.pass(13 * time.Second)
		early := w.put(1)
		w.pass(500 * time.Millisecond)
		w.equal("after 14.5 seconds", w.ended(early), "done")
		w.pass(2 * time.Second)
		late := w.put(2)
		w.pass(time.Minute)
		w.equal("after 15 seconds", words(w.ended(late), w.look(late).claim.Token), "0")
		w.equal("ready", h.Ready(), false)
		mute.Store(false)
		w.pass(10 * time.Second)
		w.equal("after the next beat", w.ended(late), "done")
		h.clean()
	})
}

// A machine that was stopped comes back after its session was ended: it starts nothing under the old session, its
// running handler is told, what that returns is refused, and a new session is opened.
func TestZombie(t *testing.T) {
	virtual(t, func(w *world) {
		var mu sync.Mutex
		var cause, after error
		runs := 0
		w.handle(func(ctx context.Context, _ workArgs) error {
			mu.Lock()
			runs++
			first := runs == 1
			mu.Unlock()
			if !first {
				return nil
			}
			<-ctx.Done()
			cause = context.Cause(ctx)
			after = pawl.FromContext(ctx).Fail(context.Background(), errors.New("late"))
			return errors.New("what a zombie says")
		})
		id := w.put(1)
		h := w.start()
		w.pass(2 * time.Second)
		old := h.Stats().Session
		w.kill(old)
		w.pass(10 * time.Second)
		if !errors.Is(cause, pawl.ErrLeaseLost) || !errors.Is(after, pawl.ErrLeaseLost) {
			t.Errorf("cause %v, late operation %v", cause, after)
		}
		w.equal("a new session", h.Stats().Session != old && h.Stats().Session != 0, true)
		w.equal("end", w.ended(id), "done")
		w.equal("runs", runs, 2)
		h.clean()
		w.equal("letters", len(w.store.letters), 0)
		w.equal("leases lost", h.Stats().LeasesLost, 1)
	})
}

// Two hosts; one falls silent for good. The other one takes its jobs over within 30 seconds, charges one crash, and
// what the silent one says later is refused.
func TestTakeover(t *testing.T) {
	virtual(t, func(w *world) {
		dying := newOutage(w.store)
		begun := time.Now()
		var took time.Duration
		w.handle(func(ctx context.Context, _ workArgs) error {
			if pawl.FromContext(ctx).Attempt == 2 {
				took = time.Since(begun)
				return nil
			}
			time.Sleep(40 * time.Second)
			return nil
		})
		victim := w.startOn(dying)
		w.pass(time.Second)
		id := w.put(1)
		w.pass(time.Second)
		begun = time.Now()
		dying.down.Store(true)
		heir := w.start()
		w.pass(35 * time.Second)
		w.equal("end", w.ended(id), "done")
		if took == 0 || took > 30*time.Second {
			t.Errorf("it ran again after %s", took)
		}
		dying.down.Store(false)
		w.pass(time.Minute)
		w.equal("end", w.ended(id), "done")
		w.equal("recovered", heir.Stats().Recovered, 1)
		w.equal("refused", victim.Stats().LeasesLost, 1)
		victim.clean()
		heir.clean()
	})
}

// A job that runs three times longer than it takes to be called dead has one run.
func TestLongJobRunsOnce(t *testing.T) {
	virtual(t, func(w *world) {
		var runs atomic.Int64
		w.handle(func(ctx context.Context, _ workArgs) error {
			runs.Add(1)
			select {
			case <-time.After(3 * time.Minute):
			case <-ctx.Done():
			}
			return ctx.Err()
		})
		id, delayed := w.put(1, pawl.MaxTries(1)), w.put(2, pawl.Delay(10*time.Minute))
		first, second := w.start(), w.start()
		w.pass(20 * time.Minute)
		first.clean()
		second.clean()
		w.equal("ends", w.ended(id)+w.ended(delayed), "donedone")
		w.equal("runs", runs.Load(), 2)
	})
}

// An operator removes, or cancels, a job while it runs.
func TestOperatorTakesAJobAway(t *testing.T) {
	virtual(t, func(w *world) {
		causes := map[int]error{}
		var mu sync.Mutex
		w.handle(func(ctx context.Context, args workArgs) error {
			if pawl.FromContext(ctx).Attempt > 1 {
				return nil
			}
			<-ctx.Done()
			mu.Lock()
			defer mu.Unlock()
			causes[args.N] = context.Cause(ctx)
			return ctx.Err()
		})
		removed, cancelled, requeued := w.put(1), w.put(2), w.put(3)
		h := w.start()
		w.pass(time.Second)
		w.store.mu.Lock()
		w.store.end(w.store.jobs[removed], "removed")
		w.store.jobs[cancelled].cancel = true
		w.store.front(w.store.jobs[requeued], false)
		w.store.jobs[requeued].claim.Attempt = 5
		w.store.mu.Unlock()
		w.pass(10 * time.Second)
		for n, want := range map[int]error{1: pawl.ErrLeaseLost, 2: pawl.ErrCancelled, 3: pawl.ErrLeaseLost} {
			if !errors.Is(causes[n], want) {
				t.Errorf("cause of %d is %v, want %v", n, causes[n], want)
			}
		}
		w.pass(5 * time.Minute)
		h.clean()
		w.equal("ends", words(w.ended(removed), w.ended(cancelled), w.ended(requeued)), "removed removed done")
		w.equal("running", h.Stats().Running, 0)
	})
}

func (w *world) reserved() (n int) {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	for _, j := range w.store.jobs {
		if j.session != 0 {
			n++
		}
	}
	return n
}

// A claim whose reply was lost is found and given back: one run, one attempt.
func TestLostReplyOfAClaim(t *testing.T) {
	virtual(t, func(w *world) {
		store := storetest.Fail(w.store)
		var lose atomic.Bool
		store.Hook("Claim", func(_ context.Context, call func() error) error {
			if err := call(); err != nil {
				return err
			}
			if w.reserved() > 0 && lose.CompareAndSwap(true, false) {
				return errDown
			}
			return nil
		})
		var runs, attempts atomic.Int64
		w.handle(func(ctx context.Context, _ workArgs) error {
			runs.Add(1)
			attempts.Add(int64(pawl.FromContext(ctx).Attempt))
			return nil
		})
		h := w.startOn(store)
		w.pass(time.Second)
		lose.Store(true)
		ids := w.putMany(10)
		w.pass(5 * time.Second)
		for _, id := range ids {
			w.equal("end", w.ended(id), "done")
		}
		w.equal("runs and attempts", words(runs.Load(), attempts.Load()), "10 10")
		if h.Stats().GivenBack == 0 {
			t.Error("nothing was given back: the fault did not strike")
		}
		h.clean()
	})
}

func TestQueuesAreDrainedInStrictOrder(t *testing.T) {
	virtual(t, func(w *world) {
		w.config.Servers = oneServer(1)
		var order []string
		w.handle(func(ctx context.Context, _ workArgs) error {
			order = append(order, pawl.FromContext(ctx).Queue)
			return nil
		})
		for n := range 3 {
			w.put(n, pawl.InQueue("3-bulk"))
			w.put(n, pawl.InQueue("2-default"))
			w.put(n, pawl.InQueue("1-critical"))
		}
		h := w.start()
		w.pass(time.Second)
		h.clean()
		w.equal("order", strings.Join(order, " "), "1-critical 1-critical 1-critical 2-default 2-default 2-default 3-bulk 3-bulk 3-bulk")
	})
}

// Claims never ask for more than the free slots, and name the handler's kinds only.
func TestClaimsNeverExceedFreeSlots(t *testing.T) {
	virtual(t, func(w *world) {
		w.config.Servers = oneServer(7)
		var running, most atomic.Int64
		w.handle(func(_ context.Context, args workArgs) error {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			time.Sleep(time.Duration(args.N%13) * time.Millisecond)
			return nil
		})
		w.putMany(500)
		foreign := w.putOf(once, 1)
		h := w.start()
		w.pass(10 * time.Second)
		h.clean()
		w.equal("most at a time", most.Load(), 7)
		w.equal("done", h.Stats().Succeeded, 500)
		w.equal("a kind of another service waits", w.look(foreign).claim.Token, 0)
		for _, r := range w.store.claims {
			if r.Orphans == nil && (r.Max > 7 || len(r.Kinds) != 1) {
				t.Fatalf("claim %+v", r)
			}
		}
	})
}

// A job starts as soon as it is there: the wake-up works, and where it does not, the poll finds it.
func TestWakeAndPoll(t *testing.T) {
	for name, limit := range map[string]time.Duration{"wake": 0, "poll": 1250 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(w *world) {
				store := storetest.Fail(w.store)
				if name == "poll" {
					store.Hook("Wake", func(context.Context, func() error) error { return errDown })
				}
				var started time.Time
				w.handle(func(context.Context, workArgs) error { started = time.Now(); return nil })
				h := w.startOn(store)
				w.pass(10*time.Second + 300*time.Millisecond)
				synctest.Wait()
				begun := time.Now()
				w.put(1)
				w.pass(3 * time.Second)
				if wait := started.Sub(begun); started.IsZero() || wait > limit {
					t.Errorf("started after %s", wait)
				}
				h.clean()
			})
		})
	}
}
