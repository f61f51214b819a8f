package postgres

import (
	"slices"
	"time"

	"github.com/pawljobs/pawl"
)

// Kinds of lanes.
const (
	laneMain    = iota // from the head on
	laneFront          // what was put to the front
	laneRecheck        // behind the head
)

// lane is a part of a queue that one statement looks at; see claimTemplate.
type lane struct {
	kind   int
	queue  int // index among the queues of the request
	cursor *cursor
	start  int64
	bound  int64
	window int64
	block  int32 // 2^block numbers are searched that no other claim searches; 0: the window, whoever searches there

	// as it was found
	found   bool
	lo, hi  int64
	open    bool
	first   int64 // of the jobs taken from it
	last    int64
	taken   int
	apart   bool // lo is not where the search began: what lies between is left to others
	met     bool // the first job is held by another
	present bool // of orphans: there are such jobs, whether they may be taken or not
}

// note moves the lane's cursor; filled says that the claim had enough before the lane came to its end.
func (l *lane) note(filled bool, now time.Time, took time.Duration) {
	cursor := l.cursor
	cursor.gave = cursor.gave || l.taken > 0
	switch l.kind {
	case laneFront:
		if !l.open && !filled {
			cursor.nextFront = now.Add(frontEvery)
		}
	case laneRecheck:
		if cursor.recheck != nil { // not rewound meanwhile
			cursor.rechecked(l, filled, took)
		}
	case laneMain:
		cursor.meet(l, filled, now)
		switch {
		case l.apart:
			cursor.advance(l.lo)
			return
		case filled:
			cursor.advance(l.last + 1)
		case l.found:
			cursor.advance(l.hi + 1)
		}
		cursor.looked(l, filled)
	}
}

// mainLanes are, for some of the queues in order, the front if that is to be looked at, what lies behind the head if it
// is time for that, and what comes after. A short stretch behind the head is always looked at: then it is known that there
// is no more.
func (c *claim) mainLanes(from, to int) func(fronts map[int]int64) []*lane {
	return func(fronts map[int]int64) []*lane {
		lanes := make([]*lane, 0, 3*(to-from))
		long := c.longRecheck(from, to)
		for i := from; i < to; i++ {
			cursor := c.cursor(c.queues[i])
			if start, ok := fronts[i]; ok {
				lanes = append(lanes, cursor.frontLane(i, start, c.limit))
			}
			if !cursor.confirmed && (cursor.low < cursor.head && cursor.isShort() || cursor == long) {
				lanes = append(lanes, cursor.recheckLane(i, c.limit))
			}
			lanes = append(lanes, cursor.mainLane(i, c.limit))
		}
		return lanes
	}
}

// longRecheck is the queue whose turn it is to be looked at behind its head beside other work; nil when it is none's. It
// is one at a time, so that many queues take no more of a claim's time than one.
func (c *claim) longRecheck(from, to int) *cursor {
	state, now := c.store.claims, time.Now()
	if now.Before(state.nextRecheck) {
		return nil
	}
	var long *cursor
	for _, queue := range c.queues[from:to] {
		cursor := c.cursor(queue)
		wanted, in := cursor.recheckIn(now, false, state.hosts)
		due := wanted && in <= 0 && !cursor.confirmed && !cursor.isShort()
		if due && (long == nil || cursor.recheckEnded.Before(long.recheckEnded)) {
			long = cursor
		}
	}
	if long != nil {
		state.nextRecheck = now.Add(recheckEvery * time.Duration(state.hosts))
	}
	return long
}

// frontLanes are the fronts alone.
func (c *claim) frontLanes(fronts map[int]int64) []*lane {
	lanes := make([]*lane, 0, len(fronts))
	for i, queue := range c.queues {
		if start, ok := fronts[i]; ok {
			lanes = append(lanes, c.cursor(queue).frontLane(i, start, c.limit))
		}
	}
	return lanes
}

// sort puts the jobs into the order of the queues, which statements do not keep.
func (c *claim) sort() {
	order := make([]int, len(c.jobs))
	sorted := true
	for i := range order {
		order[i] = i
		sorted = sorted && (i == 0 || !c.places[i].before(c.places[i-1]))
	}
	if sorted {
		return
	}
	slices.SortFunc(order, func(a, b int) int {
		if c.places[a].before(c.places[b]) {
			return -1
		}
		return 1
	})
	jobs := make([]pawl.ClaimedJob, len(order))
	for i, from := range order {
		jobs[i] = c.jobs[from]
	}
	c.jobs = jobs
}

func (p place) before(other place) bool {
	if p.queue != other.queue {
		return p.queue < other.queue
	}
	return p.seq < other.seq
}
