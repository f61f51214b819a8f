package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl/bench/internal/child"
	"github.com/pawljobs/pawl/bench/internal/load"
	"github.com/pawljobs/pawl/bench/internal/side"
)

// TestMain lets this program be the child, as the real one is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "-child" {
		if err := run(context.Background(), os.Args[1:]); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// The whole way of a measurement, on the engine that needs no server.
func TestBurnDownOnSQLite(t *testing.T) {
	t.Parallel()
	for _, name := range []string{side.Pawl, side.River} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := bestBurn(name, 500)
			task.Engine, task.URL = side.SQLite, filepath.Join(t.TempDir(), "jobs.db")
			hooked := 0
			report, err := child.Run(t.Context(), task, nil, child.Hooks{load.PhaseWork: func(context.Context) error {
				hooked++
				return nil
			}})
			if err != nil {
				t.Fatal(err)
			}
			work := report.Phases[load.PhaseWork]
			if work.Jobs != 500 || work.Seconds <= 0 || work.Client <= 0 || hooked != 1 {
				t.Errorf("worked %+v, hooked %d times", work, hooked)
			}
			if report.Values[load.ValueFirst] <= 0 {
				t.Errorf("values %v", report.Values)
			}
		})
	}
}

func TestErrorsOfAChildArrive(t *testing.T) {
	t.Parallel()
	_, err := child.Run(t.Context(), child.Task{Load: load.Burn, Side: "nobody"}, nil, nil)
	if err == nil || !strings.Contains(err.Error(), `no side "nobody"`) {
		t.Errorf("got %v", err)
	}
}

func TestAKilledChildIsNoMeasurement(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	task := bestBurn(side.Pawl, 100)
	task.Engine, task.URL = side.SQLite, filepath.Join(t.TempDir(), "jobs.db")
	_, err := child.Run(ctx, task, nil, child.Hooks{load.PhaseWork: func(context.Context) error {
		cancel()
		return nil
	}})
	if err == nil {
		t.Error("a child that was killed has reported")
	}
}
