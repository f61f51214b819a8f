package proof

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
)

// Input is all that is known of a run.
type Input struct {
	Histories map[string][]Event // by process
	Final     Final
	Kinds     map[string]Kind
	Rules     Rules
}

// Final is what the store contains when all has ended.
type Final struct {
	Jobs    []pawl.JobView
	Letters []pawl.DeadLetter
	Sinks   []pawl.SinkView
	// Orders are the rows that handlers have committed together with a job, by that job's id.
	Orders map[string]bool
}

// Kind is what is to become of the jobs of a kind.
type Kind struct {
	Dead    bool            // its jobs die
	Class   pawl.DeathClass // with this class
	Reasons []pawl.Reason   // and one of these reasons
	Tries   int             // after so many attempts, unless it is 0
	Once    bool            // max tries 1: may die of a fault, with its outcome unknown
	Polite  bool            // its handler returns when its ctx has ended
	Ordered bool            // its jobs are committed together with a row of Final.Orders
}

// Rules are the times and the least measures of the run.
type Rules struct {
	Silence time.Duration // after which a host starts nothing
	Bound   time.Duration // in which a dead host's jobs run again
	// Faults is how many there must be of each of these kinds.
	Faults map[string]int
	// Share of the faults that have to hit running jobs.
	Share float64
	// Late says that late acknowledgements must have been refused.
	Late bool
}

// Finding is a promise that was not kept, or something that keeps the run from being a proof.
type Finding struct {
	Rule string `json:"rule"`
	Text string `json:"text"`
}

// Check decides. No finding means that the promises held.
func Check(in Input) ([]Finding, Figures) {
	c := &checker{index: newIndex(in), findings: []Finding{}}
	c.checkEnds()
	c.checkDeaths()
	c.checkOrders()
	c.checkFences()
	c.checkZombies()
	c.checkReruns()
	c.checkOrphans()
	c.checkProcesses()
	c.checkExercise()
	return c.findings, c.figures
}

type checker struct {
	*index
	findings []Finding
	figures  Figures
}

func (c *checker) report(rule, format string, args ...any) {
	c.findings = append(c.findings, Finding{rule, fmt.Sprintf(format, args...)})
}

// each calls f for every job, by id.
func (c *checker) each(f func(j *job)) {
	ids := make([]string, 0, len(c.jobs))
	for id := range c.jobs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		f(c.jobs[id])
	}
}

// tell writes a job's story for a finding.
func (j *job) tell() string {
	var b strings.Builder
	fmt.Fprintf(&b, "job %s of %s", j.id, j.kind)
	for _, r := range j.reservations {
		fmt.Fprintf(&b, "; token %d (%s, attempt %d, %d crashes)", r.token, r.process, r.attempt, r.crashes)
		if r.started != 0 {
			b.WriteString(" ran")
		}
		for _, s := range r.settles {
			result := s.result
			if result == "" {
				result = "cut off"
			}
			fmt.Fprintf(&b, ", %s %s", s.outcome, result)
		}
	}
	if j.view != nil {
		fmt.Fprintf(&b, "; is %s", j.view.State)
	}
	for _, letter := range j.letters {
		fmt.Fprintf(&b, " (%s, %s)", letter.Class, letter.Reason)
	}
	return b.String()
}

func seconds(ns int64) string { return fmt.Sprintf("%.2f s", float64(ns)/1e9) }
