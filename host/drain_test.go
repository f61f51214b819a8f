package host_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
	"github.com/pawljobs/pawl/storetest"
)

func TestDrainWaitsForHandlersAndClaimsNothing(t *testing.T) {
	virtual(t, func(w *world) {
		w.config.Servers = oneServer(10)
		w.handle(func(context.Context, workArgs) error { time.Sleep(time.Minute); return nil })
		first := w.putMany(10)
		h := w.start()
		w.pass(10 * time.Second)
		w.equal("ready", h.Ready(), true)
		later := w.put(99)
		h.cancel()
		synctest.Wait()
		w.equal("ready while draining", h.Ready(), false)
		w.store.mu.Lock()
		w.equal("the beat says so", w.store.sessions[h.Stats().Session].last.Draining, true)
		w.store.mu.Unlock()
		took, err := h.stop()
		w.equal("error", err, nil)
		w.equal("took", took, 50*time.Second)
		for _, id := range first {
			w.equal("end", w.ended(id), "done")
		}
		w.equal("the one that came later", words(w.ended(later), w.look(later).claim.Attempt), "0")
		w.equal("sessions left open", w.openSessions(), 0)
	})
}

func (w *world) openSessions() (open int) {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	for _, s := range w.store.sessions {
		if !s.ended {
			open++
		}
	}
	return open
}

// A handler that returns after its ctx was cancelled by the shutdown is put back at once, uncounted, whatever its error
// wraps, unless it says permanent, or it is done.
func TestDrainCancelsAfterTheGrace(t *testing.T) {
	virtual(t, func(w *world) {
		var mu sync.Mutex
		causes := map[int]error{}
		w.handle(func(ctx context.Context, args workArgs) error {
			begun := time.Now()
			<-ctx.Done()
			mu.Lock()
			defer mu.Unlock()
			causes[args.N] = context.Cause(ctx)
			if ran := time.Since(begun); ran != 105*time.Second {
				t.Errorf("cancelled after %s", ran)
			}
			switch args.N {
			case 2:
				return nil
			case 3:
				return pawl.Permanent(errors.New("no"))
			case 4:
				return pawl.RetryAfter(fmt.Errorf("my own: %w", ctx.Err()), time.Hour)
			}
			return fmt.Errorf("my own words")
		})
		requeued, done, dead, wrapped := w.put(1, pawl.Timeout(time.Hour)), w.put(2, pawl.Timeout(time.Hour)), w.put(3, pawl.Timeout(time.Hour)), w.put(4, pawl.Timeout(time.Hour))
		h := w.start()
		synctest.Wait()
		took, err := h.stop()
		w.equal("took and error", words(took, err), "1m45s <nil>")
		for n := range 4 {
			if !errors.Is(causes[n+1], pawl.ErrShutdown) {
				t.Errorf("cause of %d: %v", n+1, causes[n+1])
			}
		}
		for _, id := range []pawl.ID{requeued, wrapped} {
			j := w.look(id)
			w.equal("requeued", words(j.claim.Attempt, j.claim.Requeues, len(j.claim.History), j.runAt.IsZero()), "0 1 0 true")
		}
		w.equal("done", w.ended(done), "done")
		w.equal("dead", words(w.ended(dead), w.letterOf(dead).Class), "dead permanent")
		w.equal("requeues", h.Stats().Requeued, 2)
	})
}

func TestDrainCutsOffHandlersThatIgnoreIt(t *testing.T) {
	virtual(t, func(w *world) {
		gate := make(chan struct{})
		var late error
		w.handle(func(ctx context.Context, _ workArgs) error {
			if pawl.FromContext(ctx).EnqueuedAt != time.Now() {
				return nil // on the second host
			}
			<-gate
			late = pawl.FromContext(ctx).Delete(context.Background())
			return nil
		})
		pawl.Handle(w.mux, once, func(context.Context, workArgs) error { <-gate; return nil })
		id, never := w.put(1, pawl.Timeout(time.Hour)), w.putOf(once, 2, pawl.Timeout(time.Hour))
		h := w.start()
		synctest.Wait()
		took, err := h.stop()
		w.equal("took and error", words(took, err), "2m0s <nil>")
		w.equal("strays", h.Stats().Strays, 2)
		j := w.look(id)
		w.equal("put back", words(j.claim.Attempt, j.claim.Requeues, j.session), "0 1 0")
		l := w.letterOf(never)
		w.equal("max tries 1", words(l.Class, l.Reason, l.Reason.OutcomeUnknown()), "transient-exhausted lost true")
		second := w.start()
		w.pass(time.Second)
		w.equal("on another host", w.ended(id), "done")
		close(gate)
		synctest.Wait()
		w.equal("strays", h.Stats().Strays, 0)
		if !errors.Is(late, pawl.ErrFinished) {
			t.Errorf("late operation: %v", late)
		}
		second.clean()
		w.equal("end", w.ended(id), "done")
	})
}

func TestInterruptedOnceJobDies(t *testing.T) {
	virtual(t, func(w *world) {
		pawl.Handle(w.mux, once, func(ctx context.Context, _ workArgs) error { <-ctx.Done(); return ctx.Err() })
		id := w.putOf(once, 1, pawl.Timeout(time.Hour))
		h := w.start()
		synctest.Wait()
		h.clean()
		l := w.letterOf(id)
		w.equal("reason", words(l.Reason, l.Reason.OutcomeUnknown()), "interrupted true")
	})
}

// Thirty deploys over one long job with max tries 3: it never dies of them, and from the tenth on a warning says so.
func TestDeploysSpendNothing(t *testing.T) {
	virtual(t, func(w *world) {
		finish := false
		w.handle(func(ctx context.Context, _ workArgs) error {
			if finish {
				return nil
			}
			<-ctx.Done()
			return ctx.Err()
		})
		id := w.put(1, pawl.MaxTries(3), pawl.Timeout(10*time.Hour))
		for deploy := range 30 {
			h := w.start()
			w.pass(time.Minute)
			h.clean()
			j := w.look(id)
			w.equal("after a deploy", words(j.claim.Attempt, j.claim.Requeues), words(0, deploy+1))
		}
		warned := 0
		for _, e := range w.lines.at(slog.LevelWarn, "") {
			if e["requeues"] != nil {
				warned++
			}
		}
		w.equal("warnings", warned, 21)
		finish = true
		h := w.start()
		w.pass(time.Minute)
		h.clean()
		w.equal("end", w.ended(id), "done")
	})
}

// Every rung bounds its part, also when the store is gone, and what could not be recorded is said.
func TestDrainWithoutAStore(t *testing.T) {
	virtual(t, func(w *world) {
		faulty := newOutage(w.store)
		w.handle(func(context.Context, workArgs) error { time.Sleep(time.Minute); return nil })
		w.put(1)
		h := w.startOn(faulty)
		w.pass(time.Second)
		faulty.down.Store(true)
		took, err := h.stop()
		if took > 135*time.Second || err == nil {
			t.Errorf("took %s, error %v", took, err)
		}
		w.equal("running", h.Stats().Running, 0)
	})
}

func TestARunningHostIsNotReused(t *testing.T) {
	virtual(t, func(w *world) {
		w.handle(func(context.Context, workArgs) error { return nil })
		h := w.start()
		w.pass(time.Second)
		if err := h.Run(context.Background()); err == nil {
			t.Error("a second Run was accepted")
		}
		h.clean()
		if err := h.Run(context.Background()); err == nil {
			t.Error("a Run after the first one ended was accepted")
		}
	})
}

func TestStopBeforeTheStoreAnswers(t *testing.T) {
	virtual(t, func(w *world) {
		faulty := newOutage(w.store)
		faulty.down.Store(true)
		w.handle(func(context.Context, workArgs) error { return nil })
		h := w.startOn(faulty)
		w.pass(time.Minute)
		w.equal("ready", h.Ready(), false)
		took, err := h.stop()
		w.equal("took and error", words(took, err), "0s <nil>")
	})
}

// The ctx ends at a random moment with a hundred jobs running. Every job is then either ended or back in its queue;
// another host runs what is left, and everything ends once.
func TestDrainAtARandomMoment(t *testing.T) {
	rounds := 150
	if testing.Short() {
		rounds = 20
	}
	for seed := range rounds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			virtual(t, func(w *world) { drainAtRandom(w, rand.New(rand.NewPCG(7, uint64(seed)))) })
		})
	}
}

func drainAtRandom(w *world, random *rand.Rand) {
	w.config.Servers = oneServer(100)
	w.config.Logger = slog.New(slog.DiscardHandler)
	plan := make([]int, 150)
	for i := range plan {
		plan[i] = random.IntN(1000)
	}
	quit := make(chan struct{})
	var doubled atomic.Int64
	runningNow := sync.Map{}
	w.handle(func(ctx context.Context, args workArgs) error {
		p := plan[args.N]
		job := pawl.FromContext(ctx)
		if p%9 == 0 && job.Attempt == 1 { // ignores its ctx
			<-quit
			return nil
		}
		if _, there := runningNow.LoadOrStore(args.N, true); there {
			doubled.Add(1)
		}
		defer runningNow.Delete(args.N)
		select {
		case <-time.After(time.Duration(p) * 200 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("stopped: %w", ctx.Err())
		}
		switch {
		case p%7 == 0:
			return pawl.Permanent(errors.New("no"))
		case p%5 == 0 && job.Attempt < 3:
			return errors.New("again")
		case p%4 == 0:
			return job.Release(ctx, time.Second)
		}
		return nil
	})
	ids := w.putMany(150, pawl.MaxTries(4), pawl.Backoff(time.Second))
	h := w.start()
	time.Sleep(time.Duration(random.IntN(250)) * time.Second)
	took, err := h.stop()
	if err != nil || took > 135*time.Second {
		w.Errorf("took %s, error %v", took, err)
	}
	w.store.mu.Lock()
	for _, id := range ids {
		if j := w.store.jobs[id]; j != nil && j.session != 0 {
			w.Errorf("job %s is still reserved", id)
		}
	}
	w.store.mu.Unlock()
	close(quit)
	synctest.Wait()
	second := w.start()
	time.Sleep(30 * time.Minute)
	second.clean()
	for _, id := range ids {
		if how := w.ended(id); how != "done" && how != "dead" {
			w.Errorf("job %s ended %q", id, how)
		}
	}
	w.equal("runs at the same time", doubled.Load(), 0)
}

// A claim that is answered when the host has begun to drain is given back unstarted and uncounted.
func TestClaimThatIsAnsweredTooLate(t *testing.T) {
	virtual(t, func(w *world) {
		store := storetest.Fail(w.store)
		var slow atomic.Bool
		store.Hook("Claim", func(_ context.Context, call func() error) error {
			err := call()
			if slow.Load() {
				time.Sleep(5 * time.Second)
			}
			return err
		})
		w.handle(func(context.Context, workArgs) error { t.Error("a job was started while draining"); return nil })
		h := w.startOn(store)
		w.pass(10 * time.Second)
		slow.Store(true)
		ids := w.putMany(10)
		synctest.Wait()
		h.clean()
		w.equal("given back", h.Stats().GivenBack > 0, true)
		for _, id := range ids {
			j := w.look(id)
			w.equal("job", words(j.claim.Attempt, j.claim.Requeues, j.session, len(j.claim.History)), "0 0 0 0")
		}
	})
}

// A start mark that is written when the grace is over: the handler, which nobody would cancel any more, is not begun, and
// the job, of which nothing has run, is given back. It would end as one whose outcome is unknown.
func TestStartMarkThatComesTooLate(t *testing.T) {
	virtual(t, func(w *world) {
		store := storetest.Fail(w.store)
		store.Hook("Start", func(_ context.Context, call func() error) error {
			err := call()
			time.Sleep(20 * time.Second)
			return err
		})
		w.config.Drain = host.Drain{Handler: 10 * time.Second, Server: 40 * time.Second, Host: 50 * time.Second}
		pawl.Handle(w.mux, once, func(context.Context, workArgs) error {
			t.Error("a handler was begun after the grace")
			time.Sleep(time.Hour)
			return nil
		})
		id := w.putOf(once, 1, pawl.Timeout(2*time.Hour))
		h := w.startOn(store)
		w.pass(time.Second)
		h.clean()
		j := w.look(id)
		w.equal("given back", words(j.claim.Attempt, j.claim.Requeues, j.claim.Started, j.session), "0 0 false 0")
	})
}

// A quiet host finishes what runs and takes nothing more.
func TestQuiet(t *testing.T) {
	virtual(t, func(w *world) {
		w.handle(func(context.Context, workArgs) error { time.Sleep(10 * time.Minute); return nil })
		running := w.put(1, pawl.Timeout(time.Hour))
		h := w.start()
		w.pass(time.Second)
		h.Quiet()
		h.Quiet()
		w.pass(time.Second)
		w.equal("ready", h.Ready(), false)
		waiting := w.put(2)
		w.pass(20 * time.Minute)
		w.equal("ends", words(w.ended(running), w.look(waiting).claim.Token), "done 0")
		took, err := h.stop()
		w.equal("took and error", words(took, err), "0s <nil>")
	})
}

// A handler that has made its transition and runs on is still the host's: the shutdown cancels it, gives it up when it
// ignores that, and does not wait for longer than its rungs.
func TestDrainEndsHandlersAfterTheirTransition(t *testing.T) {
	for name, obeys := range map[string]bool{"obeys": true, "ignores": false} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(w *world) {
				release := make(chan struct{})
				var cause error
				w.handle(func(ctx context.Context, _ workArgs) error {
					if err := pawl.FromContext(ctx).Delete(ctx); err != nil {
						t.Error(err)
					}
					if obeys {
						<-ctx.Done()
						cause = context.Cause(ctx)
						return ctx.Err()
					}
					<-release
					return nil
				})
				w.config.Drain = host.Drain{Handler: 2 * time.Second, Server: 4 * time.Second, Host: 8 * time.Second}
				id := w.put(1)
				h := w.start()
				w.pass(time.Second)
				took, err := h.stop()
				w.equal("error", err, nil)
				w.equal("end", w.ended(id), "done")
				if obeys {
					w.equal("took", took, 2*time.Second)
					w.equal("cause", cause, pawl.ErrShutdown)
				} else {
					w.equal("took", took, 4*time.Second)
					w.equal("strays", h.Stats().Strays, 1)
				}
				close(release)
				synctest.Wait()
			})
		})
	}
}
