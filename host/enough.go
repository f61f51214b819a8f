package host

import (
	"context"
	"slices"
	"sync"

	"github.com/pawljobs/pawl"
)

// ration bounds how many jobs a host claims in its life; see Config.MaxJobs.
type ration struct {
	limit int // 0: none

	mu      sync.Mutex
	left    int // that may still be asked for
	claimed int
}

func newRation(limit int) *ration { return &ration{limit: limit, left: limit} }

// take returns how many jobs may be asked for, at most want of them.
func (r *ration) take(want int) int {
	if r.limit == 0 {
		return want
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	want = min(want, r.left)
	r.left -= want
	return want
}

// claim says how many of those that were asked for have been claimed, and reports whether that was the last one.
func (r *ration) claim(asked, claimed int) (last bool) {
	if r.limit == 0 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left += asked - claimed
	r.claimed += claimed
	return r.claimed >= r.limit
}

// finish lets Run end once what was claimed has ended.
func (h *Host) finish() { h.ending.Do(func() { close(h.enough) }) }

// idle reports whether nothing that this host has claimed could still put a job back.
func (h *Host) idle() bool {
	for _, s := range h.servers {
		if int(s.free.Load()) < s.workers {
			return false
		}
	}
	return h.settler.pending.Load() == 0
}

// notEmpty marks a server whose last claim has found something, or is under way.
const notEmpty = -1

// look begins a claim of a host that stops when it is empty; found ends it. The host is empty when every server has
// found nothing since a job was last claimed or ended, and nothing was due then.
func (s *server) look() (since int64, idle bool) {
	if !s.host.config.StopWhenEmpty {
		return 0, false
	}
	s.emptyAt.Store(notEmpty)
	return s.host.activity.Load(), s.host.idle()
}

func (s *server) found(since int64, nothing bool) {
	h := s.host
	if !nothing {
		h.activity.Add(1)
		return
	}
	if h.activity.Load() != since || h.sweptAt.Load() != since {
		return
	}
	s.emptyAt.Store(since)
	for _, other := range h.servers {
		if other.emptyAt.Load() != since {
			return
		}
	}
	if !h.othersMayHold() {
		h.finish()
	}
}

// othersMayHold reports whether jobs of this host's queues are held by somebody who may be dead: a host that was not seen to
// beat. If it is, it is found dead, and its jobs are ready again.
func (h *Host) othersMayHold() bool {
	unproven := h.unproven.Load()
	if unproven == 0 {
		return false
	}
	if jobs, ok := h.store.(pawl.Jobs); ok {
		ctx, cancel := context.WithTimeout(h.calls, h.config.Intervals.Call)
		defer cancel()
		queues, err := jobs.Queues(ctx)
		if err == nil && !slices.ContainsFunc(queues, h.holdsOf) {
			return false
		}
	}
	if unproven < 0 {
		h.presence.nudge()
	}
	return true
}

// holdsOf reports whether jobs of a queue that this host serves are reserved.
func (h *Host) holdsOf(queue pawl.QueueView) bool {
	return queue.Reserved > 0 && slices.ContainsFunc(h.servers, func(s *server) bool { return slices.Contains(s.queues, queue.Name) })
}

// Hold makes the host leave jobs of these kinds to other hosts, from its next claim on, and all that it held before to
// be claimed again. Those that it runs go on. It can be called at any time; unlike a kind that is switched off in the
// store, one that is held is held on this host only, and until it restarts.
func (h *Host) Hold(kinds []string) {
	kinds = slices.Clone(kinds)
	h.holding.Store(&kinds)
	h.wakeServers()
}

// claimable are the kinds whose jobs this host claims.
func (h *Host) claimable() []string {
	held := h.holding.Load()
	if held == nil || len(*held) == 0 {
		return h.kinds
	}
	return slices.DeleteFunc(slices.Clone(h.kinds), func(kind string) bool { return slices.Contains(*held, kind) })
}
