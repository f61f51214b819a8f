package host_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/storetest"
)

// The reply to an acknowledgement is lost, and when it is repeated the reservation is gone. If it was recorded, the job is
// gone too, and the handler hears of success. If another host has the job meanwhile, or has done it, the handler hears
// that its reservation was lost, and the job is counted once.
func TestUnknownAcknowledgement(t *testing.T) {
	for name, row := range map[string]struct {
		meanwhile func(w *world, id pawl.ID, call func() error)
		runs      int // here
		succeeded int64
		lost      bool
	}{
		"recorded": {func(_ *world, _ pawl.ID, call func() error) { _ = call() }, 1, 1, false},
		"taken":    {func(w *world, id pawl.ID, _ func() error) { w.with(id, func(j *fakeJob) { j.session = 0 }) }, 2, 1, true},
		"done by another": {func(w *world, id pawl.ID, _ func() error) {
			w.with(id, func(j *fakeJob) {
				holder := j.session
				w.store.end(j, "done")
				w.store.crash(holder)
			})
		}, 1, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(w *world) {
				store := storetest.Fail(w.store)
				var deleted []error
				var failed atomic.Bool
				w.handle(func(ctx context.Context, _ workArgs) error {
					deleted = append(deleted, pawl.FromContext(ctx).Delete(ctx))
					return nil
				})
				id := w.put(1)
				store.Hook("Settle", func(_ context.Context, call func() error) error {
					if failed.Swap(true) {
						return call()
					}
					row.meanwhile(w, id, call)
					return errDown
				})
				h := w.startOn(store)
				w.pass(10 * time.Second)
				w.equal("end", w.ended(id), "done")
				w.equal("succeeded", h.Stats().Succeeded, row.succeeded)
				w.equal("runs", len(deleted), row.runs)
				if lost := errors.Is(deleted[0], pawl.ErrLeaseLost); lost != row.lost {
					t.Errorf("the first handler heard %v", deleted[0])
				}
				if err := deleted[len(deleted)-1]; !row.lost && err != nil {
					t.Errorf("recorded: %v", err)
				}
				h.clean()
			})
		})
	}
}
