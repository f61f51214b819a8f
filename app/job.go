package app

import (
	"context"
	"fmt"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/wire"
	"github.com/spf13/cobra"
)

const jobHelp = `Jobs: enqueue one, list them, look at one; cancel, run now or delete.

A job that has ended is found for as long as the store keeps history. One that died has a dead letter: pawl dead list.`

func (p *program) jobCommand() *cobra.Command {
	return noun("job", "Enqueue jobs, look at them and act on them", jobHelp,
		p.jobEnqueue(), p.jobList(), p.jobShow(), p.jobCancel(), p.jobRunNow(), p.jobDelete())
}

var allStates = []pawl.JobState{
	pawl.JobWaiting, pawl.JobScheduled, pawl.JobReserved, pawl.JobDone, pawl.JobDead, pawl.JobRemoved,
}

func (p *program) jobList() *cobra.Command {
	var filter pawl.JobFilter
	var page paging
	command := &cobra.Command{
		Use:   "list",
		Short: "List jobs, newest enqueue first",
		Long: `List jobs, newest enqueue first.

In a pipe, tab-separated: id, state, kind, queue, attempt, enqueued at, run at, finished at, host, letter's id.`,
		Example: "  pawl job list --state waiting --queue 1-critical\n  pawl job list --kind email.welcome.v1 --since 1h --json",
		Args:    needs("", 0, 0),
	}
	flags := command.Flags()
	addFlag(flags, &filter.State, "state", "STATE", "waiting, scheduled, reserved, done, dead or removed", oneOf(allStates...))
	flags.StringVar(&filter.Kind, "kind", "", "of this kind")
	flags.StringVar(&filter.Queue, "queue", "", "in this queue")
	addFlag(flags, &filter.Since, "since", "TIME", "enqueued at or after this time, or at most this long ago (90m, 7d)", parsePast)
	page.add(command)
	completes(command, "state", allStates...)
	command.RunE = p.onStore(existing, func(ctx context.Context, s store, _ []string) error {
		return p.listJobs(ctx, s, filter, page)
	})
	return command
}

func (p *program) listJobs(ctx context.Context, s store, filter pawl.JobFilter, page paging) error {
	limit, err := page.rows(p.printer)
	if err != nil {
		return err
	}
	jobs := pages[pawl.JobView]{limit: limit, after: page.after}
	jobs.fetch = func(ctx context.Context, page pawl.Page) ([]pawl.JobView, string, error) {
		found, err := s.Jobs(ctx, filter, page)
		if err != nil {
			return nil, "", err
		}
		return found.Jobs, found.Next, nil
	}
	_, err = printList(p.printer, jobListing, jobs.all(ctx))
	if err == nil && jobs.after != "" {
		p.printer.say("There are more: go on with --after %s", jobs.after)
	}
	return err
}

var jobListing = listing[pawl.JobView]{
	columns: []column[pawl.JobView]{
		{head: "ID", cell: func(j pawl.JobView) string { return j.ID.String() }},
		{head: "STATE", cell: stateText},
		{head: "KIND", cell: func(j pawl.JobView) string { return j.Kind }, width: 32},
		{head: "QUEUE", cell: func(j pawl.JobView) string { return j.Queue }, width: 16},
		{head: "TRY", cell: func(j pawl.JobView) string { return fmt.Sprint(j.Attempt) }},
		{head: "ENQUEUED", cell: func(j pawl.JobView) string { return moment(j.EnqueuedAt) }},
		{head: "RUNS AT", cell: func(j pawl.JobView) string { return moment(j.RunAt) }},
		{head: "FINISHED", cell: func(j pawl.JobView) string { return moment(j.FinishedAt) }, piped: true},
		{head: "HOST", cell: func(j pawl.JobView) string { return j.Host }, width: 24},
		{head: "LETTER", cell: func(j pawl.JobView) string { return j.Letter.String() }, piped: true},
	},
	view: func(j pawl.JobView) any { return wire.JobOf(j) },
	none: "No such jobs.",
}

// stateText adds to the state what holds the job back.
func stateText(j pawl.JobView) string {
	switch {
	case j.HeldByKind:
		return string(j.State) + " (kind off)"
	case j.HeldByQueue:
		return string(j.State) + " (queue paused)"
	case j.HeldInLine:
		return string(j.State) + " (in line)"
	}
	return string(j.State)
}

func (p *program) jobShow() *cobra.Command {
	var payload bool
	command := &cobra.Command{
		Use:     "show ID",
		Short:   "Show one job: where it is, its failed attempts",
		Example: "  pawl job show 01890a5d-ac96-774b-bcce-b302099a8057",
		Args:    needs("the job's ID", 1, 1),
	}
	command.Flags().BoolVar(&payload, "payload", false, "show the args too")
	command.RunE = p.onStore(existing, func(ctx context.Context, s store, args []string) error {
		id, err := pawl.ParseID(args[0])
		if err != nil {
			return err
		}
		job, err := s.Job(ctx, id)
		if err != nil {
			return p.missing(ctx, s, "show job", id, err)
		}
		lacks, why, err := heldUp(ctx, s, job)
		if err != nil {
			return err
		}
		if p.json {
			return p.printer.object(wire.JobDetailOf(job, string(lacks), payload))
		}
		p.showJob(job, why, payload)
		return nil
	})
	return command
}

func (p *program) showJob(j pawl.JobView, heldUp string, payload bool) {
	out := p.printer
	out.field("Job", j.ID.String())
	out.field("State", stateText(j))
	out.field("Held up", heldUp)
	out.field("Kind", j.Kind)
	out.field("Queue", j.Queue)
	out.field("Attempt", fmt.Sprint(j.Attempt))
	if j.Crashes > 0 {
		out.field("Crashes", fmt.Sprint(j.Crashes))
	}
	if j.Requeues > 0 {
		out.field("Requeues", fmt.Sprint(j.Requeues))
	}
	out.field("Enqueued", momentAgo(j.EnqueuedAt))
	out.field("Runs at", moment(j.RunAt))
	out.field("Finished", momentAgo(j.FinishedAt))
	out.field("Host", j.Host)
	out.field("Progress", j.Progress)
	out.field("Letter", j.Letter.String())
	if e, err := pawl.DecodeEnvelope(j.Envelope); err == nil {
		out.field("Member of", batchOf(e.Batch))
		if after := e.After; !after.Batch.IsZero() {
			out.field("Follows", fmt.Sprintf("%s: %d done, %d dead, %d removed", batchOf(after.Batch), after.Done, after.Dead, after.Removed))
		}
	}
	out.attempts(j.History)
	switch {
	case len(j.Envelope) == 0:
		out.line()
		out.line("The payload is no longer kept.")
	case payload:
		out.payload(j.Envelope)
	default:
		out.line()
		out.line(fmt.Sprintf("The payload (%d bytes) is shown with --payload.", len(j.Envelope)))
	}
	if j.State == pawl.JobDead && !j.Letter.IsZero() {
		out.line()
		out.line(out.style(styleBold, "Next"))
		out.line("    ", step("why it died:", "%s dead show %s", p.invocation(), j.Letter))
	}
}

func batchOf(id pawl.ID) string {
	if id.IsZero() {
		return ""
	}
	return "batch " + id.String()
}
