package main

import (
	"context"
	"strconv"
	"time"

	"github.com/pawljobs/pawl/bench/internal/child"
	"github.com/pawljobs/pawl/bench/internal/load"
	"github.com/pawljobs/pawl/bench/internal/side"
)

// enqueue stores jobs that nobody works off.
type enqueue struct{ onPostgres }

const bulkEnqueue = "bulk enqueue"

// newBulk is two callers who store a thousand jobs a call.
func newBulk(b *bench) Scenario {
	s := &enqueue{onPostgres{bench: b, name: bulkEnqueue, unit: jobsPerSecond, rounds: b.size(3, 2)}}
	for _, name := range []string{side.Pawl, side.River, side.Raw} {
		s.variants = append(s.variants, variant{name, child.Task{
			Load: load.Bulk, Side: name, Engine: side.Postgres, Jobs: b.size(200_000, 40_000), Callers: 2,
		}})
	}
	return s
}

func singleEnqueue(callers int) string {
	if callers == 1 {
		return "single enqueue, 1 caller"
	}
	return "single enqueue, " + strconv.Itoa(callers) + " callers"
}

// newSingle is some callers who store one job a call.
func newSingle(b *bench, callers int) Scenario {
	s := &enqueue{onPostgres{bench: b, name: singleEnqueue(callers), unit: jobsPerSecond, rounds: b.size(3, 1)}}
	for _, name := range []string{side.Pawl, side.River, side.Raw} {
		s.variants = append(s.variants, variant{name, child.Task{
			Load: load.Single, Side: name, Engine: side.Postgres, Callers: callers, Limit: b.span(2*time.Second, 600*time.Millisecond),
		}})
	}
	return s
}

func (s *enqueue) Measure(ctx context.Context, label string) (Sample, error) {
	report, err := s.run(ctx, label, nil)
	return costs(report.Phases[load.PhaseEnqueue]), err
}
