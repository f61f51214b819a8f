//go:build !windows

package service

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Paces of what systemd is told.
const (
	extendEvery = 10 * time.Second
	extendBy    = 30 * time.Second
)

// Run runs work, which says in which phase it is, and tells systemd where that is who has started the program, by the protocol of
// sd_notify(3): READY, STOPPING, WATCHDOG for as long as the process works, and that it needs longer while it starts. stop is
// how long it takes to stop at most. Without systemd it only runs work.
func Run(ctx context.Context, _ string, stop time.Duration, log *slog.Logger, work func(ctx context.Context, enter func(Phase)) error) error {
	n := &notifier{stop: stop, log: log, entered: make(chan Phase, 8)}
	if watchdog, err := daemon.SdWatchdogEnabled(false); err == nil {
		n.watchdog = watchdog
	} else {
		log.Warn("the service manager's watchdog is not told that the process lives", "error", err)
	}
	done := make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() { n.run(done) })
	err := work(ctx, func(p Phase) {
		select {
		case n.entered <- p:
		case <-done:
		}
	})
	close(done)
	telling.Wait()
	return err
}

// notifier tells systemd.
type notifier struct {
	stop     time.Duration
	watchdog time.Duration // 0: none
	log      *slog.Logger
	entered  chan Phase
	failed   bool
}

// run tells until done is closed.
func (n *notifier) run(done <-chan struct{}) {
	phase := Starting
	extend := time.NewTicker(extendEvery)
	defer extend.Stop()
	var alive <-chan time.Time
	if n.watchdog > 0 {
		ticker := time.NewTicker(n.watchdog / 3)
		defer ticker.Stop()
		alive = ticker.C
	}
	for {
		select {
		case <-done:
			for len(n.entered) > 0 {
				phase = n.enter(phase, <-n.entered)
			}
			return
		case next := <-n.entered:
			phase = n.enter(phase, next)
		case <-extend.C:
			if phase == Starting {
				n.tell("STATUS=starts\n" + extension(extendBy))
			}
		case <-alive:
			n.tell(daemon.SdNotifyWatchdog)
		}
	}
}

// enter tells of a phase, once.
func (n *notifier) enter(phase, next Phase) Phase {
	if next <= phase {
		return phase
	}
	switch next {
	case Ready:
		n.tell(daemon.SdNotifyReady + "\nSTATUS=takes jobs")
	case Stopping:
		n.tell(daemon.SdNotifyStopping + "\nSTATUS=drains\n" + extension(n.stop))
	}
	return next
}

// extension asks for more time.
func extension(d time.Duration) string {
	return fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", d.Microseconds())
}

// tell sends one message. Where nobody listens that is no failure.
func (n *notifier) tell(text string) {
	if _, err := daemon.SdNotify(false, text); err != nil && !n.failed {
		n.failed = true
		n.log.Warn("the service manager cannot be told how the process stands", "error", err)
	}
}
