package main

import (
	"context"
	"time"

	"github.com/pawljobs/pawl/bench/internal/child"
	"github.com/pawljobs/pawl/bench/internal/load"
	"github.com/pawljobs/pawl/bench/internal/side"
)

// burn stores jobs and works them off with handlers that do nothing.
type burn struct{ onPostgres }

const (
	burnDown        = "burn-down"
	burnDownDefault = "burn-down, default settings"
	lifeWAL         = "B of WAL per job, whole life"

	pawlNoHistory = "pawl, no history"
	rawNoHistory  = "raw, no history"

	bestWorkers = 1000
)

// bestBurn is a burn-down at the side's best settings.
func bestBurn(name string, jobs int) child.Task {
	return child.Task{Load: load.Burn, Side: name, Engine: side.Postgres, Jobs: jobs, Callers: 2, Workers: bestWorkers, Tuned: true}
}

func newBurn(b *bench) Scenario {
	s := &burn{onPostgres{bench: b, name: burnDown, unit: jobsPerSecond, rounds: b.size(3, 2)}}
	add := func(label, name string, noHistory bool) {
		task := bestBurn(name, b.size(200_000, 20_000))
		task.NoHistory = noHistory
		s.variants = append(s.variants, variant{label, task})
	}
	add(side.Pawl, side.Pawl, false)
	add(side.River, side.River, false)
	add(side.Raw, side.Raw, false)
	add(pawlNoHistory, side.Pawl, true)
	add(rawNoHistory, side.Raw, true)
	return s
}

// newDefaultBurn leaves all settings alone. A side that would take too long is cut short: its rate is known by then.
func newDefaultBurn(b *bench) Scenario {
	s := &burn{onPostgres{bench: b, name: burnDownDefault, unit: jobsPerSecond, rounds: b.size(2, 1)}}
	for _, name := range []string{side.Pawl, side.River} {
		task := bestBurn(name, b.size(200_000, 20_000))
		task.Tuned, task.Limit = false, b.span(8*time.Second, 1500*time.Millisecond)
		s.variants = append(s.variants, variant{name, task})
	}
	return s
}

func (s *burn) Measure(ctx context.Context, label string) (Sample, error) {
	report, err := s.run(ctx, label, nil)
	stored, worked := report.Phases[load.PhaseEnqueue], report.Phases[load.PhaseWork]
	sample := costs(worked)
	sample[lifeWAL] = stored.WALBytes() + worked.WALBytes()
	return sample, err
}
