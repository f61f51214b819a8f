package app

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/wire"
	"github.com/spf13/cobra"
)

// findHost finds the one host that a name or the number of a session means.
func findHost(ctx context.Context, s store, name string) (pawl.HostView, error) {
	hosts, err := s.Hosts(ctx)
	if err != nil {
		return pawl.HostView{}, err
	}
	var found []pawl.HostView
	for _, h := range hosts {
		if strconv.FormatInt(int64(h.Session), 10) == name || strings.EqualFold(h.Name, name) {
			found = append(found, h)
		}
	}
	switch len(found) {
	case 0:
		return pawl.HostView{}, fmt.Errorf("host %s: %w", name, pawl.ErrNotFound)
	case 1:
		return found[0], nil
	}
	var sessions []string
	for _, h := range found {
		sessions = append(sessions, fmt.Sprint(h.Session))
	}
	return pawl.HostView{}, &pawl.FieldError{Field: "host", Value: name, Rule: "must name one host: give its session, " + strings.Join(sessions, " or ")}
}

func (p *program) hostShow() *cobra.Command {
	return &cobra.Command{
		Use:     "show NAME|SESSION",
		Short:   "Show one host: its servers with their queues, its kinds and sinks",
		Example: "  pawl host show worker-7\n  pawl host show 42",
		Args:    needs("the host's NAME, or the number of its SESSION,", 1, 1),
		RunE: p.onStore(existing, func(ctx context.Context, s store, args []string) error {
			h, err := findHost(ctx, s, args[0])
			if err != nil {
				return err
			}
			if p.json {
				return p.printer.object(wire.HostOf(h))
			}
			p.showHost(h)
			return nil
		}),
	}
}

func (p *program) showHost(h pawl.HostView) {
	out := p.printer
	state := "live"
	switch {
	case silent(h):
		state = "silent: it has died, or cannot reach the store"
	case h.Draining && h.Drain:
		state = "draining, as it was asked: it ends when its jobs have"
	case h.Draining:
		state = "draining: it takes no more jobs"
	case h.Drain:
		state = "live, and asked to end"
	case h.Quiet:
		state = "live, and asked to take no more jobs"
	}
	out.field("Host", h.Name)
	out.field("Session", fmt.Sprint(h.Session))
	out.field("State", state)
	out.field("Process", fmt.Sprint(h.PID))
	out.field("Version", h.Version)
	out.field("Opened", momentAgo(h.OpenedAt))
	out.field("Last beat", momentAgo(h.BeatAt))
	out.field("Busy", fmt.Sprintf("%d of %s", h.Busy, count(workers(h), "worker")))
	if h.Unsettled > 0 {
		out.field("Unsettled", count(h.Unsettled, "attempt")+" that the store could not record yet")
	}
	for i, server := range h.Servers {
		out.field(first(i, "Servers"), fmt.Sprintf("%s: %s (%s)", server.Name, servedQueues(server), count(server.Workers, "worker")))
	}
	for i, kind := range h.Kinds {
		out.field(first(i, "Kinds"), kind)
	}
	out.field("Sinks", strings.Join(h.Sinks, ", "))
	if h.NoDrain {
		out.field("Drain", "only its own program ends it")
	}
}

// servedQueues are a server's queues, with their weights where it has some.
func servedQueues(server pawl.ServerInfo) string {
	if server.Weights == nil {
		return strings.Join(server.Queues, ", ")
	}
	weighted := make([]string, len(server.Queues))
	for i, queue := range server.Queues {
		weighted[i] = fmt.Sprintf("%s ×%d", queue, server.Weights[queue])
	}
	return strings.Join(weighted, ", ") + ", by weight"
}

func (p *program) hostQuiet() *cobra.Command {
	var act acting
	command := &cobra.Command{
		Use:   "quiet NAME|SESSION",
		Short: "Ask a host to take no more jobs, for as long as it lives",
		Long: `Ask a host to take no more jobs, for as long as it lives, while those that run go on: the first half of a shutdown, begun
early. It hears of it with its next beat; host list says when it obeys (draining). A restart ends it.`,
		Example: "  pawl host quiet worker-7 --reason 'the machine is to be replaced'",
		Args:    needs("the host's NAME, or the number of its SESSION,", 1, 1),
	}
	act.add(command)
	command.RunE = p.onStore(existing, func(ctx context.Context, s store, args []string) error {
		by, err := act.actor(p)
		if err != nil {
			return err
		}
		h, err := findHost(ctx, s, args[0])
		if err != nil {
			return err
		}
		if err := s.QuietHost(ctx, h.Session, by); err != nil {
			return err
		}
		if p.json {
			h.Quiet = true
			return p.printer.object(wire.HostOf(h))
		}
		p.printer.say("Host %s (session %d) is asked to take no more jobs.", h.Name, h.Session)
		return nil
	})
	return command
}
