package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/wire"
	"github.com/pawljobs/pawl/ops"
	"github.com/spf13/cobra"
)

// afterInterrupt is the time in which an operation is paused when its command is interrupted.
const afterInterrupt = 10 * time.Second

func (p *program) opWatch() *cobra.Command {
	return &cobra.Command{
		Use:   "watch ID",
		Short: "Follow an operation until it and its jobs have ended",
		Long: `Follow an operation until it has ended and its jobs too, or it is paused. It is not run by this: that is pawl serve's, or op
resume's. With --json it prints the operation each time that something has changed. Exit status 6 when letters were refused,
jobs died again or the operation was stopped or paused.`,
		Example: "  pawl op watch 01890a5d-ac96-774b-bcce-b302099a8057",
		Args:    needs("the operation's ID", 1, 1),
		RunE: p.onStore(existing, func(ctx context.Context, s store, args []string) error {
			id, err := pawl.ParseID(args[0])
			if err != nil {
				return err
			}
			return p.watchOperation(ctx, s, id)
		}),
	}
}

func (p *program) watchOperation(ctx context.Context, s store, id pawl.ID) error {
	show := p.follower()
	defer show.end()
	var last pawl.Operation
	for first := true; ; first = false {
		o, err := s.Operation(ctx, id)
		if err != nil {
			return noOperation("watch", id, err)
		}
		if show.each(o); p.json && (first || !same(o, last)) {
			if err := errors.Join(p.printer.object(wire.OperationOf(o)), p.printer.flush()); err != nil {
				return err
			}
		}
		if last = o; !o.State.Active() && (o.Pending == 0 || o.State == pawl.OperationPaused) {
			show.end()
			return p.verdict(ctx, s, o, o.DiedAgain+o.Cancelled)
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// same tells whether anything but the runner's name has stayed.
func same(a, b pawl.Operation) bool {
	return a.State == b.State && a.Done == b.Done && a.Refused == b.Refused && a.Pending == b.Pending && a.Succeeded == b.Succeeded &&
		a.DiedAgain == b.DiedAgain && a.Cancelled == b.Cancelled
}

func (p *program) opPause() *cobra.Command {
	return p.controlling(pawl.ActionPause, "paused", "Hold operations: the letters that wait are left alone until they are resumed",
		"Hold operations: the letters that wait are left alone until somebody resumes them. Whoever runs one obeys within a second.")
}

func (p *program) opStop() *cobra.Command {
	return p.controlling(pawl.ActionStop, "stopped", "End operations for good: the letters that wait are left alone",
		"End operations for good: the letters that wait are left alone, and can be dealt with by a new one. Whoever runs one obeys within\na second. Jobs that were redriven are not touched.")
}

func (p *program) controlling(action pawl.Action, past, short, long string) *cobra.Command {
	var act acting
	command := &cobra.Command{
		Use: string(action) + " ID…", Short: short, Long: long,
		Example: "  pawl op " + string(action) + " 01890a5d-ac96-774b-bcce-b302099a8057 --reason 'the mail server is down again'",
		Args:    needs("the operation's ID", 1, -1),
	}
	act.add(command)
	command.RunE = p.onStore(existing, func(ctx context.Context, s store, args []string) error {
		ids, err := parseIDs(args)
		if err != nil {
			return err
		}
		by, err := act.actor(p)
		if err != nil {
			return err
		}
		refusals, err := s.ControlOperations(ctx, ids, action, by)
		if err != nil {
			return err
		}
		var all tally
		for i, refusal := range refusals {
			if all.add(refusal); refusal != nil {
				p.refusal(fmt.Errorf("%s: %w", action, refusal))
				continue
			}
			if err := p.reportControl(ctx, s, ids[i], past); err != nil {
				return err
			}
		}
		return all.err()
	})
	return command
}

func (p *program) reportControl(ctx context.Context, s store, id pawl.ID, past string) error {
	if p.json {
		o, err := s.Operation(ctx, id)
		if err != nil {
			return err
		}
		return p.printer.object(wire.OperationOf(o))
	}
	if p.printer.mode == modeTable {
		p.printer.line(id.String(), " is ", past)
		return nil
	}
	p.printer.line(id.String())
	return nil
}

func (p *program) opResume() *cobra.Command {
	var act acting
	var background bool
	command := &cobra.Command{
		Use:   "resume ID",
		Short: "Let a paused operation go on, and run it; or take one up that nobody runs",
		Long: `Let a paused operation go on where it was, and run it here until it has ended. One that goes on already, though nobody runs
it, is taken up; while another runs it, this follows it. An interrupt pauses it again. With --background it is left to pawl
serve, or whoever runs operations.`,
		Example: "  pawl op resume 01890a5d-ac96-774b-bcce-b302099a8057 --reason 'the mail server is back'",
		Args:    needs("the operation's ID", 1, 1),
	}
	act.add(command)
	command.Flags().BoolVar(&background, "background", false, "leave it to a server")
	command.RunE = p.onStore(existing, func(ctx context.Context, s store, args []string) error {
		id, err := pawl.ParseID(args[0])
		if err != nil {
			return err
		}
		by, err := act.actor(p)
		if err != nil {
			return err
		}
		o, err := s.Operation(ctx, id)
		if err != nil {
			return noOperation("resume", id, err)
		}
		d, err := deskOf(s)
		if err != nil {
			return err
		}
		if !o.State.Active() {
			if err := d.ControlOperation(ctx, id, pawl.ActionResume, by); err != nil {
				return err
			}
		}
		if background {
			return p.reportControl(ctx, s, id, "resumed")
		}
		return p.runOperation(ctx, s, d, id, by)
	})
	return command
}

// runOperation runs an operation in the foreground. An interrupt pauses it.
func (p *program) runOperation(ctx context.Context, s store, d desk, id pawl.ID, by pawl.By) error {
	show := p.follower()
	defer show.end()
	o, err := d.RunOperation(ctx, id, ops.RunOptions{Runner: fmt.Sprintf("%s:%d (cli)", machine(), os.Getpid()), Each: show.each})
	show.end()
	switch {
	case err == nil:
		return p.verdict(ctx, s, o, 0)
	case ctx.Err() != nil:
		return p.interrupted(ctx, s, d, id, by)
	}
	return fmt.Errorf("%w; the operation is kept, go on with: %s op resume %s", err, p.invocation(), id)
}

func machine() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return name
}

// interrupted pauses an operation whose command is to end.
func (p *program) interrupted(ctx context.Context, s store, d desk, id pawl.ID, by pawl.By) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), afterInterrupt)
	defer cancel()
	by.Why = "interrupted"
	err := d.ControlOperation(ctx, id, pawl.ActionPause, by)
	if err != nil && !errors.Is(err, pawl.ErrConflict) {
		return fmt.Errorf("interrupted, but the operation could not be paused: %w; it goes on where a server runs: %s op stop %s", err, p.invocation(), id)
	}
	o, err := s.Operation(ctx, id)
	if err != nil {
		return err
	}
	return p.verdict(ctx, s, o, 0)
}

// verdict prints how an operation stands, says what is to be said, and finds the exit status.
func (p *program) verdict(ctx context.Context, s store, o pawl.Operation, failed int) error {
	if err := p.printOperation(o); err != nil {
		return err
	}
	if err := p.someRefused(ctx, s, o); err != nil {
		return err
	}
	p.printer.say("%d of %s %s, %d refused.", o.Done, count(o.Letters, "letter"), pastOf(o.Action), o.Refused)
	switch {
	case o.State == pawl.OperationStopped:
		p.printer.say("Stopped: %s. The other %d were left alone.", o.Reason, o.Waiting())
	case o.State == pawl.OperationPaused:
		p.printer.say("Paused: %s. Go on with: %s op resume %s", o.Reason, p.invocation(), o.ID)
	case o.Refused == o.Letters:
		return withStatus(exitPrecondition, errReported)
	case o.Refused+failed == 0:
		if o.Pending > 0 {
			p.printer.say("What becomes of them: %s op watch %s", p.invocation(), o.ID)
		}
		return nil
	}
	return withStatus(exitPartly, errReported)
}

func pastOf(action pawl.Action) string {
	return map[pawl.Action]string{
		pawl.ActionRedrive: "redriven", pawl.ActionResolve: "resolved", pawl.ActionDiscard: "discarded", pawl.ActionReopen: "reopened",
	}[action]
}

func (p *program) printOperation(o pawl.Operation) error {
	switch p.printer.mode {
	case modeJSON:
		return p.printer.object(wire.OperationOf(o))
	case modeTable:
		p.showOperation(o)
		return nil
	}
	_, err := printList(p.printer, operationListing, each([]pawl.Operation{o}))
	return err
}

// follower shows on standard error how an operation comes on: on a terminal in one line that changes, else a line now and
// then.
type follower struct {
	p     *program
	live  bool
	shown bool // a line that is to be wiped
	said  time.Time
	last  string
}

const sayProgress = 10 * time.Second

func (p *program) follower() *follower {
	return &follower{p: p, live: p.tty(p.talk) && p.env("TERM") != "dumb", said: time.Now()}
}

func (f *follower) each(o pawl.Operation) {
	text := string(o.State) + ": " + progress(o)
	if o.Action == pawl.ActionRedrive {
		text += "; " + jobsOf(o)
	}
	switch {
	case text == f.last:
	case f.live:
		fmt.Fprintf(f.p.talk, "\r%s%s", text, strings.Repeat(" ", max(0, len(f.last)-len(text))))
		f.last, f.shown = text, true
	case time.Since(f.said) >= sayProgress:
		f.p.printer.say("%s", text)
		f.last, f.said = text, time.Now()
	}
}

// end leaves the line.
func (f *follower) end() {
	if f.shown {
		fmt.Fprintf(f.p.talk, "\r%s\r", strings.Repeat(" ", len(f.last)))
		f.shown = false
	}
}
