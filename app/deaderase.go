package app

import (
	"context"
	"fmt"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/wire"
	"github.com/spf13/cobra"
)

func (p *program) deadErase() *cobra.Command {
	var act acting
	var sure confirming
	var e pawl.Erase
	command := &cobra.Command{
		Use:   "erase [ID...]",
		Short: "Remove the args of a person's jobs from jobs, history and letters",
		Long: `Remove the args of jobs from history and letters, and keep the rest: that there was such a job, what became of it and when.
What was erased cannot be run again and cannot be brought back.

Jobs are picked by what they carry from their enqueue to their letter: ids of jobs or letters, --correlation-id, --tag, --kind and
--args, a part of their args. All that is given must fit. --texts erases messages, details, notes and tags too, which may quote
the person.

Jobs that have not ended are left as they are and counted, unless --include-waiting removes them, since they could not run without
their args; those that run are asked to stop and have to be erased once they have.

The audit trail says that args were erased, by whom and how many, and not which text or tag was looked for.`,
		Example: "  pawl dead erase --tag customer:4711 --dry-run\n  pawl dead erase --tag customer:4711 --texts --reason 'request 17'\n" +
			"  pawl dead erase 01890a5d-ac96-774b-bcce-b302099a8057 --reason 'request 17'",
	}
	flags := command.Flags()
	flags.StringVar(&e.CorrelationID, "correlation-id", "", "part of this request or process")
	flags.StringVar(&e.Tag, "tag", "", "with this tag")
	flags.StringVar(&e.Kind, "kind", "", "of this kind")
	flags.StringVar(&e.Text, "args", "", "with this `TEXT` in their args")
	flags.BoolVar(&e.Texts, "texts", false, "erase messages, details, notes and tags too")
	flags.BoolVar(&e.Unfinished, "include-waiting", false, "remove jobs that have not ended")
	flags.IntVar(&e.Expect, "expect", 0, "do nothing unless there are `N`")
	flags.BoolVar(&sure.dryRun, "dry-run", false, "only say what it would be")
	flags.BoolVar(&sure.yes, "yes", false, "do not ask")
	act.add(command)
	command.RunE = p.onStore(existing, func(ctx context.Context, s store, args []string) (err error) {
		if len(args) > 0 {
			if e.IDs, err = p.letterIDs(args); err != nil {
				return err
			}
		}
		act.must = !sure.dryRun
		if e.By, err = act.actor(p); err != nil {
			return err
		}
		return p.eraseArgs(ctx, s, e, sure)
	})
	return command
}

// erasedView is what an erase prints.
type erasedView struct {
	wire.Erased
	DryRun bool `json:"dry_run"`
}

// ofBoth is what is erased: jobs, letters or both.
func ofBoth(n int) string {
	if n == 1 {
		return "1 job or letter"
	}
	return fmt.Sprintf("%d jobs and letters", n)
}

func (p *program) eraseArgs(ctx context.Context, s store, e pawl.Erase, sure confirming) error {
	looking := e
	looking.DryRun = true
	found, err := s.EraseArgs(ctx, looking)
	if err != nil {
		return err
	}
	if !sure.dryRun && found.All() > 0 {
		sample := make([]string, 0, sampleSize)
		for _, item := range found.Sample[:min(sampleSize, len(found.Sample))] {
			sample = append(sample, fmt.Sprintf("%s %s  %s", item.What, item.ID, item.Kind))
		}
		if err := p.confirm(sure, fmt.Sprintf("erase the args of %s for good", ofBoth(found.All())), sample); err != nil {
			return err
		}
		if !sure.yes {
			e.Expect = found.All() // the yes was to these
		}
		if found, err = s.EraseArgs(ctx, e); err != nil {
			return err
		}
	}
	if p.json {
		return p.printer.object(erasedView{wire.ErasedOf(found), sure.dryRun})
	}
	verb := "Erased"
	if sure.dryRun {
		verb = "Would erase"
	}
	p.printer.line(fmt.Sprintf("%s: letters %d, finished jobs %d, removed jobs %d; asked to stop %d, left unfinished %d, erased before %d.",
		verb, found.Letters, found.History, found.Removed, found.Stopping, found.Left, found.Before))
	if found.Left > 0 {
		p.printer.say("Jobs that have not ended keep their args: erase them when they have, or with --include-waiting.")
	}
	if found.Stopping > 0 {
		p.printer.say("Jobs that run were asked to stop: do this again when they have.")
	}
	if found.Residue != "" {
		p.printer.say("Old bytes may still lie in %s.", found.Residue)
	}
	return nil
}
