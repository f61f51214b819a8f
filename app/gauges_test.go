package app

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/resilience"
	"github.com/pawljobs/pawl/sqlite"
)

func TestGauges(t *testing.T) {
	t.Parallel()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "jobs.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	kind := pawl.NewKind[json.RawMessage]("a.v1", pawl.Policy{Queue: `odd"name`})
	for _, option := range []pawl.Option{pawl.Tags("x"), pawl.Delay(time.Hour)} {
		if _, err := kind.Enqueue(t.Context(), store, json.RawMessage(`{}`), option); err != nil {
			t.Fatal(err)
		}
	}
	cdn, err := resilience.New("cdn", resilience.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g := &gauges{downstreams: []*resilience.Downstream{cdn}}
	var before strings.Builder
	if err := g.write(&before); err != nil || strings.Contains(before.String(), "pawl_jobs") {
		t.Errorf("before the first look: %v\n%s", err, before.String())
	}
	text, err := storeGauges(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	g.store, g.at = text, time.Now()
	var after strings.Builder
	if err := g.write(&after); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`pawl_jobs{queue="odd\"name",state="waiting"} 1`, `pawl_jobs{queue="odd\"name",state="scheduled"} 1`,
		`pawl_dead_letters_open 0`, `pawl_breaker_state{downstream="cdn",state="closed"} 1`, `pawl_breaker_state{downstream="cdn",state="open"} 0`,
		`# TYPE pawl_breaker_openings_total counter`,
	} {
		if !strings.Contains(after.String(), line+"\n") {
			t.Errorf("there is no line %s in\n%s", line, after.String())
		}
	}

	// A store that fails is said once, and asked again.
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	g.run(ctx, store, slog.New(slog.NewTextHandler(&log, nil)))
	if strings.Count(log.String(), "cannot be counted") != 1 {
		t.Errorf("it logs %s", log.String())
	}
}
