package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/outbox"
	"github.com/spf13/cobra"
)

const outboxHelp = `Outboxes: jobs on their way from a business database to the store. The configuration says where they are (outboxes), and
serve carries their messages; these commands look at the business database and need no store.

A message that cannot be dispatched is tried again for about four minutes. Then it is a dead letter (see dead), with the
message's id and its exact bytes.`

func (p *program) outboxCommand() *cobra.Command {
	return noun("outbox", "Outboxes in business databases: how they stand, look at messages, try again, pause", outboxHelp,
		p.outboxStatus(), p.outboxList(), p.outboxShow(), p.outboxRedrive(), p.outboxSwitch(true), p.outboxSwitch(false), p.outboxPurge())
}

// onOutbox is a command's work on one outbox; it adds the flag that names it.
func (p *program) onOutbox(command *cobra.Command, work func(ctx context.Context, box *openedBox, args []string) error) *cobra.Command {
	var name string
	command.Flags().StringVar(&name, "outbox", "", "the outbox, by its `NAME` in the configuration (default: the only one)")
	command.RunE = p.doing(func(ctx context.Context, args []string) error {
		box, err := p.theOutbox(ctx, name)
		if err != nil {
			return err
		}
		return errors.Join(work(ctx, box, args), box.Close())
	})
	return command
}

// boxStatus is how an outbox stands, in JSON; Error says that it could not be read.
type boxStatus struct {
	Outbox      string          `json:"outbox"`
	Error       *string         `json:"error"`
	Waiting     int             `json:"waiting"`
	Failing     int             `json:"failing"`
	Oldest      int64           `json:"oldest_pending_ms"`
	Paused      bool            `json:"paused"`
	Why         *string         `json:"paused_why"`
	Connections []boxConnection `json:"connections"`
}

type boxConnection struct {
	Connection string `json:"connection"`
	Waiting    int    `json:"waiting"`
	Failing    int    `json:"failing"`
	Oldest     int64  `json:"oldest_pending_ms"`
}

func boxStatusOf(name string, s outbox.Stats, err error) boxStatus {
	v := boxStatus{
		Outbox: name, Waiting: s.Pending, Failing: s.Failing, Oldest: s.Oldest.Milliseconds(), Paused: s.Off,
		Why: orNull(s.Why), Connections: make([]boxConnection, len(s.Connections)),
	}
	if err != nil {
		v.Error = orNull(oneLine(err))
	}
	for i, lane := range s.Connections {
		v.Connections[i] = boxConnection{lane.Connection, lane.Pending, lane.Failing, lane.Oldest.Milliseconds()}
	}
	return v
}

func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func (v boxStatus) state() string {
	switch {
	case v.Error != nil:
		return *v.Error
	case v.Paused:
		return "paused: " + *v.Why
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
		settings, err := p.settings()
		if err != nil {
			return err
		}
		var rows []boxStatus
		unread := false
		for _, name := range settings.OutboxNames() {
			var stats outbox.Stats
			box, err := openOutbox(ctx, settings, name, false)
			if err == nil {
				stats, err = box.Stats(ctx)
				err = errors.Join(err, box.Close())
			}
			unread = unread || err != nil
			rows = append(rows, boxStatusOf(name, stats, err))
		}
		_, err = printList(p.printer, boxListing, each(rows))
		if err == nil && unread {
			return errReported
		}
		return err
	})
	return command
}

var boxListing = listing[boxStatus]{
	columns: []column[boxStatus]{
		{head: "OUTBOX", cell: func(v boxStatus) string { return v.Outbox }},
		{head: "WAITING", cell: func(v boxStatus) string { return fmt.Sprint(v.Waiting) }},
		{head: "FAILING", cell: func(v boxStatus) string { return fmt.Sprint(v.Failing) }},
		{head: "OLDEST", cell: func(v boxStatus) string { return age(time.Duration(v.Oldest) * time.Millisecond) }},
		{head: "STATE", cell: boxStatus.state, width: 60},
	},
	view: func(v boxStatus) any { return v },
	none: "The configuration has no outboxes.",
}

// message is the JSON form of one.
type message struct {
	ID         pawl.ID         `json:"id"`
	Connection string          `json:"connection"`
	State      string          `json:"state"`
	Kind       *string         `json:"kind"`
	Queue      *string         `json:"queue"`
	Claims     int             `json:"claims"`
	LastError  *string         `json:"last_error"`
	CreatedAt  string          `json:"created_at"`
	NextTry    *string         `json:"next_try_at"`
	EndedAt    *string         `json:"ended_at"`
	ClaimedBy  *string         `json:"claimed_by"`
	Args       json.RawMessage `json:"args,omitempty"` // of show alone

	message  outbox.Message
	envelope pawl.Envelope
}

func messageOf(m outbox.Message) message {
	v := message{
		ID: m.ID, Connection: m.Connection, State: string(m.State), Claims: m.Attempts, LastError: orNull(m.LastError),
		CreatedAt: moment(m.CreatedAt), NextTry: orNull(moment(m.NextTry)), EndedAt: orNull(moment(m.EndedAt)),
		ClaimedBy: orNull(m.ClaimedBy), message: m,
	}
	if len(m.Envelope) > 0 {
		var err error
		if v.envelope, err = pawl.DecodeEnvelope(m.Envelope); err != nil {
			v.envelope = pawl.Envelope{Kind: pawl.UndecodableKind}
		}
	}
	v.Kind, v.Queue = orNull(v.envelope.Kind), orNull(v.envelope.Policy.Queue)
	return v
}

func (p *program) outboxList() *cobra.Command {
	var filter outbox.MessageFilter
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
	return p.onOutbox(command, func(ctx context.Context, box *openedBox, _ []string) error {
		limit, err := page.rows(p.printer)
		if err != nil {
			return err
		}
		rows := pages[message]{limit: limit, after: page.after}
		rows.fetch = func(ctx context.Context, page pawl.Page) (views []message, next string, err error) {
			found, next, err := box.Messages(ctx, filter, page)
			for _, m := range found {
				views = append(views, messageOf(m))
			}
			return views, next, err
		}
		_, err = printList(p.printer, messageListing, rows.all(ctx))
		if err == nil && rows.after != "" {
			p.printer.say("There are more: go on with --after %s", rows.after)
		}
		return err
	})
}

var messageListing = listing[message]{
	columns: []column[message]{
		{head: "ID", cell: func(v message) string { return v.ID.String() }},
		{head: "TO", cell: func(v message) string { return v.Connection }, width: 16},
		{head: "STATE", cell: func(v message) string { return v.State }},
		{head: "KIND", cell: func(v message) string { return v.envelope.Kind }, width: 28},
		{head: "CLAIMS", cell: func(v message) string { return fmt.Sprint(v.Claims) }},
		{head: "WRITTEN", cell: func(v message) string { return v.CreatedAt }},
		{head: "ERROR", cell: func(v message) string { return v.message.LastError }, width: 40},
	},
	view: func(v message) any { return v },
	none: "No messages.",
}

func (p *program) outboxShow() *cobra.Command {
	command := &cobra.Command{
		Use:   "show ID",
		Short: "Show one message with its args",
		Args:  needs("the message's ID", 1, 1),
	}
	return p.onOutbox(command, func(ctx context.Context, box *openedBox, args []string) error {
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
		v := messageOf(m)
		if p.json {
			if json.Valid(v.envelope.Args) {
				v.Args = json.RawMessage(v.envelope.Args)
			}
			return p.printer.object(v)
		}
		p.showMessage(v)
		return nil
	})
}

// gone says where to look for a message that its box does not have.
func (p *program) gone(id pawl.ID, err error) error {
	return fmt.Errorf("%w: if it was dispatched it is a job (%s job show %s), and if it could not be it is a dead letter (%s dead list --text %s)",
		err, p.invocation(), id, p.invocation(), id)
}

func (p *program) showMessage(v message) {
	out, m := p.printer, v.message
	state := v.State
	if m.ClaimedBy != "" {
		state += " by " + m.ClaimedBy
	}
	out.field("Message", v.ID.String())
	out.field("To", v.Connection)
	out.field("State", state)
	out.field("Kind", v.envelope.Kind)
	out.field("Queue", v.envelope.Policy.Queue)
	out.field("Correlation", v.envelope.CorrelationID)
	out.field("Claims", fmt.Sprint(v.Claims))
	out.field("Last error", m.LastError)
	out.field("Written", momentAgo(m.CreatedAt))
	out.field("Next try", moment(m.NextTry))
	out.field("Ended", momentAgo(m.EndedAt))
	out.block("Args", string(v.envelope.Args))
}
