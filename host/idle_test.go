package host_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
	"github.com/pawljobs/pawl/sqlite"
)

// A host without handlers runs nothing, and does its share of the upkeep.
func TestHostWithoutHandlersDoesTheUpkeep(t *testing.T) {
	virtual(t, func(w *world) {
		gate := make(chan struct{})
		w.handle(func(context.Context, workArgs) error { <-gate; return nil })
		w.config.Sinks = []pawl.Sink{&sink{name: "log"}}
		w.config.Orphans = &pawl.Orphans{Unseen: time.Hour, Ready: time.Hour}
		orphaned := w.put(1, pawl.Timeout(time.Hour))
		worker := w.start()
		w.pass(time.Minute)

		told := &sink{name: "log"}
		w.mux, w.config.Servers, w.config.Sinks = pawl.NewMux(), []host.Server{}, []pawl.Sink{told}
		idle := w.start()
		w.pass(time.Second)
		due := w.put(2, pawl.Delay(time.Minute))
		worker.Abort()
		<-worker.err
		close(gate)
		w.pass(26 * time.Second) // found dead
		w.equal("the dead host's job", words(w.look(orphaned).session, w.look(orphaned).claim.Crashes), "0 1")
		w.equal("recovered", idle.Stats().Recovered, 1)
		w.says("nobody serves its queue", idle.Handler(), host.Degraded)
		w.pass(time.Minute)
		w.equal("due", w.look(due).runAt.IsZero(), true)

		if _, err := w.store.RecordDeaths(context.Background(), []pawl.DeadLetter{{ID: pawl.NewID(), Kind: "a.v1"}}); err != nil {
			t.Fatal(err)
		}
		w.pass(10 * time.Second)
		w.equal("alerts", told.count(), 1)
		w.pass(3 * time.Hour)
		w.equal("jobs that it judged", words(w.ended(orphaned), w.ended(due), w.look(due).session), "0")
		w.store.mu.Lock()
		claims := 0
		for _, c := range w.store.claims {
			if c.Session == idle.Stats().Session {
				claims++
			}
		}
		w.store.mu.Unlock()
		w.equal("claims", claims, 0)
		idle.clean()
	})
}

func TestHostWithoutHandlersOnSQLite(t *testing.T) {
	t.Parallel()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "jobs.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	h, err := host.New(store, pawl.NewMux(), host.Config{Servers: []host.Server{}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	for h.Health() != host.Healthy {
		time.Sleep(time.Millisecond)
	}
	hosts, err := store.Hosts(t.Context())
	if err != nil || len(hosts) != 1 || len(hosts[0].Kinds)+len(hosts[0].Servers) != 0 {
		t.Errorf("hosts: %+v, %v", hosts, err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestHandlersAndServersGoTogether(t *testing.T) {
	virtual(t, func(w *world) {
		_, err := host.New(w.store, pawl.NewMux(), w.config)
		if !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), "at least one handler") {
			t.Errorf("servers without handlers: %v", err)
		}
		w.handle(func(context.Context, workArgs) error { return nil })
		w.config.Servers = []host.Server{}
		_, err = host.New(w.store, w.mux, w.config)
		if !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), "at least one server") {
			t.Errorf("handlers without servers: %v", err)
		}
	})
}
