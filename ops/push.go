package ops

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawljobs/pawl"
)

// carryOut plans and moves the letters, a batch at a time, and hands over those jobs that go elsewhere.
func (d *Desk) carryOut(ctx context.Context, action pawl.Action, ids []pawl.ID, draw func(pawl.ID) (plan, error)) Results {
	out := make(Results, len(ids))
	for first := 0; first < len(ids); {
		var plans []plan
		var places []int
		first, plans, places = drawBatch(out, first, action, ids, draw)
		for i, err := range d.move(ctx, plans) {
			result := &out[places[i]]
			if err == nil {
				result.Job, err = d.handOver(ctx, plans[i])
			}
			if err != nil {
				result.Err = fmt.Errorf("%s: %w", action, err)
			}
		}
	}
	return out
}

// drawBatch plans the letters from first on until there are enough for a batch, and returns where the next one begins.
// Plan i is of the letter at places[i].
func drawBatch(out Results, first int, action pawl.Action, ids []pawl.ID, draw func(pawl.ID) (plan, error)) (next int, plans []plan, places []int) {
	bytes := 0
	for next = first; next < len(ids) && len(plans) < batch && bytes < batchBytes; next++ {
		out[next].Letter = ids[next]
		p, err := draw(ids[next])
		if err != nil {
			out[next].Err = fmt.Errorf("%s: %w", action, err)
			continue
		}
		p.letter.Envelope, p.letter.Detail, p.letter.History = nil, "", nil // the job has what is needed
		plans, places = append(plans, p), append(places, next)
		bytes += len(p.job.Envelope)
	}
	return next, plans, places
}

// move changes the letters; jobs of the letters' own store are stored with it.
func (d *Desk) move(ctx context.Context, plans []plan) []error {
	if len(plans) == 0 {
		return nil
	}
	moves := make([]pawl.Move, len(plans))
	for i := range plans {
		moves[i] = plans[i].toMove()
	}
	errs, err := d.letters.MoveLetters(ctx, moves)
	if err == nil {
		return errs
	}
	errs = make([]error, len(plans))
	for i, p := range plans {
		errs[i] = d.doubtfulMove(ctx, p, err)
	}
	return errs
}

// toMove is the move with the job that it makes.
func (p *plan) toMove() pawl.Move {
	m := p.move
	if p.shared {
		m.Push = &p.job
	} else {
		m.NewJob = p.job.ID
	}
	return m
}

// doubtfulMove looks whether a redrive's move whose outcome was not learned has happened after all: the new job's id, which
// nobody else knows, shows it. A retry has no such sign.
func (d *Desk) doubtfulMove(ctx context.Context, p plan, failure error) error {
	ctx, cancel := afterwards(ctx)
	defer cancel()
	letter, err := d.letters.Letter(ctx, p.letter.ID)
	if err == nil && p.move.Action == pawl.ActionRedrive && letter.NewJobID == p.job.ID {
		return nil
	}
	return fmt.Errorf("move letter %s: %w", p.letter.ID, failure)
}

// handOver stores, or at an inline connection runs, the job of a moved letter, unless the move has done it. It returns the
// job that the letter went on as, with an error too if so.
func (d *Desk) handOver(ctx context.Context, p plan) (pawl.ID, error) {
	if p.shared {
		return p.job.ID, nil
	}
	stored, err := p.to.Enqueue(ctx, []pawl.NewJob{p.job})
	ctx, cancel := afterwards(ctx)
	defer cancel()
	if runsAtOnce(p.to) {
		return d.ran(ctx, p, err)
	}
	switch retried := p.job.ID == p.letter.JobID; {
	case err == nil && len(stored) == 1 && stored[0].Status == pawl.Duplicate:
		return pawl.ID{}, d.takeBack(ctx, p, fmt.Errorf("its unique key is held by job %s: %w", stored[0].ID, pawl.ErrConflict))
	case err == nil && len(stored) == 1 && stored[0].Status == pawl.Repeated && retried:
		return pawl.ID{}, d.takeBack(ctx, p, fmt.Errorf("a job %s is there already: %w", p.job.ID, pawl.ErrConflict))
	case err == nil:
		return p.job.ID, nil
	case errors.Is(err, pawl.ErrInvalid) || errors.Is(err, pawl.ErrUnsupported) || errors.Is(err, pawl.ErrClosed) || errors.Is(err, pawl.ErrSchema):
		return pawl.ID{}, d.takeBack(ctx, p, err)
	}
	return p.job.ID, fmt.Errorf("letter %s went on as job %s, but whether %s has stored it is unknown: %w", p.letter.ID, p.job.ID, p.letter.Connection, err)
}

// ran writes how a job ended that has run within its Enqueue.
func (d *Desk) ran(ctx context.Context, p plan, failure error) (pawl.ID, error) {
	if failure == nil {
		return p.job.ID, d.writeOutcome(ctx, p, pawl.RedriveSucceeded)
	}
	died, err := d.hasSuccessor(ctx, p)
	switch {
	case err != nil:
		return p.job.ID, errors.Join(fmt.Errorf("letter %s ran again as job %s: %w", p.letter.ID, p.job.ID, failure), err)
	case !died:
		return pawl.ID{}, d.takeBack(ctx, p, failure)
	}
	err = d.writeOutcome(ctx, p, pawl.RedriveDiedAgain)
	return p.job.ID, errors.Join(fmt.Errorf("letter %s ran again as job %s: %w", p.letter.ID, p.job.ID, failure), err)
}

// hasSuccessor looks for the letter that the job left when it died again.
func (d *Desk) hasSuccessor(ctx context.Context, p plan) (bool, error) {
	page, err := d.letters.Letters(ctx, pawl.LetterFilter{JobID: p.job.ID}, pawl.Page{})
	if err != nil {
		return false, fmt.Errorf("look for the new letter: %w", err)
	}
	for _, letter := range page.Letters {
		if letter.Previous == p.letter.ID {
			return true, nil
		}
	}
	return false, nil
}

// writeOutcome writes how the job ended, unless its own connection has done so.
func (d *Desk) writeOutcome(ctx context.Context, p plan, outcome pawl.RedriveOutcome) error {
	move := pawl.Move{Letter: p.letter.ID, Action: pawl.ActionOutcome, Outcome: outcome, By: itself("it ran at once")}
	errs, err := d.letters.MoveLetters(ctx, []pawl.Move{move})
	if err == nil {
		err = errs[0]
	}
	if err != nil && !errors.Is(err, pawl.ErrConflict) {
		return fmt.Errorf("write the outcome of job %s to letter %s: %w", p.job.ID, p.letter.ID, err)
	}
	return nil
}

// takeBack opens a letter again whose job came to nothing.
func (d *Desk) takeBack(ctx context.Context, p plan, cause error) error {
	cause = fmt.Errorf("letter %s: %w", p.letter.ID, cause)
	by := itself("taken back: " + firstRunes(pawl.NewEvidence(cause).Message, 500))
	for _, move := range []pawl.Move{
		{Letter: p.letter.ID, Action: pawl.ActionOutcome, Outcome: pawl.RedriveCancelled, By: by},
		{Letter: p.letter.ID, Action: pawl.ActionReopen, By: by},
	} {
		errs, err := d.letters.MoveLetters(ctx, []pawl.Move{move})
		if err == nil {
			err = errs[0]
		}
		if err != nil {
			return errors.Join(cause, fmt.Errorf("open letter %s again: %w", p.letter.ID, err))
		}
	}
	return cause
}

func firstRunes(text string, limit int) string {
	if runes := []rune(text); len(runes) > limit {
		return string(runes[:limit-1]) + "…"
	}
	return text
}
