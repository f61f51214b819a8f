package host

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/trouble"
)

// lookout keeps an eye on the queues of the whole store, for Health: which ought to have a server, and which of the
// other hosts' servers are live. It asks in the background, after each beat.
type lookout struct {
	host    *Host
	trouble *trouble.Trouble
	next    time.Time // when to list the queues that hold jobs

	mu      sync.Mutex
	servers map[string]int // live ones of other hosts, for each queue that ought to have one
}

func newLookout(h *Host) *lookout {
	return &lookout{
		host: h, servers: map[string]int{},
		trouble: trouble.New(h.log, "the other hosts cannot be looked at; readiness goes by what was known"),
	}
}

// known is what was last seen; the caller's own.
func (l *lookout) known() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.servers)
}

// run looks until ctx is done. Where the store cannot list hosts, this host knows of its own queues only.
func (l *lookout) run(ctx context.Context) {
	store, ok := l.host.store.(pawl.Hosts)
	for ok && ctx.Err() == nil {
		renewed := l.host.presence.nextBeat()
		err := l.look(ctx, store)
		switch {
		case errors.Is(err, pawl.ErrUnsupported):
			return
		case err != nil && ctx.Err() == nil:
			l.trouble.Report(err)
		case err == nil:
			l.trouble.Over()
		}
		select {
		case <-renewed:
		case <-ctx.Done():
		}
	}
}

func (l *lookout) look(ctx context.Context, store pawl.Hosts) error {
	ctx, cancel := context.WithTimeout(ctx, l.host.config.Intervals.Call)
	defer cancel()
	hosts, err := store.Hosts(ctx)
	if err != nil {
		return err
	}
	queues, err := l.list(ctx)
	l.add(queues, hosts)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.servers = queues
	return err
}

// list returns the queues that ought to have a server, as far as they are known. From time to time that is begun anew,
// with those that hold jobs.
func (l *lookout) list(ctx context.Context) (map[string]int, error) {
	queues := l.known()
	for queue := range queues {
		queues[queue] = 0
	}
	if time.Now().Before(l.next) {
		return queues, nil
	}
	l.next = time.Now().Add(jitter(l.host.config.Intervals.Orphans)) // a failure is no reason to count more often
	var busy []string
	if store, ok := l.host.store.(pawl.Jobs); ok {
		var err error
		if busy, err = store.BusyQueues(ctx); err != nil && !errors.Is(err, pawl.ErrUnsupported) {
			return queues, err
		}
	}
	clear(queues)
	for _, queue := range busy {
		queues[queue] = 0
	}
	return queues, nil
}

// add counts the live servers of other hosts. Who has gone silent shows by the beats in one list, this host's own among
// them, which the same clock has stamped.
func (l *lookout) add(queues map[string]int, hosts []pawl.HostView) {
	own, _ := l.host.presence.lastBeat()
	var now time.Time
	for _, h := range hosts {
		if h.Session == own {
			now = h.BeatAt
		}
	}
	for _, h := range hosts {
		if h.Session == own {
			continue // it knows itself better
		}
		live := 0
		if !h.Draining && now.Sub(h.BeatAt) <= l.host.config.Intervals.Silence && len(h.Kinds) > 0 {
			live = 1
		}
		for _, server := range h.Servers {
			for _, queue := range server.Queues {
				queues[queue] += live
			}
		}
	}
}
