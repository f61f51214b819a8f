package app

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/api"
	"github.com/pawljobs/pawl/app/internal/config"
	"github.com/pawljobs/pawl/internal/wire"
	"github.com/pawljobs/pawl/ops"
	"github.com/spf13/cobra"
)

func (p *program) statusCommand() *cobra.Command {
	var o ops.StatusOptions
	command := &cobra.Command{
		Use:   "status",
		Short: "Is it well, and if not, what first?",
		Long: `Is it well, and if not, what first? The verdict comes first, then what is not well, in the order in which to deal with it
and with what to type next, then what is good to know and how hosts, queues, failures and alerts stand.

Not well, and exit status 8, are: jobs that wait for longer than --wait, whether no live host takes them or those that do
cannot keep up; jobs that wait where no host is live at all; a schedule that is due and that no host acts on, or whose last
success is older than it should be; a host that has not been heard of; alerts that could not be
delivered for 15 minutes; open failures; a configured outbox that cannot be read, or whose oldest message is older than
--wait. A paused outbox or queue, and a kind that is switched off, are good to know.

No jobs are counted, so the answer is quick however many there are: queue list counts them.`,
		Example: "  pawl status\n  pawl status --json | jq -r '.troubles[].text'",
		Args:    needs("", 0, 0),
	}
	addFlag(command.Flags(), &o.Wait, "wait", "DURATION", "how long jobs may wait (default 10m)", parsePeriod)
	command.RunE = p.onStore(existing, func(ctx context.Context, s store, _ []string) error {
		status, err := ops.ReadStatus(ctx, s, o)
		if far, ok := s.(*api.Client); ok && err == nil {
			status.Troubles, status.Notes, err = far.Troubles(ctx, o.Wait) // with those of the outboxes that it knows
		} else if err == nil {
			var looks []ops.OutboxLook
			looks, err = p.lookAtOutboxes(ctx)
			status.JudgeOutboxes(looks, o.Wait)
		}
		if err != nil {
			return err
		}
		if p.json {
			err = p.printer.object(wire.StatusOf(status, p.remedy))
		} else {
			p.showStatus(status)
		}
		if err == nil && !status.Well() {
			return withStatus(exitUnhealthy, errReported)
		}
		return err
	})
	return command
}

// remedy is what to type next about a trouble.
func (p *program) remedy(t ops.Trouble) string {
	call := func(format string, args ...any) string {
		for i, arg := range args {
			args[i] = shellWord(escape(fmt.Sprint(arg)))
		}
		return p.invocation() + " " + fmt.Sprintf(format, args...)
	}
	switch t.What {
	case ops.OpenFailures:
		return call("dead list --group %s", t.Subject)
	case ops.NoHost:
		if at, err := p.target(); err == nil && at.Engine == config.Remote {
			return call("host list")
		}
		return call("serve")
	case ops.HostSilent, ops.HostsDrain, ops.HostUnsettled:
		return call("host list")
	case ops.QueueUnserved, ops.NotServed, ops.QueueLate:
		return call("queue list")
	case ops.KindUnserved, ops.KindUnknown:
		return call("kind list")
	case ops.SinkUnserved, ops.SinkRetired:
		return call("alerts forget %s", t.Subject)
	case ops.AlertsLate, ops.LogOnly:
		return call("alerts list")
	case ops.OperationPaused, ops.OperationUnderway:
		return call("op show %s", t.Subject)
	case ops.OutboxLate, ops.OutboxUnread:
		return call("outbox status")
	case ops.OutboxPaused:
		return call("outbox resume --outbox %s", t.Subject)
	case ops.QueuePaused:
		return call("queue resume %s", t.Subject)
	case ops.ScheduleStuck, ops.ScheduleLate, ops.ScheduleOverdue, ops.ScheduleUnserved, ops.ScheduleUndeclared:
		return call("schedule show %s", t.Subject)
	case ops.SchedulePaused:
		return call("schedule resume %s", t.Subject)
	case ops.KindOff, ops.KindNotOn:
		return call("kind on %s", t.Subject)
	}
	return ""
}

func (p *program) showStatus(s ops.Status) {
	out := p.printer
	switch n := len(s.Troubles); n {
	case 0:
		out.line(out.style(styleBold, "All is well."))
	case 1:
		out.line(out.style(styleRed, "Not well:"))
	default:
		out.line(out.style(styleRed, fmt.Sprintf("Not well, for %d reasons. The first thing to do comes first:", n)))
	}
	p.showTroubles("!", s.Troubles)
	if len(s.Notes) > 0 {
		out.line()
		out.line(out.style(styleBold, "Good to know"))
	}
	p.showTroubles("-", s.Notes)
	out.line()
	out.field("Hosts", p.hostsLine(s.Hosts))
	p.showQueues(s.Queues)
	p.showFailures(s)
	for i, sink := range s.Sinks {
		if i == atMost {
			p.more(len(s.Sinks)-i, "sink", "alerts list")
			break
		}
		out.field(first(i, "Alerts"), fmt.Sprintf("%s: %d pending, %d delivered", sink.Name, sink.Pending, sink.Delivered))
	}
}

// first is the name of a field that has several lines, at its first one.
func first(i int, name string) string {
	if i > 0 {
		return ""
	}
	return name
}

// atMost is how many of a sort are shown, so that a status stays one screen. Its JSON has all.
const atMost = 5

// showTroubles shows the first of each sort, which are the worst, and how many there are besides.
func (p *program) showTroubles(mark string, all []ops.Trouble) {
	total, seen := map[ops.What]int{}, map[ops.What]int{}
	for _, t := range all {
		total[t.What]++
	}
	for _, t := range all {
		seen[t.What]++
		switch n := seen[t.What]; {
		case n <= atMost || total[t.What] == atMost+1: // the last one takes no more room than to count it
			p.showTrouble(mark, t)
		case n == atMost+1:
			line := fmt.Sprintf("And %d more of this sort", total[t.What]-atMost)
			if list := lists[t.What]; list != "" {
				line += ": " + p.invocation() + " " + list
			}
			p.printer.line("  ", mark, " ", line)
		}
	}
}

// lists are where all that a sort of trouble is about can be seen.
var lists = map[ops.What]string{
	ops.QueueUnserved: "queue list", ops.NotServed: "queue list", ops.QueueLate: "queue list", ops.QueuePaused: "queue list",
	ops.KindUnserved: "kind list", ops.KindUnknown: "kind list", ops.KindOff: "kind list", ops.KindNotOn: "kind list",
	ops.HostSilent: "host list", ops.HostUnsettled: "host list", ops.HostsDrain: "host list",
	ops.ScheduleStuck: "schedule list", ops.ScheduleLate: "schedule list", ops.ScheduleOverdue: "schedule list",
	ops.ScheduleUnserved: "schedule list", ops.SchedulePaused: "schedule list", ops.ScheduleUndeclared: "schedule list",
	ops.SinkUnserved: "alerts list", ops.SinkRetired: "alerts list", ops.AlertsLate: "alerts list",
	ops.OperationPaused: "op list", ops.OperationUnderway: "op list",
}

// more says how many lines of a field are left out, and where they are.
func (p *program) more(n int, what, list string) {
	p.printer.field(" ", fmt.Sprintf("and %s more: %s %s", count(n, what), p.invocation(), list))
}

func (p *program) showTrouble(mark string, t ops.Trouble) {
	p.printer.line("  ", mark, " ", escape(capitalized(t.Text)), ".")
	if next := p.remedy(t); next != "" {
		p.printer.line("      ", p.printer.style(styleDim, next))
	}
}

func (p *program) hostsLine(hosts []pawl.HostView) string {
	n := wire.CountHosts(hosts)
	return fmt.Sprintf("%d live (%s, %d busy), %d silent, %d draining, %s unsettled", n.Live, count(n.Workers, "worker"), n.Busy, n.Silent, n.Draining, count(n.Unsettled, "attempt"))
}

// showQueues shows those whose jobs have waited longest, in order of priority.
func (p *program) showQueues(queues []ops.QueueStatus) {
	shown := slices.Clone(queues)
	if len(queues) > atMost+1 {
		slices.SortStableFunc(shown, func(a, b ops.QueueStatus) int { return cmp.Compare(wire.OldestOf(b), wire.OldestOf(a)) })
		shown = shown[:atMost]
		slices.SortFunc(shown, func(a, b ops.QueueStatus) int { return cmp.Compare(a.Queue, b.Queue) })
	}
	for i, q := range shown {
		line := fmt.Sprintf("%s: nothing waits", q.Queue)
		if len(q.Kinds) > 0 {
			line = fmt.Sprintf("%s: the oldest job has waited for %s", q.Queue, age(wire.OldestOf(q)))
		}
		line += ", " + count(q.Hosts, "host")
		if q.Paused {
			line += ", paused"
		}
		p.printer.field(first(i, "Queues"), line)
	}
	if rest := len(queues) - len(shown); rest > 0 {
		p.more(rest, "queue", "queue list")
	}
}

func (p *program) showFailures(s ops.Status) {
	if s.Failures.Letters == 0 {
		p.printer.field("Failures", "none open")
		return
	}
	p.printer.field("Failures", fmt.Sprintf("%d open in %s, %d of the last hour", s.Failures.Letters, count(s.Failures.All, "group"), s.LastHour))
	for _, g := range s.Failures.Groups {
		p.printer.field(" ", fmt.Sprintf("%5d  %s  %s: %s", g.Letters, g.Fingerprint, g.Kind, cut(groupError(g), 60)))
	}
	if rest := s.Failures.All - len(s.Failures.Groups); rest > 0 {
		p.more(rest, "group", "dead groups")
	}
}
