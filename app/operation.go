package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/wire"
	"github.com/spf13/cobra"
)

const opHelp = `Operations: acts on many dead letters. One begins with a filter: dead redrive --group GROUP, dead resolve --kind KIND and so
on. Its set of letters is frozen then, in the store, with who, why and how; whatever is killed, it goes on where it was.

It is run by the command that began it, by pawl serve, or by whoever takes it up (op resume): one at a time. Anybody can
pause it, resume it and stop it for good, from anywhere; that is obeyed within a second.`

func (p *program) opCommand() *cobra.Command {
	return noun("op", "Look at acts on many letters; pause, resume and stop them", opHelp,
		p.opList(), p.opShow(), p.opWatch(), p.opPause(), p.opResume(), p.opStop())
}

func (p *program) opList() *cobra.Command {
	var filter pawl.OperationFilter
	var page paging
	command := &cobra.Command{
		Use:   "list",
		Short: "List operations, newest first",
		Long: `List operations, newest first.

In a pipe, tab-separated: id, action, state, letters, done, refused, pending, succeeded, died again, cancelled, when it began,
who, why.`,
		Example: "  pawl op list --state running,paused",
		Args:    needs("", 0, 0),
	}
	flags := command.Flags()
	addFlag(flags, &filter.State, "state", "STATE", "probing, running, paused, stopped or finished; several with commas", parseStates)
	actions := []pawl.Action{pawl.ActionRedrive, pawl.ActionResolve, pawl.ActionDiscard, pawl.ActionReopen}
	addFlag(flags, &filter.Action, "action", "ACTION", "redrive, resolve, discard or reopen", oneOf(actions...))
	completes(command, "action", actions...)
	flags.StringVar(&filter.Who, "who", "", "begun by this person or program")
	page.add(command)
	completes(command, "state", pawl.OperationProbing, pawl.OperationRunning, pawl.OperationPaused, pawl.OperationStopped, pawl.OperationFinished)
	command.RunE = p.onStore(existing, func(ctx context.Context, s store, _ []string) error {
		limit, err := page.rows(p.printer)
		if err != nil {
			return err
		}
		found := pages[pawl.Operation]{limit: limit, after: page.after}
		found.fetch = func(ctx context.Context, page pawl.Page) ([]pawl.Operation, string, error) {
			part, err := s.Operations(ctx, filter, page)
			return part.Operations, part.Next, err
		}
		_, err = printList(p.printer, operationListing, found.all(ctx))
		if err == nil && found.after != "" {
			p.printer.say("There are more: go on with --after %s", found.after)
		}
		return err
	})
	return command
}

func parseStates(text string) (states []pawl.OperationState, err error) {
	parse := oneOf(pawl.OperationProbing, pawl.OperationRunning, pawl.OperationPaused, pawl.OperationStopped, pawl.OperationFinished)
	for name := range strings.SplitSeq(text, ",") {
		state, err := parse(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		states = append(states, state)
	}
	return states, nil
}

var operationListing = listing[pawl.Operation]{
	columns: []column[pawl.Operation]{
		{head: "OPERATION", cell: func(o pawl.Operation) string { return o.ID.String() }},
		{head: "ACTION", cell: func(o pawl.Operation) string { return string(o.Action) }},
		{head: "STATE", cell: func(o pawl.Operation) string { return string(o.State) }},
		{head: "LETTERS", cell: func(o pawl.Operation) string { return fmt.Sprint(o.Letters) }},
		{head: "DONE", cell: func(o pawl.Operation) string { return fmt.Sprint(o.Done) }},
		{head: "REFUSED", cell: func(o pawl.Operation) string { return fmt.Sprint(o.Refused) }},
		{head: "PENDING", cell: func(o pawl.Operation) string { return fmt.Sprint(o.Pending) }},
		{head: "SUCCEEDED", cell: func(o pawl.Operation) string { return fmt.Sprint(o.Succeeded) }},
		{head: "DIED AGAIN", cell: func(o pawl.Operation) string { return fmt.Sprint(o.DiedAgain) }},
		{head: "CANCELLED", cell: func(o pawl.Operation) string { return fmt.Sprint(o.Cancelled) }, piped: true},
		{head: "BEGAN", cell: func(o pawl.Operation) string { return moment(o.CreatedAt) }},
		{head: "WHO", cell: func(o pawl.Operation) string { return o.Who }, width: 24},
		{head: "WHY", cell: func(o pawl.Operation) string { return o.Why }, width: 40},
	},
	view: func(o pawl.Operation) any { return wire.OperationOf(o) },
	none: "No operation.",
}

// itemsNamed are the states and outcomes that op show --letters knows.
var itemsNamed = map[string]pawl.ItemFilter{
	"all": {}, "waiting": {State: pawl.ItemWaiting}, "refused": {State: pawl.ItemRefused}, "done": {State: pawl.ItemDone},
	"handing-over": {State: pawl.ItemHandover}, "pending": {Outcome: pawl.RedrivePending}, "succeeded": {Outcome: pawl.RedriveSucceeded},
	"died-again": {Outcome: pawl.RedriveDiedAgain}, "cancelled": {Outcome: pawl.RedriveCancelled},
}

var itemNames = []string{"all", "waiting", "refused", "done", "handing-over", "pending", "succeeded", "died-again", "cancelled"}

func (p *program) opShow() *cobra.Command {
	var letters string
	var page paging
	command := &cobra.Command{
		Use:   "show ID",
		Short: "Show one operation: what, why, how far; or its letters",
		Long: `Show one operation: what it does and why, how far it has come, and what became of the jobs that it redrove.

With --letters its letters, in the order in which it deals with them. In a pipe, tab-separated: position, letter, state, job,
what became of the job, why it was refused.`,
		Example: "  pawl op show 01890a5d-ac96-774b-bcce-b302099a8057\n  pawl op show 01890a5d-ac96-774b-bcce-b302099a8057 --letters refused",
		Args:    needs("the operation's ID", 1, 1),
	}
	addFlag(command.Flags(), &letters, "letters", "WHICH", "its letters: "+strings.Join(itemNames, ", "), oneOf(itemNames...))
	page.add(command)
	completes(command, "letters", itemNames...)
	command.RunE = p.onStore(existing, func(ctx context.Context, s store, args []string) error {
		id, err := pawl.ParseID(args[0])
		if err != nil {
			return err
		}
		o, err := s.Operation(ctx, id)
		switch {
		case err != nil:
			return noOperation("show", id, err)
		case letters != "":
			return p.listItems(ctx, s, id, itemsNamed[letters], page)
		case p.json:
			return p.printer.object(wire.OperationOf(o))
		}
		p.showOperation(o)
		return p.someRefused(ctx, s, o)
	})
	return command
}

// noOperation says in the command's words that there is none.
func noOperation(verb string, id pawl.ID, err error) error {
	if errors.Is(err, pawl.ErrNotFound) {
		return fmt.Errorf("%s operation %s: %w", verb, id, pawl.ErrNotFound)
	}
	return err
}

func (p *program) showOperation(o pawl.Operation) {
	out := p.printer
	out.field("Operation", o.ID.String())
	out.field("Action", string(o.Action)+" "+picked(o))
	out.field("State", stateOf(o))
	out.field("Began", momentAgo(o.CreatedAt)+" by "+o.Who+" ("+o.Door+")")
	out.field("Why", o.Why)
	out.field("Ended", momentAgo(o.EndedAt))
	out.field("Options", carefully(o.Options))
	out.field("Letters", progress(o))
	if o.Action == pawl.ActionRedrive {
		out.field("Jobs", jobsOf(o))
	}
}

// stateOf is an operation's state, and who works on it or has stopped it.
func stateOf(o pawl.Operation) string {
	switch {
	case o.Reason != "":
		return string(o.State) + ": " + o.Reason
	case !o.State.Active():
		return string(o.State)
	case o.Runner == "":
		return string(o.State) + ", but nobody runs it: pawl serve does, or op resume"
	}
	return string(o.State) + ", by " + o.Runner
}

// picked is how the letters were picked.
func picked(o pawl.Operation) string {
	if o.Named {
		return "of letters that were named"
	}
	f := o.Filter
	var terms []string
	add := func(name, value string) {
		if value != "" {
			terms = append(terms, "--"+name+" "+shellWord(value))
		}
	}
	var statuses, classes []string
	for _, s := range f.Status {
		statuses = append(statuses, s.String())
	}
	for _, c := range f.Class {
		classes = append(classes, c.String())
	}
	add("status", strings.Join(statuses, ","))
	add("class", strings.Join(classes, ","))
	add("reason", string(f.Reason))
	add("kind", f.Kind)
	add("queue", f.Queue)
	add("connection", f.Connection)
	add("group", f.Fingerprint)
	add("correlation-id", f.CorrelationID)
	add("tag", f.Tag)
	add("job", f.JobID.String())
	add("batch", f.Batch.String())
	add("since", moment(f.Since))
	add("until", moment(f.Until))
	add("status-before", moment(f.StatusBefore))
	add("error", f.Text)
	if f.Regression {
		terms = append(terms, "--regression")
	}
	return strings.Join(terms, " ")
}

// carefully are an operation's options.
func carefully(o pawl.OperationOptions) string {
	var terms []string
	add := func(is bool, format string, args ...any) {
		if is {
			terms = append(terms, fmt.Sprintf(format, args...))
		}
	}
	add(o.Cap > 0, "at most %d", o.Cap)
	add(o.Rate > 0, "%g/s", o.Rate)
	add(o.Probe, "one as a probe")
	add(o.StopAfter > 0, "stops after the first %d", o.StopAfter)
	add(o.RetryFor > 0, "to start within %s", age(o.RetryFor))
	add(!o.RetryUntil.IsZero(), "to start until %s", moment(o.RetryUntil))
	add(o.Confirmed, "confirmed")
	add(o.Note != "", "note %q", o.Note)
	return strings.Join(terms, ", ")
}

func progress(o pawl.Operation) string {
	return fmt.Sprintf("%d of %d done, %d refused, %d waiting", o.Done, o.Letters, o.Refused, o.Waiting())
}

func jobsOf(o pawl.Operation) string {
	return fmt.Sprintf("%d succeeded, %d died again, %d cancelled, %d pending", o.Succeeded, o.DiedAgain, o.Cancelled, o.Pending)
}

func (p *program) listItems(ctx context.Context, s store, id pawl.ID, filter pawl.ItemFilter, page paging) error {
	limit, err := page.rows(p.printer)
	if err != nil {
		return err
	}
	found := pages[pawl.OperationItem]{limit: limit, after: page.after}
	found.fetch = func(ctx context.Context, page pawl.Page) ([]pawl.OperationItem, string, error) {
		part, err := s.OperationItems(ctx, id, filter, page)
		return part.Items, part.Next, err
	}
	_, err = printList(p.printer, itemListing, found.all(ctx))
	if err == nil && found.after != "" {
		p.printer.say("There are more: go on with --after %s", found.after)
	}
	return err
}

var itemListing = listing[pawl.OperationItem]{
	columns: []column[pawl.OperationItem]{
		{head: "POSITION", cell: func(i pawl.OperationItem) string { return fmt.Sprint(i.Position) }},
		{head: "LETTER", cell: func(i pawl.OperationItem) string { return i.Letter.String() }},
		{head: "STATE", cell: func(i pawl.OperationItem) string { return string(i.State) }},
		{head: "JOB", cell: func(i pawl.OperationItem) string { return i.Job.String() }},
		{head: "OUTCOME", cell: func(i pawl.OperationItem) string { return string(i.Outcome) }},
		{head: "REASON", cell: func(i pawl.OperationItem) string { return i.Reason }, width: 80},
	},
	view: func(i pawl.OperationItem) any { return wire.OperationItemOf(i) },
	none: "No such letter.",
}

// someRefused says why the first letters were refused.
func (p *program) someRefused(ctx context.Context, s store, o pawl.Operation) error {
	const shown = 10
	if o.Refused == 0 {
		return nil
	}
	page, err := s.OperationItems(ctx, o.ID, pawl.ItemFilter{State: pawl.ItemRefused}, pawl.Page{Limit: shown})
	if err != nil {
		return err
	}
	for _, item := range page.Items {
		p.refusal(fmt.Errorf("%s: %s", o.Action, item.Reason))
	}
	if rest := o.Refused - len(page.Items); rest > 0 {
		p.printer.say("… and %d more: %s op show %s --letters refused", rest, p.invocation(), o.ID)
	}
	return nil
}
