package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
)

// ErrAborted is what Run returns after Abort.
var ErrAborted = errors.New("host aborted: what it held is left for other hosts to recover")

// abortWait is how long Run waits after Abort for what it has started to end.
const abortWait = time.Second

// Abort makes Run return within about a second, before a drain or in the middle of one; a program calls it at the
// second signal. Handlers are cancelled with cause pawl.ErrShutdown, but nothing more is recorded and the session is
// not closed: it expires, and other hosts then run again what was running, as after a crash. It can be called at any
// time, more than once.
func (h *Host) Abort() { h.abort() }

// abandon ends a host after Abort, which ends the base of all that it does.
func (h *Host) abandon() error {
	last, cancel := context.WithTimeout(context.WithoutCancel(h.base), abortWait)
	defer cancel()
	<-h.base.Done() // no handler begins any more
	h.cancelAll()
	left := h.settler.close(last, &h.settling)
	for _, c := range []*crew{&h.fetchers, &h.upkeep, &h.living, &h.cutting, &h.attempts} {
		c.wait(last)
	}
	h.log.Warn("aborted: other hosts recover what was held", "running", h.counters.running.Load(), "unrecorded", left)
	return ErrAborted
}

// drain ends a host in the order that loses nothing: claim no more, let handlers end, cancel them, put back what did
// not end, record it all, and only then leave the store. Every part is bounded by its rung.
func (h *Host) drain() error {
	begun := time.Now()
	h.draining.Store(true)
	h.stopClaims()
	h.presence.nudge() // tell the others
	h.log.Info("draining", "running", h.counters.running.Load())
	by := func(d time.Duration) (context.Context, context.CancelFunc) {
		return context.WithDeadline(h.base, begun.Add(d))
	}

	grace, cancel := by(h.config.Drain.Handler)
	defer cancel()
	ended := h.attempts.wait(grace) && h.fetchers.wait(grace)
	server, cancel := by(h.config.Drain.Server)
	defer cancel()
	if !ended {
		h.cancelAll()
		ended = h.attempts.wait(server) && h.fetchers.wait(server)
	}
	if h.aborted.Err() != nil {
		return h.abandon()
	}
	if !ended {
		h.cutOff()
	}
	return h.leave(begun)
}

// cancelAll cancels the handlers whose grace is over, and lets none begin any more.
func (h *Host) cancelAll() {
	h.graceOver.Store(true)
	for _, a := range h.held.all(func(*attempt) bool { return true }) {
		a.interrupt(pawl.ErrShutdown)
	}
}

// cutOff gives up the handlers that have not returned.
func (h *Host) cutOff() {
	for _, a := range h.held.all(func(*attempt) bool { return true }) {
		h.cutting.run(func() { a.giveUp(pawl.EndCutOff) })
	}
}

// leave records what is left, ends the upkeep and closes the session.
func (h *Host) leave(begun time.Time) error {
	d := h.config.Drain
	last, cancel := context.WithDeadline(h.base, begun.Add(d.Host))
	defer cancel()
	most, cancel := context.WithDeadline(h.base, begun.Add(d.Host-(d.Host-d.Server)/5))
	defer cancel()
	alerts, cancel := context.WithTimeout(most, pawl.AlertBudget+2*ignoreGrace)
	defer cancel()

	h.stopUpkeep()
	h.attempts.wait(most)
	left := h.settler.close(most, &h.settling)
	if !h.upkeep.wait(alerts) {
		h.log.Warn("a delivery of an alert is cut off; it is repeated by another host")
	}
	h.stopCalls()
	h.fetchers.wait(last)
	h.cutting.wait(last)
	h.stopLiving()
	h.living.wait(last)
	if h.aborted.Err() != nil {
		return h.abandon()
	}
	err := h.closeSession(last)
	if err != nil && h.aborted.Err() != nil { // while it was being closed
		return h.abandon()
	}
	if left > 0 {
		h.log.Warn("the shutdown ended before all was recorded; other hosts run these jobs again", "jobs", left)
		return fmt.Errorf("drain: %d ended attempts could not be recorded", left)
	}
	return err
}

func (h *Host) closeSession(ctx context.Context) error {
	id, _ := h.presence.lastBeat()
	if id == 0 {
		return nil
	}
	if err := h.store.CloseSession(ctx, id); err != nil {
		return fmt.Errorf("close session: %w", err)
	}
	return nil
}
