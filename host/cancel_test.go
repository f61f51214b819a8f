package host_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
)

// What becomes of a job that an operator cancels while it runs.
func TestCancelledWhileItRuns(t *testing.T) {
	for name, c := range map[string]struct {
		handler func(ctx context.Context) error
		once    bool
		tries   int
		ends    string
		message string // of the record that is kept
	}{
		"its ctx's error": {handler: func(ctx context.Context) error { return ctx.Err() }, ends: "removed", message: "context canceled (cancelled by an operator)"},
		"its own error":   {handler: func(context.Context) error { return errors.New("half way") }, ends: "removed", message: "half way"},
		"on its last try": {handler: func(context.Context) error { return errors.New("half way") }, tries: 1, ends: "removed", message: "half way"},
		"once only":       {handler: func(context.Context) error { return errors.New("half way") }, once: true, ends: "removed", message: "half way"},
		"permanent":       {handler: func(context.Context) error { return pawl.Permanent(errors.New("no")) }, ends: "removed", message: "no"},
		"a panic":         {handler: func(context.Context) error { panic("stopped") }, ends: "removed", message: "panic: stopped"},
		"a release":       {handler: func(ctx context.Context) error { return pawl.FromContext(ctx).Release(context.Background(), time.Hour) }, ends: "removed"},
		"nil":             {handler: func(context.Context) error { return nil }, ends: "done"},
		"a fail": {handler: func(ctx context.Context) error {
			return pawl.FromContext(ctx).Fail(context.Background(), errors.New("I say so"))
		}, ends: "dead"},
		"it tries to go on": {handler: func(ctx context.Context) error {
			return pawl.FromContext(ctx).Extend(context.Background(), time.Hour)
		}, ends: "removed", message: "extend the timeout: cancelled by an operator"},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(w *world) {
				run := func(ctx context.Context, _ workArgs) error {
					<-ctx.Done()
					if cause := context.Cause(ctx); !errors.Is(cause, pawl.ErrCancelled) || !errors.Is(ctx.Err(), context.Canceled) {
						t.Errorf("cause %v, error %v", cause, ctx.Err())
					}
					return c.handler(ctx)
				}
				w.handle(run)
				pawl.Handle(w.mux, once, run)
				options := []pawl.Option{pawl.Timeout(time.Hour)}
				if c.tries > 0 {
					options = append(options, pawl.MaxTries(c.tries))
				}
				kind := work
				if c.once {
					kind = once
				}
				id := w.putOf(kind, 1, options...)
				h := w.start()
				w.pass(time.Minute)
				job := w.look(id)
				w.with(id, func(j *fakeJob) { j.cancel = true })
				w.pass(5 * time.Second)
				w.equal("end", w.ended(id), c.ends)
				w.equal("running", h.Stats().Running, 0)
				if c.message != "" {
					history := w.store.removed[id]
					w.equal("record", words(len(history), history[0].Ending, history[0].Message), words(1, "cancelled", c.message))
					w.equal("cancelled", h.Stats().Cancelled, 1)
				}
				w.equal("attempt", job.claim.Attempt, 1)
				w.pass(2 * time.Hour)
				w.equal("end", w.ended(id), c.ends)
				h.clean()
			})
		})
	}
}

// A handler that ignores the cancel is given up ten seconds later, whatever its timeout, and its slot taken back.
func TestCancelIsIgnored(t *testing.T) {
	virtual(t, func(w *world) {
		w.config.Servers = oneServer(1)
		gate := make(chan struct{})
		w.handle(func(_ context.Context, args workArgs) error {
			if args.N == 1 {
				<-gate
			}
			return nil
		})
		id := w.put(1, pawl.Timeout(4*time.Hour))
		h := w.start()
		w.pass(time.Minute)
		w.with(id, func(j *fakeJob) { j.cancel = true })
		next := w.put(2)
		w.pass(9 * time.Second)
		w.equal("given up early", h.Stats().Strays, 0)
		w.pass(7 * time.Second)
		w.equal("strays", h.Stats().Strays, 1)
		w.equal("ends", words(w.ended(id), w.ended(next)), "removed done")
		w.equal("warnings", len(w.lines.at(slog.LevelWarn, "a handler ignores its cancelled context and is given up")), 1)
		close(gate)
		w.pass(time.Second)
		w.equal("strays", h.Stats().Strays, 0)
		w.equal("end", w.ended(id), "removed")
		h.clean()
	})
}

// A job that is cancelled during the grace of a shutdown is removed and not put back, also when its handler is cut off.
func TestCancelDuringTheDrain(t *testing.T) {
	virtual(t, func(w *world) {
		gate := make(chan struct{})
		run := func(_ context.Context, _ workArgs) error { <-gate; return nil }
		w.handle(run)
		pawl.Handle(w.mux, once, run)
		ids := []pawl.ID{w.put(1, pawl.Timeout(time.Hour)), w.putOf(once, 1, pawl.Timeout(time.Hour))}
		h := w.start()
		w.pass(time.Minute)
		h.cancel()
		w.pass(95 * time.Second)
		for _, id := range ids {
			w.with(id, func(j *fakeJob) { j.cancel = true })
		}
		if err := <-h.err; err != nil {
			t.Errorf("Run returned %v", err)
		}
		for _, id := range ids {
			w.equal("end", w.ended(id), "removed")
		}
		close(gate)
	})
}

// A wake-up makes a busy host ask at once whether something is to be cancelled, but not at every one of many.
func TestCancelIsHeardSoon(t *testing.T) {
	virtual(t, func(w *world) {
		var told time.Time
		w.handle(func(ctx context.Context, args workArgs) error {
			if args.N == 1 {
				<-ctx.Done()
				told = time.Now()
			}
			return ctx.Err()
		})
		id := w.put(1, pawl.Timeout(time.Hour))
		h := w.start()
		w.pass(9 * time.Second)
		session := h.Stats().Session
		beats := func() int64 {
			w.store.mu.Lock()
			defer w.store.mu.Unlock()
			return w.store.sessions[session].beat
		}
		before := beats()
		for range 500 { // ten seconds of wake-ups
			w.put(2)
			w.pass(20 * time.Millisecond)
		}
		if n := beats() - before; n > 11 {
			t.Errorf("%d beats in ten busy seconds", n)
		}
		w.pass(1100 * time.Millisecond)
		begun := time.Now()
		w.with(id, func(j *fakeJob) { j.cancel = true })
		w.store.mu.Lock()
		w.store.wake()
		w.store.mu.Unlock()
		w.pass(time.Second)
		w.equal("told after", told.Sub(begun), time.Duration(0))
		w.equal("end", w.ended(id), "removed")
		before = beats()
		for range 100 {
			w.put(2)
			w.pass(100 * time.Millisecond)
		}
		if n := beats() - before; n > 3 {
			t.Errorf("%d beats in ten idle seconds", n)
		}
		h.clean()
	})
}

// An operator makes a host quiet: it hears of it with its next beat, finishes what runs and takes nothing more, also
// under a later session.
func TestQuietByCommand(t *testing.T) {
	virtual(t, func(w *world) {
		w.handle(func(context.Context, workArgs) error { time.Sleep(10 * time.Minute); return nil })
		running := w.put(1, pawl.Timeout(time.Hour))
		h := w.start()
		w.pass(time.Second)
		session := h.Stats().Session
		w.store.mu.Lock()
		w.store.sessions[session].quiet = true
		w.store.mu.Unlock()
		w.pass(5 * time.Second)
		w.equal("ready", h.Ready(), false)
		waiting := w.put(2)
		w.pass(5 * time.Second)
		w.store.mu.Lock()
		w.equal("it says so", w.store.sessions[session].last.Draining, true)
		w.store.mu.Unlock()
		w.pass(20 * time.Minute)
		w.equal("ends", words(w.ended(running), w.look(waiting).claim.Token), "done 0")
		w.kill(session)
		w.pass(time.Minute)
		w.equal("under a new session", words(h.Stats().Session != session, w.look(waiting).claim.Token), "true 0")
		took, err := h.stop()
		w.equal("took and error", words(took, err), "0s <nil>")
	})
}

// An operator asks a host to end: it drains as by the end of its ctx, and Run returns nil; or it stays until its ctx is
// done; or the order means nothing to it.
func TestDrainByCommand(t *testing.T) {
	for name, c := range map[string]struct {
		order                  host.DrainOrder
		ends, drains, untilCtx bool
	}{
		"ends":    {host.DrainEnds, true, true, false},
		"stays":   {host.DrainStays, false, true, true},
		"refused": {host.DrainRefused, false, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(w *world) {
				w.config.OnDrain = c.order
				w.handle(func(ctx context.Context, _ workArgs) error {
					select {
					case <-time.After(time.Minute):
					case <-ctx.Done():
					}
					return nil
				})
				running := w.put(1, pawl.Timeout(time.Hour))
				h := w.start()
				w.pass(time.Second)
				session := h.Stats().Session
				w.store.mu.Lock()
				w.equal("it says what it does", w.store.sessions[session].info.NoDrain, c.order == host.DrainRefused)
				w.store.sessions[session].drain = true
				w.store.mu.Unlock()
				w.pass(10 * time.Second)
				w.equal("ready", h.Ready(), !c.drains)
				waiting := w.put(2)
				w.pass(2 * time.Minute)
				w.equal("its running job had its grace", words(w.ended(running)), "done")
				w.store.mu.Lock()
				w.equal("session closed", w.store.sessions[session].ended, c.drains)
				w.store.mu.Unlock()
				w.equal("what waits ran", len(w.ended(waiting)) > 0, !c.drains)
				select {
				case err := <-h.err:
					w.equal("Run has returned, with", words(c.ends, err), "true <nil>")
					h.err <- err
				default:
					w.equal("Run goes on", true, c.untilCtx)
				}
				_, err := h.stop()
				w.equal("error", err, nil)
			})
		})
	}
}
