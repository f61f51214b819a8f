package host_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/storetest"
)

// A host runs one suspect at a time, over all of its servers, and others beside it.
func TestOneSuspectAtATime(t *testing.T) {
	virtual(t, func(w *world) {
		w.config.Servers = append(oneServer(5), hostServer("two", 5))
		var suspects, most, others atomic.Int64
		w.handle(func(_ context.Context, args workArgs) error {
			if args.N >= 10 {
				others.Add(1)
				return nil
			}
			most.Store(max(most.Load(), suspects.Add(1)))
			defer suspects.Add(-1)
			time.Sleep(10 * time.Second)
			return nil
		})
		var ids []pawl.ID
		for n := range 4 {
			id := w.put(n)
			w.with(id, func(j *fakeJob) { j.claim.Crashes, j.claim.Attempt = 2, 2 })
			ids = append(ids, id)
		}
		for n := range 20 {
			w.put(10 + n)
		}
		h := w.start()
		w.pass(5 * time.Second)
		w.equal("others", others.Load(), 20)
		w.pass(37 * time.Second)
		for _, id := range ids {
			w.equal("end", w.ended(id), "done")
		}
		w.equal("suspects at a time", most.Load(), 1)
		h.clean()
	})
}

// A suspect that has run keeps its place until its end is recorded: if the host died before that, only it must be
// charged.
func TestSuspectKeepsItsPlaceUntilItIsSettled(t *testing.T) {
	virtual(t, func(w *world) {
		store := storetest.Fail(w.store)
		down := atomic.Bool{}
		down.Store(true)
		store.Hook("Settle", func(_ context.Context, call func() error) error {
			if down.Load() {
				return errDown
			}
			return call()
		})
		var runs atomic.Int64
		w.handle(func(context.Context, workArgs) error { runs.Add(1); return nil })
		ids := w.putMany(2)
		for _, id := range ids {
			w.with(id, func(j *fakeJob) { j.claim.Crashes, j.claim.Attempt = 2, 2 })
		}
		h := w.startOn(store)
		w.pass(20 * time.Second)
		w.equal("runs while nothing can be recorded", runs.Load(), 1)
		down.Store(false)
		w.pass(20 * time.Second)
		w.equal("runs", runs.Load(), 2)
		for _, id := range ids {
			w.equal("end", w.ended(id), "done")
		}
		h.clean()
	})
}

// The third crash is a death that names the hosts; what ran beside it is not charged with it.
func TestCrashLoop(t *testing.T) {
	virtual(t, func(w *world) {
		block := make(chan struct{})
		w.handle(func(ctx context.Context, args workArgs) error {
			if args.N == 1 {
				select {
				case <-block:
				case <-ctx.Done():
				}
			}
			return ctx.Err()
		})
		id := w.put(1, pawl.Timeout(time.Hour))
		for _, name := range []string{"Alpha", "beta", "gamma"} {
			w.config.Name = name
			h := w.start()
			w.pass(3 * time.Second)
			w.kill(h.Stats().Session)
			w.with(id, func(j *fakeJob) { j.session = -1 }) // not for this host again
			h.clean()
			w.with(id, func(j *fakeJob) { j.session = 0 })
		}
		neighbour := w.put(2)
		h := w.start()
		w.pass(time.Second)
		h.clean()
		l := w.letterOf(id)
		w.equal("death", words(l.Class, l.Reason, l.StartedAt.IsZero()), "poison crash loop true")
		for _, name := range []string{"alpha", "beta", "gamma"} {
			if !strings.Contains(l.Message, name) {
				t.Errorf("the letter does not name %s: %s", name, l.Message)
			}
		}
		w.equal("neighbour", w.ended(neighbour), "done")
	})
}
