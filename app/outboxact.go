package app

import (
	"context"
	"errors"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/spf13/cobra"
)

func (p *program) outboxRedrive() *cobra.Command {
	failing := false
	command := &cobra.Command{
		Use:   "redrive ID…|--failing",
		Short: "Have failing messages tried again at once, as if no claim of them had failed",
		Long: `Have failing messages tried again at once, as if no claim of them had failed: their cause is mended. What has become a
dead letter already is redriven by dead redrive.

Exit status: 3 when the outbox has none of them, 6 when it has not all.`,
		Example: "  pawl outbox redrive 01a22e19-b3ef-7343-9471-3b06516c9266\n  pawl outbox redrive --failing",
	}
	command.Flags().BoolVar(&failing, "failing", false, "all that fail")
	command.Args = func(c *cobra.Command, args []string) error {
		if failing {
			return needs("", 0, 0)(c, args)
		}
		return needs("the message's ID, or --failing,", 1, -1)(c, args)
	}
	return p.onOutbox(command, func(ctx context.Context, box *operatedBox, args []string) error {
		if failing {
			return p.redriveFailing(ctx, box)
		}
		ids, err := parseIDs(args)
		if err != nil {
			return err
		}
		results, err := box.Retry(ctx, ids)
		if err != nil {
			return err
		}
		return p.reportRetried(ids, results)
	})
}

// redriveFailing goes on where the last page ended, so that what fails again meanwhile is not met twice.
func (p *program) redriveFailing(ctx context.Context, box *operatedBox) error {
	all := 0
	for page := (pawl.Page{Limit: maxPage}); ; {
		found, next, err := box.Messages(ctx, pawl.OutboxFilter{Failing: true}, page)
		if err != nil {
			return err
		}
		ids := make([]pawl.ID, len(found))
		for i, m := range found {
			ids[i] = m.ID
		}
		results, err := box.Retry(ctx, ids)
		if err != nil {
			return err
		}
		for _, err := range results {
			if err == nil {
				all++
			}
		}
		if page.After = next; next == "" {
			p.printer.say("%s will be tried again.", count(all, "message"))
			return nil
		}
	}
}

func (p *program) reportRetried(ids []pawl.ID, results []error) error {
	missing := 0
	for i, id := range ids {
		if results[i] != nil {
			missing++
			p.printer.say("%s", p.gone(id, results[i]))
			continue
		}
		p.printer.say("Message %s will be tried again.", id)
	}
	switch {
	case missing == 0:
		return nil
	case missing == len(ids):
		return withStatus(exitNotFound, errReported)
	}
	return withStatus(exitPartly, errReported)
}

// outboxSwitch makes pause and resume.
func (p *program) outboxSwitch(off bool) *cobra.Command {
	act := acting{must: off}
	command := &cobra.Command{
		Use: "resume", Short: "Let dispatchers go on",
		Args: needs("", 0, 0),
	}
	if off {
		command.Use, command.Short = "pause", "Stop all dispatchers of an outbox; messages are written and gather"
		command.Long = `Stop all dispatchers of an outbox, of every host, with their next claim: messages are written and gather. It survives
restarts. Who paused, and why, is kept in the business database, which is where it is; the store's audit trail has
nothing of it.`
		command.Example = "  pawl outbox pause --reason 'the store moves'"
		act.add(command)
	}
	return p.onOutbox(command, func(ctx context.Context, box *operatedBox, _ []string) error {
		if !off {
			if err := box.SwitchOn(ctx); err != nil {
				return err
			}
			p.printer.say("Outbox %s is dispatched.", box.name)
			return nil
		}
		by, err := act.actor(p)
		if err != nil {
			return err
		}
		if err := box.SwitchOff(ctx, by); err != nil {
			return err
		}
		p.printer.say("Outbox %s is paused: its messages wait.", box.name)
		return nil
	})
}

func (p *program) outboxPurge() *cobra.Command {
	var older time.Duration
	command := &cobra.Command{
		Use:     "purge --older DURATION",
		Short:   "Remove rows of dispatched and dead messages that were kept to be looked at",
		Long:    "Remove rows of dispatched and dead messages that were kept to be looked at (outboxes.NAME.keep), a thousand at a time.\nNo job and no dead letter is touched, and nothing that waits.",
		Example: "  pawl outbox purge --older 7d",
		Args:    needs("", 0, 0),
	}
	addFlag(command.Flags(), &older, "older", "DURATION", "that ended longer ago (has to be given)", parsePeriod)
	return p.onOutbox(command, func(ctx context.Context, box *operatedBox, _ []string) error {
		if older == 0 {
			return withStatus(exitUsage, errors.New("say how old they must be: --older 7d"))
		}
		n, err := box.Purge(ctx, older)
		if err == nil || n > 0 {
			p.printer.say("%s removed.", count(n, "row"))
		}
		return err
	})
}
