package host

import (
	"context"
	"errors"
	"time"

	"github.com/pawljobs/pawl"
)

// cancel cancels the handler's ctx because an operator wants the job to end. A handler that ignores it is given up as
// after a timeout. One that has not begun is told with a later beat, which names it again.
func (a *attempt) cancel() {
	a.mu.Lock()
	stop := a.stop
	tell := a.phase == running && !a.timedOut && !a.lost && a.outcome == nil
	if tell {
		a.timedOut, a.deadline = true, time.Now()
		a.timer.Reset(a.host.config.Intervals.GiveUp)
	}
	a.mu.Unlock()
	if tell {
		stop(pawl.ErrCancelled)
	}
}

// wasCancelled reports whether that is why the attempt's ctx ended.
func (a *attempt) wasCancelled() bool {
	return a.ctx != nil && errors.Is(context.Cause(a.ctx), pawl.ErrCancelled)
}

// hearSoon makes a busy host beat when a wake-up may mean that something of what it runs is to be cancelled, though not
// more than once a second: most wake-ups mean new jobs.
func (p *presence) hearSoon() {
	if p.host.counters.running.Load() == 0 {
		return
	}
	if _, at := p.lastBeat(); time.Since(at) > min(time.Second, p.host.config.Intervals.Beat/5) {
		p.nudge()
	}
}
