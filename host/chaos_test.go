package host_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/storetest"
)

// Two hosts on a store whose calls fail at random, before or after their commit, and whose sessions are ended at
// random. Every job ends once, a job with max tries 1 is never run twice, every death has one letter and at most one
// Error line, and nothing is left behind.
func TestRandomFaults(t *testing.T) {
	rounds := 60
	if testing.Short() {
		rounds = 10
	}
	for seed := range rounds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			virtual(t, func(w *world) { randomFaults(w, rand.New(rand.NewPCG(3, uint64(seed)))) })
		})
	}
}

// shaky fails a share of the calls of a store.
func shaky(store pawl.Store, draw func() float64, share float64) *storetest.Faulty {
	f := storetest.Fail(store)
	for _, method := range []string{"OpenSession", "Beat", "Claim", "Start", "Settle", "Condemn", "Sweep", "Wake", "Letter"} {
		f.Hook(method, func(_ context.Context, call func() error) error {
			p := draw()
			if p < share/2 {
				return errDown
			}
			err := call()
			if p < share {
				return errDown
			}
			return err
		})
	}
	return f
}

func (w *world) unfinished() int {
	w.store.mu.Lock()
	defer w.store.mu.Unlock()
	return len(w.store.jobs)
}

func randomFaults(w *world, random *rand.Rand) {
	var mu sync.Mutex
	draw := func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return random.Float64()
	}
	runs := map[pawl.ID]int{}
	handle := func(ctx context.Context, args workArgs) error {
		job := pawl.FromContext(ctx)
		mu.Lock()
		runs[job.ID]++
		mu.Unlock()
		select {
		case <-time.After(time.Duration(args.N%17) * time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
		switch {
		case args.N%5 == 0:
			return pawl.Permanent(errors.New("no"))
		case args.N%3 == 0 && job.Attempt < 3:
			return errors.New("again")
		case args.N%4 == 0:
			return job.Delete(ctx)
		}
		return nil
	}
	w.handle(handle)
	pawl.Handle(w.mux, once, handle)
	var ids, onces []pawl.ID
	for n := range 60 {
		if n%6 == 0 {
			onces = append(onces, w.putOf(once, n))
			continue
		}
		ids = append(ids, w.put(n, pawl.MaxTries(50), pawl.Backoff(time.Second)))
	}
	hosts := []*running{w.startOn(shaky(w.store, draw, 0.1)), w.startOn(shaky(w.store, draw, 0.1))}
	for range 6 {
		w.pass(time.Duration(20 * draw() * float64(time.Second)))
		if id := hosts[int(2*draw())].Stats().Session; id != 0 {
			w.kill(id)
			w.store.mu.Lock()
			for _, j := range w.store.jobs { // crashes are not what this is about
				j.claim.Crashes = 0
			}
			w.store.mu.Unlock()
		}
	}
	for range 60 {
		w.pass(30 * time.Second)
		if w.unfinished() == 0 {
			break
		}
	}
	for _, h := range hosts {
		_, _ = h.stop() // the last calls may fail too
	}
	lines := w.deathLines()
	for _, id := range append(ids, onces...) {
		how := w.ended(id)
		if how != "done" && how != "dead" {
			w.Errorf("job ended %q after %d runs: %+v", how, runs[id], w.look(id).claim)
		}
		if how == "dead" {
			w.letterOf(id)
		}
		if lines[id.String()] != map[string]int{"dead": 1}[how] {
			w.Errorf("%d Error lines of a job that ended %q", lines[id.String()], how)
		}
	}
	for _, id := range onces {
		if runs[id] > 1 {
			w.Errorf("a job with max tries 1 was run %d times", runs[id])
		}
	}
	for _, h := range hosts {
		s := h.Stats()
		w.equal("running, strays, settling", words(s.Running, s.Strays, s.Settling), "0 0 0")
	}
	w.equal("lines at Error", len(w.lines.at(slog.LevelError, "")), len(w.store.letters))
}
