package app

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/wire"
	"github.com/pawljobs/pawl/ops"
	"github.com/spf13/cobra"
)

// manyLetters is how many letters are acted on without a question.
const manyLetters = 100

// letterAct is a command that acts on letters, one after the other.
type letterAct struct {
	action   pawl.Action
	past     string                                              // "redriven"
	destroys bool                                                // asks, however few there are
	check    func(ids []pawl.ID) error                           // of the flags; may be nil
	would    func(ctx context.Context, d desk, id pawl.ID) error // what would be refused; nil: by the status alone
	picks    *picking                                            // the letters may be picked by a filter; may be nil
	does     func(ctx context.Context, d desk, ids []pawl.ID, by pawl.By) ops.Results
	// after goes on with the one letter that it was done to; may be nil.
	after func(ctx context.Context, s store, r ops.Result) error
}

// wire gives the command its flags and its work.
func (a letterAct) wire(p *program, command *cobra.Command) *cobra.Command {
	var act acting
	var sure confirming
	act.add(command)
	command.Flags().BoolVar(&sure.dryRun, "dry-run", false, "only say what would be done")
	command.Flags().BoolVar(&sure.yes, "yes", false, "do not ask")
	if a.picks != nil {
		a.picks.add(command)
	}
	command.Args = func(c *cobra.Command, args []string) error {
		if a.picks != nil && a.picks.asked(c) {
			return a.picks.alone(args)
		}
		if a.picks != nil && len(args) > 0 {
			if err := a.picks.named(c); err != nil {
				return err
			}
		}
		return needs("the letter's ID (or - to read ids from standard input)", 1, -1)(c, args)
	}
	command.RunE = func(c *cobra.Command, args []string) error {
		return p.doing(func(ctx context.Context, args []string) error {
			if a.picks != nil && a.picks.asked(c) {
				return p.actOnPicked(ctx, a, act, sure)
			}
			return p.actOnNamed(ctx, a, args, act, sure)
		})(c, args)
	}
	return command
}

// actOnNamed acts on letters that were named one by one.
func (p *program) actOnNamed(ctx context.Context, a letterAct, args []string, act acting, sure confirming) (err error) {
	ids, err := p.letterIDs(args)
	if err != nil {
		return err
	}
	if a.check != nil {
		if err := a.check(ids); err != nil {
			return err
		}
	}
	by, err := act.actor(p)
	if err != nil {
		return err
	}
	s, err := p.open(ctx, existing)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return p.actOn(ctx, s, a, ids, by, sure)
}

// letterIDs are the ids of the command line, or one a line of standard input.
func (p *program) letterIDs(args []string) ([]pawl.ID, error) {
	if len(args) != 1 || args[0] != "-" {
		return parseIDs(args)
	}
	var lines []string
	scanner := bufio.NewScanner(p.in)
	for scanner.Scan() {
		if line := strings.TrimSpace(scanner.Text()); line != "" {
			lines = append(lines, line)
		}
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("read ids: %w", err)
	}
	if len(lines) == 0 {
		return nil, &pawl.FieldError{Field: "ids", Value: "", Rule: "must be at least one, one a line"}
	}
	return parseIDs(lines)
}

func (p *program) actOn(ctx context.Context, s store, a letterAct, ids []pawl.ID, by pawl.By, sure confirming) error {
	d, err := deskOf(s)
	if err != nil {
		return err
	}
	p.confirmable = a.would != nil
	if sure.dryRun {
		return p.reportActs(ctx, s, a, a.rehearse(ctx, s, d, ids), true)
	}
	if a.destroys || len(ids) > manyLetters {
		if err := p.confirm(sure, a.deed(len(ids)), sampleLetters(ctx, s, ids)); err != nil {
			return err
		}
	}
	results := a.does(ctx, d, ids, by)
	err = p.reportActs(ctx, s, a, results, false)
	if a.after != nil && err == nil && len(results) == 1 {
		err = errors.Join(p.printer.flush(), a.after(ctx, s, results[0]))
	}
	return err
}

func (a letterAct) deed(letters int) string {
	if a.destroys {
		return fmt.Sprintf("remove %s with all evidence for good", count(letters, "dead letter"))
	}
	return fmt.Sprintf("%s %s", a.action, count(letters, "dead letter"))
}

// rehearse says what would be refused. It changes nothing.
func (a letterAct) rehearse(ctx context.Context, s store, d desk, ids []pawl.ID) ops.Results {
	results := make(ops.Results, len(ids))
	for i, id := range ids {
		results[i].Letter = id
		letter, err := s.Letter(ctx, id)
		switch {
		case err != nil:
		case a.would != nil && len(ids) > 1 && oneByOne(letter):
			err = fmt.Errorf("letter %s: jobs of kind %s are run again one by one, not among many: %w", id, letter.Kind, pawl.ErrRedriveRefused)
		case a.would != nil:
			err = a.would(ctx, d, id)
		case !a.destroys:
			err = pawl.Move{Letter: id, Action: a.action}.Allowed(letter.Status, letter.Outcome, letter.NewJobID)
		}
		if err != nil {
			results[i].Err = fmt.Errorf("%s: %w", a.action, err)
		}
	}
	return results
}

func oneByOne(letter pawl.DeadLetter) bool {
	envelope, err := pawl.DecodeEnvelope(letter.Envelope)
	return err == nil && envelope.Policy.Redrive == pawl.RedriveOneByOne
}

func sampleLetters(ctx context.Context, s store, ids []pawl.ID) []string {
	var sample []string
	for _, id := range ids[:min(len(ids), sampleSize)] {
		line := id.String()
		if letter, err := s.Letter(ctx, id); err == nil {
			line = fmt.Sprintf("%s %s %s", id, letter.Kind, cut(errorLine(letter), 60))
		}
		sample = append(sample, line)
	}
	if rest := len(ids) - len(sample); rest > 0 {
		sample = append(sample, fmt.Sprintf("… and %d more", rest))
	}
	return sample
}

// reportActs prints what became of each letter: done ones as data (id and new job), refused ones as talk too. The
// error carries the exit status for all of them.
func (p *program) reportActs(ctx context.Context, s store, a letterAct, results ops.Results, dry bool) error {
	var all tally
	for _, r := range results {
		if err := p.reportAct(a, r, dry, len(results) == 1, &all); err != nil {
			return err
		}
	}
	if all.failed > 0 && len(results) == 1 {
		p.wayOut(ctx, s, results[0])
	}
	return all.err()
}

// reportAct prints what became of one letter, and counts it.
func (p *program) reportAct(a letterAct, r ops.Result, dry, alone bool, all *tally) error {
	all.add(r.Err)
	if r.Err != nil {
		p.refusal(r.Err)
	}
	if p.json {
		view := wire.LetterActed{LetterID: r.Letter, Action: a.action, OK: r.Err == nil, JobID: ref(r.Job), DryRun: dry}
		if r.Err != nil {
			view.Error = text(oneLine(r.Err))
		}
		return p.printer.object(view)
	}
	if r.Err == nil {
		p.printActed(a, r, dry, alone)
	}
	return nil
}

// wayOut says what can be done about a letter that is not in the state for what was asked.
func (p *program) wayOut(ctx context.Context, s store, r ops.Result) {
	if errors.Is(r.Err, pawl.ErrNotFound) {
		if other := p.namesake(ctx, s, r.Letter); other != "" {
			p.printer.say("%s", capitalized(other))
		}
		return
	}
	if !errors.Is(r.Err, pawl.ErrConflict) && !errors.Is(r.Err, pawl.ErrAlreadyRedriven) {
		return
	}
	letter, err := s.Letter(ctx, r.Letter)
	if err != nil || letter.Status == pawl.StatusDead {
		return // the error has said it
	}
	for _, line := range p.nextSteps(letter) {
		p.printer.say("%s", line)
	}
}

func (p *program) printActed(a letterAct, r ops.Result, dry, alone bool) {
	words := []string{r.Letter.String()}
	switch {
	case p.printer.mode == modeTabs || p.printer.mode == modePlain:
		if !r.Job.IsZero() {
			words = append(words, r.Job.String())
		}
		p.printer.line(strings.Join(words, "\t"))
	case dry:
		p.printer.line(r.Letter.String(), " would be ", a.past)
	case r.Job.IsZero():
		p.printer.line(r.Letter.String(), " is ", a.past)
	default:
		p.printer.line(r.Letter.String(), " is ", a.past, " as job ", r.Job.String())
		if alone {
			p.printer.say("What becomes of it: %s job show %s", p.invocation(), r.Job)
		}
	}
}

// tally counts what went well of many, and finds the exit status for all of them.
type tally struct{ all, failed, code int }

func (t *tally) add(err error) {
	t.all++
	if err == nil {
		return
	}
	code := exitStatus(err)
	if t.failed++; t.failed > 1 && code != t.code {
		code = exitError
	}
	t.code = code
}

// err is nil where all went well, and reported otherwise: partly failed where some did; else with the one status that all
// failures share, or 1.
func (t *tally) err() error {
	switch {
	case t.failed == 0:
		return nil
	case t.failed < t.all:
		return withStatus(exitPartly, errReported)
	}
	return withStatus(t.code, errReported)
}
