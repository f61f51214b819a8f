package app

import (
	"context"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/ops"
	"github.com/spf13/cobra"
)

func (p *program) deadPrune() *cobra.Command {
	var picked letterFiltering
	var act acting
	var sure confirming
	var before time.Time
	var expect int
	command := &cobra.Command{
		Use:   "prune --before AGE --status STATUS",
		Short: "Remove many letters and their evidence, by status and age",
		Long: `Remove many letters and their evidence for good, by status and age. The age counts from when a letter came to its status: for
one that was resolved, since then. Open failures are removed only with --status dead.

Letters that are still needed are kept and counted: those whose redrive is pending, and those that an operation has before it.
Letters go in small batches; what was broken off is done by doing it again. It is one line in the audit trail.`,
		Example: "  pawl dead prune --before 90d --status resolved,discarded --dry-run\n" +
			"  pawl dead prune --before 90d --status resolved,discarded --expect 1204 --reason 'quarterly'",
		Args: needs("", 0, 0),
	}
	flags := command.Flags()
	addFlag(flags, &picked.filter.Status, "status", "STATUS", "dead, redriven, resolved or discarded; several with commas (has to be given)", parseNames[pawl.Status])
	addFlag(flags, &before, "before", "AGE", "in their status since before this time, or for at least this long (90d) (has to be given)", parsePast)
	picked.addOpen(command)
	act.add(command)
	flags.IntVar(&expect, "expect", 0, "do nothing unless there are `N`")
	flags.BoolVar(&sure.dryRun, "dry-run", false, "only say how many letters it would be")
	flags.BoolVar(&sure.yes, "yes", false, "do not ask")
	command.RunE = p.onStore(existing, func(ctx context.Context, s store, _ []string) error {
		act.must = !sure.dryRun
		by, err := act.actor(p)
		if err != nil {
			return err
		}
		picked.all = true // the status is looked at by what prunes
		filter, err := picked.pick(ctx, s)
		if err != nil {
			return err
		}
		filter.StatusBefore = before
		return p.pruneLetters(ctx, s, filter, ops.PruneOptions{By: by, Expect: expect, DryRun: sure.dryRun}, sure)
	})
	return command
}

// prunedView is what a prune prints.
type prunedView struct {
	Letters int  `json:"letters"`
	Removed int  `json:"removed"`
	Kept    int  `json:"kept"`
	DryRun  bool `json:"dry_run"`
}

func (p *program) pruneLetters(ctx context.Context, s store, filter pawl.LetterFilter, o ops.PruneOptions, sure confirming) error {
	desk, err := ops.New(s, nil)
	if err != nil {
		return err
	}
	looking := o
	looking.DryRun = true
	report, err := desk.Prune(ctx, filter, looking)
	if err != nil {
		return err
	}
	if !o.DryRun && report.Letters > 0 {
		sample, err := sampleToPrune(ctx, s, filter)
		if err != nil {
			return err
		}
		if err := p.confirm(sure, fmt.Sprintf("remove %s for good", count(report.Letters, "letter")), sample); err != nil {
			return err
		}
		if !sure.yes {
			o.Expect = report.Letters // the yes was to these
		}
		if report, err = desk.Prune(ctx, filter, o); err != nil {
			return err
		}
	}
	view := prunedView{report.Letters, report.Removed, report.Kept, o.DryRun}
	switch {
	case p.json:
		return p.printer.object(view)
	case o.DryRun:
		p.printer.line(fmt.Sprintf("Would remove %s.", count(report.Letters, "letter")))
	default:
		p.printer.line(fmt.Sprintf("Removed %s, kept %d that are still needed.", count(report.Removed, "letter"), report.Kept))
	}
	return nil
}

// sampleToPrune are lines of the first letters that a filter matches.
func sampleToPrune(ctx context.Context, s store, filter pawl.LetterFilter) ([]string, error) {
	filter.OldestFirst = true
	page, err := s.Letters(ctx, filter, pawl.Page{Limit: sampleSize})
	lines := make([]string, len(page.Letters))
	for i, l := range page.Letters {
		lines[i] = fmt.Sprintf("%s  %s  %s  died %s", l.ID, l.Status, l.Kind, moment(l.DeadAt))
	}
	return lines, err
}
