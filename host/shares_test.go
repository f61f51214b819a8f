package host_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
)

// weighted is a server whose queues are drained 6 : 3 : 1.
func weighted(workers int) []host.Server {
	return []host.Server{{
		Name: "mixed", Queues: []string{"3-bulk", "1-critical", "2-default"}, Workers: workers,
		Weights: map[string]int{"1-critical": 6, "2-default": 3, "3-bulk": 1},
	}}
}

// What a weighted server starts over time, with jobs of different lengths.
func TestWeightsShareTheStarts(t *testing.T) {
	for name, c := range map[string]struct {
		put  map[string]int
		want map[string]int // of the first 500 starts
	}{
		"all full": {
			map[string]int{"1-critical": 600, "2-default": 600, "3-bulk": 600},
			map[string]int{"1-critical": 300, "2-default": 150, "3-bulk": 50},
		},
		"one empty": {
			map[string]int{"1-critical": 600, "3-bulk": 600},
			map[string]int{"1-critical": 429, "3-bulk": 71},
		},
		"one runs empty": {
			map[string]int{"1-critical": 60, "2-default": 600, "3-bulk": 600},
			map[string]int{"1-critical": 60, "2-default": 330, "3-bulk": 110},
		},
		"only the lightest": {map[string]int{"3-bulk": 600}, map[string]int{"3-bulk": 500}},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(w *world) {
				w.config.Servers = weighted(8)
				var starts []string
				w.handle(func(ctx context.Context, args workArgs) error {
					w.store.mu.Lock()
					starts = append(starts, pawl.FromContext(ctx).Queue)
					w.store.mu.Unlock()
					time.Sleep(time.Duration(args.N%7) * time.Second)
					return nil
				})
				for queue, n := range c.put {
					w.putMany(n, pawl.InQueue(queue))
				}
				h := w.start()
				w.pass(20 * time.Second)
				w.equal("slots in use", h.Stats().Running, 8)
				w.pass(time.Hour)
				h.clean()
				got := map[string]int{}
				for _, queue := range starts[:500] {
					got[queue]++
				}
				for queue, want := range c.want {
					if n := got[queue]; n < want-10 || n > want+10 {
						t.Errorf("%d of 500 starts are from %s, want about %d", n, queue, want)
					}
				}
			})
		})
	}
}

// A queue that was empty for long has no claim on what the others had meanwhile.
func TestWeightsKeepNoCredit(t *testing.T) {
	virtual(t, func(w *world) {
		w.config.Servers = weighted(2)
		var starts []string
		w.handle(func(ctx context.Context, _ workArgs) error {
			w.store.mu.Lock()
			starts = append(starts, pawl.FromContext(ctx).Queue)
			w.store.mu.Unlock()
			time.Sleep(time.Second)
			return nil
		})
		w.putMany(2000, pawl.InQueue("3-bulk"))
		h := w.start()
		w.pass(5 * time.Minute)
		w.store.mu.Lock()
		before := len(starts)
		w.store.mu.Unlock()
		w.putMany(2000, pawl.InQueue("1-critical"))
		w.pass(35 * time.Second)
		w.store.mu.Lock()
		late := starts[before:][:60]
		w.store.mu.Unlock()
		if n := strings.Count(strings.Join(late, " "), "3-bulk"); n < 6 || n > 12 {
			t.Errorf("%d of 60 starts are from the queue that was alone before, want about 9", n)
		}
		h.cancel()
		w.pass(time.Minute)
		h.clean()
	})
}

// Weights cost no claims: each names every queue, and an idle server makes as many as a strict one.
func TestWeightsCostNoClaims(t *testing.T) {
	virtual(t, func(w *world) {
		w.config.Servers = weighted(8)
		w.handle(func(context.Context, workArgs) error { return nil })
		h := w.start()
		w.pass(100 * time.Second)
		h.clean()
		for _, r := range w.store.claims {
			if r.Orphans == nil && len(r.Queues) != 3 {
				t.Fatalf("claim %+v", r)
			}
		}
		if n := len(w.store.claims); n > 100*4/3+3 {
			t.Errorf("%d claims in 100 seconds of nothing to do", n)
		}
	})
}
