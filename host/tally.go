package host

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/trouble"
)

// tallyEvery counts the alerts that wait once in so many looks for alerts.
const tallyEvery = 6

// tally counts what the sinks of the store, of whatever host, have not been told yet, for Stats.
type tally struct {
	host    *Host
	trouble *trouble.Trouble

	mu    sync.Mutex
	sinks []pawl.SinkView
}

func newTally(h *Host) *tally {
	return &tally{host: h, trouble: trouble.New(h.log, "the alerts that wait cannot be counted")}
}

// last is what was last counted.
func (t *tally) last() []pawl.SinkView {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sinks
}

func (t *tally) pending() (n int) {
	for _, s := range t.last() {
		n += s.Pending
	}
	return n
}

// run counts until ctx is done. It says once, at the start, when deaths are told to nobody.
func (t *tally) run(ctx context.Context) {
	said := false
	for ctx.Err() == nil {
		if _, err := t.host.presence.await(ctx); err != nil {
			return
		}
		err := t.count(ctx)
		switch {
		case errors.Is(err, pawl.ErrUnsupported):
			return
		case err != nil && ctx.Err() == nil:
			t.trouble.Report(err)
		case err == nil:
			t.trouble.Over()
			if !said && !slices.ContainsFunc(t.last(), reachesSomebody) {
				t.host.log.Warn("deaths are told to nobody: no host of this store has a sink but the log")
			}
			said = true
		}
		pause(ctx, jitter(tallyEvery*t.host.config.Intervals.Alerts))
	}
}

func reachesSomebody(s pawl.SinkView) bool { return s.Name != "log" }

func (t *tally) count(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, t.host.config.Intervals.Call)
	defer cancel()
	sinks, err := t.host.alerts.Sinks(ctx)
	if err != nil {
		return err
	}
	sinks = slices.DeleteFunc(sinks, func(s pawl.SinkView) bool { return !s.RetiredAt.IsZero() }) // nobody waits for them
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sinks = sinks
	return nil
}
