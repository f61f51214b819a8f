package main

import (
	"context"
	"time"

	"github.com/pawljobs/pawl/bench/internal/child"
	"github.com/pawljobs/pawl/bench/internal/load"
	"github.com/pawljobs/pawl/bench/internal/side"
)

// degradation is a burn-down in the presence of something that might slow it, beside one in a clean database. Its
// figure is the share of the clean rate that is left.
type degradation struct {
	onPostgres
	perLife bool // the rate is over the enqueue too, since that is where the trouble is
	// trouble is made once the tables are there and before any job is. What it returns is called after the burn-down;
	// it may be nil.
	trouble func(ctx context.Context, which trouble) (end func(), err error)
	hooks   func(which trouble) child.Hooks
}

// trouble says whom it is made for.
type trouble struct {
	side string
	url  string
}

// clean is the label of a side's measurement without the trouble.
func clean(name string) string { return name + ", clean" }

// degradationOf is a burn-down of that many jobs; worse changes the task of the measurement with the trouble, and may be
// nil. Pawl is always among the sides.
func degradationOf(b *bench, name string, jobs, rounds int, worse func(*child.Task), others ...string) *degradation {
	d := &degradation{onPostgres: onPostgres{bench: b, name: name, unit: jobsPerSecond, rounds: rounds}}
	for _, name := range append([]string{side.Pawl}, others...) {
		task := bestBurn(name, jobs)
		task.Limit = b.span(12*time.Second, 4*time.Second)
		d.variants = append(d.variants, variant{clean(name), task})
		if worse != nil {
			worse(&task)
		}
		d.variants = append(d.variants, variant{name, task})
	}
	return d
}

func (d *degradation) Measure(ctx context.Context, label string) (Sample, error) {
	which := trouble{label, d.url}
	hooks := child.Hooks{}
	end := func() {}
	if troubled(label) {
		if d.hooks != nil {
			hooks = d.hooks(which)
		}
		hooks[load.PhaseEnqueue] = d.server.Checkpoint // what is there before is on disk
		if d.trouble != nil {
			hooks[load.PhaseFill] = func(ctx context.Context) error {
				stop, err := d.trouble(ctx, which)
				if stop != nil {
					end = stop
				}
				return err
			}
		}
	}
	defer func() { end() }()
	report, err := d.run(ctx, label, hooks)
	stored, worked := report.Phases[load.PhaseEnqueue], report.Phases[load.PhaseWork]
	sample := costs(worked)
	if d.perLife {
		sample[jobsPerSecond] = float64(worked.Jobs) / (stored.Seconds + worked.Seconds)
	}
	for name, value := range report.Values {
		sample[name] = value
	}
	return sample, err
}

// troubled tells the labels of sides from those of their clean measurements.
func troubled(label string) bool {
	return label == side.Pawl || label == side.River || label == side.Raw
}
