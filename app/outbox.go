package app

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/app/internal/config"
	"github.com/pawljobs/pawl/internal/wire"
	"github.com/pawljobs/pawl/ops"
	"github.com/spf13/cobra"
)

const outboxHelp = `Outboxes: jobs on their way from a business database to the store. The configuration says where they are (outboxes), and
serve carries their messages; these commands look at the business database and need no store. With --store https://… they ask
the server there, about the outboxes of its configuration.

A message that cannot be dispatched is tried again for about four minutes. Then it is a dead letter (see dead), with the
message's id and its exact bytes.`

func (p *program) outboxCommand() *cobra.Command {
	return noun("outbox", "Outboxes in business databases: how they stand, look at messages, try again, pause", outboxHelp,
		p.outboxStatus(), p.outboxList(), p.outboxShow(), p.outboxRedrive(), p.outboxSwitch(true), p.outboxSwitch(false), p.outboxPurge())
}

// onOutbox is a command's work on one outbox; it adds the flag that names it.
func (p *program) onOutbox(command *cobra.Command, work func(ctx context.Context, box *operatedBox, args []string) error) *cobra.Command {
	var name string
	command.Flags().StringVar(&name, "outbox", "", "the outbox, by its `NAME` in the configuration (default: the only one)")
	command.RunE = p.doing(func(ctx context.Context, args []string) error {
		box, err := p.theOutbox(ctx, name)
		if err != nil {
			return err
		}
		return errors.Join(work(ctx, box, args), box.close())
	})
	return command
}

func boxState(v wire.Outbox) string {
	switch {
	case v.Error != "":
		return string(v.Error)
	case v.Paused:
		return "paused: " + string(v.Why)
	}
	return "on"
}

func (p *program) outboxStatus() *cobra.Command {
	command := &cobra.Command{
		Use:   "status",
		Short: "How every outbox stands: what waits, what fails, how old the oldest is",
		Long: `How every outbox of the configuration stands. OLDEST, the age of the oldest message, is what to watch: it grows when
nobody dispatches, whatever the reason. Exit status 1 when one cannot be read.

In a pipe, tab-separated: outbox, messages that wait, of these failing, age of the oldest, state.`,
		Args: needs("", 0, 0),
	}
	command.RunE = p.doing(func(ctx context.Context, _ []string) error {
		looks, err := p.lookAtOutboxes(ctx)
		if err != nil {
			return err
		}
		rows := boxListing
		if at, err := p.target(); err == nil && at.Engine == config.Remote {
			rows.none = "The server knows no outboxes."
		}
		_, err = printList(p.printer, rows, each(wire.Each(looks, wire.OutboxOf)))
		if err == nil && slices.ContainsFunc(looks, func(l ops.OutboxLook) bool { return l.Err != nil }) {
			return errReported
		}
		return err
	})
	return command
}

var boxListing = listing[wire.Outbox]{
	columns: []column[wire.Outbox]{
		{head: "OUTBOX", cell: func(v wire.Outbox) string { return v.Outbox }},
		{head: "WAITING", cell: func(v wire.Outbox) string { return fmt.Sprint(v.Waiting) }},
		{head: "FAILING", cell: func(v wire.Outbox) string { return fmt.Sprint(v.Failing) }},
		{head: "OLDEST", cell: func(v wire.Outbox) string { return age(wire.Span(v.OldestMS)) }},
		{head: "STATE", cell: boxState, width: 60},
	},
	view: func(v wire.Outbox) any { return v },
	none: "The configuration has no outboxes.",
}

func (p *program) outboxList() *cobra.Command {
	var filter pawl.OutboxFilter
	var page paging
	command := &cobra.Command{
		Use:   "list",
		Short: "List the messages that wait, the oldest first",
		Long: `List the messages that wait, by the connection that they are for, the oldest first. STATE is waiting, claimed (a
dispatcher has it) or failing (a claim has failed; it is tried again, and at its tenth claim it is a dead letter).

In a pipe, tab-separated: id, connection, state, kind, claims, when it was written, last error.`,
		Example: "  pawl outbox list --failing\n  pawl outbox list --outbox shop --json",
		Args:    needs("", 0, 0),
	}
	command.Flags().StringVar(&filter.Connection, "to", "", "for this `CONNECTION`")
	command.Flags().BoolVar(&filter.Failing, "failing", false, "only those that a claim of has failed")
	page.add(command)
	return p.onOutbox(command, func(ctx context.Context, box *operatedBox, _ []string) error {
		limit, err := page.rows(p.printer)
		if err != nil {
			return err
		}
		rows := pages[pawl.OutboxMessage]{limit: limit, after: page.after}
		rows.fetch = func(ctx context.Context, page pawl.Page) ([]pawl.OutboxMessage, string, error) {
			return box.Messages(ctx, filter, page)
		}
		_, err = printList(p.printer, messageListing, rows.all(ctx))
		if err == nil && rows.after != "" {
			p.printer.say("There are more: go on with --after %s", rows.after)
		}
		return err
	})
}

var messageListing = listing[pawl.OutboxMessage]{
	columns: []column[pawl.OutboxMessage]{
		{head: "ID", cell: func(m pawl.OutboxMessage) string { return m.ID.String() }},
		{head: "TO", cell: func(m pawl.OutboxMessage) string { return m.Connection }, width: 16},
		{head: "STATE", cell: func(m pawl.OutboxMessage) string { return string(m.State) }},
		{head: "KIND", cell: func(m pawl.OutboxMessage) string { return m.Kind }, width: 28},
		{head: "CLAIMS", cell: func(m pawl.OutboxMessage) string { return fmt.Sprint(m.Attempts) }},
		{head: "WRITTEN", cell: func(m pawl.OutboxMessage) string { return moment(m.CreatedAt) }},
		{head: "ERROR", cell: func(m pawl.OutboxMessage) string { return m.LastError }, width: 40},
	},
	view: func(m pawl.OutboxMessage) any { return wire.OutboxMessageOf(m) },
	none: "No messages.",
}

func (p *program) outboxShow() *cobra.Command {
	command := &cobra.Command{
		Use:   "show ID",
		Short: "Show one message with its args",
		Args:  needs("the message's ID", 1, 1),
	}
	return p.onOutbox(command, func(ctx context.Context, box *operatedBox, args []string) error {
		ids, err := parseIDs(args)
		if err != nil {
			return err
		}
		m, err := box.Message(ctx, ids[0])
		if errors.Is(err, pawl.ErrNotFound) {
			return p.gone(ids[0], err)
		}
		if err != nil {
			return err
		}
		if p.json {
			return p.printer.object(wire.OutboxMessageDetailOf(m, true))
		}
		p.showMessage(m)
		return nil
	})
}

// gone says where to look for a message that its box does not have.
func (p *program) gone(id pawl.ID, err error) error {
	return fmt.Errorf("%w: if it was dispatched it is a job (%s job show %s), and if it could not be it is a dead letter (%s dead list --text %s)",
		err, p.invocation(), id, p.invocation(), id)
}

func (p *program) showMessage(m pawl.OutboxMessage) {
	out := p.printer
	state := string(m.State)
	if m.ClaimedBy != "" {
		state += " by " + m.ClaimedBy
	}
	envelope, damage := pawl.DecodeEnvelope(m.Envelope)
	out.field("Message", m.ID.String())
	out.field("To", m.Connection)
	out.field("State", state)
	out.field("Kind", m.Kind)
	out.field("Queue", m.Queue)
	out.field("Correlation", envelope.CorrelationID)
	out.field("Claims", fmt.Sprint(m.Attempts))
	out.field("Last error", m.LastError)
	out.field("Written", momentAgo(m.CreatedAt))
	out.field("Next try", moment(m.NextTry))
	out.field("Ended", momentAgo(m.EndedAt))
	if len(m.Envelope) > 0 && damage != nil {
		out.field("Damaged", oneLine(damage))
	}
	out.block("Args", string(envelope.Args))
}
