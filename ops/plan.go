package ops

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

// RedriveOptions say who redrives, and what is to be different this time.
type RedriveOptions struct {
	By   pawl.By
	Note string // replaces the letter's note unless empty
	// Args, unless nil, are the new job's, checked like any args. The letter keeps the old ones. For one letter only.
	Args json.RawMessage
	// RetryUntil, or RetryFor counted from now, is the new job's deadline. Default: a job that had a RetryFor has it anew;
	// an absolute deadline that has passed has to be restated.
	RetryUntil time.Time
	RetryFor   time.Duration
	// Confirmed says that the effect of a job whose outcome is unknown was checked, and has not happened; or that a job
	// whose redrive succeeded, and whose letter was opened again, is to be run once more.
	Confirmed bool
}

// RetryOptions say who retries.
type RetryOptions struct {
	By        pawl.By
	Note      string // replaces the letter's note unless empty
	Confirmed bool   // as in RedriveOptions
}

// plan is one letter's way back, checked as far as it can be before anything is changed.
type plan struct {
	letter pawl.DeadLetter
	move   pawl.Move // its Push or NewJob still to be set
	job    pawl.NewJob
	to     pawl.Enqueuer
	shared bool // the job goes into the letters' own store
}

// planRedrive makes the new job of a letter.
func (d *Desk) planRedrive(ctx context.Context, id pawl.ID, o RedriveOptions, many bool) (plan, error) {
	letter, err := d.letters.Letter(ctx, id)
	if err != nil {
		return plan{}, err
	}
	return d.planRedriveOf(letter, o, many)
}

// planRedriveOf makes the new job. Its envelope is the letter's, with a new id and a new origin.
func (d *Desk) planRedriveOf(letter pawl.DeadLetter, o RedriveOptions, many bool) (plan, error) {
	p, envelope, err := d.begin(letter, pawl.ActionRedrive, o.Confirmed, many)
	if err != nil {
		return plan{}, err
	}
	id := letter.ID
	p.move.By, p.move.Note = o.By, o.Note
	if o.Args != nil {
		p.move.By.Why = edited(p.move.By.Why, envelope.Args, o.Args)
		envelope.Args = o.Args
	}
	if err := restate(&envelope, o, time.Now()); err != nil {
		return plan{}, fmt.Errorf("letter %s: %w", id, err)
	}
	p.job, err = redriven(envelope, id, pawl.NewID())
	return p, err
}

// redriven is a letter's job as a new one with this id.
func redriven(envelope pawl.Envelope, letter, id pawl.ID) (pawl.NewJob, error) {
	envelope.ID = id
	envelope.Origin = pawl.Origin{Source: pawl.OriginRedrive, Ref: letter.String()}
	envelope.Signature = nil   // it was made for the old id
	envelope.Batch = pawl.ID{} // which has counted the death
	if err := envelope.Check(); err != nil {
		return pawl.NewJob{}, fmt.Errorf("letter %s: %w", letter, err)
	}
	job := pawl.NewJobFrom(envelope)
	job.Letter = letter
	return job, nil
}

// restate sets the new job's deadline.
func restate(e *pawl.Envelope, o RedriveOptions, now time.Time) error {
	switch {
	case o.RetryFor != 0 && !o.RetryUntil.IsZero():
		return &pawl.FieldError{Field: "retry for", Value: o.RetryFor, Rule: "must not be given with a retry until"}
	case o.RetryFor < 0:
		return &pawl.FieldError{Field: "retry for", Value: o.RetryFor, Rule: "must be greater than 0"}
	case o.RetryFor > 0:
		e.RetryUntil, e.Policy.RetryFor = time.Time{}, o.RetryFor
	case o.RetryUntil.IsZero():
		if !e.RetryUntil.IsZero() && !e.RetryUntil.After(now) {
			return fmt.Errorf("its retry until, %s, has passed and is not restated: %w", e.RetryUntil.UTC().Format(time.RFC3339), pawl.ErrRedriveRefused)
		}
	case !o.RetryUntil.After(now) || o.RetryUntil.Year() > 9999:
		return &pawl.FieldError{Field: "retry until", Value: o.RetryUntil, Rule: "must be in the future and before the year 10000"}
	default:
		e.RetryUntil, e.Policy.RetryFor = o.RetryUntil, 0
	}
	return nil
}

// edited adds to the trail that the args were changed. What they are is not written there, so that erasing them from
// jobs and letters is enough; the hashes tell later which were meant.
func edited(why string, before, after []byte) string {
	note := fmt.Sprintf("args edited: %s, were %s", digest(after), digest(before))
	if why == "" {
		return note
	}
	return why + "; " + note
}

func digest(args []byte) string {
	sum := sha256.Sum256(args)
	return fmt.Sprintf("%d bytes sha256:%s", len(args), hex.EncodeToString(sum[:8]))
}

// planRetry takes the old job as it was: the same id, the same bytes.
func (d *Desk) planRetry(ctx context.Context, id pawl.ID, o RetryOptions, many bool) (plan, error) {
	letter, err := d.letters.Letter(ctx, id)
	if err != nil {
		return plan{}, err
	}
	p, envelope, err := d.begin(letter, pawl.ActionRetry, o.Confirmed, many)
	if err != nil {
		return plan{}, err
	}
	switch deadline := envelope.Deadline(p.letter.EnqueuedAt); {
	case p.letter.JobID.IsZero():
		return plan{}, fmt.Errorf("letter %s: it has no job that could be put back, only a redrive can run it: %w", id, pawl.ErrRedriveRefused)
	case p.letter.JobID != envelope.ID:
		return plan{}, fmt.Errorf("letter %s: its envelope is of job %s: %w", id, envelope.ID, pawl.ErrRedriveRefused)
	case !deadline.IsZero() && !deadline.After(time.Now()):
		return plan{}, fmt.Errorf("letter %s: the job may not be started after %s: %w", id, deadline.UTC().Format(time.RFC3339), pawl.ErrRedriveRefused)
	}
	p.move.By, p.move.Note = o.By, o.Note
	p.job = pawl.NewJobFrom(envelope)
	p.job.Envelope, p.job.EnqueuedAt, p.job.Letter = p.letter.Envelope, p.letter.EnqueuedAt, id
	return p, nil
}

// begin checks what both ways back have in common. The letter's status is looked at here for a clear refusal; it is the
// move that decides when two do the same.
func (d *Desk) begin(letter pawl.DeadLetter, action pawl.Action, confirmed, many bool) (plan, pawl.Envelope, error) {
	id, none := letter.ID, pawl.Envelope{}
	p := plan{letter: letter, move: pawl.Move{Letter: id, Action: action}}
	if err := p.move.Allowed(letter.Status, letter.Outcome, letter.NewJobID); err != nil {
		return plan{}, none, err
	}
	if !letter.ErasedAt.IsZero() {
		return plan{}, none, desk.Erased(id, letter.ErasedAt)
	}
	envelope, err := pawl.DecodeEnvelope(letter.Envelope)
	if err == nil {
		err = envelope.Check()
	}
	if err != nil {
		return plan{}, none, fmt.Errorf("letter %s: what it kept of the job is damaged (%w): %w", id, err, pawl.ErrRedriveRefused)
	}
	switch rule := envelope.Policy.Redrive; {
	case rule == pawl.RedriveNever:
		return plan{}, none, fmt.Errorf("letter %s: a job of kind %s is never run again: %w", id, envelope.Kind, pawl.ErrRedriveRefused)
	case rule == pawl.RedriveOneByOne && many:
		return plan{}, none, fmt.Errorf("letter %s: jobs of kind %s are run again one by one, not among many: %w", id, envelope.Kind, pawl.ErrRedriveRefused)
	case letter.Outcome == pawl.RedriveSucceeded && !confirmed:
		return plan{}, none, fmt.Errorf("letter %s: job %s has done its work since, it would be done twice: %w", id, letter.NewJobID, pawl.ErrConfirm)
	case letter.Reason.OutcomeUnknown() && !confirmed:
		return plan{}, none, fmt.Errorf("letter %s: the outcome is unknown, check first whether the effect has happened: %w", id, pawl.ErrConfirm)
	}
	p.to, p.shared, err = d.target(letter)
	return p, envelope, err
}
