package main

import (
	"context"
	"time"

	"github.com/pawljobs/pawl/bench/internal/child"
	"github.com/pawljobs/pawl/bench/internal/load"
	"github.com/pawljobs/pawl/bench/internal/side"
)

// memory looks at a process that has a job waiting in each worker, then works off others, then has nothing to do. The
// jobs are stored by a process before it.
type memory struct{ onPostgres }

const (
	thousandWorkers = "1,000 workers"
	idlePercent     = "% of a core, idle, client and database"
)

func newMemory(b *bench) Scenario {
	s := &memory{onPostgres{bench: b, name: thousandWorkers, unit: load.ValueRSS, rounds: b.size(2, 1)}}
	for _, name := range []string{side.Pawl, side.River, side.Empty} {
		s.variants = append(s.variants, variant{name, child.Task{
			Load: load.Hold, Side: name, Engine: side.Postgres, Jobs: b.size(50_000, 10_000), Workers: bestWorkers, Tuned: true,
			Limit: b.span(5*time.Second, 1500*time.Millisecond),
		}})
	}
	return s
}

func (s *memory) Measure(ctx context.Context, label string) (Sample, error) {
	if label != side.Empty {
		jobs := child.Task{Load: load.Bulk, Side: label, Engine: side.Postgres, URL: s.url, Jobs: s.size(50_000, 10_000), Callers: 2}
		if _, err := child.Run(ctx, jobs, nil, nil); err != nil {
			return nil, err
		}
	}
	report, err := s.run(ctx, label, nil)
	idle := report.Phases[load.PhaseIdle]
	sample := Sample{load.ValueRSS: report.Values[load.ValueRSS], load.ValueHeldRSS: report.Values[load.ValueHeldRSS]}
	if idle.Seconds > 0 {
		sample[idlePercent] = 100 * (idle.Client + idle.Server).Seconds() / idle.Seconds
	}
	return sample, err
}
