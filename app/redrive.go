package app

import (
	"context"
	"encoding/json"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/ops"
	"github.com/spf13/cobra"
)

const idsHelp = `

Several ids are acted on one after the other; one that is refused does not stop the others (exit status 6). Over 100 ask
first. The ids can come from standard input:

  pawl dead list --kind email.welcome.v1 --json | jq -r .id | pawl dead `

// redriving are the flags of a redrive.
type redriving struct {
	args       string
	confirm    bool
	note       string
	retryFor   time.Duration
	retryUntil time.Time
	edited     json.RawMessage // the args, read; nil: as they were
	watch      watching
	many       pawl.OperationOptions // how carefully letters that were picked by a filter are redriven
}

func (p *program) deadRedrive() *cobra.Command {
	var r redriving
	command := &cobra.Command{
		Use:   "redrive ID… | --group GROUP",
		Short: "Run a dead job again as a new job, or all that are alike",
		Long: `Run a dead job again as a new job, with the policy it had and a fresh budget of tries. The letter stays, linked to the
new job; when that ends, its outcome is written to the letter: resolved if it succeeded.

A job whose outcome is unknown (it may run once only, and its end was not seen) is run again only with --confirm: check
first whether its effect has happened. So is one whose redrive has succeeded and whose letter was opened again.

A letter is redriven once. If the new job dies, redrive the letter of that death; if it was removed before it ended,
reopen this one first.

With --watch the command waits for the end of the new job: status 0 when it has succeeded, 6 when it has died again or was
removed, 1 when it has not ended within --wait.` +
			idsHelp + "redrive -" + `

Or all open failures that a filter matches, the oldest first: --group, --kind, --error and so on. That is an operation (see
op): its set is frozen in the store when it begins, it goes on where it was whatever is killed, and an interrupt pauses it.
It asks first, with the count and a sample; --dry-run shows the set, --expect N does nothing if it has changed by then, --cap
N takes a part. With --probe one is run first, and the others only when it has succeeded. --rate keeps a downstream that is
just back from being run over, and leaves time to see that it is not: when the first 10 (--stop-after) have all died again as
they had before, the rest is left alone. --background leaves it to a server.`,
		Example: `  pawl dead redrive 01890a5d-ac96-874b-bcce-b302099a8057 --watch
  pawl dead redrive 01890a5d-ac96-874b-bcce-b302099a8057 --args @mended.json --reason 'typo in the address'
  pawl dead redrive 01890a5d-ac96-874b-bcce-b302099a8057 --confirm --reason 'bank shows no credit'
  pawl dead redrive --group 1-8e2ce3c24f39a00c832e --probe --rate 5/s --reason 'mail server is back'`,
	}
	flags := command.Flags()
	flags.StringVar(&r.args, "args", "", "run it with these args: `JSON` or @FILE, or - for standard input; the letter keeps the old ones")
	flags.BoolVar(&r.confirm, "confirm", false, "it was checked that the effect has not happened, or is wanted once more")
	flags.StringVar(&r.note, "note", "", "a note on the letter")
	addFlag(flags, &r.retryFor, "retry-for", "DURATION", "start the new job at most this long from now", parseSpan)
	addFlag(flags, &r.retryUntil, "retry-until", "TIME", "start the new job until then only", parseTime)
	exclusive(command, "retry-for", "retry-until")
	addFlag(flags, &r.many.Rate, "rate", "N/s", "of letters picked by a filter: redrive so many a second (5/s, 100/m; default as many as the store takes)", parseRate)
	flags.BoolVar(&r.many.Probe, "probe", false, "of letters picked by a filter: redrive one first, and the others only when it has succeeded")
	addFlag(flags, &r.many.ProbeWait, "probe-wait", "DURATION", "wait so long for the probe's end (default 10m)", parsePeriod)
	flags.IntVar(&r.many.StopAfter, "stop-after", 10, "of letters picked by a filter: stop when the first `N` have died again as they had before; 0 never")
	flags.BoolVar(&r.watch.on, "watch", false, "of one letter: wait until the new job has ended, and tell of its attempts")
	r.watch.wait = 10 * time.Minute
	addFlag(flags, &r.watch.wait, "wait", "DURATION", "with --watch: how long at most (default 10m)", parsePeriod)
	within(command, "wait", "watch")
	within(command, "probe-wait", "probe")
	act := letterAct{action: pawl.ActionRedrive, past: "redriven", picks: picksOpen(r.operationOptions)}
	act.after = func(ctx context.Context, s store, result ops.Result) error {
		if !r.watch.on {
			return nil
		}
		return r.watch.follow(ctx, p, s, result)
	}
	act.check = func(ids []pawl.ID) error { return r.check(p, ids, command.Flags().Changed) }
	act.would = func(ctx context.Context, d desk, id pawl.ID) error {
		return d.CheckRedrive(ctx, id, r.options(pawl.By{}))
	}
	act.does = func(ctx context.Context, d desk, ids []pawl.ID, by pawl.By) ops.Results {
		if len(ids) > 1 {
			return d.RedriveMany(ctx, ids, r.options(by))
		}
		job, err := d.Redrive(ctx, ids[0], r.options(by))
		return ops.Results{{Letter: ids[0], Job: job, Err: err}}
	}
	return act.wire(p, command)
}

// picksOpen picks open failures by a filter.
func picksOpen(options func() pawl.OperationOptions) *picking {
	return &picking{options: options, status: openOnly().Status, none: "no open failure matches"}
}

// check looks at the flags and reads the args.
func (r *redriving) check(p *program, ids []pawl.ID, changed func(flag string) bool) (err error) {
	switch {
	case changed("retry-for") && r.retryFor <= 0:
		return &pawl.FieldError{Field: "retry for", Value: r.retryFor, Rule: "must be greater than 0"}
	case r.watch.on && len(ids) > 1:
		return &pawl.FieldError{Field: "watch", Value: r.watch.on, Rule: "must be given for one letter only; --probe watches the first of many"}
	case !changed("args"):
		return nil
	case len(ids) > 1:
		return &pawl.FieldError{Field: "args", Value: r.args, Rule: "must be given for one letter only"}
	}
	r.edited, err = p.readArgs(r.args)
	return err
}

// operationOptions are those of a redrive of many.
func (r *redriving) operationOptions() pawl.OperationOptions {
	o := r.many
	o.Note, o.RetryFor, o.RetryUntil, o.Confirmed = r.note, r.retryFor, r.retryUntil, r.confirm
	if o.StopAfter == 0 {
		o.StopAfter = -1
	}
	return o
}

func (r *redriving) options(by pawl.By) ops.RedriveOptions {
	return ops.RedriveOptions{
		By: by, Note: r.note, Args: r.edited, RetryUntil: r.retryUntil, RetryFor: r.retryFor, Confirmed: r.confirm,
	}
}

func (p *program) deadRetry() *cobra.Command {
	var o ops.RetryOptions
	command := &cobra.Command{
		Use:   "retry ID…",
		Short: "Put a dead job back under its own id",
		Long: `Put a dead job back under its own id, on its own queue, as it was, ready at once, its attempts counted from the start. In
most cases redrive is the better choice: a new job that is linked with the letter.` + idsHelp + "retry -",
	}
	command.Flags().BoolVar(&o.Confirmed, "confirm", false, "it was checked that the effect has not happened, or is wanted once more")
	command.Flags().StringVar(&o.Note, "note", "", "a note on the letter")
	act := letterAct{action: pawl.ActionRetry, past: "retried"}
	act.would = func(ctx context.Context, d desk, id pawl.ID) error { return d.CheckRetry(ctx, id, o) }
	act.does = func(ctx context.Context, d desk, ids []pawl.ID, by pawl.By) ops.Results {
		o.By = by
		if len(ids) > 1 {
			return d.RetryMany(ctx, ids, o)
		}
		job, err := d.Retry(ctx, ids[0], o)
		return ops.Results{{Letter: ids[0], Job: job, Err: err}}
	}
	return act.wire(p, command)
}

func (p *program) deadResolve() *cobra.Command {
	return p.closing(pawl.ActionResolve, "resolved", "Close a letter: it was dealt with in another way",
		"Close a letter: it was dealt with in another way. It can be reopened.", "what was done")
}

func (p *program) deadDiscard() *cobra.Command {
	return p.closing(pawl.ActionDiscard, "discarded", "Close a letter: it is not worth dealing with",
		"Close a letter: it is not worth dealing with. Its evidence stays, and it can be reopened.", "why not")
}

func (p *program) deadReopen() *cobra.Command {
	return p.closing(pawl.ActionReopen, "reopened", "Make a closed letter an open failure again",
		"Make a letter that was resolved or discarded, or whose redrive was cancelled, an open failure again.", "why")
}

func (p *program) deadNote() *cobra.Command {
	var note string
	command := &cobra.Command{
		Use:     "note ID… --note TEXT",
		Short:   "Write a note on a letter, and change nothing else",
		Long:    "Write a note on a letter, whatever its status, and change nothing else. It replaces the one that was there." + idsHelp + "note - --note TEXT",
		Example: "  pawl dead note 01890a5d-ac96-874b-bcce-b302099a8057 --note 'asked the bank, ticket 4711'",
	}
	command.Flags().StringVar(&note, "note", "", "the `TEXT`")
	act := letterAct{action: pawl.ActionNote, past: "noted"}
	act.check = func([]pawl.ID) error {
		if note == "" {
			return &pawl.FieldError{Field: "note", Value: note, Rule: "must not be empty: --note TEXT"}
		}
		return nil
	}
	act.does = func(ctx context.Context, d desk, ids []pawl.ID, by pawl.By) ops.Results {
		return d.NoteMany(ctx, ids, by, note)
	}
	return act.wire(p, command)
}

// closing makes a command that changes a letter's status and nothing else.
func (p *program) closing(action pawl.Action, past, short, long, noteHelp string) *cobra.Command {
	var note string
	var rate float64
	command := &cobra.Command{
		Use:     string(action) + " ID… | --group GROUP",
		Short:   short,
		Long:    long + idsHelp + string(action) + " -",
		Example: "  pawl dead " + string(action) + " 01890a5d-ac96-874b-bcce-b302099a8057 --note '" + noteHelp + "'",
	}
	command.Flags().StringVar(&note, "note", "", noteHelp+": a note on the letter")
	addFlag(command.Flags(), &rate, "rate", "N/s", "of letters picked by a filter: so many a second (5/s, 100/m; default as many as the store takes)", parseRate)
	act := letterAct{action: action, past: past}
	act.picks = picksOpen(func() pawl.OperationOptions { return pawl.OperationOptions{Note: note, Rate: rate} })
	if action == pawl.ActionReopen {
		act.picks.status, act.picks.none = []pawl.Status{pawl.StatusResolved, pawl.StatusDiscarded}, "no closed letter matches"
	}
	act.does = func(ctx context.Context, d desk, ids []pawl.ID, by pawl.By) ops.Results {
		switch action {
		case pawl.ActionResolve:
			return d.ResolveMany(ctx, ids, by, note)
		case pawl.ActionDiscard:
			return d.DiscardMany(ctx, ids, by, note)
		}
		return d.ReopenMany(ctx, ids, by, note)
	}
	return act.wire(p, command)
}

func (p *program) deadForget() *cobra.Command {
	command := &cobra.Command{
		Use:   "forget ID…",
		Short: "Remove a letter and its evidence for good",
		Long: `Remove a letter and its evidence for good. To close one and keep the evidence, resolve or discard it. That it was
removed, and by whom, stays in the audit trail.` + idsHelp + "forget - --yes",
	}
	act := letterAct{action: pawl.ActionForget, past: "forgotten", destroys: true}
	act.does = func(ctx context.Context, d desk, ids []pawl.ID, by pawl.By) ops.Results {
		return d.ForgetMany(ctx, ids, by)
	}
	return act.wire(p, command)
}
