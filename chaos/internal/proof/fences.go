package proof

import (
	"time"
)

// checkFences: tokens never repeat; no acknowledgement under an older token than a started one is accepted; a
// reservation ends once, after its handler has done its work; what must not run twice runs once, behind its mark.
func (c *checker) checkFences() {
	for _, r := range c.twice {
		c.report("token", "token %d was handed out again, to %s: %s", r.token, r.process, r.job.tell())
	}
	for _, e := range c.unplaced {
		c.report("from nowhere", "%s ran job %s under token %d, which it had not claimed", e.Process, e.Job, e.Token)
	}
	c.each(func(j *job) {
		starts := 0
		for _, r := range j.reservations {
			c.checkReservation(r)
			starts += r.starts
		}
		if c.input.Kinds[j.kind].Once && starts > 1 {
			c.report("ran twice", "it has max tries 1: %s", j.tell())
		}
	})
}

func (c *checker) checkReservation(r *reservation) {
	accepted, refused, unsure := 0, 0, false
	for _, s := range r.settles {
		switch s.result {
		case Settled:
			accepted++
			c.checkAccepted(r, s)
		case Refused:
			if !unsure {
				refused++
			}
		default:
			unsure = true
		}
	}
	if accepted > 1 {
		c.report("fence", "two ends of token %d were accepted: %s", r.token, r.job.tell())
	}
	if refused > 0 {
		c.figures.Refused++
	}
	if r.starts > 1 {
		c.report("ran twice", "under one claim: %s", r.job.tell())
	}
	if c.input.Kinds[r.job.kind].Once && r.started != 0 && (r.marked == 0 || r.marked > r.started) {
		c.report("start mark", "token %d was started without its mark: %s", r.token, r.job.tell())
	}
}

func (c *checker) checkAccepted(r *reservation, s settle) {
	if s.outcome == Done && !s.effect {
		c.report("too early", "token %d was acknowledged before its handler had done its work: %s", r.token, r.job.tell())
	}
	for _, other := range r.job.reservations {
		if other.asked > r.claimed && other.started != 0 && other.started < s.asked {
			c.report("fence", "the end of token %d was accepted after token %d had been started: %s", r.token, other.token, r.job.tell())
		}
	}
}

// Slack for what happens at the same moment in two processes, and for a handler that is told to stop.
const (
	sameMoment = int64(100 * time.Millisecond)
	toLeave    = int64(2 * time.Second)
)

// checkZombies: a host that was stopped starts nothing before a beat, and one that has lost its session cancels its
// handlers.
func (c *checker) checkZombies() {
	for _, f := range c.faults {
		if f.kind == Stop && f.end-f.begin > int64(c.input.Rules.Silence) {
			c.checkAwakened(f)
		}
	}
	for _, process := range c.processes {
		for _, e := range c.lost[process] {
			c.figures.SessionsLost++
			c.checkLost(process, e)
		}
	}
}

func (c *checker) checkAwakened(f *fault) {
	var beaten int64
	for _, e := range c.beats[f.target] {
		if e.At > f.end {
			beaten = e.At
			break
		}
	}
	for _, r := range c.byProcess[f.target] {
		between := r.started > f.end && (beaten == 0 || r.started < beaten)
		if between && max(r.claimed-f.begin, f.begin-r.claimed) > sameMoment {
			c.report("zombie", "%s was stopped and has started token %d before a beat: %s", f.target, r.token, r.job.tell())
		}
	}
}

func (c *checker) checkLost(process string, lost Event) {
	until := lost.At + toLeave
	if len(c.faultsIn(lost.At, until, func(f *fault) bool { return f.hits(process) })) > 0 {
		return
	}
	if exit, ended := c.exits[process]; ended && exit.At < until {
		return
	}
	for _, r := range c.byProcess[process] {
		polite := c.input.Kinds[r.job.kind].Polite && len(r.settles) == 0 // one that makes its transition waits for that
		if r.session == lost.Session && polite && r.ranAt(lost.At) && r.ranAt(until) {
			c.report("zombie", "%s has lost its session, and %s later still ran token %d: %s", process, seconds(toLeave), r.token, r.job.tell())
		}
	}
}
