//go:build unix

package service

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// manager is a socket that hears what a service says.
func manager(t *testing.T) (hear func(want string)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = socket.Close() })
	t.Setenv("NOTIFY_SOCKET", path)
	return func(want string) {
		t.Helper()
		if err := socket.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
		buffer := make([]byte, 4096)
		for {
			n, err := socket.Read(buffer)
			if err != nil {
				t.Fatalf("waiting for %q: %v", want, err)
			}
			if got := string(buffer[:n]); strings.HasPrefix(got, want) {
				return
			} else if !strings.HasPrefix(got, "WATCHDOG=1") {
				t.Fatalf("it says %q, want %q", got, want)
			}
		}
	}
}

// The life of a service, as its manager hears it.
func TestNotify(t *testing.T) {
	hear := manager(t)
	t.Setenv("WATCHDOG_USEC", "150000")
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	steps := make(chan Phase)
	ended := make(chan error)
	failure := errors.New("the store is away")
	go func() {
		ended <- Run(t.Context(), "pawl", 150*time.Second, slog.New(slog.DiscardHandler), func(_ context.Context, enter func(Phase)) error {
			for p := range steps {
				enter(p)
			}
			return failure
		})
	}()
	hear("WATCHDOG=1")
	steps <- Ready
	hear("READY=1\nSTATUS=takes jobs")
	steps <- Ready // once is enough
	hear("WATCHDOG=1")
	steps <- Stopping
	hear("STOPPING=1\nSTATUS=drains\nEXTEND_TIMEOUT_USEC=150000000")
	hear("WATCHDOG=1")
	close(steps)
	if err := <-ended; !errors.Is(err, failure) {
		t.Errorf("it ended with %v", err)
	}
}

// Nobody listens: it runs all the same.
func TestNotifyNobody(t *testing.T) {
	for _, socket := range []string{"", filepath.Join(t.TempDir(), "none")} {
		t.Setenv("NOTIFY_SOCKET", socket)
		err := Run(t.Context(), "pawl", time.Second, slog.New(slog.DiscardHandler), func(_ context.Context, enter func(Phase)) error {
			enter(Ready)
			enter(Stopping)
			return nil
		})
		if err != nil {
			t.Errorf("socket %q: %v", socket, err)
		}
	}
}

// A watchdog whose time cannot be read is said to be one, and no reason not to run.
func TestNotifyBadWatchdog(t *testing.T) {
	t.Setenv("WATCHDOG_USEC", "soon")
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	var log strings.Builder
	err := Run(t.Context(), "pawl", time.Second, slog.New(slog.NewTextHandler(&log, nil)), func(context.Context, func(Phase)) error { return nil })
	if err != nil || !strings.Contains(log.String(), "watchdog") {
		t.Errorf("%v, and it logs %s", err, log.String())
	}
}
