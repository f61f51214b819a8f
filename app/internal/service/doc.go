// Package service makes a program a service of the operating system: a unit of systemd, or a Windows service. It installs,
// removes, starts and stops it, and speaks to the service manager while it runs.
package service

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/pawljobs/pawl"
)

// Definition is a service as it is installed.
type Definition struct {
	Name        string        // 1-64 letters, digits, - and _
	Description string        // one line
	Program     string        // absolute path
	Args        []string      // of the program
	User        string        // whom it runs as; empty: one of its own
	Reads       []string      // absolute paths that it has to see
	Writes      []string      // absolute paths of folders that it writes to, beside the one of its own
	Stop        time.Duration // how long it may take to stop
}

// RestartAfter is how long a service that has failed stays down.
const RestartAfter = 5 * time.Second

func (d Definition) check() error {
	if d.Name == "" || len(d.Name) > 64 || strings.ContainsFunc(d.Name, func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '-' && r != '_'
	}) {
		return &pawl.FieldError{Field: "name", Value: d.Name, Rule: "must be 1-64 letters, digits, hyphens and underscores"}
	}
	if !filepath.IsAbs(d.Program) {
		return &pawl.FieldError{Field: "program", Value: d.Program, Rule: "must be an absolute path"}
	}
	for _, text := range slices.Concat([]string{d.Program, d.Description, d.User}, d.Args, d.Reads, d.Writes) {
		if strings.ContainsFunc(text, unicode.IsControl) {
			return &pawl.FieldError{Field: "service", Value: text, Rule: "must have no control characters in its paths and arguments"}
		}
	}
	return nil
}

// State is how an installed service stands.
type State struct {
	Installed bool
	Running   bool
	PID       int
	Text      string // in the service manager's words
}

// Phase is where a service that runs is in its life.
type Phase int32

const (
	Starting Phase = iota
	Ready
	Stopping
)

// Manager is the service manager of this machine.
type Manager interface {
	// Render is what Install would write or say, for people.
	Render(d Definition) (string, error)
	// Install adds the service, to be started with the machine; it does not start it now. One of that name must not be there.
	Install(ctx context.Context, d Definition) error
	// Uninstall stops the service and removes it; pawl.ErrNotFound when there is none.
	Uninstall(ctx context.Context, name string) error
	// Start returns when the service says that it is ready.
	Start(ctx context.Context, name string) error
	// Stop returns when the service has ended.
	Stop(ctx context.Context, name string) error
	State(ctx context.Context, name string) (State, error)
}

func notInstalled(name string) error {
	return fmt.Errorf("there is no service %s: %w", name, pawl.ErrNotFound)
}

func alreadyInstalled(name string) error {
	return fmt.Errorf("there is a service %s already: uninstall it first, or take another --name: %w", name, pawl.ErrConflict)
}
