package host_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
)

// slowClaims is a store whose claims take a while, and that wakes its hosts when it is told to.
type slowClaims struct {
	*fakeStore
	woken chan struct{}
	takes time.Duration
	asked *atomic.Int64
}

func (s slowClaims) Claim(ctx context.Context, r pawl.ClaimRequest) (pawl.Claimed, error) {
	if r.Orphans == nil {
		s.asked.Add(1)
	}
	claimed, err := s.fakeStore.Claim(ctx, r)
	time.Sleep(s.takes)
	return claimed, err
}

func (s slowClaims) Wake(context.Context) (<-chan struct{}, error) { return s.woken, nil }

// A slot that comes free while a claim is under way is no reason for another one where that has found that there is no more.
func TestNoClaimInVain(t *testing.T) {
	virtual(t, func(w *world) {
		w.handle(func(context.Context, workArgs) error { time.Sleep(110 * time.Millisecond); return nil })
		w.config.Servers, w.config.Intervals.Poll = oneServer(4), time.Hour
		var asked atomic.Int64
		woken := make(chan struct{}, 1)
		h := w.startOn(slowClaims{w.store, woken, 100 * time.Millisecond, &asked})
		w.pass(time.Minute)
		before := asked.Load()
		w.put(1)
		woken <- struct{}{} // its claim takes from 0 to 100 ms, and it runs till 210
		w.pass(150 * time.Millisecond)
		woken <- struct{}{} // from 150 to 250
		w.pass(10 * time.Second)
		w.equal("claims", asked.Load()-before, 2)
		h.clean()
	})
}
