package app

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/wire"
	"github.com/spf13/cobra"
)

func (p *program) hostCommand() *cobra.Command {
	list := &cobra.Command{
		Use:   "list",
		Short: "List the hosts that work on the store",
		Long: `List the hosts that work on the store.

In a pipe, tab-separated: host, session, process id, version, workers, busy, seconds since its last beat, draining,
servers with their queues, number of kinds.`,
		Args: needs("", 0, 0),
		RunE: p.onStore(existing, func(ctx context.Context, s store, _ []string) error {
			hosts, err := s.Hosts(ctx)
			if err != nil {
				return err
			}
			_, err = printList(p.printer, p.hostListing(), each(hosts))
			for _, h := range hosts {
				if silent(h) {
					p.printer.say("Host %s (session %d) has not been heard of for %s: it has died, or cannot reach the store.",
						h.Name, h.Session, age(time.Since(h.BeatAt)))
				}
			}
			return err
		}),
	}
	return noun("host", "Look at the hosts that run jobs, and ask one to take no more or to end", "Hosts: the processes that run jobs.",
		list, p.hostShow(), p.hostQuiet(), p.hostDrain())
}

func (p *program) hostListing() listing[pawl.HostView] {
	return listing[pawl.HostView]{
		columns: []column[pawl.HostView]{
			{head: "HOST", cell: func(h pawl.HostView) string { return h.Name }},
			{head: "SESSION", cell: func(h pawl.HostView) string { return fmt.Sprint(h.Session) }},
			{head: "PID", cell: func(h pawl.HostView) string { return fmt.Sprint(h.PID) }},
			{head: "VERSION", cell: func(h pawl.HostView) string { return h.Version }},
			{head: "WORKERS", cell: func(h pawl.HostView) string { return fmt.Sprint(workers(h)) }},
			{head: "BUSY", cell: func(h pawl.HostView) string { return fmt.Sprint(h.Busy) }},
			{head: "LAST BEAT", cell: func(h pawl.HostView) string { return p.span(time.Since(h.BeatAt)) }},
			{head: "DRAINING", cell: func(h pawl.HostView) string { return p.yesNo(h.Draining) }},
			{head: "SERVERS", cell: servers},
			{head: "KINDS", cell: func(h pawl.HostView) string { return fmt.Sprint(len(h.Kinds)) }},
		},
		view: func(h pawl.HostView) any { return wire.HostOf(h) },
		none: "No live host.",
	}
}

func workers(h pawl.HostView) int {
	sum := 0
	for _, server := range h.Servers {
		sum += server.Workers
	}
	return sum
}

func servers(h pawl.HostView) string {
	var all []string
	for _, server := range h.Servers {
		all = append(all, server.Name+"("+strings.Join(server.Queues, ",")+")")
	}
	return strings.Join(all, " ")
}

func (p *program) alertsCommand() *cobra.Command {
	list := &cobra.Command{
		Use:   "list",
		Short: "List the channels that alerts go to, with their counts",
		Long: `List the channels that alerts go to, with their counts.

In a pipe, tab-separated: sink, pending, delivered, seconds that the oldest pending one has waited, last error,
since when it is retired: no host had it for a week, and deaths are not told to it until one has it again.`,
		Args: needs("", 0, 0),
		RunE: p.onStore(existing, func(ctx context.Context, s store, _ []string) error {
			sinks, err := s.Sinks(ctx)
			if err != nil {
				return err
			}
			_, err = printList(p.printer, p.sinkListing(), each(sinks))
			return err
		}),
	}
	return noun("alerts", "Look at the alerts about deaths, and try where they go", alertsHelp, p.orOfLetter(list), p.alertsTest(), p.alertsForget())
}

func (p *program) sinkListing() listing[pawl.SinkView] {
	return listing[pawl.SinkView]{
		columns: []column[pawl.SinkView]{
			{head: "SINK", cell: func(v pawl.SinkView) string { return v.Name }},
			{head: "PENDING", cell: func(v pawl.SinkView) string { return fmt.Sprint(v.Pending) }},
			{head: "DELIVERED", cell: func(v pawl.SinkView) string { return fmt.Sprint(v.Delivered) }},
			{head: "OLDEST", cell: func(v pawl.SinkView) string { return p.span(v.OldestAge) }},
			{head: "LAST ERROR", cell: func(v pawl.SinkView) string { return v.LastError }, width: 80},
			{head: "RETIRED", cell: func(v pawl.SinkView) string { return moment(v.RetiredAt) }},
		},
		view: func(v pawl.SinkView) any { return wire.SinkOf(v) },
		none: "No host has registered a sink: deaths alert nobody.",
	}
}

// auditActions are those that the trail knows.
var auditActions = []pawl.Action{
	pawl.ActionRedrive, pawl.ActionRetry, pawl.ActionResolve, pawl.ActionDiscard, pawl.ActionReopen, pawl.ActionNote, pawl.ActionForget,
	pawl.ActionPrune, pawl.ActionErase, pawl.ActionClear, pawl.ActionSwitch, pawl.ActionReset, pawl.ActionPause, pawl.ActionResume,
	pawl.ActionLimit, pawl.ActionCancel, pawl.ActionRunNow, pawl.ActionDelete, pawl.ActionQuiet, pawl.ActionDrain, pawl.ActionStart,
	pawl.ActionStop, pawl.ActionAdd, pawl.ActionSet, pawl.ActionDeclare, pawl.ActionOutcome, pawl.ActionRetire,
}

func (p *program) auditCommand() *cobra.Command {
	var filter pawl.AuditFilter
	var page paging
	list := &cobra.Command{
		Use:   "list",
		Short: "List what operators did, newest first",
		Long: `List what operators did, newest first.

In a pipe, tab-separated: id, time, who, door, action, subject, from, to, why, outcome.`,
		Example: "  pawl audit list --since 1d\n  pawl audit list --subject 01890a5d-ac96-874b-bcce-b302099a8057",
		Args:    needs("", 0, 0),
	}
	flags := list.Flags()
	flags.StringVar(&filter.Subject, "subject", "", "about this letter's ID, \"job ID\", \"queue NAME\", \"kind NAME\", \"host SESSION\", \"schedule NAME\", \"sink NAME\" or \"operation ID\"")
	flags.StringVar(&filter.Who, "who", "", "by this person or program")
	addFlag(flags, &filter.Action, "action", "ACTION", hyphenedList(auditActions), oneOf(auditActions...))
	completes(list, "action", auditActions...)
	addFlag(flags, &filter.Since, "since", "TIME", "at or after this time, or at most this long ago (90m, 7d)", parsePast)
	page.add(list)
	list.RunE = p.onStore(existing, func(ctx context.Context, s store, _ []string) error {
		return p.listAudit(ctx, s, filter, page)
	})
	return noun("audit", "Read the audit trail", "The audit trail: who did what, when and why. It is only ever added to.", list)
}

func (p *program) listAudit(ctx context.Context, s store, filter pawl.AuditFilter, page paging) error {
	limit, err := page.rows(p.printer)
	if err != nil {
		return err
	}
	entries := pages[pawl.AuditEntry]{limit: limit, after: page.after}
	entries.fetch = func(ctx context.Context, page pawl.Page) ([]pawl.AuditEntry, string, error) {
		found, err := s.Audit(ctx, filter, page)
		if err != nil {
			return nil, "", err
		}
		return found.Entries, found.Next, nil
	}
	listing := auditListing
	if filter != (pawl.AuditFilter{}) {
		listing.none = "No such entry."
	}
	_, err = printList(p.printer, listing, entries.all(ctx))
	if err == nil && entries.after != "" {
		p.printer.say("There are more: go on with --after %s", entries.after)
	}
	return err
}

var auditListing = listing[pawl.AuditEntry]{
	columns: []column[pawl.AuditEntry]{
		{head: "ENTRY", cell: func(e pawl.AuditEntry) string { return fmt.Sprint(e.ID) }},
		{head: "AT", cell: func(e pawl.AuditEntry) string { return moment(e.At) }},
		{head: "WHO", cell: func(e pawl.AuditEntry) string { return e.Who }, width: 24},
		{head: "DOOR", cell: func(e pawl.AuditEntry) string { return e.Door }},
		{head: "ACTION", cell: func(e pawl.AuditEntry) string { return string(e.Action) }},
		{head: "SUBJECT", cell: func(e pawl.AuditEntry) string { return e.Subject }, width: 40},
		{head: "FROM", cell: func(e pawl.AuditEntry) string { return e.From }, width: 16},
		{head: "TO", cell: func(e pawl.AuditEntry) string { return e.To }, width: 16},
		{head: "WHY", cell: func(e pawl.AuditEntry) string { return e.Why }, width: 40},
		{head: "OUTCOME", cell: func(e pawl.AuditEntry) string { return e.Outcome }, width: 40},
	},
	view: func(e pawl.AuditEntry) any { return wire.AuditEntryOf(e) },
	none: "Nothing was done yet.",
}
