package service

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawljobs/pawl"
)

// fakeControl is a systemctl that notes what it is told, and fails at a verb.
func fakeControl(t *testing.T, failAt string) (systemd, func() string) {
	t.Helper()
	folder := t.TempDir()
	said := filepath.Join(folder, "said")
	script := "#!/bin/sh\necho \"$*\" >> '" + said + "'\n" +
		"[ \"$1\" != '" + failAt + "' ] || { echo 'Access denied' >&2; exit 1; }\n" +
		"[ \"$1\" != show ] || printf 'ActiveState=active\\nSubState=running\\nMainPID=42\\nStatusText=takes jobs\\n'\n"
	control := filepath.Join(folder, "systemctl")
	if err := os.WriteFile(control, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return systemd{folder: t.TempDir(), control: control}, func() string {
		text, err := os.ReadFile(said)
		if err != nil {
			return ""
		}
		return string(text)
	}
}

func TestServiceLife(t *testing.T) {
	t.Parallel()
	s, said := fakeControl(t, "")
	ctx := t.Context()
	if err := s.Start(ctx, "pawl"); !errors.Is(err, pawl.ErrNotFound) {
		t.Errorf("start of what is not installed: %v", err)
	}
	if err := s.Install(ctx, definition()); err != nil {
		t.Fatal(err)
	}
	if err := s.Install(ctx, definition()); !errors.Is(err, pawl.ErrConflict) {
		t.Errorf("installed twice: %v", err)
	}
	if text, err := os.ReadFile(s.path("pawl")); err != nil || string(text) != definition().Unit() {
		t.Errorf("the unit is %s, %v", text, err)
	}
	if err := s.Start(ctx, "pawl"); err != nil {
		t.Error(err)
	}
	if state, err := s.State(ctx, "pawl"); err != nil || state != (State{Installed: true, Running: true, PID: 42, Text: "active (running): takes jobs"}) {
		t.Errorf("state %+v, %v", state, err)
	}
	if err := s.Stop(ctx, "pawl"); err != nil {
		t.Error(err)
	}
	if err := s.Uninstall(ctx, "pawl"); err != nil {
		t.Error(err)
	}
	if err := s.Uninstall(ctx, "pawl"); !errors.Is(err, pawl.ErrNotFound) {
		t.Errorf("removed twice: %v", err)
	}
	want := "daemon-reload\nenable pawl.service\nstart pawl.service\nshow pawl.service --property=ActiveState,SubState,MainPID,StatusText\n" +
		"stop pawl.service\ndisable --now pawl.service\ndaemon-reload\n"
	if got := said(); got != want {
		t.Errorf("systemctl was told\n%s\nwant\n%s", got, want)
	}
}

// An installation that fails leaves nothing.
func TestInstallFails(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"daemon-reload", "enable"} {
		s, _ := fakeControl(t, verb)
		if err := s.Install(t.Context(), definition()); err == nil || !strings.Contains(err.Error(), "Access denied") {
			t.Errorf("%s fails: %v", verb, err)
		}
		if _, err := os.Stat(s.path("pawl")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("after %s has failed the unit is there: %v", verb, err)
		}
	}
	s, said := fakeControl(t, "")
	s.folder = filepath.Join(s.folder, "none")
	if err := s.Install(t.Context(), definition()); err == nil || said() != "" {
		t.Errorf("without its folder: %v, and systemctl was told %s", err, said())
	}
}
