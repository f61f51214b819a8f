package proof

import (
	"slices"

	"github.com/pawljobs/pawl"
)

// checkEnds: every job that was accepted is done or dead, exactly once, and as its kind says.
func (c *checker) checkEnds() {
	c.each(func(j *job) {
		c.countJob(j)
		switch {
		case j.view == nil && j.accepted:
			c.report("lost", "it was accepted and the store does not know it: %s", j.tell())
		case j.view == nil && len(j.reservations) > 0:
			c.report("lost", "it was claimed and the store does not know it: %s", j.tell())
		case j.view == nil:
		case !j.handedIn:
			c.report("from nowhere", "nobody has handed it in: %s", j.tell())
		case j.view.State != pawl.JobDone && j.view.State != pawl.JobDead:
			c.report("not ended", "%s", j.tell())
		default:
			c.checkEnd(j)
			c.checkFate(j)
		}
	})
}

func (c *checker) countJob(j *job) {
	f := &c.figures
	switch {
	case j.accepted:
		f.Accepted++
	case j.view != nil:
		f.Unsure++
	}
	if j.view == nil {
		return
	}
	switch j.view.State {
	case pawl.JobDone:
		f.Done++
	case pawl.JobDead:
		f.Dead++
	}
}

// checkEnd compares the state of a job with the acknowledgements.
func (c *checker) checkEnd(j *job) {
	state := Done
	if j.view.State == pawl.JobDead {
		state = Dead
	}
	ends, possible, effect := 0, false, false
	for _, r := range j.reservations {
		effect = effect || r.effect != 0
		for _, s := range r.settles {
			if s.outcome != Done && s.outcome != Dead {
				continue
			}
			if s.result == Settled {
				ends++
			}
			if s.result == Settled && s.outcome != state {
				c.report("wrong end", "another end was accepted: %s", j.tell())
			}
			possible = possible || s.outcome == state && s.result != Refused
		}
	}
	switch {
	case ends > 1:
		c.report("ended twice", "%s", j.tell())
	case !possible:
		c.report("ended by nobody", "%s", j.tell())
	}
	if state == Done && !effect {
		c.report("done without effect", "%s", j.tell())
	}
	if want := map[string]int{Dead: 1}[state]; len(j.letters) != want {
		c.report("letters", "%d letters: %s", len(j.letters), j.tell())
	}
}

// checkFate compares the end of a job with its kind.
func (c *checker) checkFate(j *job) {
	kind, known := c.input.Kinds[j.kind]
	if !known {
		c.report("wrong fate", "its kind is unknown: %s", j.tell())
		return
	}
	if j.view.State == pawl.JobDone {
		if kind.Dead {
			c.report("wrong fate", "it should have died: %s", j.tell())
		}
		return
	}
	if len(j.letters) == 0 {
		return // which has been reported
	}
	letter := j.letters[0]
	switch {
	case letter.Reason == pawl.ReasonCrashLoop && c.crashed(j) >= pawl.CrashLimit:
	case kind.Once && letter.Reason.OutcomeUnknown():
		if len(c.faultsOf(j)) == 0 {
			c.report("wrong fate", "no fault has hit it: %s", j.tell())
		}
	case !kind.Dead || letter.Class != kind.Class || !slices.Contains(kind.Reasons, letter.Reason):
		c.report("wrong fate", "%s", j.tell())
	case letter.Attempts < kind.Tries, kind.Tries != 0 && letter.Attempts > kind.Tries && c.crashed(j) == 0:
		c.report("wrong fate", "it died after %d attempts instead of %d: %s", letter.Attempts, kind.Tries, j.tell())
	}
}

// faultsOf are the faults that hit a process while it held the job.
func (c *checker) faultsOf(j *job) []*fault {
	var found []*fault
	for _, r := range j.reservations {
		end := c.last
		if s := r.accepted(); s != nil {
			end = s.at
		}
		found = append(found, c.faultsIn(r.asked, end, func(f *fault) bool { return f.ofProcess() && f.hits(r.process) })...)
	}
	return found
}

// crashed counts the processes that faults have taken from under the job.
func (c *checker) crashed(j *job) int {
	n := 0
	for _, r := range j.reservations {
		if r.accepted() != nil {
			continue
		}
		if len(c.faultsIn(r.asked, c.last, func(f *fault) bool { return f.ofProcess() && f.hits(r.process) })) > 0 {
			n++
		}
	}
	return n
}

// checkOrders: a job that is enqueued in a transaction is there if and only if the transaction was committed.
func (c *checker) checkOrders() {
	for id := range c.input.Final.Orders {
		if j := c.jobs[id]; j == nil || j.view == nil {
			c.report("transaction", "a row was committed and its job is missing: job %s", id)
		}
	}
	c.each(func(j *job) {
		if j.view != nil && c.input.Kinds[j.kind].Ordered && !c.input.Final.Orders[j.id] {
			c.report("transaction", "its row was not committed: %s", j.tell())
		}
	})
	c.figures.Orders = len(c.input.Final.Orders)
}
