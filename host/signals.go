package host

import (
	"context"
	"os"
	ossignal "os/signal" // signal is what wakes a goroutine here
	"syscall"
)

// stopSignals start a drain, and end it at once when they come again.
var stopSignals = []os.Signal{os.Interrupt, syscall.SIGTERM}

// RunUntilSignal is Run for a program that a service manager or a person at a terminal stops. The first SIGTERM or
// interrupt starts the drain, as the end of ctx does; the second one is an Abort, after which Run returns ErrAborted. On
// Unix, SIGUSR1 makes the host Quiet, for a deploy that gives notice. A program that ends with status 0 only where nil is
// returned is started again by its service manager after anything but a clean stop.
func (h *Host) RunUntilSignal(ctx context.Context) error {
	stopping := ctx.Err() != nil // by a signal that the caller has had
	ctx, drain := context.WithCancel(ctx)
	defer drain()
	stops, quiets := make(chan os.Signal, 2), make(chan os.Signal, 1)
	ossignal.Notify(stops, stopSignals...)
	defer ossignal.Stop(stops)
	if len(quietSignals) > 0 { // with none, Notify would take them all
		ossignal.Notify(quiets, quietSignals...)
		defer ossignal.Stop(quiets)
	}
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	for {
		select {
		case err := <-ended:
			return err
		case <-quiets:
			h.Quiet()
		case got := <-stops:
			h.log.Info("signal", "signal", got.String(), "again", stopping)
			if stopping {
				h.Abort()
			}
			stopping = true
			drain()
		}
	}
}
