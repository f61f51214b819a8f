package desk

import (
	"time"

	"github.com/pawljobs/pawl"
)

// Window is how a sink stands with storms.
type Window struct {
	Since   time.Time // when the present one began
	Singles int       // deaths with a message of their own in it
	Storm   bool      // more died: the rest waits for its end
}

// WindowStep is what is to be done about deaths that no message tells of yet.
type WindowStep struct {
	Next    Window
	Digest  bool // of all of them
	Singles int  // so many of them, the oldest, get messages of their own
}

// Step decides at now what becomes of so many fresh deaths; more than storm.Deaths need not be told apart. At most room
// messages of single deaths are made.
func (w Window) Step(now time.Time, fresh, room int, storm pawl.Storm) WindowStep {
	if fresh == 0 {
		return WindowStep{Next: w}
	}
	age := now.Sub(w.Since)
	// A claim that waited for another's lock may have begun before the window that the other opened.
	over := age >= storm.Window || age <= -storm.Window
	if over && w.Storm {
		next := Window{Since: now}
		if fresh > storm.Deaths {
			next.Singles, next.Storm = storm.Deaths, true
		}
		return WindowStep{Next: next, Digest: true}
	}
	if over {
		w = Window{Since: now}
	}
	w.Storm = w.Storm || w.Singles+fresh > storm.Deaths
	singles := max(0, min(fresh, room, storm.Deaths-w.Singles))
	w.Singles += singles
	return WindowStep{Next: w, Singles: singles}
}

// Idle reports that nothing is to be done, and nothing to be remembered.
func (s WindowStep) Idle(before Window) bool {
	return !s.Digest && s.Singles == 0 && s.Next.Storm == before.Storm
}
