package app

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawljobs/pawl"
	"github.com/spf13/cobra"
)

// runOwn runs `own` with what a command of a service's does, and returns its exit status and what it said.
func runOwn(t *testing.T, command *cobra.Command, args ...string) (status int, said string) {
	t.Helper()
	command.Use = "own"
	var talk bytes.Buffer
	options := Options{Name: "shop", Commands: []*cobra.Command{command}}
	status = run(t.Context(), pawl.NewMux(), options, append([]string{"own"}, args...), strings.NewReader(""), discard{}, &talk, nil)
	return status, talk.String()
}

// madeStore is the URL of one that is there.
func madeStore(t *testing.T) string {
	t.Helper()
	store := "sqlite:" + filepath.Join(t.TempDir(), "jobs.db")
	pawlOn(t, store, "migrate", "up")
	return store
}

var ping = pawl.NewKind[struct{}]("ping.v1", pawl.Policy{})

// One store for one run, however often it is asked for, closed when the command has ended.
func TestStoreOfACommand(t *testing.T) {
	t.Parallel()
	store := madeStore(t)
	var kept context.Context
	status, said := runOwn(t, &cobra.Command{Run: func(c *cobra.Command, _ []string) {
		kept = c.Context()
		first, err := Store(kept)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Store(kept)
		if err != nil || again != first {
			t.Errorf("asked again: %v, another store: %v", err, again != first)
		}
		if first.Connection().Name != "mail" {
			t.Errorf("connection %q", first.Connection().Name)
		}
		if _, operates := first.(pawl.Operator); !operates {
			t.Errorf("a %T is no operator's", first)
		}
		if _, err := ping.Enqueue(kept, first, struct{}{}); err != nil {
			t.Error(err)
		}
	}}, "--store", store, "--connection", "mail")
	if status != exitOK {
		t.Fatalf("status %d: %s", status, said)
	}
	if s, err := Store(kept); !errors.Is(err, errCommandOver) {
		t.Errorf("after the command: %v, %v", s, err)
	}
	if jobs := pawlOn(t, store, "job", "list"); strings.Count(jobs, "ping.v1") != 1 {
		t.Errorf("jobs: %s", jobs)
	}
}

// A hook that replaces the root's does not make a command work on another store than the one that was named.
func TestStoreOfACommandWithHooks(t *testing.T) {
	t.Parallel()
	store := madeStore(t)
	status, said := runOwn(t, &cobra.Command{
		PersistentPreRunE: func(*cobra.Command, []string) error { return nil },
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := Store(c.Context())
			if err != nil {
				return err
			}
			_, err = ping.Enqueue(c.Context(), s, struct{}{})
			return err
		},
	}, "--store", store)
	if status != exitOK {
		t.Fatalf("status %d: %s", status, said)
	}
	if jobs := pawlOn(t, store, "job", "list"); strings.Count(jobs, "ping.v1") != 1 {
		t.Errorf("jobs: %s", jobs)
	}
}

// What cannot be opened is said as by every other command, and no file is left behind.
func TestStoreThatIsNotThere(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobs.db")
	ask := func() *cobra.Command {
		return &cobra.Command{RunE: func(c *cobra.Command, _ []string) error {
			_, err := Store(c.Context())
			return err
		}}
	}
	if status, said := runOwn(t, ask(), "--store", "sqlite:"+path); status != exitNotFound || !strings.Contains(said, "shop: there is no store at "+path) ||
		!strings.Contains(said, "`shop migrate up`") {
		t.Errorf("status %d: %s", status, said)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("it was made")
	}
	if status, said := runOwn(t, ask(), "--store", "mongodb://db"); status != exitUsage || !strings.Contains(said, "not supported") {
		t.Errorf("status %d: %s", status, said)
	}
	if _, err := Store(t.Context()); !errors.Is(err, errNoCommand) {
		t.Errorf("without a command: %v", err)
	}
}

// The command's own failure is its status, and its store is closed all the same.
func TestCommandThatFails(t *testing.T) {
	t.Parallel()
	store := madeStore(t)
	var kept context.Context
	status, said := runOwn(t, &cobra.Command{RunE: func(c *cobra.Command, _ []string) error {
		kept = c.Context()
		if _, err := Store(kept); err != nil {
			return err
		}
		return pawl.ErrConflict
	}}, "--store", store)
	if status != exitPrecondition || !strings.HasPrefix(said, "shop: ") {
		t.Errorf("status %d: %s", status, said)
	}
	if _, err := Store(kept); !errors.Is(err, errCommandOver) {
		t.Errorf("after the command: %v", err)
	}
}
