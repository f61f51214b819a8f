package proof

import (
	"maps"
	"slices"
)

// Figures of a run.
type Figures struct {
	Accepted       int            `json:"accepted"` // jobs
	Unsure         int            `json:"unsure"`   // jobs that were there although no enqueue had said so
	Done           int            `json:"done"`
	Dead           int            `json:"dead"`
	Letters        int            `json:"letters"`
	AlertRows      int            `json:"alert_rows"`
	Alerted        int            `json:"alerted"` // letters, for each sink
	AlertsRepeated int            `json:"alerts_repeated"`
	Orders         int            `json:"orders"` // rows that were committed with a job
	Faults         map[string]int `json:"faults"`
	FaultsOnJobs   int            `json:"faults_on_running_jobs"`
	Share          float64        `json:"share_on_running_jobs"`
	Refused        int            `json:"refused_acknowledgements"`
	SessionsLost   int            `json:"sessions_lost"`
	InFlight       int            `json:"in_flight_at_faults"`
	Reruns         int            `json:"runs_repeated"`
	Charged        int            `json:"crashes_checked"`
	Recovery       Recovery       `json:"recovery"`
	Suspects       int            `json:"suspects_recovered"`
	Freezes        int            `json:"freezes"` // of the machine
	Frozen         float64        `json:"frozen_s"`
	Starved        int            `json:"starved"` // times that one process did not run
}

// Recovery is how long jobs of dead hosts waited until they ran again, in seconds.
type Recovery struct {
	Jobs int     `json:"jobs"`
	P50  float64 `json:"p50_s"`
	P99  float64 `json:"p99_s"`
	Max  float64 `json:"max_s"`
}

// checkProcesses: nobody ended but by a fault, and what was taken while at work is given back in rest.
func (c *checker) checkProcesses() {
	for _, process := range slices.Sorted(maps.Keys(c.exits)) {
		exit := c.exits[process]
		switch {
		case exit.Kind == ByKill || c.deathOf(process) != nil:
		case exit.Kind == "":
			c.report("process", "%s ended by itself: %s", process, exit.Text)
		case exit.Text != "" && !c.disturbed(process, exit.At-2*int64(c.input.Rules.Bound), exit.At):
			c.report("process", "%s was stopped and ended badly: %s", process, exit.Text)
		}
	}
	for _, e := range c.condition {
		if e.N > e.Limit {
			c.report("leak", "in the end there are %d %s %s, and should be at most %d", e.N, e.Kind, e.Target, e.Limit)
		}
	}
}

// disturbed reports whether a process could not reach the store at some time of a span: because of a fault, or because
// nobody could, as while a slow disk keeps a file locked.
func (c *checker) disturbed(process string, from, to int64) bool {
	return len(c.faultsIn(from, to, func(f *fault) bool { return f.kind != Term && f.hits(process) })) > 0 ||
		slices.ContainsFunc(c.away, func(e Event) bool { return e.Process != process && e.At >= from && e.At <= to })
}

// checkExercise: it was no empty exercise.
func (c *checker) checkExercise() {
	f := &c.figures
	f.Faults = map[string]int{}
	total := 0
	for _, fault := range c.faults {
		if fault.kind == Freeze {
			c.countFreeze(fault)
			continue
		}
		f.Faults[fault.kind]++
		if fault.kind == Suicide {
			continue // a job's own doing
		}
		total++
		if c.running(fault) {
			f.FaultsOnJobs++
		}
	}
	if total > 0 {
		f.Share = float64(f.FaultsOnJobs) / float64(total)
	}
	for _, kind := range slices.Sorted(maps.Keys(c.input.Rules.Faults)) {
		if least := c.input.Rules.Faults[kind]; f.Faults[kind] < least {
			c.report("empty", "%d faults of kind %s, and there should be %d", f.Faults[kind], kind, least)
		}
	}
	switch {
	case f.Share < c.input.Rules.Share:
		c.report("empty", "%.0f %% of the faults hit running jobs, and %.0f %% should", 100*f.Share, 100*c.input.Rules.Share)
	case f.Accepted == 0:
		c.report("empty", "no job was accepted")
	}
	if c.input.Rules.Late && f.Refused == 0 {
		c.report("empty", "no late acknowledgement was refused")
	}
}

// countFreeze counts times in which the machine, or a process that nobody had stopped, did not run.
func (c *checker) countFreeze(freeze *fault) {
	if freeze.target == "" {
		c.figures.Freezes++
		c.figures.Frozen += float64(freeze.end-freeze.begin) / 1e9
		return
	}
	if len(c.faultsIn(freeze.begin, freeze.end, func(f *fault) bool {
		return f.kind == Stop && f.target == freeze.target || f.kind == Freeze && f.target == ""
	})) == 0 {
		c.figures.Starved++
	}
}

func (c *checker) running(f *fault) bool {
	for _, process := range c.processes {
		if f.hits(process) && slices.ContainsFunc(c.byProcess[process], func(r *reservation) bool { return r.ranAt(f.begin) }) {
			return true
		}
	}
	return false
}
