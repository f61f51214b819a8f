package app

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/ops"
	"github.com/spf13/cobra"
)

// picking lets a command act on all open failures that a filter matches.
type picking struct {
	letterFiltering
	most, expect int
	would        func(ctx context.Context, desk *ops.Desk, id pawl.ID) error
	does         func(ctx context.Context, desk *ops.Desk, ids []pawl.ID, by pawl.By, each func(ops.Result)) (ops.BulkReport, error)
}

// pickFlags are those of which one has to be given, so that no command means everything by mistake.
var pickFlags = []string{"group", "kind", "queue", "class", "error", "tag", "correlation-id", "since", "until"}

func (k *picking) add(command *cobra.Command) {
	k.addOpen(command)
	command.Flags().IntVar(&k.most, "cap", 0, "of letters picked by a filter: at most `N`, the oldest first (0: all)")
	command.Flags().IntVar(&k.expect, "expect", 0, "of letters picked by a filter: do nothing unless they are `N`")
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

// actOnPicked freezes the set of letters that the filter matches and acts on it.
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
	desk, err := ops.New(s, nil)
	if err != nil {
		return err
	}
	ids, err := a.picks.freeze(ctx, s, desk)
	if err != nil {
		return err
	}
	p.confirmable = a.would != nil
	if sure.dryRun {
		if a.picks.would != nil {
			a.would = a.picks.would
		}
		p.printer.say("%s match; nothing was done.", count(len(ids), "letter"))
		return p.reportActs(ctx, s, a, a.rehearse(ctx, s, desk, ids), true)
	}
	if err := p.confirm(sure, a.deed(len(ids)), sampleLetters(ctx, s, ids)); err != nil {
		return err
	}
	return p.doPicked(ctx, desk, a, ids, by)
}

func (k *picking) freeze(ctx context.Context, s store, desk *ops.Desk) ([]pawl.ID, error) {
	if k.expect < 0 {
		return nil, &pawl.FieldError{Field: "expect", Value: k.expect, Rule: "must not be negative"}
	}
	filter, err := k.pick(ctx, s)
	if err != nil {
		return nil, err
	}
	ids, err := desk.Select(ctx, filter, k.most)
	switch {
	case err != nil:
		return nil, err
	case len(ids) == 0:
		return nil, fmt.Errorf("no open failure matches: %w", pawl.ErrNotFound)
	case k.expect > 0 && len(ids) != k.expect:
		return nil, fmt.Errorf("%s match, and %d were expected: %w", count(len(ids), "letter"), k.expect, pawl.ErrConflict)
	}
	return ids, nil
}

// doPicked tells of each letter as it is done, so that memory does not grow with them.
func (p *program) doPicked(ctx context.Context, desk *ops.Desk, a letterAct, ids []pawl.ID, by pawl.By) error {
	var all tally
	var output error
	each := func(r ops.Result) {
		err := errors.Join(p.reportAct(a, r, false, false, &all), p.printer.flush())
		if output == nil {
			output = err
		}
	}
	if a.picks.does == nil {
		for first := 0; first < len(ids) && output == nil; first += pickedAtOnce {
			for _, r := range a.does(ctx, desk, ids[first:min(first+pickedAtOnce, len(ids))], by) {
				each(r)
			}
		}
		p.printer.say("%d %s, %d refused.", all.all-all.failed, a.past, all.failed)
		return errors.Join(output, all.err())
	}
	report, err := a.picks.does(ctx, desk, ids, by, each)
	p.printer.say("%d of %s %s, %d refused.", report.Redriven, count(report.Letters, "letter"), a.past, report.Refused)
	switch {
	case err != nil:
		return errors.Join(err, output)
	case output != nil:
		return output
	case report.Stopped != "":
		p.printer.say("Stopped: %s. The other %d were left alone.", report.Stopped, report.Letters-report.Redriven-report.Refused)
		return withStatus(exitPartly, errReported)
	}
	if report.Redriven > 0 && p.printer.mode == modeTable {
		p.printer.say("What becomes of them: %s dead list --status redriven,resolved", p.invocation())
	}
	return all.err()
}

const pickedAtOnce = 500

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
