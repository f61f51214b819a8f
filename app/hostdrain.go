package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/wire"
)

// drainWait is how long a drain may take by default, until a service manager would kill.
const drainWait = 150 * time.Second

// lookAgain is the time between looks at what a command waits for.
const lookAgain = 500 * time.Millisecond

func (p *program) hostDrain() *cobra.Command {
	var act acting
	watch, wait := false, drainWait
	command := &cobra.Command{
		Use:   "drain NAME|SESSION",
		Short: "Ask a host to end, as SIGTERM does",
		Long: `Ask a host to end, as SIGTERM does: it takes no more jobs, gives what runs its grace, puts back what has not ended, and
leaves with exit status 0. It hears of it with its next beat. Whether it is started again is its service manager's business:
with systemd's Restart=on-failure it stays away, in Kubernetes it comes back.

With --watch, wait until it has left; status 1 when that takes longer than --wait.

A host inside another program may refuse (host show says so), or leave the store while its program goes on.`,
		Example: "  pawl host drain worker-7 --watch --reason 'the machine is to be replaced'",
		Args:    needs("the host's NAME, or the number of its SESSION,", 1, 1),
	}
	act.add(command)
	flags := command.Flags()
	flags.BoolVar(&watch, "watch", false, "wait until it has left")
	addFlag(flags, &wait, "wait", "DURATION", "with --watch: how long at most (default 2m30s)", parsePeriod)
	within(command, "wait", "watch")
	command.RunE = p.onStore(existing, func(ctx context.Context, s store, args []string) error {
		by, err := act.actor(p)
		if err != nil {
			return err
		}
		h, err := findHost(ctx, s, args[0])
		if err != nil {
			return err
		}
		if err := s.DrainHost(ctx, h.Session, by); err != nil {
			return err
		}
		h.Drain = true
		p.printer.say("Host %s (session %d) is asked to end.", h.Name, h.Session)
		if watch {
			if err := p.watchDrain(ctx, s, h, wait); err != nil {
				return err
			}
		} else {
			p.printer.say("To see when it has left: %s host list", p.invocation())
		}
		if p.json {
			return p.printer.object(wire.HostOf(h))
		}
		return nil
	})
	return command
}

// watchDrain waits until a session has ended, and tells how far it is.
func (p *program) watchDrain(ctx context.Context, s store, asked pawl.HostView, wait time.Duration) error {
	said := ""
	for began := time.Now(); ; {
		hosts, err := s.Hosts(ctx)
		if err != nil { // through the API of the very host that leaves, it is how this ends
			return fmt.Errorf("whether host %s (session %d) has left cannot be seen: %w", asked.Name, asked.Session, err)
		}
		i := slices.IndexFunc(hosts, func(h pawl.HostView) bool { return h.Session == asked.Session })
		if i < 0 {
			p.printer.say("Host %s (session %d) has left.", asked.Name, asked.Session)
			return nil
		}
		state := drainState(hosts[i])
		if time.Since(began) >= wait {
			return fmt.Errorf("host %s (session %d) has not left within %s: %s", asked.Name, asked.Session, age(wait), state)
		}
		if state != said {
			p.printer.say("  %s", state)
			said = state
		}
		if err := pause(ctx, lookAgain); err != nil {
			return err
		}
	}
}

func drainState(h pawl.HostView) string {
	switch {
	case silent(h):
		return "it is silent: it has died, or cannot reach the store"
	case !h.Draining:
		return "it has not heard of it yet"
	}
	return fmt.Sprintf("it drains, %s running", count(h.Busy, "job"))
}

// pause waits, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
