package host

import (
	"context"
	"runtime/pprof"
	"sync"
)

// line is the claimed jobs of a server that wait for a goroutine. There is always one goroutine on its way to the first
// of them. It sends another after itself before it runs that one, and goes on with the next in line when it is done: so
// a job never waits for a handler that blocks, and short jobs share a goroutine, whose stack has grown to what handlers
// need.
type line struct {
	mu      sync.Mutex
	waiting []*attempt
	coming  bool // a goroutine is on its way
}

// add lets attempts run. They hold slots, so there are never more goroutines than workers.
func (l *line) add(attempts []*attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting = append(l.waiting, attempts...)
	l.send()
}

// send lets a goroutine come if one is needed. Callers hold mu.
func (l *line) send() {
	if len(l.waiting) > 0 && !l.coming {
		l.coming = true
		go l.run()
	}
}

// run begins attempts until none is left. A handler that ends its goroutine ends nothing else.
func (l *line) run() {
	arrived := true
	for {
		a := l.next(arrived)
		if a == nil {
			return
		}
		arrived = false
		pprof.SetGoroutineLabels(context.Background()) // those of the job before
		a.begin()
	}
}

// next takes the first in line; nil when there is none.
func (l *line) next(arrived bool) *attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	if arrived {
		l.coming = false
	}
	if len(l.waiting) == 0 {
		l.waiting = nil
		return nil
	}
	a := l.waiting[0]
	l.waiting[0] = nil
	l.waiting = l.waiting[1:]
	l.send()
	return a
}
