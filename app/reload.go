package app

import (
	"context"
	"os"
	"os/signal"
	"time"

	"github.com/pawljobs/pawl/app/internal/config"
)

// freshness is the time between looks at the files of the configuration.
const freshness = 2 * time.Second

// watch reads the configuration again when its files have changed, and when a signal asks for it.
func (g *hosting) watch(ctx context.Context) {
	asks := make(chan os.Signal, 1)
	if len(reloadSignals) > 0 { // with none, Notify would take them all
		signal.Notify(asks, reloadSignals...)
		defer signal.Stop(asks)
	}
	again := time.NewTicker(freshness)
	defer again.Stop()
	tried, failure := g.current, ""
	for {
		asked := false
		select {
		case <-ctx.Done():
			return
		case <-asks:
			asked = true
		case <-again.C:
		}
		if !asked && tried != nil && !tried.Stale() {
			continue
		}
		var err error
		if tried, err = config.Load(g.program.sources()); err == nil {
			failure = ""
			g.apply(tried)
		} else if text := oneLine(err); asked || text != failure {
			failure = text
			g.log.Warn("the configuration cannot be taken; what was in force stays", "error", text)
		}
	}
}
