package proof

import (
	"slices"
	"time"
)

// checkOrphans: whatever a host held when it died, or was cut off for longer than its session lived, runs again within
// the bound.
func (c *checker) checkOrphans() {
	var waits []int64
	for _, r := range c.tokens {
		wait, orphan := c.orphaned(r)
		if !orphan {
			continue
		}
		if r.crashes+1 >= suspect {
			c.figures.Suspects++ // they wait for a place of their own
			continue
		}
		waits = append(waits, wait)
		if wait > int64(c.input.Rules.Bound) {
			c.report("recovery", "token %d of %s was taken up again after %s: %s", r.token, r.process, seconds(wait), r.job.tell())
		}
	}
	slices.Sort(waits)
	f := &c.figures.Recovery
	if f.Jobs = len(waits); f.Jobs > 0 {
		at := func(share float64) float64 {
			return time.Duration(waits[int(share*float64(len(waits)-1))]).Seconds()
		}
		f.P50, f.P99, f.Max = at(0.5), at(0.99), at(1)
	}
}

// orphaned reports whether a reservation was lost by a fault of its process, and how long it took until its job was
// taken up by another.
func (c *checker) orphaned(r *reservation) (wait int64, orphan bool) {
	next := r.next()
	if next == nil || r.accepted() != nil || r.unsure() {
		return 0, false
	}
	taken := next.claimed
	if next.started != 0 {
		taken = next.started
	}
	var since int64
	for _, f := range c.faultsIn(r.asked, taken, func(f *fault) bool { return f.ofProcess() && f.kind != Term && f.hits(r.process) }) {
		if r.heldAt(f.begin) {
			since = f.begin
			break
		}
	}
	if since == 0 {
		return 0, false
	}
	return taken - max(c.undisturbed(since, taken), c.observed(r.process, since, taken)), true
}

// next is the claim after this one.
func (r *reservation) next() *reservation {
	all := r.job.reservations
	if i := slices.Index(all, r); i+1 < len(all) {
		return all[i+1]
	}
	return nil
}

// undisturbed is when, after a fault, the store began to work without a break, and nobody else had taken the job with
// him.
func (c *checker) undisturbed(since, taken int64) int64 {
	hit := since
	for _, f := range c.faultsIn(since+1, taken, func(*fault) bool { return true }) {
		switch {
		case f.kind == Restart, f.kind == Freeze && f.target == "":
			since = max(since, f.over())
		case f.kind == Stop && c.silent(f):
			since = max(since, f.over())
		case f.ofProcess() && f.begin > hit && c.claimLost(f):
			since = max(since, f.over())
		}
	}
	return min(since, taken)
}

// observed is from when on, after a fault, some other process has looked without a break: only such a one can find a host
// dead, and in a crash loop there may be none for a while.
func (c *checker) observed(process string, since, taken int64) int64 {
	first := taken
	for _, other := range c.processes {
		if other == process {
			continue
		}
		if from, looks := c.looks(other, since, taken); looks {
			first = min(first, from)
		}
	}
	return max(since, first)
}

// looks is from when on a process has looked, if it did until the end of a span.
func (c *checker) looks(process string, since, until int64) (from int64, looks bool) {
	if exit, ended := c.exits[process]; ended && exit.At < until {
		return 0, false
	}
	for _, e := range c.beats[process] {
		if e.What == SessionOpened && e.At <= until {
			from, looks = e.At, true
		}
	}
	for _, f := range c.faultsIn(since, until, func(f *fault) bool { return f.ofProcess() && f.target != "" && f.hits(process) }) {
		from = max(from, min(f.over(), until))
	}
	return from, looks
}

// silent reports that nobody else reached the store while a process was stopped: on SQLite it may have held the file's
// lock.
func (c *checker) silent(f *fault) bool {
	for _, process := range c.processes {
		if process == f.target {
			continue
		}
		for _, e := range c.beats[process] {
			if e.At > f.begin+(f.end-f.begin)/2 && e.At < f.end {
				return false
			}
		}
	}
	return true
}
