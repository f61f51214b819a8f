package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/app/internal/config"
	"github.com/pawljobs/pawl/ops"
	"github.com/spf13/cobra"
)

// wrapperCommands are the verbs of other job tools. What they print is fixed, and so is their exit status: 0 or 1.
func (p *program) wrapperCommands() []*cobra.Command {
	return []*cobra.Command{p.queueFailed(), p.queueRetry(), p.queueForget(), p.wrappedClear(), p.wrappedWork()}
}

func (p *program) queueFailed() *cobra.Command {
	return &cobra.Command{
		Use:   "queue:failed",
		Short: "List open failures, oldest first (dead list --plain)",
		Args:  needs("", 0, 0),
		RunE: p.onStore(existing, func(ctx context.Context, s store, _ []string) error {
			if !p.json {
				p.printer.mode = modePlain
			}
			return p.listLetters(ctx, s, openOnly(), paging{})
		}),
	}
}

func (p *program) queueRetry() *cobra.Command {
	return &cobra.Command{
		Use:   "queue:retry FAILURE_ID",
		Short: "Put a failed job back under its own id (dead retry)",
		Args:  needs("the FAILURE_ID", 1, 1),
		RunE: p.onStore(existing, func(ctx context.Context, s store, args []string) error {
			id, by, err := p.wrapped(args[0])
			if err != nil {
				return err
			}
			d, err := deskOf(s)
			if err != nil {
				return err
			}
			job, err := d.Retry(ctx, id, ops.RetryOptions{By: by})
			if errors.Is(err, pawl.ErrConfirm) {
				return fmt.Errorf("%w (once that is checked, and it is to run: %s dead retry %s --confirm)", err, p.invocation(), id)
			}
			if err != nil {
				return err
			}
			p.printer.line(fmt.Sprintf("Job %s queued for retry.", job))
			return nil
		}),
	}
}

func (p *program) queueForget() *cobra.Command {
	return &cobra.Command{
		Use:   "queue:forget FAILURE_ID",
		Short: "Remove a failure for good (dead forget --yes)",
		Args:  needs("the FAILURE_ID", 1, 1),
		RunE: p.onStore(existing, func(ctx context.Context, s store, args []string) error {
			found, err := p.forgetWrapped(ctx, s, args[0])
			if err != nil {
				return err
			}
			if !found {
				p.printer.line("Failed job not found.")
				return withStatus(exitError, errReported)
			}
			p.printer.line("Failed job deleted.")
			return nil
		}),
	}
}

// forgetWrapped is false for what is no id, too: no failure goes by it.
func (p *program) forgetWrapped(ctx context.Context, s store, text string) (bool, error) {
	id, by, err := p.wrapped(text)
	if errors.Is(err, pawl.ErrInvalid) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	d, err := deskOf(s)
	if err != nil {
		return false, err
	}
	return d.Forget(ctx, id, by)
}

func (p *program) wrapped(id string) (pawl.ID, pawl.By, error) {
	parsed, err := pawl.ParseID(id)
	if err != nil {
		return parsed, pawl.By{}, err
	}
	by, err := new(acting).actor(p)
	return parsed, by, err
}

// pick takes the connection that a command names as its argument, which has to be one that is known.
func (p *program) pick(args []string) error {
	settings, err := p.settings()
	if err != nil || len(args) == 0 || args[0] == settings.Connection {
		return err
	}
	if _, known := settings.Connections[args[0]]; !known {
		return fmt.Errorf("connection %q is not known: there is %s (see --connection)", args[0], strings.Join(slices.Sorted(maps.Keys(settings.Connections)), ", "))
	}
	p.flags = append(p.flags, config.Flag{Name: "--connection", Key: "connection", Value: args[0]})
	p.read = nil
	return nil
}

func (p *program) wrappedClear() *cobra.Command {
	var queue string
	command := &cobra.Command{
		Use:   "queue:clear [CONNECTION] --queue=NAME",
		Short: "Remove every job of a queue for good, without asking (queue clear --yes)",
		Args:  needs("the CONNECTION", 0, 1),
	}
	command.Flags().StringVar(&queue, "queue", "", "the queue")
	command.RunE = p.doing(func(ctx context.Context, args []string) error {
		if queue == "" {
			return withStatus(exitUsage, errors.New("say which queue: --queue=NAME"))
		}
		if err := p.pick(args); err != nil {
			return err
		}
		s, err := p.open(ctx, existing)
		if err != nil {
			return err
		}
		by, err := new(acting).actor(p)
		if err == nil {
			err = p.clearQueue(ctx, s, queue, confirming{yes: true}, by)
		}
		return errors.Join(err, s.Close())
	})
	return command
}
