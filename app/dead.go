package app

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/wire"
	"github.com/spf13/cobra"
)

const deadHelp = `Dead letters: the jobs that could not succeed, each with its exact bytes and the evidence of why.

A letter is an open failure until somebody decides:

  redrive   run it again as a new job with a fresh budget of tries
  retry     put the same job back under its own id
  resolve   close it: it was dealt with in another way
  discard   close it: it is not worth dealing with
  reopen    take a closing back
  note      write something on it, whatever its status
  forget    remove the letter and its evidence
  prune     remove many letters, by status and age
  erase     remove what a person's jobs carried, and keep the rest

Each decision goes into the audit trail (pawl audit list).`

func (p *program) deadCommand() *cobra.Command {
	return noun("dead", "Look at jobs that died, and redrive or close them", deadHelp,
		p.deadGroups(), p.deadList(), p.deadShow(),
		p.deadRedrive(), p.deadRetry(), p.deadResolve(), p.deadDiscard(), p.deadReopen(), p.deadNote(), p.deadForget(),
		p.deadPrune(), p.deadErase(), p.deadExport())
}

func (p *program) deadList() *cobra.Command {
	var picked letterFiltering
	var page paging
	command := &cobra.Command{
		Use:   "list",
		Short: "List open failures, newest first",
		Long: `List open failures, newest first. With --all or --status, also those that were dealt with.

A letter that was redriven is no open failure, also when the new job was removed before it ended (outcome cancelled):
find those with --status redriven, and dead reopen makes them open failures again.

With --plain, oldest first, one line each:
  FAILURE_ID | job=JOB_ID | CONNECTION/QUEUE | attempts=N | EXCEPTION_TYPE: MESSAGE
In a pipe, tab-separated: id, job id, status, time of death, kind, queue, class, reason, attempts, error.`,
		Example: `  pawl dead list
  pawl dead list --kind email.welcome.v1 --since 2h
  pawl dead list --class permanent --error "no such user" --json
  pawl dead list --group 1-8e2ce3c24f39a00c832e
  pawl dead list --all --job 01890a5d-ac96-774b-bcce-b302099a8057`,
		Args: needs("", 0, 0),
	}
	picked.add(command)
	page.add(command)
	command.RunE = p.onStore(existing, func(ctx context.Context, s store, _ []string) error {
		filter, err := picked.pick(ctx, s)
		if err != nil {
			return err
		}
		return p.listLetters(ctx, s, filter, page)
	})
	return command
}

func (p *program) listLetters(ctx context.Context, s store, filter pawl.LetterFilter, page paging) error {
	limit, err := page.rows(p.printer)
	if err != nil {
		return err
	}
	filter.OldestFirst = p.printer.mode == modePlain
	letters := letterPages(s, filter, limit, page.after)
	count, err := printList(p.printer, letterListing(len(filter.Status) != 1, p.noLetters(filter)), letters.all(ctx))
	if err != nil {
		return err
	}
	if letters.after != "" {
		p.printer.say("There are more: go on with --after %s", letters.after)
	}
	if count > 0 && p.printer.mode == modeTable {
		p.printer.say("Look at one and see what to do: %s dead show ID", p.invocation())
	}
	return nil
}

// letterPages walks the letters that a filter picks.
func letterPages(s store, filter pawl.LetterFilter, limit int, after string) *pages[pawl.DeadLetter] {
	letters := &pages[pawl.DeadLetter]{limit: limit, after: after}
	letters.fetch = func(ctx context.Context, page pawl.Page) ([]pawl.DeadLetter, string, error) {
		found, err := s.Letters(ctx, filter, page)
		if err != nil {
			return nil, "", err
		}
		return found.Letters, found.Next, nil
	}
	return letters
}

// openOnly is what is listed unless something else is asked for.
func openOnly() pawl.LetterFilter { return pawl.LetterFilter{Status: []pawl.Status{pawl.StatusDead}} }

// noLetters is good news only where everything open was asked for. In plain form it is fixed.
func (p *program) noLetters(filter pawl.LetterFilter) string {
	if p.printer.mode == modePlain || reflect.DeepEqual(filter, openOnly()) {
		return "No failed jobs."
	}
	return "No such dead letters."
}

func letterListing(showStatus bool, none string) listing[pawl.DeadLetter] {
	return listing[pawl.DeadLetter]{
		columns: []column[pawl.DeadLetter]{
			{head: "ID", cell: func(l pawl.DeadLetter) string { return l.ID.String() }},
			{head: "JOB", cell: func(l pawl.DeadLetter) string { return l.JobID.String() }, piped: true},
			{head: "STATUS", cell: func(l pawl.DeadLetter) string { return l.Status.String() }, piped: !showStatus},
			{head: "DIED", cell: func(l pawl.DeadLetter) string { return moment(l.DeadAt) }, piped: true},
			{head: "DIED", cell: func(l pawl.DeadLetter) string { return age(time.Since(l.DeadAt)) + " ago" }, seen: true},
			{head: "KIND", cell: func(l pawl.DeadLetter) string { return l.Kind }, width: 28},
			{head: "QUEUE", cell: func(l pawl.DeadLetter) string { return l.Queue }, width: 16, spare: true},
			{head: "CLASS", cell: func(l pawl.DeadLetter) string { return l.Class.String() }, piped: true},
			{head: "REASON", cell: func(l pawl.DeadLetter) string { return string(l.Reason) }},
			{head: "TRIES", cell: func(l pawl.DeadLetter) string { return fmt.Sprint(l.Attempts) }, piped: true},
			{head: "ERROR", cell: errorLine, piped: true},
			{head: "ERROR", cell: messageOrType, width: 160, seen: true},
		},
		view:   func(l pawl.DeadLetter) any { return wire.LetterOf(l) },
		plain:  plainLetter,
		none:   none,
		answer: true,
	}
}

func errorLine(l pawl.DeadLetter) string {
	if l.ExceptionType == "" {
		return l.Message
	}
	return l.ExceptionType + ": " + l.Message
}

// messageOrType is what says most in little room.
func messageOrType(l pawl.DeadLetter) string {
	if l.Message == "" {
		return l.ExceptionType
	}
	return l.Message
}

// plainLetter is the fixed line of --plain.
func plainLetter(l pawl.DeadLetter) string {
	return escape(fmt.Sprintf("%s | job=%s | %s/%s | attempts=%d | %s: %s",
		l.ID, l.JobID, l.Connection, l.Queue, l.Attempts, l.ExceptionType, l.Message))
}

func (p *program) deadShow() *cobra.Command {
	var payload bool
	command := &cobra.Command{
		Use:   "show ID",
		Short: "Show one dead letter: what, when and why, and what to type next",
		Long: `Show one dead letter: what died, when and why, every attempt, the evidence, and what to type next.

The payload is shown with --payload only: it may hold what not everybody should see.`,
		Example: "  pawl dead show 01890a5d-ac96-874b-bcce-b302099a8057 --payload",
		Args:    needs("the letter's ID", 1, 1),
	}
	command.Flags().BoolVar(&payload, "payload", false, "show the args too")
	command.RunE = p.onStore(existing, func(ctx context.Context, s store, args []string) error {
		id, err := pawl.ParseID(args[0])
		if err != nil {
			return err
		}
		letter, err := s.Letter(ctx, id)
		if err != nil {
			return p.missing(ctx, s, "show dead letter", id, err)
		}
		if p.json {
			return p.printer.object(wire.LetterDetailOf(letter, payload))
		}
		p.showLetter(letter, payload)
		return nil
	})
	return command
}

func (p *program) showLetter(l pawl.DeadLetter, payload bool) {
	out := p.printer
	if l.Reason.OutcomeUnknown() {
		out.line(out.style(styleRed, "OUTCOME UNKNOWN"), ": the job was started and its end was not seen. Its effect may or may not have happened.")
		out.line()
	}
	out.field("Dead letter", l.ID.String())
	out.field("Status", l.Status.String())
	out.field("Kind", l.Kind)
	out.field("Job", l.JobID.String())
	out.field("Batch", l.Batch.String())
	out.field("Message", l.SourceMessageID)
	out.field("Queue", l.Connection+"/"+l.Queue)
	out.field("Class", l.Class.String())
	out.field("Reason", string(l.Reason)+": "+reasonText(l.Reason))
	out.field("Error", errorLine(l))
	out.field("Attempts", fmt.Sprint(l.Attempts))
	out.field("Enqueued", momentAgo(l.EnqueuedAt))
	out.field("Started", momentAgo(l.StartedAt))
	out.field("Died", momentAgo(l.DeadAt))
	out.field("Host", strings.TrimSpace(l.Host+" "+l.Server+" "+l.Version))
	out.field("Correlation", l.CorrelationID)
	out.field("Tags", strings.Join(l.Tags, ", "))
	out.field("Group", l.Fingerprint)
	out.field("Redrive of", l.Previous.String())
	p.showDecision(l)
	out.attempts(l.History)
	out.block("Evidence", l.Detail)
	if payload {
		out.payload(l.Envelope)
	} else {
		out.line()
		out.line(fmt.Sprintf("The payload (%d bytes) is shown with --payload.", len(l.Envelope)))
	}
	out.line()
	out.line(out.style(styleBold, "Next"))
	for _, step := range p.nextSteps(l) {
		out.line("    ", step)
	}
}

func (p *program) showDecision(l pawl.DeadLetter) {
	out := p.printer
	if !l.RedrivenAt.IsZero() {
		out.field("Redriven", momentAgo(l.RedrivenAt)+" by "+l.RedrivenBy)
	}
	out.field("New job", l.NewJobID.String())
	out.field("Outcome", string(l.Outcome))
	out.field("Died as", l.NextLetter.String())
	out.field("Note", l.Note)
}
