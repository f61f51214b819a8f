//go:build unix

package app

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A service says to its manager when it is ready, that it lives, and that it stops; its relative paths are those of the
// folder of its program.
func TestServeAsAService(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	program := filepath.Join(folder, "pawl")
	if err := os.Link(self, program); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	hear := func(want string) {
		t.Helper()
		if err := socket.SetReadDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		buffer := make([]byte, 4096)
		for {
			n, err := socket.Read(buffer)
			if err != nil {
				t.Fatalf("waiting for %q: %v", want, err)
			}
			if strings.HasPrefix(string(buffer[:n]), want) {
				return
			}
		}
	}
	p := serveBy(t, program, []string{"NOTIFY_SOCKET=" + path, "WATCHDOG_USEC=300000"}, "--service", "--store", "sqlite:jobs.db")
	hear("READY=1")
	p.becomes(isHealthy)
	hear("WATCHDOG=1")
	if _, err := os.Stat(filepath.Join(folder, "jobs.db")); err != nil {
		t.Errorf("its store is not beside its program: %v", err)
	}
	p.signal(syscall.SIGTERM)
	hear("STOPPING=1\nSTATUS=drains\nEXTEND_TIMEOUT_USEC=150000000")
	p.ends("0", patience)
}
