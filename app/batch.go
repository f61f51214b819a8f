package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/wire"
	"github.com/spf13/cobra"
)

const batchHelp = `Batches: groups of jobs, their members, each with one job that follows when all members have ended. Its id is that of the batch.

A batch is found while it is open, and for 24 hours after its end. pawl job cancel ID, with the id of a batch that is open, has
nothing follow it; its members go on.`

func (p *program) batchCommand() *cobra.Command {
	return noun("batch", "Look at groups of jobs, and at what keeps them open", batchHelp, p.batchList(), p.batchShow())
}

func (p *program) batchList() *cobra.Command {
	var filter pawl.BatchFilter
	var page paging
	command := &cobra.Command{
		Use:   "list",
		Short: "List batches, the one that was opened last first",
		Long: `List batches, the one that was opened last first. The kind and the queue are those of the job that follows.

In a pipe, tab-separated: id, state, kind, queue, members, not ended, done, dead, removed, opened at, ended at.`,
		Example: "  pawl batch list --state open\n  pawl batch list --kind album.ready.v1 --since 1h --json",
		Args:    needs("", 0, 0),
	}
	flags := command.Flags()
	addFlag(flags, &filter.State, "state", "STATE", "open or ended", oneOf(pawl.BatchIsOpen, pawl.BatchHasEnded))
	flags.StringVar(&filter.Kind, "kind", "", "followed by a job of this kind")
	flags.StringVar(&filter.Queue, "queue", "", "followed by a job in this queue")
	addFlag(flags, &filter.Since, "since", "TIME", "opened at or after this time, or at most this long ago (90m, 7d)", parsePast)
	page.add(command)
	completes(command, "state", pawl.BatchIsOpen, pawl.BatchHasEnded)
	command.RunE = p.onStore(existing, func(ctx context.Context, s store, _ []string) error {
		limit, err := page.rows(p.printer)
		if err != nil {
			return err
		}
		found := pages[pawl.Batch]{limit: limit, after: page.after}
		found.fetch = func(ctx context.Context, page pawl.Page) ([]pawl.Batch, string, error) {
			part, err := s.Batches(ctx, filter, page)
			return part.Batches, part.Next, err
		}
		_, err = printList(p.printer, batchListing, found.all(ctx))
		if err == nil && found.after != "" {
			p.printer.say("There are more: go on with --after %s", found.after)
		}
		return err
	})
	return command
}

var batchListing = listing[pawl.Batch]{
	columns: []column[pawl.Batch]{
		{head: "BATCH", cell: func(b pawl.Batch) string { return b.BatchEnd.Batch.String() }},
		{head: "STATE", cell: batchState},
		{head: "KIND", cell: func(b pawl.Batch) string { return b.Kind }, width: 32},
		{head: "QUEUE", cell: func(b pawl.Batch) string { return b.Queue }, width: 16, spare: true},
		{head: "MEMBERS", cell: func(b pawl.Batch) string { return fmt.Sprint(b.Members) }},
		{head: "NOT ENDED", cell: func(b pawl.Batch) string { return fmt.Sprint(b.Pending()) }},
		{head: "DONE", cell: func(b pawl.Batch) string { return fmt.Sprint(b.Done) }},
		{head: "DEAD", cell: func(b pawl.Batch) string { return fmt.Sprint(b.Dead) }},
		{head: "REMOVED", cell: func(b pawl.Batch) string { return fmt.Sprint(b.Removed) }, spare: true},
		{head: "OPENED", cell: func(b pawl.Batch) string { return moment(b.CreatedAt) }},
		{head: "ENDED", cell: func(b pawl.Batch) string { return moment(b.EndedAt) }, piped: true},
	},
	view: func(b pawl.Batch) any { return wire.BatchOf(b) },
	none: "No such batches.",
}

// batchState adds to the state that nothing follows.
func batchState(b pawl.Batch) string {
	if b.Cancelled {
		return string(b.State()) + " (cancelled)"
	}
	return string(b.State())
}

func (p *program) batchShow() *cobra.Command {
	var members bool
	var page paging
	command := &cobra.Command{
		Use:   "show ID",
		Short: "Show one batch: how its members ended, and what keeps it open",
		Long: `Show one batch: how many of its members have ended in which way, where the others are, and the job that follows.

With --members the members that have not ended, by their ids, as job list prints jobs. Those that have ended are counted, and not
listed.`,
		Example: "  pawl batch show 01890a5d-ac96-774b-bcce-b302099a8057\n  pawl batch show 01890a5d-ac96-774b-bcce-b302099a8057 --members",
		Args:    needs("the batch's ID", 1, 1),
	}
	command.Flags().BoolVar(&members, "members", false, "list the members that have not ended")
	page.add(command)
	within(command, "limit", "members")
	within(command, "after", "members")
	command.RunE = p.onStore(existing, func(ctx context.Context, s store, args []string) error {
		id, err := pawl.ParseID(args[0])
		if err != nil {
			return err
		}
		if members {
			return p.listMembers(ctx, s, id, page)
		}
		look, err := p.lookAtBatch(ctx, s, id)
		switch {
		case err != nil:
			return err
		case p.json:
			return p.printer.object(look.form())
		}
		p.showBatch(look)
		return nil
	})
	return command
}

func (p *program) listMembers(ctx context.Context, s store, id pawl.ID, page paging) error {
	limit, err := page.rows(p.printer)
	if err != nil {
		return err
	}
	jobs := pages[pawl.JobView]{limit: limit, after: page.after}
	jobs.fetch = func(ctx context.Context, page pawl.Page) ([]pawl.JobView, string, error) {
		found, err := s.BatchMembers(ctx, id, page)
		if err != nil {
			return nil, "", p.missing(ctx, s, "show batch", id, err)
		}
		return found.Jobs, found.Next, nil
	}
	listing := jobListing
	listing.none = "All members have ended."
	_, err = printList(p.printer, listing, jobs.all(ctx))
	if err == nil && jobs.after != "" {
		p.printer.say("There are more: go on with --after %s", jobs.after)
	}
	return err
}

// batchLook is what is found about a batch.
type batchLook struct {
	pawl.Batch
	members []pawl.JobView // the first of those that have not ended
	heldUp  string         // why the first of them that waits finds nobody; or what follows
	follows pawl.JobView   // zero where it was not enqueued, or is not known any more
}

func (p *program) lookAtBatch(ctx context.Context, s store, id pawl.ID) (look batchLook, err error) {
	if look.Batch, err = s.Batch(ctx, id); err != nil {
		return look, p.missing(ctx, s, "show batch", id, err)
	}
	if look.Pending() > 0 {
		page, err := s.BatchMembers(ctx, id, pawl.Page{Limit: maxPage})
		if err != nil {
			return look, err
		}
		look.members = page.Jobs
	}
	if look.follows, err = s.Job(ctx, id); err != nil && !errors.Is(err, pawl.ErrNotFound) {
		return look, err
	}
	waits := append(slices.Clone(look.members), look.follows)
	if i := slices.IndexFunc(waits, func(j pawl.JobView) bool { return j.State == pawl.JobWaiting }); i >= 0 {
		_, look.heldUp, err = heldUp(ctx, s, waits[i])
		return look, err
	}
	return look, nil
}

func (l *batchLook) form() wire.BatchDetail {
	detail := wire.BatchDetail{Batch: wire.BatchOf(l.Batch), Counted: len(l.members)}
	for _, job := range l.members {
		switch job.State {
		case pawl.JobWaiting:
			detail.Waiting++
		case pawl.JobScheduled:
			detail.Scheduled++
		case pawl.JobReserved:
			detail.Reserved++
		}
	}
	if !l.follows.ID.IsZero() {
		job := wire.JobOf(l.follows)
		detail.Job = &job
	}
	return detail
}

func (p *program) showBatch(l batchLook) {
	out, id := p.printer, l.BatchEnd.Batch
	out.field("Batch", id.String())
	out.field("State", l.state())
	out.field("Followed by", l.followedBy())
	out.field("Opened", momentAgo(l.CreatedAt))
	out.field("Ended", momentAgo(l.EndedAt))
	out.field("Members", fmt.Sprintf("%d: %d done, %d dead, %d removed, %d not ended", l.Members, l.Done, l.Dead, l.Removed, l.Pending()))
	out.field("Not ended", l.notEnded())
	out.field("First due", moment(l.firstDue()))
	out.field("Held up", l.heldUp)
	var next []string
	if l.Pending() > 0 {
		next = append(next, step("what is not ended:", "%s batch show %s --members", p.invocation(), id))
	}
	if l.Dead > 0 {
		next = append(next, step("what has died:", "%s dead list --all --batch %s", p.invocation(), id))
	}
	if l.State() == pawl.BatchIsOpen && !l.Cancelled {
		next = append(next, step("have none follow:", "%s job cancel %s", p.invocation(), id))
	}
	if !l.follows.ID.IsZero() {
		next = append(next, step("the job itself:", "%s job show %s", p.invocation(), id))
	}
	if len(next) > 0 {
		out.line()
		out.line(out.style(styleBold, "Next"))
		for _, line := range next {
			out.line("    ", line)
		}
	}
}

// state says why nothing has followed yet.
func (l *batchLook) state() string {
	state := batchState(l.Batch)
	if l.State() == pawl.BatchIsOpen && l.Pending() == 0 {
		return state + ": all members have ended; a live host counts them within a sweep, unless a transaction is still adding some"
	}
	return state
}

func (l *batchLook) followedBy() string {
	job := fmt.Sprintf("a job of kind %s in queue %s", l.Kind, l.Queue)
	switch {
	case l.Cancelled:
		return "nothing: " + job + " was cancelled"
	case l.State() == pawl.BatchIsOpen:
		return job + ", once all members have ended"
	case l.follows.ID.IsZero():
		return job + ", which is not kept any more"
	}
	return job + ", which is " + stateText(l.follows)
}

// notEnded counts the members that have not, by where they are.
func (l *batchLook) notEnded() string {
	counts := map[string]int{}
	for _, job := range l.members {
		counts[stateText(job)]++
	}
	var parts []string
	for _, state := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[state], state))
	}
	text := strings.Join(parts, ", ")
	if len(l.members) == maxPage && l.Pending() > maxPage {
		text += fmt.Sprintf(", of the first %d", maxPage)
	}
	return text
}

// firstDue is when the first scheduled member is.
func (l *batchLook) firstDue() (at time.Time) {
	for _, job := range l.members {
		if job.State == pawl.JobScheduled && (at.IsZero() || job.RunAt.Before(at)) {
			at = job.RunAt
		}
	}
	return at
}

// batchNames are the ids of batches, the one that was opened last first.
func batchNames(ctx context.Context, s store) ([]string, error) {
	page, err := s.Batches(ctx, pawl.BatchFilter{}, pawl.Page{Limit: completeLetters})
	if err != nil {
		return nil, err
	}
	var found []string
	for _, b := range page.Batches {
		found = append(found, fmt.Sprintf("%s\t%s", b.BatchEnd.Batch, escape(fmt.Sprintf("%s, %s, %d of %d not ended", b.Kind, batchState(b), b.Pending(), b.Members))))
	}
	return found, nil
}
