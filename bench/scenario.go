package main

import (
	"context"
	"fmt"
	"time"

	"github.com/pawljobs/pawl/bench/internal/child"
	"github.com/pawljobs/pawl/bench/internal/server"
	"github.com/pawljobs/pawl/bench/internal/side"
)

// Scenario is one thing that is measured of several sides, interleaved: A B R A B R.
type Scenario interface {
	// Name is unique.
	Name() string
	// Unit is that of the metric that is shown while the scenario runs.
	Unit() string
	// Sides are the names of what is compared, in the order in which they are measured.
	Sides() []string
	// Rounds is how often each side is measured.
	Rounds() int
	// Prepare makes what one measurement needs.
	Prepare(ctx context.Context, label string) error
	// Measure takes one measurement.
	Measure(ctx context.Context, label string) (Sample, error)
	// Cleanup removes what Prepare has made.
	Cleanup(ctx context.Context, label string) error
}

// Sample is one measurement: values by metric.
type Sample map[string]float64

// Metrics that several scenarios have.
const (
	jobsPerSecond = "jobs/s"
	clientMicros  = "µs CPU of the client per job"
	serverMicros  = "µs CPU of the database per job"
	totalMicros   = "µs CPU per job"
	walBytes      = "B of WAL per job"
)

// variant is a side with what its child is to do.
type variant struct {
	side string
	task child.Task
}

// bench is what scenarios share.
type bench struct {
	server *server.Server
	quick  bool
}

// size chooses by the length of the run.
func (b *bench) size(full, quick int) int {
	if b.quick {
		return quick
	}
	return full
}

func (b *bench) span(full, quick time.Duration) time.Duration {
	if b.quick {
		return quick
	}
	return full
}

// onPostgres is a scenario whose every measurement has a database of its own. The kinds of scenarios embed it.
type onPostgres struct {
	*bench
	name, unit string
	rounds     int
	variants   []variant
	url        string // of the present database
}

const database = "measured"

func (s *onPostgres) Name() string { return s.name }
func (s *onPostgres) Unit() string { return s.unit }
func (s *onPostgres) Rounds() int  { return s.rounds }

func (s *onPostgres) Sides() []string {
	names := make([]string, len(s.variants))
	for i, v := range s.variants {
		names[i] = v.side
	}
	return names
}

func (s *onPostgres) Prepare(ctx context.Context, _ string) (err error) {
	s.url, err = s.server.Fresh(ctx, database)
	return err
}

func (s *onPostgres) Cleanup(ctx context.Context, _ string) error {
	return s.server.Drop(ctx, database)
}

// run has the side's task done by a child.
func (s *onPostgres) run(ctx context.Context, label string, hooks child.Hooks) (child.Report, error) {
	for _, v := range s.variants {
		if v.side != label {
			continue
		}
		v.task.URL = s.url
		if v.task.Engine == side.SQLite {
			return child.Run(ctx, v.task, nil, hooks)
		}
		return child.Run(ctx, v.task, s.server, hooks)
	}
	return child.Report{}, fmt.Errorf("%s has no side %q", s.name, label)
}

// costs are the metrics of a phase.
func costs(p child.Phase) Sample {
	return Sample{
		jobsPerSecond: p.Rate(), clientMicros: p.ClientMicros(), serverMicros: p.ServerMicros(),
		totalMicros: p.ClientMicros() + p.ServerMicros(), walBytes: p.WALBytes(),
	}
}
