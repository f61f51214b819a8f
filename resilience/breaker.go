package resilience

import (
	"sync"
	"time"
)

// State of a downstream's breaker.
type State uint8

const (
	Closed   State = iota // calls are made
	Open                  // calls are refused
	HalfOpen              // one call, the probe, is made or may be; all others are refused
)

func (s State) String() string {
	switch s {
	case Open:
		return "open"
	case HalfOpen:
		return "half-open"
	}
	return "closed"
}

// Stats of a downstream's breaker.
type Stats struct {
	State    State
	Since    time.Time // of the state; an open breaker is half-open without anybody's doing
	Calls    int       // attempts in the window, while closed
	Failures int       // those of them that failed
	Refused  uint64    // calls that were not made, ever
	Openings uint64    // how often it has opened, ever
}

// verdict is what an attempt says about the downstream.
type verdict uint8

const (
	none    verdict = iota // nothing: the caller went away
	success                // it answered
	failure                // it did not, or said that it cannot
)

// breaker is closed until the share of failed attempts in the window is too large; then open; then half-open until a
// probe has decided. An attempt speaks only about the period in which it began: what began before the breaker opened
// cannot close it.
type breaker struct {
	settings Breaker
	changed  func(from, to State) // called without the lock

	mu         sync.Mutex
	state      State
	since      time.Time
	period     uint64 // changes with the state, and with each probe
	window     window
	probing    bool
	probeUntil time.Time // a probe that has said nothing by then is given up
	refused    uint64
	openings   uint64
}

func newBreaker(settings Breaker, changed func(from, to State)) *breaker {
	return &breaker{settings: settings, changed: changed, since: time.Now(), window: newWindow(settings.Window)}
}

// permit is the right to make one attempt. Its first report counts.
type permit struct {
	breaker *breaker
	period  uint64
	once    sync.Once
}

// acquire returns nil where the call must not be made.
func (b *breaker) acquire() *permit {
	b.mu.Lock()
	before := b.state
	now := time.Now()
	if b.state == Open && !now.Before(b.since.Add(b.settings.Open)) {
		b.enter(HalfOpen, now)
	}
	if b.state == Open || b.state == HalfOpen && b.probing && now.Before(b.probeUntil) {
		b.refused++
		b.mu.Unlock()
		return nil
	}
	if b.state == HalfOpen {
		b.period++
		b.probing, b.probeUntil = true, now.Add(b.settings.Window)
	}
	p := &permit{breaker: b, period: b.period}
	after := b.state
	b.mu.Unlock()
	b.tell(before, after)
	return p
}

// report says what became of the attempt.
func (p *permit) report(v verdict) {
	p.once.Do(func() { p.breaker.report(p.period, v) })
}

func (b *breaker) report(period uint64, v verdict) {
	b.mu.Lock()
	before := b.state
	if period == b.period {
		b.judge(v, time.Now())
	}
	after := b.state
	b.mu.Unlock()
	b.tell(before, after)
}

func (b *breaker) judge(v verdict, now time.Time) {
	switch {
	case b.state == HalfOpen && v == success:
		b.window = newWindow(b.settings.Window)
		b.enter(Closed, now)
	case b.state == HalfOpen && v == failure:
		b.enter(Open, now)
	case b.state == HalfOpen:
		b.probing = false // the next call is the probe
	case v != none:
		b.window.add(now, v == failure)
		calls, failures := b.window.counts(now)
		if v == failure && calls >= b.settings.MinCalls && float64(failures)/float64(calls) >= b.settings.FailureRatio {
			b.enter(Open, now)
		}
	}
}

func (b *breaker) enter(state State, now time.Time) {
	b.state, b.since, b.probing = state, now, false
	b.period++
	if state == Open {
		b.openings++
	}
}

func (b *breaker) tell(before, after State) {
	if before != after {
		b.changed(before, after)
	}
}

// closed reports whether calls are made freely.
func (b *breaker) closed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.state == Closed
}

func (b *breaker) stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	s := Stats{State: b.state, Since: b.since, Refused: b.refused, Openings: b.openings}
	if probeAt := b.since.Add(b.settings.Open); b.state == Open && !now.Before(probeAt) {
		s.State, s.Since = HalfOpen, probeAt
	}
	if b.state == Closed {
		s.Calls, s.Failures = b.window.counts(now)
	}
	return s
}
