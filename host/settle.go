package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/trouble"
)

// Bounds of the settler.
const (
	settleBatch = 1000 // entries in one call
	splitBudget = 64   // calls that one round spends on finding bad members
	promptly    = 100 * time.Millisecond
)

// entry is one end of a reservation on its way to the store.
type entry struct {
	pawl.Settlement
	session pawl.SessionID
	attempt *attempt    // nil: a reservation that a lost reply had left
	waiter  chan error  // of a Job's operation; capacity 1, answered once
	ran     []slog.Attr // of a run that ends in a death: what its line says of it

	// The rest is guarded by settler.mu, or belongs to the settler while writing.
	writing   bool
	withdrawn bool
	tries     int
	due       time.Time
	failedAt  time.Time // of the first failure
	unknown   bool      // a call failed as a whole: it may have been recorded all the same
	condemned bool      // the death is kept on its job meanwhile
	recorded  bool      // the letter is in Config.DeadLetters
	known     bool      // and was there before
	adrift    bool      // its session has ended
}

// settler is the one goroutine that ends reservations, with batches as large as the moment offers. What the store
// cannot record is kept and tried again until it is, or until the host has to go.
type settler struct {
	host       *Host
	notify     chan struct{}
	pending    atomic.Int64     // entries that are not settled
	answeredAt atomic.Int64     // Unix nanoseconds of the last call that succeeded
	trouble    *trouble.Trouble // calls that fail
	single     *trouble.Trouble // single entries that are refused
	deaths     *trouble.Trouble // deaths that cannot be recorded

	mu     sync.Mutex
	fresh  []*entry
	failed []*entry // wait for another try
	closed bool     // ends when nothing is left
	gone   bool     // has ended: nobody tries again
}

// errWithdrawn ends an entry whose caller no longer waits for it.
var errWithdrawn = errors.New("withdrawn")

func newSettler(h *Host) *settler {
	return &settler{
		host: h, notify: make(chan struct{}, 1),
		trouble: trouble.New(h.log, "ended attempts cannot be recorded; they are kept and tried again"),
		single:  trouble.New(h.log, "the store refuses to record some ended attempts; they are kept and tried again"),
		deaths:  trouble.New(h.log, "deaths cannot be recorded; they are kept and tried again"),
	}
}

// add hands in an entry. After close it is dropped: the session's end puts its job back.
func (s *settler) add(e *entry) bool {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return false
	}
	s.fresh = append(s.fresh, e)
	s.pending.Add(1)
	s.mu.Unlock()
	signal(s.notify)
	return true
}

// settleNow hands in an entry and waits for its end. When ctx is done before the store was asked, or between two
// tries, it is taken back.
func (s *settler) settleNow(ctx context.Context, e *entry) error {
	if !s.add(e) {
		return errGone()
	}
	select {
	case err := <-e.waiter:
		return err
	case <-ctx.Done():
	}
	s.mu.Lock()
	e.withdrawn = true
	s.mu.Unlock()
	signal(s.notify)
	if err := <-e.waiter; !errors.Is(err, errWithdrawn) {
		return err
	}
	return context.Cause(ctx)
}

// full reports that so much is unsettled that the host must not claim more. What is on its way to a store that answers
// promptly counts for a fourth: claims need not wait for it.
func (s *settler) full() bool {
	pending, most := s.pending.Load(), int64(s.host.config.MaxUnsettled)
	prompt := s.host.counters.unsettled.Load() == 0 && time.Now().UnixNano()-s.answeredAt.Load() < int64(promptly)
	return pending >= most && (!prompt || pending >= 4*most)
}

// run settles until closed and empty, or until ctx is done.
func (s *settler) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for ctx.Err() == nil {
		runtime.Gosched() // short handlers that can end now make the batch larger
		fresh, suspicious, plain, wait := s.take(time.Now())
		if len(fresh)+len(suspicious)+len(plain) == 0 {
			if wait < 0 && s.isClosed() {
				return
			}
			if wait >= 0 {
				timer.Reset(wait)
			}
			select {
			case <-ctx.Done():
				return
			case <-s.notify:
			case <-timer.C:
			}
			continue
		}
		s.each(fresh, func(batch []*entry) { s.tryOnce(ctx, batch) })
		s.each(plain, func(batch []*entry) { s.tryOnce(ctx, batch) })
		budget := splitBudget
		s.each(suspicious, func(batch []*entry) { s.split(ctx, batch, &budget) })
		if !s.full() {
			s.host.wakeHungry() // some may have seen it full meanwhile
		}
	}
}

func (s *settler) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// take picks what is to be written now: new entries, and those that failed and are due. Of the latter, the suspicious
// ones failed although the store has answered something since. wait is the time until the next one is due, negative
// when there is none.
func (s *settler) take(now time.Time) (fresh, suspicious, plain []*entry, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answered := s.host.lastAnswer()
	wait = -1
	fresh, s.fresh = s.pick(s.fresh), nil
	kept := s.failed[:0]
	for _, e := range s.failed {
		switch {
		case e.withdrawn:
			s.forget(e, errWithdrawn)
		case e.due.After(now):
			if left := e.due.Sub(now); wait < 0 || left < wait {
				wait = left
			}
			kept = append(kept, e)
		case answered.After(e.failedAt):
			e.writing = true
			suspicious = append(suspicious, e)
		default:
			e.writing = true
			plain = append(plain, e)
		}
	}
	clear(s.failed[len(kept):])
	s.failed = kept
	return fresh, suspicious, plain, wait
}

// pick marks entries as being written and leaves out those that were withdrawn.
func (s *settler) pick(entries []*entry) []*entry {
	out := entries[:0]
	for _, e := range entries {
		if e.withdrawn {
			s.forget(e, errWithdrawn)
			continue
		}
		e.writing = true
		out = append(out, e)
	}
	return out
}

// forget ends an entry; its waiter is told. Callers hold mu.
func (s *settler) forget(e *entry, err error) {
	s.pending.Add(-1)
	if e.tries > 0 {
		s.host.counters.unsettled.Add(-1)
	}
	if e.waiter != nil {
		e.waiter <- err
	}
}

// each calls f with entries of one session at a time, at most settleBatch of them.
func (s *settler) each(entries []*entry, f func([]*entry)) {
	for len(entries) > 0 {
		n := 1
		for n < len(entries) && n < settleBatch && entries[n].session == entries[0].session {
			n++
		}
		f(entries[:n:n])
		entries = entries[n:]
	}
}

func (s *settler) tryOnce(ctx context.Context, batch []*entry) {
	if left, err := s.write(ctx, batch); err != nil {
		s.postpone(left, err)
	}
}

// split writes a batch, and where the call fails again, its halves, down to the bad members, so that they do not keep
// the others from settling.
func (s *settler) split(ctx context.Context, batch []*entry, budget *int) {
	if *budget <= 0 {
		s.postpone(batch, nil)
		return
	}
	*budget--
	left, err := s.write(ctx, batch)
	switch {
	case err == nil:
	case len(left) == 1:
		s.refused(ctx, left, err)
	default:
		s.split(ctx, left[:len(left)/2], budget)
		s.split(ctx, left[len(left)/2:], budget)
	}
}

// postpone keeps entries for another try.
func (s *settler) postpone(batch []*entry, err error) {
	if err != nil {
		s.trouble.Report(err, "unsettled", s.pending.Load())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	tries := 0
	for _, e := range batch {
		tries = max(tries, e.tries)
	}
	limit := 5 * time.Second
	if s.closed {
		limit = 500 * time.Millisecond
	}
	due := now.Add(backoff(tries+1, limit))
	for _, e := range batch {
		if e.tries == 0 {
			e.failedAt = now
			s.host.counters.unsettled.Add(1)
		}
		e.tries++
		e.due, e.writing = due, false
		switch {
		case s.gone:
			s.forget(e, errGone())
		case e.waiter != nil && errors.Is(err, pawl.ErrBusy): // perhaps the handler itself holds the lock
			s.forget(e, err)
		case e.withdrawn:
			s.forget(e, errWithdrawn)
		default:
			s.failed = append(s.failed, e)
		}
	}
}

func errGone() error { return fmt.Errorf("settle: %w", pawl.ErrShutdown) }

// close lets the settler end when it has nothing left, waits for that, and returns how many entries it could not
// settle by the end of ctx.
func (s *settler) close(ctx context.Context, ended *crew) (left int) {
	s.mu.Lock()
	s.closed = true
	for _, e := range s.failed {
		e.due = time.Time{}
	}
	s.mu.Unlock()
	signal(s.notify)
	ended.wait(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	left = int(s.pending.Load())
	for _, e := range append(s.fresh, s.failed...) {
		s.forget(e, errGone())
	}
	s.fresh, s.failed, s.gone = nil, nil, true
	return left
}
