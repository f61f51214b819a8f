package postgres

import "time"

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
		cursor.looked(l.open, filled)
	}
}
