package proof

import (
	"slices"
	"time"
)

// checkReruns: a job runs again only because its handler's end said so, or because of a fault that hit its process;
// the latter at most as often as jobs were in flight at faults. Attempts and crashes are counted as they should be.
func (c *checker) checkReruns() {
	c.each(func(j *job) {
		for i := range j.reservations {
			if i > 0 {
				c.checkAgain(j.reservations[i-1], j.reservations[i])
			}
		}
	})
	for _, f := range c.faults {
		for _, process := range c.processes {
			if f.kind != Freeze && f.hits(process) {
				c.figures.InFlight += len(c.heldBy(process, 0, f.begin))
			}
		}
	}
	if c.figures.Reruns > c.figures.InFlight {
		c.report("re-runs", "%d runs were repeated, and %d were in flight at faults", c.figures.Reruns, c.figures.InFlight)
	}
}

// checkAgain looks at a claim and the next one of the same job.
func (c *checker) checkAgain(a, b *reservation) {
	if s := a.accepted(); s != nil {
		if (s.outcome == Done || s.outcome == Dead) && b.asked > s.at {
			c.report("ended twice", "it was claimed after its end: %s", a.job.tell())
			return
		}
		c.checkCounts(a, b, s)
		return
	}
	if a.started != 0 && b.started != 0 {
		c.figures.Reruns++
	}
	if len(c.faultsIn(a.asked, b.claimed, func(f *fault) bool { return f.hits(a.process) })) == 0 {
		c.report("re-runs", "token %d was taken from %s, which no fault had hit: %s", a.token, a.process, a.job.tell())
		return
	}
	if b.crashes > a.crashes && !c.hidden(a.asked, b.claimed) &&
		len(c.faultsIn(a.asked, b.claimed, func(f *fault) bool { return f.ofProcess() && f.hits(a.process) })) == 0 {
		c.report("crashes", "a crash was charged, and no process had died: %s", a.job.tell())
	}
	c.checkCharged(a, b)
}

// checkCounts: what an accepted end counts.
func (c *checker) checkCounts(a, b *reservation, s *settle) {
	want := a.attempt
	if s.outcome != GiveBack {
		want++
	}
	if c.hidden(s.asked, b.claimed) {
		return
	}
	if b.attempt != want {
		c.report("attempts", "after token %d was settled as %s there is attempt %d, not %d: %s", a.token, s.outcome, b.attempt, want, a.job.tell())
	}
	if b.crashes != a.crashes {
		c.report("crashes", "token %d was settled, and %d crashes became %d: %s", a.token, a.crashes, b.crashes, a.job.tell())
	}
}

// checkCharged: the death of a process counts an attempt and a crash for each job that it ran, or, when suspects were
// among them, a crash for these alone.
func (c *checker) checkCharged(a, b *reservation) {
	death := c.deathOf(a.process)
	once := c.input.Kinds[a.job.kind].Once
	switch {
	case death == nil, a.unsure(), !a.heldAt(death.begin), once && a.marked == 0, c.closing(a.process, death.begin):
		return
	case len(c.faultsIn(a.asked, b.claimed, func(f *fault) bool { return f.kind == Restart })) > 0:
		return // which may have taken the claim back
	}
	c.figures.Charged++
	if b.attempt <= a.attempt {
		c.report("attempts", "%s died with token %d and no attempt was counted: %s", a.process, a.token, a.job.tell())
	}
	if b.crashes <= a.crashes && !c.shielded(a, death.begin) {
		c.report("crashes", "%s died with token %d and no crash was counted: %s", a.process, a.token, a.job.tell())
	}
}

// suspect is the number of crashes from which on a job alone is charged.
const suspect = 2

func (c *checker) shielded(a *reservation, at int64) bool {
	if a.crashes >= suspect {
		return false
	}
	if c.claimUnder(a.process, at) {
		return true // perhaps of a suspect
	}
	for _, r := range c.heldBy(a.process, a.session, at) {
		if r.crashes >= suspect {
			return true
		}
	}
	return false
}

// deathOf is the fault that killed a process, or nil.
func (c *checker) deathOf(process string) *fault {
	for _, f := range c.faults {
		if f.ends() && f.target == process {
			return f
		}
	}
	return nil
}

// closing reports that a process was about to stop by itself.
func (c *checker) closing(process string, at int64) bool {
	return len(c.faultsIn(at-int64(10*time.Second), at, func(f *fault) bool { return f.kind == Term && f.target == process })) > 0
}

// hidden reports that between two times somebody may have claimed a job and lost the store's reply, so that no history
// tells of it.
func (c *checker) hidden(from, to int64) bool {
	for _, f := range c.faultsIn(from, to, func(f *fault) bool { return f.ofProcess() || f.kind == Restart }) {
		if c.claimLostAt(f, max(f.begin, from)) {
			return true
		}
	}
	return false
}

// claimLost reports whether a fault may have cost a process the reply to a claim.
func (c *checker) claimLost(f *fault) bool { return c.claimLostAt(f, f.begin) }

func (c *checker) claimLostAt(f *fault, at int64) bool {
	return slices.ContainsFunc(c.processes, func(process string) bool { return f.hits(process) && c.claimUnder(process, at) })
}
