package proof

import (
	"slices"

	"github.com/pawljobs/pawl"
)

// checkDeaths: as many deaths as letters and as alert rows for every sink; every letter is delivered to each sink, and
// again only after a fault and under the same key; one Error line a death.
func (c *checker) checkDeaths() {
	letters := map[string]bool{}
	c.figures.Letters = len(c.input.Final.Letters)
	for i := range c.input.Final.Letters {
		letter := &c.input.Final.Letters[i]
		id := letter.ID.String()
		if letters[id] {
			c.report("letters", "letter %s is there twice", id)
		}
		letters[id] = true
		c.checkLine(letter)
		for _, sink := range c.input.Final.Sinks {
			c.checkAlert(id, sink.Name)
		}
	}
	if len(c.input.Final.Sinks) == 0 {
		c.report("alerts", "no sink is registered")
	}
	for _, sink := range c.input.Final.Sinks {
		if rows := sink.Pending + sink.Delivered; rows != len(letters) {
			c.report("alerts", "sink %s has %d rows for %d letters", sink.Name, rows, len(letters))
		}
		if sink.Pending > 0 {
			c.report("alerts", "sink %s has %d alerts that were not delivered", sink.Name, sink.Pending)
		}
		c.figures.AlertRows += sink.Pending + sink.Delivered
	}
	for key := range c.alerts {
		if !letters[key[0]] {
			c.report("alerts", "sink %s was told of letter %s, which there is not", key[1], key[0])
		}
	}
	for id := range c.died {
		if !letters[id] {
			c.report("letters", "the log tells of letter %s, which there is not", id)
		}
	}
}

// checkLine: one Error line, and none only where the process ended, or heard of no success, right there.
func (c *checker) checkLine(letter *pawl.DeadLetter) {
	id := letter.ID.String()
	switch n := c.died[id]; {
	case n > 1:
		c.report("log", "%d Error lines of letter %s", n, id)
	case n == 0:
		j := c.job(letter.JobID.String())
		if !slices.ContainsFunc(j.reservations, func(r *reservation) bool { return r.unsure() || c.endsAfter(r) }) {
			c.report("log", "no Error line of letter %s: %s", id, j.tell())
		}
	}
}

// endsAfter reports that the reservation's process was killed just when its end had been accepted.
func (c *checker) endsAfter(r *reservation) bool {
	s := r.accepted()
	return s != nil && len(c.faultsIn(s.at-1e9, s.at+1e9, func(f *fault) bool { return f.ends() && f.hits(r.process) })) > 0
}

func (c *checker) checkAlert(letter, sink string) {
	events := c.alerts[[2]string{letter, sink}]
	if len(events) == 0 {
		c.report("alerts", "sink %s was never told of letter %s", sink, letter)
		return
	}
	c.figures.Alerted++
	for i, e := range events[1:] {
		before := events[i]
		if e.Key != before.Key {
			c.report("alerts", "sink %s was told of letter %s under two keys, %s and %s", sink, letter, before.Key, e.Key)
		}
		if len(c.faultsIn(before.At-int64(c.input.Rules.Bound), e.At, func(f *fault) bool { return f.hits(before.Process) })) == 0 {
			c.report("alerts", "sink %s was told of letter %s twice, and there was no fault", sink, letter)
		}
		c.figures.AlertsRepeated++
	}
}
