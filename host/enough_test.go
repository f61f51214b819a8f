package host_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
)

// enough waits for a host to end by itself.
func (r *running) enough(within time.Duration) {
	r.w.Helper()
	begun := time.Now()
	select {
	case err := <-r.err:
		if err != nil {
			r.w.Errorf("Run returned %v", err)
		}
		if took := time.Since(begun); took > within {
			r.w.Errorf("it ended after %v, want %v at most", took, within)
		}
	case <-time.After(3 * time.Hour):
		r.w.Fatal("it does not end")
	}
}

func TestMaxJobsEndsTheHost(t *testing.T) {
	for name, servers := range map[string][]host.Server{
		"one server":  {{Name: "a", Queues: []string{"2-default"}, Workers: 4}},
		"two servers": {{Name: "a", Queues: []string{"2-default"}, Workers: 3}, {Name: "b", Queues: []string{"2-default"}, Workers: 3}},
		"one worker":  {{Name: "a", Queues: []string{"2-default"}, Workers: 1}},
		"many":        {{Name: "a", Queues: []string{"2-default"}, Workers: 20}},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(w *world) {
				w.handle(func(ctx context.Context, _ workArgs) error { time.Sleep(10 * time.Minute); return ctx.Err() })
				w.config.Servers, w.config.MaxJobs = servers, 7
				ids := w.putMany(10, pawl.Timeout(time.Hour))
				r := w.start()
				r.enough(80 * time.Minute) // longer than any grace: they are let end
				done := 0
				for _, id := range ids {
					if w.ended(id) == "done" {
						done++
					}
				}
				w.equal("done, claimed, given back", words(done, r.Stats().Claimed, r.Stats().GivenBack), "7 7 0")
			})
		})
	}
}

// holdElsewhere has another session claim all that is ready.
func (w *world) holdElsewhere() pawl.SessionID {
	w.Helper()
	session, err := w.store.OpenSession(context.Background(), pawl.HostInfo{Name: "other"})
	if err != nil {
		w.Fatal(err)
	}
	claimed, err := w.store.Claim(context.Background(), pawl.ClaimRequest{
		Session: session, Queues: []string{"2-default"}, Kinds: []string{work.Name()}, Max: 10,
	})
	if err != nil || len(claimed.Jobs) == 0 {
		w.Fatal("claimed", claimed.Jobs, err)
	}
	return session
}

func TestStopWhenEmpty(t *testing.T) {
	t.Run("works it off", func(t *testing.T) {
		virtual(t, func(w *world) {
			again := pawl.NewKind[workArgs]("test.again.v1", pawl.Policy{})
			pawl.Handle(w.mux, again, func(ctx context.Context, _ workArgs) error {
				if job := pawl.FromContext(ctx); job.Attempt == 1 {
					time.Sleep(time.Minute)
					w.putMany(3) // work that comes up while it works
					return job.Release(ctx, 0)
				}
				return nil
			})
			w.handle(func(context.Context, workArgs) error { time.Sleep(time.Second); return nil })
			w.config.StopWhenEmpty = true
			last, later := w.putOf(again, 1), w.put(2, pawl.Delay(time.Hour))
			r := w.start()
			r.enough(2 * time.Minute)
			w.equal("released, later", words(w.ended(last), w.ended(later)), "done")
			w.equal("succeeded", r.Stats().Succeeded, 4)
		})
	})
	t.Run("nothing there", func(t *testing.T) {
		virtual(t, func(w *world) {
			w.handle(func(context.Context, workArgs) error { return nil })
			w.config.StopWhenEmpty = true
			w.start().enough(5 * time.Second)
		})
	})
	t.Run("a dead host's jobs too", func(t *testing.T) {
		virtual(t, func(w *world) {
			w.handle(func(context.Context, workArgs) error { return nil })
			w.config.StopWhenEmpty = true
			id := w.put(1)
			w.holdElsewhere()
			r := w.start()
			r.enough(40 * time.Second)
			w.equal("ended", w.ended(id), "done")
		})
	})
	t.Run("not a living host's", func(t *testing.T) {
		virtual(t, func(w *world) {
			w.handle(func(context.Context, workArgs) error { return nil })
			w.config.StopWhenEmpty = true
			id := w.put(1)
			other := w.holdElsewhere()
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			go func() {
				for ctx.Err() == nil {
					_, _ = w.store.Beat(ctx, other, pawl.Beat{})
					time.Sleep(5 * time.Second)
				}
			}()
			w.start().enough(12 * time.Second)
			w.equal("ended", w.ended(id), "")
			cancel()
			w.pass(10 * time.Second)
		})
	})
	t.Run("stopped before", func(t *testing.T) {
		virtual(t, func(w *world) {
			w.handle(func(ctx context.Context, _ workArgs) error { <-ctx.Done(); return context.Cause(ctx) })
			w.config.StopWhenEmpty = true
			id := w.put(1, pawl.Timeout(time.Hour))
			r := w.start()
			w.pass(time.Minute)
			r.clean()
			w.equal("ended", w.ended(id), "")
			w.equal("requeued", r.Stats().Requeued, 1)
		})
	})
}

// A second signal's Abort also ends a host that waits for its last jobs.
func TestMaxJobsAborted(t *testing.T) {
	virtual(t, func(w *world) {
		w.handle(func(ctx context.Context, _ workArgs) error { <-ctx.Done(); return ctx.Err() })
		w.config.MaxJobs = 1
		w.put(1, pawl.Timeout(time.Hour))
		r := w.start()
		w.pass(time.Minute)
		r.Abort()
		w.equal("Run returned", <-r.err, host.ErrAborted)
	})
}

func TestHoldLeavesKindsToOthers(t *testing.T) {
	virtual(t, func(w *world) {
		w.handle(func(context.Context, workArgs) error { return nil })
		pawl.Handle(w.mux, once, func(context.Context, workArgs) error { return nil })
		r := w.start()
		r.Hold([]string{work.Name()})
		held, other := w.put(1), w.putOf(once, 2)
		w.pass(time.Minute)
		w.equal("while it is held", words(w.ended(held), w.ended(other)), "done")
		r.Hold([]string{work.Name(), once.Name()})
		other = w.putOf(once, 3)
		w.pass(time.Minute)
		w.equal("while all is held", words(w.ended(held), w.ended(other)), "")
		r.Hold(nil)
		w.pass(time.Second)
		w.equal("afterwards", words(w.ended(held), w.ended(other)), "done done")
		r.clean()
	})
}

func TestMaxJobsIsChecked(t *testing.T) {
	t.Parallel()
	if err := (host.Config{MaxJobs: -1}).Check(); err == nil {
		t.Error("a negative MaxJobs is taken")
	}
	if err := (host.Config{}).Check(); err != nil {
		t.Error(err)
	}
}
