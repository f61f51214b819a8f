package host

import (
	"time"

	"github.com/pawljobs/pawl"
)

// observer concludes which other hosts are dead: those whose beat has stood still for deadAfter while this host kept
// looking. Time in which its own looks failed, or did not happen because it was stopped itself, proves nothing: it
// begins anew, so that an outage of the store kills nobody.
type observer struct {
	deadAfter time.Duration
	gap       time.Duration // looks further apart than this were interrupted
	last      time.Time
	seen      map[pawl.SessionID]sighting
}

type sighting struct {
	beat  int64
	since time.Time // of the first look that saw this beat
	moved bool      // an earlier beat was seen, too
}

func newObserver(beat, deadAfter time.Duration) *observer {
	return &observer{deadAfter: deadAfter, gap: 2 * beat, seen: map[pawl.SessionID]sighting{}}
}

// look takes what a beat has shown and returns the sessions that are dead. now is of the process's monotonic clock.
func (o *observer) look(now time.Time, others []pawl.SeenSession) (dead []pawl.SeenSession) {
	if now.Sub(o.last) > o.gap {
		o.blind()
	}
	o.last = now
	seen := make(map[pawl.SessionID]sighting, len(others))
	for _, other := range others {
		s, known := o.seen[other.ID]
		if !known || s.beat != other.Beat {
			s = sighting{beat: other.Beat, since: now, moved: known}
		}
		seen[other.ID] = s
		if now.Sub(s.since) >= o.deadAfter {
			dead = append(dead, other)
		}
	}
	o.seen = seen
	return dead
}

// unproven is how many others have not been seen to beat.
func (o *observer) unproven() (n int64) {
	for _, s := range o.seen {
		if !s.moved {
			n++
		}
	}
	return n
}

// blind forgets all: a look has failed.
func (o *observer) blind() { clear(o.seen) }
