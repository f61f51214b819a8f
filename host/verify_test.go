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
// gone too, and the handler hears of success; if another host has recovered the job meanwhile, the handler hears that its
// reservation was lost, and the job is counted once.
func TestUnknownAcknowledgement(t *testing.T) {
	for _, when := range []storetest.When{storetest.Before, storetest.After} {
		t.Run(when.String(), func(t *testing.T) {
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
					if when == storetest.After {
						_ = call()
					} else {
						w.with(id, func(j *fakeJob) { j.session = 0 })
					}
					return errDown
				})
				h := w.startOn(store)
				w.pass(5 * time.Second)
				w.equal("end", w.ended(id), "done")
				w.equal("succeeded", h.Stats().Succeeded, 1)
				if when == storetest.After {
					w.equal("runs", len(deleted), 1)
				} else {
					w.equal("runs", len(deleted), 2)
					if !errors.Is(deleted[0], pawl.ErrLeaseLost) {
						t.Errorf("of a job that another has: %v", deleted[0])
					}
				}
				if err := deleted[len(deleted)-1]; err != nil {
					t.Errorf("recorded: %v", err)
				}
				h.clean()
			})
		})
	}
}
