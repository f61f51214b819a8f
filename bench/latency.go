package main

import (
	"context"
	"strconv"
	"time"

	"github.com/pawljobs/pawl/bench/internal/child"
	"github.com/pawljobs/pawl/bench/internal/load"
	"github.com/pawljobs/pawl/bench/internal/side"
)

// latency is the time from the commit to the handler, in a steady stream.
type latency struct{ onPostgres }

const (
	riverDefault = "river, default settings"
)

func latencyAt(rate int) string { return "commit to handler, " + strconv.Itoa(rate) + "/s" }

// newLatency compares Pawl's default settings with River's best; River's default ones are shown beside.
func newLatency(b *bench, rate int) Scenario {
	s := &latency{onPostgres{bench: b, name: latencyAt(rate), unit: load.ValueP99, rounds: b.size(2, 1)}}
	add := func(label, name string, tuned bool) {
		s.variants = append(s.variants, variant{label, child.Task{
			Load: load.Latency, Side: name, Engine: side.Postgres, Rate: float64(rate),
			Limit: b.span(5*time.Second, 2*time.Second), Workers: bestWorkers, Tuned: tuned,
		}})
	}
	add(side.Pawl, side.Pawl, false)
	add(side.River, side.River, true)
	add(side.Raw, side.Raw, false)
	add(riverDefault, side.River, false)
	return s
}

func (s *latency) Measure(ctx context.Context, label string) (Sample, error) {
	report, err := s.run(ctx, label, nil)
	return report.Values, err
}
