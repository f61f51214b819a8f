package sqlite

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The file is looked at twenty times a second: what keeps it from being read is logged when it begins.
func TestWakerLogsATroubleOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "jobs.db"), Config{
		PollInterval: time.Hour, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.waker.db.Close(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s.waker.look(0)
	}
	if n := strings.Count(log.String(), "watch for changes"); n != 1 {
		t.Errorf("%d warnings:\n%s", n, log.String())
	}
}
