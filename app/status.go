package app

import (
	"context"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
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
cannot keep up; jobs that wait where no host is live at all; a host that has not been heard of; alerts that could not be
delivered for 15 minutes; open failures. A queue that is paused and a kind that is switched off are good to know.

No jobs are counted, so the answer is quick however many there are: queue list counts them.`,
		Example: "  pawl status\n  pawl status --json | jq -r '.troubles[].text'",
		Args:    needs("", 0, 0),
	}
	addFlag(command.Flags(), &o.Wait, "wait", "DURATION", "how long jobs may wait (default 10m)", parsePeriod)
	command.RunE = p.onStore(existing, func(ctx context.Context, s store, _ []string) error {
		status, err := ops.ReadStatus(ctx, s, o)
		if err != nil {
			return err
		}
		if p.json {
			err = p.printer.object(p.viewStatus(status))
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
	case ops.NoHost, ops.HostSilent, ops.HostsDrain, ops.HostUnsettled:
		return call("host list")
	case ops.QueueUnserved, ops.NotServed, ops.QueueLate:
		return call("queue list")
	case ops.KindUnserved, ops.KindUnknown:
		return call("kind list")
	case ops.AlertsLate, ops.LogOnly:
		return call("alerts list")
	case ops.QueuePaused:
		return call("queue resume %s", t.Subject)
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
	for _, t := range s.Troubles {
		p.showTrouble("!", t)
	}
	if len(s.Notes) > 0 {
		out.line()
		out.line(out.style(styleBold, "Good to know"))
	}
	for _, t := range s.Notes {
		p.showTrouble("-", t)
	}
	out.line()
	out.field("Hosts", p.hostsLine(s.Hosts))
	p.showQueues(s.Queues)
	p.showFailures(s)
	for i, sink := range s.Sinks {
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

func (p *program) showTrouble(mark string, t ops.Trouble) {
	p.printer.line("  ", mark, " ", escape(capitalized(t.Text)), ".")
	if next := p.remedy(t); next != "" {
		p.printer.line("      ", p.printer.style(styleDim, next))
	}
}

// hostCounts is how many hosts there are of each state.
type hostCounts struct {
	Live     int `json:"live"`
	Silent   int `json:"silent"`
	Draining int `json:"draining"`
	Workers  int `json:"workers"` // of the live ones
	Busy     int `json:"busy"`
	// Unsettled attempts of all of them.
	Unsettled int `json:"unsettled"`
}

func countHosts(hosts []pawl.HostView) (n hostCounts) {
	for _, h := range hosts {
		n.Unsettled += h.Unsettled
		switch {
		case silent(h):
			n.Silent++
		case h.Draining:
			n.Draining++
		default:
			n.Live++
			n.Workers += workers(h)
			n.Busy += h.Busy
		}
	}
	return n
}

func (p *program) hostsLine(hosts []pawl.HostView) string {
	n := countHosts(hosts)
	return fmt.Sprintf("%d live (%s, %d busy), %d silent, %d draining, %s unsettled", n.Live, count(n.Workers, "worker"), n.Busy, n.Silent, n.Draining, count(n.Unsettled, "attempt"))
}

func (p *program) showQueues(queues []ops.QueueStatus) {
	for i, q := range queues {
		line := fmt.Sprintf("%s: nothing waits", q.Queue)
		if len(q.Kinds) > 0 {
			line = fmt.Sprintf("%s: the oldest job has waited for %s", q.Queue, age(oldestOf(q)))
		}
		line += ", " + count(q.Hosts, "host")
		if q.Paused {
			line += ", paused"
		}
		p.printer.field(first(i, "Queues"), line)
	}
}

// oldestOf counts what is held back by a switch too.
func oldestOf(q ops.QueueStatus) (oldest time.Duration) {
	for _, head := range q.Kinds {
		oldest = max(oldest, head.OldestReady)
	}
	return oldest
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
		p.printer.field(" ", fmt.Sprintf("and %s more: %s dead groups", count(rest, "group"), p.invocation()))
	}
}

type troubleView struct {
	What    ops.What `json:"what"`
	Subject text     `json:"subject"`
	Text    string   `json:"text"`
	Next    text     `json:"next"`
}

type statusQueueView struct {
	Queue         string   `json:"queue"`
	OldestReadyMS int64    `json:"oldest_ready_ms"`
	Hosts         int      `json:"hosts"`
	Paused        bool     `json:"paused"`
	Kinds         []string `json:"kinds"`
}

type statusSinkView struct {
	Sink            string `json:"sink"`
	Pending         int    `json:"pending"`
	OldestPendingMS int64  `json:"oldest_pending_ms"`
}

type failuresView struct {
	Letters  int         `json:"letters"`
	Groups   int         `json:"groups"`
	LastHour int         `json:"last_hour"`
	Largest  []wire.Group `json:"largest"`
}

type statusView struct {
	Well     bool              `json:"well"`
	Troubles []troubleView     `json:"troubles"`
	Notes    []troubleView     `json:"notes"`
	Hosts    hostCounts        `json:"hosts"`
	Queues   []statusQueueView `json:"queues"`
	Failures failuresView      `json:"failures"`
	Alerts   []statusSinkView  `json:"alerts"`
}

func (p *program) viewStatus(s ops.Status) statusView {
	troubles := func(all []ops.Trouble) []troubleView {
		views := []troubleView{}
		for _, t := range all {
			views = append(views, troubleView{t.What, text(t.Subject), t.Text, text(p.remedy(t))})
		}
		return views
	}
	view := statusView{
		Well: s.Well(), Troubles: troubles(s.Troubles), Notes: troubles(s.Notes), Hosts: countHosts(s.Hosts),
		Queues: []statusQueueView{}, Failures: failuresView{s.Failures.Letters, s.Failures.All, s.LastHour, []wire.Group{}},
		Alerts: []statusSinkView{},
	}
	for _, q := range s.Queues {
		kinds := []string{}
		for _, head := range q.Kinds {
			kinds = append(kinds, head.Kind)
		}
		view.Queues = append(view.Queues, statusQueueView{q.Queue, oldestOf(q).Milliseconds(), q.Hosts, q.Paused, kinds})
	}
	for _, g := range s.Failures.Groups {
		view.Failures.Largest = append(view.Failures.Largest, wire.GroupOf(g))
	}
	for _, sink := range s.Sinks {
		view.Alerts = append(view.Alerts, statusSinkView{sink.Name, sink.Pending, sink.OldestAge.Milliseconds()})
	}
	return view
}
