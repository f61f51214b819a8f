package service

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
)

func definition() Definition {
	return Definition{
		Name: "pawl", Description: "Worker host pawl", Program: "/usr/local/bin/pawl",
		Args: []string{"serve", "--service", "--config", "/etc/pawl/my pawl 100%.yaml", "--store", `postgres://u@db/a"$b\`},
		Stop: 150 * time.Second,
	}
}

func TestUnit(t *testing.T) {
	t.Parallel()
	text := definition().Unit()
	for _, want := range []string{
		"Type=notify\n", "TimeoutStopSec=150\n", "Restart=on-failure\n", "RestartSec=5\n", "WatchdogSec=", "KillMode=mixed\n",
		"DynamicUser=yes\nUser=pawl\n", "ProtectSystem=strict\n", "NoNewPrivileges=yes\n", "StateDirectory=pawl\n", "WantedBy=multi-user.target\n",
		`ExecStart=/usr/local/bin/pawl serve --service --config "/etc/pawl/my pawl 100%%.yaml" --store "postgres://u@db/a\"$$b\\"` + "\n",
		"ProtectHome=yes\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the unit has no %q:\n%s", want, text)
		}
	}
	d := definition()
	d.User, d.Stop, d.Writes, d.Reads = "jobs", 151*time.Second+time.Millisecond, []string{"/srv/pawl"}, []string{"/home/ann/pawl.yaml"}
	text = d.Unit()
	for _, want := range []string{"User=jobs\n", "TimeoutStopSec=152\n", "ReadWritePaths=-/srv/pawl\n", "ProtectHome=read-only\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the unit has no %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, "DynamicUser") {
		t.Errorf("a stated user is not the real one:\n%s", text)
	}
}

// What systemd itself says of the unit.
func TestUnitPassesVerify(t *testing.T) {
	t.Parallel()
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed")
	}
	program, err := exec.LookPath("true")
	if err != nil {
		t.Fatal(err)
	}
	d := definition()
	d.Program = program
	path := filepath.Join(t.TempDir(), "pawl.service")
	if err := os.WriteFile(path, []byte(d.Unit()), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), analyze, "verify", "--man=no", path).CombinedOutput()
	if err != nil || strings.Contains(string(out), "pawl.service:") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

func TestDefinitionsThatAreRefused(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Definition){
		"an empty name":           func(d *Definition) { d.Name = "" },
		"a name that is a path":   func(d *Definition) { d.Name = "../pawl" },
		"a name with a dot":       func(d *Definition) { d.Name = "pawl.service" },
		"a long name":             func(d *Definition) { d.Name = strings.Repeat("a", 65) },
		"a relative program":      func(d *Definition) { d.Program = "pawl" },
		"a line end in arguments": func(d *Definition) { d.Args = append(d.Args, "x\nExecStartPre=/bin/sh") },
		"a line end in the user":  func(d *Definition) { d.User = "jobs\nUser=root" },
		"a line end in a path":    func(d *Definition) { d.Writes = []string{"/a\n/b"} },
	} {
		d := definition()
		change(&d)
		if err := d.check(); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
}
