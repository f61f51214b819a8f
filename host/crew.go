package host

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// crew counts goroutines or attempts under way, and can be waited for with a limit.
type crew struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // closed when n comes to 0; nil while nobody waits
}

func (c *crew) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n += n
}

func (c *crew) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n--
	if c.n == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

func (c *crew) run(f func()) {
	c.add(1)
	go func() {
		defer c.done()
		f()
	}()
}

// wait reports whether all ended before ctx did.
func (c *crew) wait(ctx context.Context) bool {
	c.mu.Lock()
	if c.n == 0 {
		c.mu.Unlock()
		return true
	}
	if c.idle == nil {
		c.idle = make(chan struct{})
	}
	idle := c.idle
	c.mu.Unlock()
	select {
	case <-idle:
		return true
	case <-ctx.Done():
		return false
	}
}

// signal leaves a value in a channel of capacity 1, unless there is one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// pause waits for d; false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// jitter spreads d over 75 to 125 % of it, so that hosts that started together drift apart.
func jitter(d time.Duration) time.Duration { return d - d/4 + rand.N(d/2+1) }

// backoff is the wait before the next try of a store call that has failed so many times in a row: 50 ms, doubled to
// at most limit, less a random half.
func backoff(failures int, limit time.Duration) time.Duration {
	d := min(50*time.Millisecond<<min(max(failures-1, 0), 12), limit)
	return d/2 + rand.N(d/2+1)
}
