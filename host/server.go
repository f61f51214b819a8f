package host

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"
)

// server is one pool of workers: a fetcher claims what its free slots can take, and its runners run them.
type server struct {
	host    *Host
	name    string   // as shown
	queues  []string // in order of priority
	shares  *shares  // nil: strict order
	free    atomic.Int64
	workers int
	emptyAt atomic.Int64  // the host's activity when this one's last claim began, if that has found nothing
	hungry  atomic.Bool   // there may be more to claim as soon as a slot is free
	wake    chan struct{} // there may be something to claim now
	room    chan struct{} // there is a free slot again, and this server is hungry
	line    line
}

func newServer(h *Host, c Server) *server {
	s := &server{host: h, name: h.config.Name + ":worker-" + c.Name, queues: c.Queues, workers: c.Workers, wake: make(chan struct{}, 1), room: make(chan struct{}, 1)}
	s.free.Store(int64(c.Workers))
	s.emptyAt.Store(notEmpty)
	if c.Weights != nil {
		s.shares = newShares(c.Weights)
	}
	return s
}

// run claims until ctx is done.
func (s *server) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	failures := 0
	for ctx.Err() == nil {
		again, err := s.fetch(ctx)
		if err != nil {
			failures++
			pause(ctx, backoff(failures, s.host.config.Intervals.Beat))
			continue
		}
		failures = 0
		if again {
			continue
		}
		timer.Reset(jitter(s.host.config.Intervals.Poll))
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-s.room:
		case <-timer.C:
		}
	}
}

// fetch claims once and starts what it got; again says that there may be more at once.
func (s *server) fetch(ctx context.Context) (again bool, err error) {
	h := s.host
	s.hungry.Store(true)
	runtime.Gosched() // short handlers that can end now make the batch larger
	free := int(s.free.Load())
	if free <= 0 || h.settler.full() {
		return false, nil
	}
	session, err := h.presence.await(ctx)
	if err != nil {
		return false, nil
	}
	since, idle := s.look()
	want := h.ration.take(free)
	if want == 0 {
		return false, nil
	}
	attempts, more, err := s.claim(ctx, session, want)
	last := h.ration.claim(want, len(attempts))
	if err != nil {
		return false, err
	}
	h.counters.claimed.Add(int64(len(attempts)))
	s.free.Add(-int64(len(attempts)))
	s.launch(ctx, attempts)
	if last {
		h.finish()
	}
	if nothing := len(attempts) == 0 && !more; idle || !nothing {
		s.found(since, nothing)
	}
	again = more || len(attempts) >= free
	if s.hungry.Store(again); !again {
		s.forgetRoom()
	}
	return again, nil
}

// launch runs attempts. What was claimed while the host began to drain is given back, and what was claimed under a
// session that has been lost meanwhile is let go.
func (s *server) launch(ctx context.Context, attempts []*attempt) {
	if len(attempts) == 0 {
		return
	}
	session, err := s.host.presence.await(ctx)
	ready := attempts[:0]
	for _, a := range attempts {
		switch {
		case err != nil:
			a.unstarted()
		case session != a.session:
			a.lose()
			a.drop()
		default:
			ready = append(ready, a)
		}
	}
	s.line.add(ready)
}

// release takes back a slot.
func (s *server) release() {
	s.free.Add(1)
	s.host.activity.Add(1)
	switch {
	case s.host.config.StopWhenEmpty:
		signal(s.wake)
	case s.hungry.Load():
		signal(s.room)
	}
}

// forgetRoom takes back what the slots that came free during a claim have said: it has found that there is no more.
func (s *server) forgetRoom() {
	select {
	case <-s.room:
	default:
	}
}
