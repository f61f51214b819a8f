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

	// as it was found
	found   bool
	lo, hi  int64
	open    bool
	last    int64 // of the jobs taken from it
	taken   int
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
		switch {
		case filled:
			cursor.advance(l.last + 1)
		case l.found:
			cursor.advance(l.hi + 1)
		}
		cursor.looked(l, filled)
	}
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
