package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/wire"
	"github.com/pawljobs/pawl/ops"
)

// watching waits for what becomes of one letter's redrive.
type watching struct {
	on   bool
	wait time.Duration
}

// follow tells of the new job's attempts as they end, until the letter has an outcome.
func (w *watching) follow(ctx context.Context, p *program, s store, r ops.Result) error {
	told, said := 0, ""
	for began := time.Now(); ; {
		letter, err := s.Letter(ctx, r.Letter)
		if err != nil {
			return fmt.Errorf("watch job %s: %w", r.Job, err)
		}
		job, err := s.Job(ctx, r.Job)
		if err != nil && !errors.Is(err, pawl.ErrNotFound) { // that of an ended job need not be kept
			return fmt.Errorf("watch job %s: %w", r.Job, err)
		}
		for ; told < len(job.History); told++ {
			p.printer.say("  %s", attemptLine(job.History[told]))
		}
		if letter.Outcome != pawl.RedrivePending {
			return p.watched(letter, r, job.Attempt)
		}
		state, err := whereIs(ctx, s, job)
		switch {
		case err != nil:
			return err
		case time.Since(began) >= w.wait:
			return fmt.Errorf("job %s has not ended within %s: it is %s", r.Job, age(w.wait), state)
		case state != said:
			p.printer.say("  it is %s", state)
			said = state
		}
		if err := pause(ctx, lookAgain); err != nil {
			return err
		}
	}
}

// attemptLine is what an attempt that failed has ended with.
func attemptLine(a pawl.AttemptRecord) string {
	line := fmt.Sprintf("attempt %d %s", a.Attempt, a.Ending)
	if !endUnseen(a) {
		line += " after " + took(a.Duration)
	}
	if a.Message != "" {
		line += ": " + cut(a.Message, 120)
	}
	return line
}

// whereIs says where a job is, and why it does not move.
func whereIs(ctx context.Context, s store, job pawl.JobView) (string, error) {
	state := stateText(job)
	switch job.State {
	case pawl.JobScheduled:
		state = "to run at " + moment(job.RunAt)
	case pawl.JobReserved:
		state = fmt.Sprintf("running on %s, attempt %d", job.Host, job.Attempt)
	}
	_, why, err := heldUp(ctx, s, job)
	if why != "" {
		state += ": " + why
	}
	return state, err
}

// watched tells the outcome: status 0 where it has succeeded, 6 where it has died again.
func (p *program) watched(letter pawl.DeadLetter, r ops.Result, attempts int) error {
	if p.json {
		err := p.printer.object(wire.Redriven{LetterID: r.Letter, JobID: r.Job, Outcome: string(letter.Outcome), Attempts: attempts, NextLetterID: ref(letter.NextLetter)})
		if err != nil {
			return err
		}
	}
	switch letter.Outcome {
	case pawl.RedriveSucceeded:
		p.printer.say("It has succeeded: letter %s is resolved.", r.Letter)
		return nil
	case pawl.RedriveDiedAgain:
		p.printer.say("It has died again, after %s.", count(attempts, "attempt"))
		p.printer.say("%s", step("why:", "%s dead show %s", p.invocation(), letter.NextLetter))
	default:
		p.printer.say("It was removed before it ended.")
		p.printer.say("%s", step("open it again:", "%s dead reopen %s", p.invocation(), r.Letter))
	}
	return withStatus(exitPartly, errReported)
}
