package postgres

import (
	"math"
	"time"
)

// The bands of a queue: what went back to the front has numbers below zero.
const (
	frontStart = int64(math.MinInt64)
	mainStart  = int64(0)
	bandsEnd   = int64(math.MaxInt64)
)

// Paces of looking.
const (
	markEvery    = 250 * time.Millisecond
	markSettles  = time.Second // a number may be drawn that long before its transaction has an id
	frontEvery   = 25 * time.Millisecond
	recheckEvery = 50 * time.Millisecond // behind the head, while there is other work
	recheckShare = 20                    // a recheck is followed by that many times its own duration without one
	recheckFree  = time.Millisecond      // one that is shorter may be made at any idle moment
	recheckShort = 5000                  // numbers; a stretch of so few
	wholeEvery   = time.Minute           // a recheck from the very beginning
	leastWindow  = 512                   // rows
	mostWindow   = 1 << 16
	leastBlock   = 5 // as a power of two
	firstBlock   = 9 // as many numbers as a claim takes jobs
	mostBlock    = 20
	crowdLasts   = time.Second // after another host was met
)

// cursor is how far one queue was searched for jobs of some kinds.
//
// Nothing claimable is known to be before head. But a transaction that drew its numbers early may commit late, and a
// job that another claim had locked may be let go again. So what lies between low and head is looked at again from time
// to time. low follows head by transaction ids: when every transaction that could have been under way as head passed
// a place has ended, and that stretch was searched since, nothing new can appear before that place.
type cursor struct {
	queue int32
	head  int64
	low   int64
	ripe  int64 // head when all transactions of its time had ended; low may go there with the next recheck
	marks []mark

	recheck      *recheck // under way
	recheckTook  time.Duration
	recheckEnded time.Time
	nextWhole    time.Time
	nextFront    time.Time // when the front is looked at even if there is enough behind it
	fronts       int64     // the jobs that this process had put to the front by then
	window       int64
	met          time.Time // when a job at the head was held by another host
	block        int32     // numbers for a claim, as a power of two
	gave         bool      // the last claim got something from it
	busy         bool      // the last claim got as many jobs as it asked for
	confirmed    bool      // the claim under way has seen all that there was
	rules        string    // the switches by which it searched
}

// mark is a place that head has passed.
type mark struct {
	head   int64
	passed time.Time
	xmax   int64 // no transaction of that time has this id or a higher one; 0: not known yet
}

// recheck is a look at what lies before the head.
type recheck struct {
	at, end int64
	low     int64 // where low goes when all was searched
}

func newCursor(queue int32) *cursor {
	return &cursor{queue: queue, window: leastWindow, block: firstBlock, nextWhole: time.Now().Add(wholeEvery)}
}

// rewind starts the search anew: what was passed over may be claimable now.
func (c *cursor) rewind() {
	c.head, c.low, c.ripe, c.marks, c.recheck = mainStart, mainStart, mainStart, nil, nil
}

// advance moves the head.
func (c *cursor) advance(head int64) {
	c.head = max(c.head, head)
}

// observe takes in what a statement saw of the transactions under way. It comes after the head was moved by it.
func (c *cursor) observe(now time.Time, xmin, xmax int64) {
	for i := range c.marks {
		m := &c.marks[i]
		if m.xmax == 0 && now.Sub(m.passed) >= markSettles {
			m.xmax = xmax
		}
	}
	ripe := 0
	for ripe < len(c.marks) && c.marks[ripe].xmax != 0 && c.marks[ripe].xmax <= xmin {
		c.ripe = max(c.ripe, c.marks[ripe].head)
		ripe++
	}
	c.marks = append(c.marks[:0], c.marks[ripe:]...)
	last := len(c.marks) - 1
	switch {
	case last < 0 && c.head > c.ripe, last >= 0 && c.head > c.marks[last].head && now.Sub(c.marks[last].passed) >= markEvery:
		c.marks = append(c.marks, mark{head: c.head, passed: now})
	}
}

// recheckIn is the time until it is due to look behind the head, if there is anything to look at. idle says that there
// was nothing else to do.
func (c *cursor) recheckIn(now time.Time, idle bool, hosts int) (wanted bool, in time.Duration) {
	if now.After(c.nextWhole) && c.recheck == nil {
		c.low = mainStart
		c.nextWhole = now.Add(wholeEvery)
	}
	if c.low >= c.head && c.recheck == nil {
		return false, 0
	}
	pause := c.recheckTook * recheckShare * time.Duration(hosts)
	switch {
	case !idle:
		pause = max(pause, recheckEvery*time.Duration(hosts))
	case c.recheckTook < recheckFree || c.isShort():
		pause = 0
	}
	return true, c.recheckEnded.Add(pause).Sub(now)
}

// isShort reports whether what lies behind the head can be looked at in passing.
func (c *cursor) isShort() bool { return c.recheck == nil && c.head-c.low <= recheckShort }

// recheckLane begins a recheck, or goes on with the one under way.
func (c *cursor) recheckLane(queue int, jobs int) *lane {
	if c.recheck == nil {
		c.recheck = &recheck{at: c.low, end: c.head, low: max(c.low, c.ripe)}
	}
	return &lane{kind: laneRecheck, queue: queue, cursor: c, start: c.recheck.at, bound: c.recheck.end, window: max(c.look(jobs), recheckShort)}
}

// rechecked notes how far a recheck has come with a statement that took so long.
func (c *cursor) rechecked(l *lane, filled bool, took time.Duration) {
	switch {
	case filled && l.taken > 0:
		c.recheck.at = l.last + 1
	case l.found:
		c.recheck.at = l.hi + 1
	}
	if !filled && !l.open {
		c.low = max(c.low, min(c.recheck.low, c.recheck.end))
		c.recheck, c.confirmed = nil, true
	}
	c.recheckTook, c.recheckEnded = took, time.Now()
}

func (c *cursor) frontLane(queue int, start int64, jobs int) *lane {
	return &lane{kind: laneFront, queue: queue, cursor: c, start: start, bound: mainStart, window: c.look(jobs)}
}

// mainLane looks from the head on. Where others are at work there, it looks in a block of its own.
func (c *cursor) mainLane(queue int, jobs int) *lane {
	l := &lane{kind: laneMain, queue: queue, cursor: c, start: c.head, bound: bandsEnd, window: c.look(jobs)}
	if c.busy && time.Since(c.met) < crowdLasts {
		l.block = c.block
	}
	return l
}

// meet notes what a look from the head on says of other hosts there, and fits the block to what it held.
func (c *cursor) meet(l *lane, filled bool, now time.Time) {
	if l.met {
		c.met = now
	}
	if l.block == 0 {
		return
	}
	c.confirmed = false // jobs between those that were sampled may be free
	size, span := int64(1)<<l.block, l.last-l.first
	switch {
	case l.taken == 0:
		c.met = time.Time{} // no block was free
	case filled && span < size/8:
		c.block = max(l.block-1, leastBlock)
	case !filled && span >= size/2:
		c.block = min(l.block+1, mostBlock)
	}
}

// look is the window for a claim of so many jobs.
func (c *cursor) look(jobs int) int64 {
	return max(c.window, min(20*int64(jobs), mostWindow))
}

// looked adapts the window to what one look brought: a stretch without enough claimable jobs, since others lie between
// them, is crossed in growing steps.
func (c *cursor) looked(l *lane, filled bool) {
	switch {
	case filled && l.last-l.lo < l.window/8:
		c.window = max(c.window/2, leastWindow)
	case !filled && l.open:
		c.window = min(l.window*4, mostWindow)
	}
}
