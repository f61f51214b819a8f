package alert_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/pawljobs/pawl/alert"
)

func TestLogWarnsOncePerLetter(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	first, second := letter(), letter()
	sink := alert.Log(slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})))
	if err := sink.Deliver(t.Context(), oneAlert(first, second)); err != nil || sink.Name() != "log" {
		t.Fatal(sink.Name(), err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d lines: %s", len(lines), out.String())
	}
	var line map[string]any
	if err := json.Unmarshal([]byte(lines[0]), &line); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]any{
		"level": "WARN", "letter": first.ID.String(), "job": first.JobID.String(), "kind": first.Kind, "queue": first.Queue,
		"attempt": 6.0, "class": "transient-exhausted", "reason": "budget", "correlation_id": "request-17",
	} {
		if line[key] != want {
			t.Errorf("%s is %v, want %v", key, line[key], want)
		}
	}
	if strings.Contains(out.String(), first.Message) {
		t.Error("the exception message is in the log")
	}
}
