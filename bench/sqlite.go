package main

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/pawljobs/pawl/bench/internal/child"
	"github.com/pawljobs/pawl/bench/internal/load"
	"github.com/pawljobs/pawl/bench/internal/side"
)

// onSQLite is a measurement on a file of its own.
type onSQLite struct {
	onPostgres // its name, rounds and sides; no server
	phase      string
	folder     string
}

const (
	sqliteSingle = "SQLite: single enqueue, 64 callers"
	sqliteBurn   = "SQLite: burn-down"
)

func newSQLiteSingle(b *bench) Scenario {
	s := &onSQLite{onPostgres: onPostgres{bench: b, name: sqliteSingle, unit: jobsPerSecond, rounds: b.size(2, 1)}, phase: load.PhaseEnqueue}
	for _, name := range []string{side.Pawl, side.River} {
		s.variants = append(s.variants, variant{name, child.Task{
			Load: load.Single, Side: name, Engine: side.SQLite, Callers: 64, Limit: b.span(2*time.Second, time.Second),
		}})
	}
	return s
}

func newSQLiteBurn(b *bench) Scenario {
	s := &onSQLite{onPostgres: onPostgres{bench: b, name: sqliteBurn, unit: jobsPerSecond, rounds: b.size(2, 1)}, phase: load.PhaseWork}
	for _, name := range []string{side.Pawl, side.River} {
		task := bestBurn(name, b.size(100_000, 20_000))
		task.Engine, task.Limit = side.SQLite, b.span(6*time.Second, 2*time.Second)
		s.variants = append(s.variants, variant{name, task})
	}
	return s
}

func (s *onSQLite) Prepare(_ context.Context, _ string) (err error) {
	s.folder, err = os.MkdirTemp("", "pawl-bench-sqlite-")
	s.url = filepath.Join(s.folder, "jobs.db")
	return err
}

func (s *onSQLite) Measure(ctx context.Context, label string) (Sample, error) {
	report, err := s.run(ctx, label, nil)
	return costs(report.Phases[s.phase]), err
}

func (s *onSQLite) Cleanup(context.Context, string) error { return os.RemoveAll(s.folder) }
