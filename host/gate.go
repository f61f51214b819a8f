package host

import (
	"context"
	"sync"
	"time"
)

// gate lets claims pass, and shuts while a lost reply has to be cleared up: what the store gave and nobody heard of is
// found by a beat that reconciles, and that beat must meet no claim under way.
type gate struct {
	again time.Duration // after a lost reply its call may still have been at work for so long

	mu       sync.Mutex
	inFlight int
	shut     bool
	second   time.Time // when to look once more; zero when there is no need
	opened   chan struct{}
}

func newGate(again time.Duration) *gate { return &gate{again: again, opened: make(chan struct{})} }

// enter waits until claims may pass.
func (g *gate) enter(ctx context.Context) error {
	for {
		g.mu.Lock()
		if !g.shut {
			g.inFlight++
			g.mu.Unlock()
			return nil
		}
		opened := g.opened
		g.mu.Unlock()
		select {
		case <-opened:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// leave ends a claim, and reports whether a beat that reconciles is due. What the claim brought must be registered as
// held by now.
func (g *gate) leave(replyLost bool) (due bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.inFlight--
	if replyLost {
		g.shut, g.second = true, time.Now().Add(g.again)
	}
	return g.shut && g.inFlight == 0
}

// begin reports whether this beat has to reconcile, and keeps claims out until end.
func (g *gate) begin() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.second.IsZero() && !time.Now().Before(g.second) {
		g.shut = true
	}
	return g.shut && g.inFlight == 0
}

// end opens the gate after a beat that reconciled, if that succeeded.
func (g *gate) end(reconciled, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !reconciled || !ok {
		return
	}
	if !g.second.IsZero() && !time.Now().Before(g.second) {
		g.second = time.Time{}
	}
	g.open()
}

// reset opens the gate when the session is gone, and with it all that was held.
func (g *gate) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.second = time.Time{}
	g.open()
}

func (g *gate) open() {
	if g.shut {
		g.shut = false
		close(g.opened)
		g.opened = make(chan struct{})
	}
}
