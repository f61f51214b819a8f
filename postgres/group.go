package postgres

import (
	"cmp"
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/pawljobs/pawl"
)

// grouper gathers the calls that enqueue few jobs. What waits when the group before is stored goes as one statement: one
// at a time makes larger groups, and half the work, of two. A lone call goes at once.
type grouper struct {
	mu      sync.Mutex
	waiting []*groupCall
	notify  chan struct{}
	lone    atomic.Bool // the last group was a single call
}

type groupCall struct {
	in     *insertion
	taken  bool
	err    error
	answer chan struct{}
}

func newGrouper() *grouper {
	g := &grouper{notify: make(chan struct{}, 1)}
	g.lone.Store(true)
	return g
}

func (g *grouper) add(c *groupCall) {
	g.mu.Lock()
	g.waiting = append(g.waiting, c)
	g.mu.Unlock()
	poke(g.notify)
}

func (g *grouper) idle() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting) == 0
}

// isLone reports whether a call is likely to be the only one of its moment.
func (g *grouper) isLone() bool { return g.lone.Load() && g.idle() }

// take returns what waits, up to a statement's worth.
func (g *grouper) take() []*groupCall {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, jobs := 0, 0
	for n < len(g.waiting) && jobs+len(g.waiting[n].in.jobs) <= insertBatch {
		jobs += len(g.waiting[n].in.jobs)
		g.waiting[n].taken = true
		n++
	}
	group := g.waiting[:n:n]
	g.waiting = g.waiting[n:]
	if len(g.waiting) > 0 {
		poke(g.notify)
	} else {
		g.waiting = nil
	}
	return group
}

// withdraw takes back a call that was not begun.
func (g *grouper) withdraw(c *groupCall) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.taken {
		return false
	}
	for i, other := range g.waiting {
		if other == c {
			g.waiting = append(g.waiting[:i:i], g.waiting[i+1:]...)
			break
		}
	}
	return true
}

// enqueueInGroup waits for the commit. A caller that gives up before its call was begun has stored nothing; after that
// its jobs may be stored or not.
func (s *Store) enqueueInGroup(ctx context.Context, in *insertion) error {
	c := &groupCall{in: in, answer: make(chan struct{})}
	s.enqueues.add(c)
	select {
	case <-c.answer:
		return c.err
	case <-ctx.Done():
		s.enqueues.withdraw(c)
		return context.Cause(ctx)
	case <-s.background.Done():
		if s.enqueues.withdraw(c) {
			return pawl.ErrClosed
		}
	}
	<-c.answer
	return c.err
}

// runGroups stores groups until the store is closed.
func (s *Store) runGroups() {
	for {
		select {
		case <-s.enqueues.notify:
		case <-s.background.Done():
			return
		}
		s.serveGroups()
	}
}

// serveGroups stores what waits, as long as something does. What comes in while it waits for its place joins.
func (s *Store) serveGroups() {
	for !s.enqueues.idle() {
		s.inserts <- struct{}{}
		runtime.Gosched() // who was answered just now comes again at once, if at all
		group := s.enqueues.take()
		if len(group) > 0 {
			s.enqueues.lone.Store(len(group) == 1)
			s.storeGroup(group)
		}
		s.endInsert()
	}
}

// storeGroup stores a group together, and where that fails for the sake of its jobs, each call by itself, so that the
// culprit fails alone.
func (s *Store) storeGroup(group []*groupCall) {
	err := s.insertGroup(group)
	if err == nil || len(group) == 1 || affectsAll(err) {
		answer(group, err)
		return
	}
	for _, c := range group {
		answer([]*groupCall{c}, s.insertGroup([]*groupCall{c}))
	}
}

func answer(group []*groupCall, err error) {
	for _, c := range group {
		c.err = cmp.Or(err, c.err)
		close(c.answer)
	}
}

func (s *Store) insertGroup(group []*groupCall) error {
	ctx := context.WithoutCancel(s.background) // a group that was begun is finished
	if len(group) == 1 {
		return s.insertSmall(ctx, group[0].in)
	}
	all := &insertion{store: s, slots: group[0].in.slots, alone: group[0].in.alone}
	for _, c := range group {
		all.jobs = append(all.jobs, c.in.jobs...)
		all.kinds = append(all.kinds, c.in.kinds...)
		all.queues = append(all.queues, c.in.queues...)
		all.full = all.full || c.in.full
		all.lined = all.lined || c.in.lined
		all.special = all.special || c.in.special
	}
	all.hashKeys()
	all.results = make([]pawl.Enqueued, len(all.jobs))
	all.apart = len(all.jobs) == len(group)
	if err := s.insertSmall(ctx, all); err != nil {
		return err
	}
	for i, err := range all.refusals {
		group[i].err = err
	}
	rest := all.results
	for _, c := range group {
		n := len(c.in.jobs)
		copy(c.in.results, rest[:n])
		rest = rest[n:]
	}
	return nil
}
