package resilience

import "time"

// slots is how many parts a window is counted in; it forgets one part at a time.
const slots = 60

// window counts the attempts of the last while.
type window struct {
	start  time.Time
	slot   time.Duration // how long one part is
	newest int64         // number of the newest part, counted from start
	parts  [slots]tally
}

type tally struct{ calls, failures int }

func newWindow(length time.Duration) window {
	return window{start: time.Now(), slot: max(length/slots, 1)}
}

// move forgets the parts that have left the window.
func (w *window) move(now time.Time) {
	current := int64(now.Sub(w.start) / w.slot)
	for range min(current-w.newest, slots) {
		w.newest++
		w.parts[w.newest%slots] = tally{}
	}
	w.newest = max(w.newest, current)
}

func (w *window) add(now time.Time, failed bool) {
	w.move(now)
	part := &w.parts[w.newest%slots]
	part.calls++
	if failed {
		part.failures++
	}
}

func (w *window) counts(now time.Time) (calls, failures int) {
	w.move(now)
	for _, part := range w.parts {
		calls += part.calls
		failures += part.failures
	}
	return calls, failures
}
