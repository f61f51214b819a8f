package host_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
)

// The second signal: Run returns at once, at whatever point of the drain it is, and records nothing more. What was
// running is recovered by another host when the session has been silent for long enough.
func TestAbort(t *testing.T) {
	moments := map[string]func(w *world, h *running){
		"while it works":    func(*world, *running) {},
		"during the grace":  func(w *world, h *running) { h.cancel(); w.pass(time.Minute) },
		"after the grace":   func(w *world, h *running) { h.cancel(); w.pass(110 * time.Second) },
		"when it was quiet": func(w *world, h *running) { h.Quiet(); w.pass(time.Second) },
		"at the same time":  func(_ *world, h *running) { h.cancel() },
	}
	for name, begin := range moments {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(w *world) {
				stray := make(chan struct{})
				w.handle(func(ctx context.Context, args workArgs) error {
					if pawl.FromContext(ctx).Attempt > 1 {
						return nil
					}
					if args.N == 1 {
						<-stray
						return nil
					}
					<-ctx.Done()
					if cause := context.Cause(ctx); !errors.Is(cause, pawl.ErrShutdown) {
						t.Errorf("cause %v", cause)
					}
					if name == "after the grace" {
						<-stray
					}
					return nil
				})
				ids := []pawl.ID{w.put(1, pawl.Timeout(time.Hour)), w.put(2, pawl.Timeout(time.Hour))}
				h := w.start()
				w.pass(10 * time.Second)
				begin(w, h)
				called := time.Now()
				h.Abort()
				h.Abort()
				err := <-h.err
				if took := time.Since(called); !errors.Is(err, host.ErrAborted) || took > time.Second {
					t.Errorf("Run returned %v after %s", err, took)
				}
				w.equal("sessions left open", w.openSessions(), 1)
				w.equal("reserved", w.reserved(), 2)
				heir := w.start()
				w.pass(40 * time.Second)
				for _, id := range ids {
					w.equal("end", w.ended(id), "done")
				}
				w.equal("recovered", heir.Stats().Recovered, 2)
				close(stray)
				synctest.Wait()
				heir.clean()
			})
		})
	}
}

// A host that has not begun, or waits for a store that does not answer, is aborted too.
func TestAbortBeforeTheStoreAnswers(t *testing.T) {
	virtual(t, func(w *world) {
		faulty := newOutage(w.store)
		faulty.down.Store(true)
		w.handle(func(context.Context, workArgs) error { return nil })
		waiting := w.startOn(faulty)
		w.pass(time.Minute)
		waiting.Abort()
		if err := <-waiting.err; !errors.Is(err, host.ErrAborted) {
			t.Errorf("Run returned %v", err)
		}
		unborn, err := host.New(w.store, w.mux, w.config)
		if err != nil {
			t.Fatal(err)
		}
		unborn.Abort()
		if err := unborn.Run(context.Background()); !errors.Is(err, host.ErrAborted) {
			t.Errorf("Run returned %v", err)
		}
	})
}
