package postgres

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/trouble"
)

// waker tells those who wait that a job may have become ready: commits of this process at once, those of others when
// their notification comes.
type waker struct {
	generation atomic.Int64 // grows with every wake-up
	unsent     chan struct{}
	inside     atomic.Int64 // when a notification may go inside a transaction again, in Unix nanoseconds

	mu      sync.Mutex
	waiters map[chan struct{}]struct{}
}

func newWaker() *waker {
	return &waker{unsent: make(chan struct{}, 1), waiters: map[chan struct{}]struct{}{}}
}

// signal wakes everybody who waits in this process.
func (k *waker) signal() {
	k.generation.Add(1)
	k.mu.Lock()
	defer k.mu.Unlock()
	for c := range k.waiters {
		poke(c)
	}
}

// announce tells of a commit: this process at once, the others by a notification.
func (k *waker) announce() {
	k.signal()
	poke(k.unsent)
}

// A notification inside the transaction that it is about comes soonest, but its commit holds the server's one lock on
// notifications until the disk has it. So it is for quiet times: seldom, and not at all for a while when it took long.
const (
	insideGap   = 5 * time.Millisecond
	insideSlow  = 3 * time.Millisecond
	insidePause = time.Second
)

// mayNotifyInside reports whether the next transaction is to notify, and takes that for granted.
func (k *waker) mayNotifyInside() bool {
	now, next := time.Now(), k.inside.Load()
	return now.UnixNano() > next && k.inside.CompareAndSwap(next, now.Add(insideGap).UnixNano())
}

// notifiedInside tells this process of a commit that has told the others.
func (k *waker) notifiedInside(took time.Duration) {
	k.signal()
	if took > insideSlow {
		k.inside.Store(time.Now().Add(insidePause).UnixNano())
	}
}

func (k *waker) idle() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.waiters) == 0
}

// poke leaves a value in a channel of capacity 1, unless there is one.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Wake returns a channel that gets a value whenever a job may have become ready.
func (s *Store) Wake(ctx context.Context) (<-chan struct{}, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if s.background.Err() != nil {
		return nil, pawl.ErrClosed
	}
	c := make(chan struct{}, 1)
	c <- struct{}{} // whatever came before
	k := s.waker
	k.mu.Lock()
	k.waiters[c] = struct{}{}
	k.mu.Unlock()
	context.AfterFunc(ctx, func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.waiters, c)
	})
	return c, nil
}

// notifyGap is the least time between two notifications of a process. The first of a burst goes at once, the last
// always.
const notifyGap = 2 * time.Millisecond

// Who is told needs no fsync of the telling: a commit without one holds the server's lock on notifications for less.
const notify = `select pg_notify($1, ''), set_config('synchronous_commit', 'off', true)`

// notifyOthers sends one notification for all commits since the last one, until the store is closed.
func (s *Store) notifyOthers() {
	failures := 0
	untold := trouble.New(s.config.Logger, "other hosts cannot be notified of new jobs; they find them by looking")
	for {
		select {
		case <-s.waker.unsent:
		case <-s.background.Done():
			select {
			case <-s.waker.unsent:
				_ = s.notifyOnce(context.Background())
			default:
			}
			return
		}
		pause := notifyGap
		if err := s.notifyOnce(s.background); err != nil {
			poke(s.waker.unsent)
			failures++
			pause = reconnectWait(failures)
			if s.background.Err() == nil {
				untold.Report(err)
			}
		} else {
			failures = 0
			untold.Over()
		}
		wait(s.background, pause)
	}
}

func (s *Store) notifyOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.LockTimeout)
	defer cancel()
	_, err := s.pool.Exec(ctx, notify, s.schema.channel)
	return err
}
