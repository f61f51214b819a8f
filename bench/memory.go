package main

import (
	"context"
	"time"

	"github.com/pawljobs/pawl/bench/internal/child"
	"github.com/pawljobs/pawl/bench/internal/load"
	"github.com/pawljobs/pawl/bench/internal/side"
)

// memory has a handler running in each worker and looks at the process, and then again when there is nothing to do.
type memory struct{ onPostgres }

const (
	thousandWorkers = "1,000 workers"
	idlePercent     = "% of a core, idle, client and database"
)

func newMemory(b *bench) Scenario {
	s := &memory{onPostgres{bench: b, name: thousandWorkers, unit: load.ValueRSS, rounds: b.size(2, 1)}}
	for _, name := range []string{side.Pawl, side.River, side.Empty} {
		s.variants = append(s.variants, variant{name, child.Task{
			Load: load.Hold, Side: name, Engine: side.Postgres, Jobs: bestWorkers, Callers: 1, Workers: bestWorkers, Tuned: true,
			Limit: b.span(5*time.Second, 1500*time.Millisecond),
		}})
	}
	return s
}

func (s *memory) Measure(ctx context.Context, label string) (Sample, error) {
	report, err := s.run(ctx, label, nil)
	idle := report.Phases[load.PhaseIdle]
	sample := Sample{load.ValueRSS: report.Values[load.ValueRSS]}
	if idle.Seconds > 0 {
		sample[idlePercent] = 100 * (idle.Client + idle.Server).Seconds() / idle.Seconds
	}
	return sample, err
}
