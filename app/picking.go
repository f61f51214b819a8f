package app

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/wire"
	"github.com/pawljobs/pawl/ops"
	"github.com/spf13/cobra"
)

// picking lets a command act on all letters that a filter matches, by an operation.
type picking struct {
	letterFiltering
	options    func() pawl.OperationOptions // beside those below
	most       int
	expect     int
	background bool
	status     []pawl.Status // of the letters; the filter's own flags do not say
	none       string        // "no open failure matches"
}

// pickFlags are those of which one has to be given, so that no command means everything by mistake.
var pickFlags = []string{"group", "kind", "queue", "class", "error", "tag", "correlation-id", "batch", "since", "until"}

func (k *picking) add(command *cobra.Command) {
	k.addOpen(command)
	flags := command.Flags()
	flags.IntVar(&k.most, "cap", 0, "of letters picked by a filter: at most `N`, the oldest first (0: all)")
	flags.IntVar(&k.expect, "expect", 0, "of letters picked by a filter: do nothing unless they are `N`")
	flags.BoolVar(&k.background, "background", false, "of letters picked by a filter: begin, and leave the rest to a server (pawl serve)")
}

// manyFlags mean something for letters that a filter picks only.
var manyFlags = []string{"cap", "expect", "background", "rate", "probe", "probe-wait", "stop-after"}

// named refuses those beside ids: they would do nothing.
func (k *picking) named(command *cobra.Command) error {
	for _, name := range manyFlags {
		if command.Flags().Changed(name) {
			return fmt.Errorf("--%s is for letters that a filter such as --group picks, not for ids", name)
		}
	}
	return nil
}

func (k *picking) asked(command *cobra.Command) bool {
	for _, name := range pickFlags {
		if command.Flags().Changed(name) {
			return true
		}
	}
	return false
}

// alone refuses ids beside a filter.
func (k *picking) alone(args []string) error {
	if len(args) > 0 {
		return errors.New("give ids, or a filter such as --group, not both")
	}
	return nil
}

// operation is what was asked for.
func (k *picking) operation(ctx context.Context, s store, action pawl.Action, by pawl.By) (o pawl.NewOperation, err error) {
	o = pawl.NewOperation{Action: action, By: by}
	if k.options != nil {
		o.Options = k.options()
	}
	o.Options.Cap, o.Options.Expect = k.most, k.expect
	if o.Filter, err = k.pick(ctx, s); err != nil {
		return o, err
	}
	o.Filter.Status = k.status
	return o, nil
}

// actOnPicked begins an operation on what the filter matches, and runs it.
func (p *program) actOnPicked(ctx context.Context, a letterAct, act acting, sure confirming) (err error) {
	act.must = !sure.dryRun
	by, err := act.actor(p)
	if err != nil {
		return err
	}
	if a.check != nil {
		if err := a.check(make([]pawl.ID, 2)); err != nil { // as of many, however many there are
			return err
		}
	}
	s, err := p.open(ctx, existing)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	d, err := deskOf(s)
	if err != nil {
		return err
	}
	p.confirmable = a.would != nil
	o, err := a.picks.operation(ctx, s, a.action, by)
	if err != nil {
		return err
	}
	matched, err := a.picks.matched(ctx, s, o)
	if err != nil {
		return err
	}
	if sure.dryRun {
		return p.rehearse(ctx, d, a, o, matched)
	}
	if !sure.yes {
		if err := p.confirm(sure, a.deed(matched), samplePicked(ctx, s, o, matched)); err != nil {
			return err
		}
		o.Options.Expect = matched // the yes was to these
	}
	return p.begin(ctx, s, d, a, o)
}

// matched counts what would be frozen now, and refuses what would be refused then.
func (k *picking) matched(ctx context.Context, s store, o pawl.NewOperation) (int, error) {
	if k.expect < 0 || k.most < 0 {
		return 0, &pawl.FieldError{Field: "cap and expect", Value: fmt.Sprint(k.most, " ", k.expect), Rule: "must not be negative"}
	}
	n, err := s.CountLetters(ctx, o.Filter)
	if k.most > 0 {
		n = min(n, k.most)
	}
	switch {
	case err != nil:
		return 0, err
	case n == 0:
		return 0, fmt.Errorf("%s: %w", k.none, pawl.ErrNotFound)
	case k.expect > 0 && n != k.expect:
		return 0, fmt.Errorf("%s match, and %d were expected: %w", count(n, "letter"), k.expect, pawl.ErrConflict)
	}
	return n, nil
}

// rehearse says of each letter what would become of it. It changes nothing.
func (p *program) rehearse(ctx context.Context, d desk, a letterAct, o pawl.NewOperation, matched int) error {
	p.printer.say("%s match; nothing was done.", count(matched, "letter"))
	var all tally
	var output error
	_, err := d.RehearseOperation(ctx, o, func(r ops.Result) {
		if output == nil {
			output = errors.Join(p.reportAct(a, r, true, false, &all), p.printer.flush())
		}
	})
	if err = errors.Join(err, output); err != nil {
		return err
	}
	return all.err()
}

func (p *program) begin(ctx context.Context, s store, d desk, a letterAct, o pawl.NewOperation) error {
	begun, err := d.StartOperation(ctx, o)
	if err != nil {
		return err
	}
	if !a.picks.background {
		if p.printer.mode == modeTable {
			p.printer.say("Operation %s on %s. An interrupt pauses it.", begun.ID, count(begun.Letters, "letter"))
		}
		return p.runOperation(ctx, s, d, begun.ID, o.By)
	}
	switch p.printer.mode {
	case modeJSON:
		err = p.printer.object(wire.OperationOf(begun))
	case modeTable:
		p.printer.line("Operation ", begun.ID.String(), " on ", count(begun.Letters, "letter"), " has begun")
	default:
		p.printer.line(begun.ID.String())
	}
	p.printer.say("It is left to a server (%s serve). Watch it: %s op watch %s", p.title(), p.invocation(), begun.ID)
	return err
}

// samplePicked are the first letters of what is to be acted on.
func samplePicked(ctx context.Context, s store, o pawl.NewOperation, matched int) []string {
	o.Filter.OldestFirst = true
	page, err := s.Letters(ctx, o.Filter, pawl.Page{Limit: sampleSize})
	if err != nil {
		return nil // the question stands without
	}
	var sample []string
	for _, letter := range page.Letters[:min(len(page.Letters), matched)] {
		sample = append(sample, fmt.Sprintf("%s %s %s", letter.ID, letter.Kind, cut(errorLine(letter), 60)))
	}
	if rest := matched - len(sample); rest > 0 {
		sample = append(sample, fmt.Sprintf("… and %d more", rest))
	}
	return sample
}

// parseRate reads how many a second: 5/s, 100/m, 5000/h or 5.
func parseRate(text string) (float64, error) {
	number, unit, _ := strings.Cut(text, "/")
	per, known := map[string]float64{"": 1, "s": 1, "m": 60, "h": 3600}[unit]
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || !known || !(n > 0) || n > 1e6 {
		return 0, fmt.Errorf("%q is no rate such as 5/s, 100/m or 5000/h", text)
	}
	return n / per, nil
}
