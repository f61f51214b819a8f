package app

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawljobs/pawl"
)

func (p *program) alertsForget() *cobra.Command {
	act := acting{must: true}
	var sure confirming
	command := &cobra.Command{
		Use:   "forget SINK",
		Short: "Take a channel that no host has any more off the register",
		Long: `Take a channel that no host has any more off the register: later deaths do not wait for it, and what it was not told of is
given up. What it was told of stays told. It is refused while a host that has the channel is heard of; a host that starts
with it later registers it again.`,
		Example: "  pawl alerts forget log --reason 'pawl serve runs no more here'",
		Args:    needs("the SINK", 1, 1),
	}
	act.add(command)
	command.Flags().BoolVar(&sure.yes, "yes", false, "do not ask")
	command.RunE = p.onStore(existing, func(ctx context.Context, s store, args []string) error {
		by, err := act.actor(p)
		if err != nil {
			return err
		}
		pending, err := pendingAlerts(ctx, s, args[0])
		if err != nil {
			return err
		}
		if pending > 0 {
			if err := p.confirm(sure, fmt.Sprintf("give up %s to %s", count(pending, "undelivered alert"), args[0]), nil); err != nil {
				return err
			}
		}
		undelivered, err := s.ForgetSink(ctx, args[0], by)
		if err != nil {
			return err
		}
		if p.json {
			return p.printer.object(struct {
				Sink        string `json:"sink"`
				Undelivered int    `json:"undelivered"`
			}{args[0], undelivered})
		}
		p.printer.say("Sink %s is forgotten; %s given up.", args[0], count(undelivered, "alert"))
		return nil
	})
	return command
}

// pendingAlerts counts what a sink was not told of.
func pendingAlerts(ctx context.Context, s store, name string) (int, error) {
	sinks, err := s.Sinks(ctx)
	if err != nil {
		return 0, err
	}
	for _, sink := range sinks {
		if sink.Name == name {
			return sink.Pending, nil
		}
	}
	return 0, fmt.Errorf("no sink %q is registered: %w", name, pawl.ErrNotFound)
}
