package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/app/internal/config"
	"github.com/pawljobs/pawl/internal/trouble"
	"github.com/pawljobs/pawl/outbox"
)

// relays carry the messages of the configured outboxes to the store that serve works on.
type relays struct {
	all   []*carrier
	stop  context.CancelFunc
	ended sync.WaitGroup
}

// carrier is the dispatcher of one outbox.
type carrier struct {
	name     string
	settings *config.Settings
	store    ownStore
	log      *slog.Logger
	down     *trouble.Trouble

	mu    sync.Mutex
	box   *openedBox       // nil until the outbox is open, and again when it is let go
	why   error            // and why it is not
	stats pawl.OutboxStats // as of the last look that was answered
	at    time.Time
	done  *outbox.Dispatcher // nil until the outbox is open
}

// startRelays begins; they go on until they are let go.
func startRelays(ctx context.Context, settings *config.Settings, s ownStore, log *slog.Logger) *relays {
	g := &relays{}
	ctx, g.stop = context.WithCancel(ctx)
	for _, name := range settings.OutboxNames() {
		log := log.With("outbox", name)
		r := &carrier{name: name, settings: settings, store: s, log: log, why: errNotOpen, down: trouble.New(log, "the outbox cannot be reached; it is tried again")}
		g.all = append(g.all, r)
		g.ended.Go(func() { r.run(ctx) })
	}
	return g
}

// letGo has them finish what they have begun.
func (g *relays) letGo() {
	g.stop()
	g.ended.Wait()
}

// run opens the outbox as soon as that can be, and dispatches until ctx is done.
func (r *carrier) run(ctx context.Context) {
	for wait := firstWait; ctx.Err() == nil; wait = min(2*wait, lastWait) {
		box, err := openOutbox(ctx, r.settings, r.name, true)
		if err == nil {
			r.down.Over()
			r.hold(box, nil)
			err = r.dispatch(ctx, box)
			r.hold(nil, errLetGo)
			if err = errors.Join(err, box.Close()); err != nil {
				r.log.Error("the outbox is not dispatched", "error", oneLine(err))
			}
			return
		}
		if ctx.Err() == nil {
			r.hold(nil, err)
			r.down.Report(err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

func (r *carrier) dispatch(ctx context.Context, box *openedBox) error {
	version, _ := built()
	d, err := outbox.NewDispatcher(box.Box, r.store, []pawl.Enqueuer{r.store}, outbox.DispatcherConfig{
		Name: r.settings.Host.Name, Version: version, Keep: box.config.Keep, Poll: box.config.Poll, Off: box.config.Off, Logger: r.log,
	})
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.done = d
	r.mu.Unlock()
	r.log.Info("outbox opened", "off", box.config.Off)
	var watch sync.WaitGroup
	watch.Go(func() { r.watch(ctx, box) })
	defer watch.Wait()
	return d.Run(ctx)
}

// boxEvery is how often an outbox is counted for /metrics.
const boxEvery = 10 * time.Second

// watch counts what waits.
func (r *carrier) watch(ctx context.Context, box *openedBox) {
	unread := trouble.New(r.log, "the outbox cannot be counted for /metrics")
	for {
		began := time.Now()
		stats, err := box.Stats(ctx)
		if err == nil {
			unread.Over()
			r.mu.Lock()
			r.stats, r.at = stats, time.Now()
			r.mu.Unlock()
		} else if ctx.Err() == nil {
			unread.Report(err)
		}
		select {
		case <-time.After(max(boxEvery, gaugesShare*time.Since(began))):
		case <-ctx.Done():
			return
		}
	}
}

// write adds what is known of the outboxes to a page of metrics. Counts are of this process; the rest is of the outbox.
func (g *relays) write(b *strings.Builder) {
	if g == nil {
		return
	}
	var waiting, failing, oldest, off, counted, relayed, poison [][2]string
	for _, r := range g.all {
		r.mu.Lock()
		name, stats, at, d := "outbox="+label(r.name), r.stats, r.at, r.done
		r.mu.Unlock()
		if !at.IsZero() {
			waiting = append(waiting, [2]string{name, fmt.Sprint(stats.Pending)})
			failing = append(failing, [2]string{name, fmt.Sprint(stats.Failing)})
			// What was the oldest has grown older, unless it is gone: an outbox that cannot be read any more must not look young.
			age := stats.Oldest
			if stats.Pending > 0 && time.Since(at) > 2*boxEvery {
				age += time.Since(at)
			}
			oldest = append(oldest, [2]string{name, fmt.Sprint(age.Seconds())})
			off = append(off, [2]string{name, map[bool]string{true: "1", false: "0"}[stats.Off]})
			counted = append(counted, [2]string{name, seconds(at)})
		}
		if d != nil {
			counts := d.Counts()
			relayed = append(relayed, [2]string{name, fmt.Sprint(counts.Dispatched)})
			poison = append(poison, [2]string{name, fmt.Sprint(counts.Died)})
		}
	}
	writeGauge(b, "pawl_outbox_waiting", "Messages of the outbox that are not dispatched.", waiting)
	writeGauge(b, "pawl_outbox_failing", "Messages that wait and that a claim of has failed.", failing)
	writeGauge(b, "pawl_outbox_oldest_seconds", "Age of the oldest message that is not dispatched; 0: there is none.", oldest)
	writeGauge(b, "pawl_outbox_paused", "Whether dispatching is paused for all hosts.", off)
	writeMetric(b, "pawl_outbox_relayed_total", "counter", "Messages that this process has handed to the store.", relayed)
	writeMetric(b, "pawl_outbox_poison_total", "counter", "Messages that this process has recorded as dead letters.", poison)
	writeGauge(b, "pawl_outbox_counted_timestamp_seconds", "When the outbox was counted for the lines above.", counted)
}
