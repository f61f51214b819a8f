//go:build linux

package main

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/chaos/internal/proof"
	"github.com/pawljobs/pawl/host"
)

// worker is a process with a host.
type worker struct {
	*child
	orders   orders
	recorder *recorder
}

// sinks that every host delivers to.
var sinks = []string{"mail", "pager"}

func work(ctx context.Context, c *child) (err error) {
	file, err := c.logFile()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	log := slog.New(deathNotes{slog.NewTextHandler(file, &slog.HandlerOptions{Level: slog.LevelWarn}), c.history})
	store, orders, err := patiently(ctx, c.task, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	defer orders.Close()

	w := &worker{child: c, orders: orders}
	w.recorder = &recorder{engine: store, w: w, tokens: map[attemptOf]int64{}, usual: 3 * time.Millisecond, goOn: make(chan bool, 1)}
	mux := pawl.NewMux()
	w.handle(mux)
	config := host.Config{
		Name: c.Name, Drain: drain, Intervals: intervals, Logger: log,
		Servers: []host.Server{{Name: "io", Queues: []string{urgent, ordinary}, Workers: 24}},
	}
	for _, name := range sinks {
		config.Sinks = append(config.Sinks, sink{name, c.history})
		config.Storm.Deaths = math.MaxInt32 // each death has its alert, to be counted
	}
	h, err := host.New(w.recorder, mux, config)
	if err != nil {
		return err
	}
	go c.obey(w.command) // ends with the process: nothing interrupts a read of standard input
	var beside sync.WaitGroup
	alive, end := context.WithCancel(context.WithoutCancel(ctx))
	beside.Go(func() { w.announce(alive, h) })
	beside.Go(func() { watch(alive, c.history, c.Name) })
	defer beside.Wait()
	defer end()
	return h.Run(ctx)
}

// patiently opens the store, which may be away just now.
func patiently(ctx context.Context, t task, log *slog.Logger) (engine, orders, error) {
	for deadline := time.Now().Add(20 * time.Second); ; {
		store, orders, err := openStore(ctx, t, log)
		if err == nil || ctx.Err() != nil || time.Now().After(deadline) {
			return store, orders, err
		}
		pause(ctx, 100*time.Millisecond)
	}
}

// pause waits; false when ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// announce tells the director when the host takes work.
func (w *worker) announce(ctx context.Context, h *host.Host) {
	for !h.Ready() {
		if !pause(ctx, 10*time.Millisecond) {
			return
		}
	}
	w.say(reply{Ready: true})
}

func (w *worker) command(order command) {
	w.recorder.arm(order)
	if order.Pulse {
		w.say(reply{Goroutines: runtime.NumGoroutine(), Files: openFiles()})
	}
}

// openFiles counts the process's descriptors.
func openFiles() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(entries)
}

// sink notes what it is told.
type sink struct {
	name    string
	history *proof.Writer
}

func (s sink) Name() string { return s.name }

func (s sink) Deliver(_ context.Context, alert pawl.Alert) error {
	for i := range alert.Letters {
		s.history.Write(proof.Event{What: proof.Alerted, Letter: alert.Letters[i].ID.String(), Sink: s.name, Key: alert.Key, Attempt: alert.Attempt})
	}
	return nil
}

// deathNotes is a log that notes the lines that tell of deaths.
type deathNotes struct {
	slog.Handler
	history *proof.Writer
}

func (d deathNotes) Handle(ctx context.Context, record slog.Record) error {
	if record.Level >= slog.LevelError {
		record.Attrs(func(a slog.Attr) bool {
			if a.Key == "letter" {
				d.history.Write(proof.Event{What: proof.Died, Letter: a.Value.String()})
			}
			return a.Key != "letter"
		})
	}
	return d.Handler.Handle(ctx, record)
}

func (d deathNotes) WithAttrs(attrs []slog.Attr) slog.Handler {
	return deathNotes{d.Handler.WithAttrs(attrs), d.history}
}

func (d deathNotes) WithGroup(name string) slog.Handler {
	return deathNotes{d.Handler.WithGroup(name), d.history}
}
