package ops

import (
	"context"

	"github.com/pawljobs/pawl"
)

// Redrive runs the job of an open letter again, as a new job with a new id: the letter's args and policy, all its
// tries, the same correlation id and queue. It returns the new job's id.
//
// Refused, with nothing changed: a letter that is not there (pawl.ErrNotFound), was redriven before
// (pawl.ErrAlreadyRedriven) or is closed (pawl.ErrConflict); one whose job's policy forbids it, whose envelope is
// damaged, whose connection is not known, or whose absolute deadline has passed (pawl.ErrRedriveRefused); one whose
// outcome is unknown and not confirmed (pawl.ErrConfirm); one whose unique key another job holds by now
// (pawl.ErrConflict; the text names that job).
//
// On an inline connection the job has run when the call returns. If it has failed, the error is its handler's, and the
// id is returned with it: the letter went on as that job, which has left a letter of its own. Where it could leave none,
// this one is open again.
//
// An id with any other error means that the letter went on as that job and it is not known whether the job was stored:
// see the package's text.
func (d *Desk) Redrive(ctx context.Context, letter pawl.ID, o RedriveOptions) (job pawl.ID, err error) {
	by, err := acting(o.By)
	if err != nil {
		return pawl.ID{}, err
	}
	o.By = by
	result := d.carryOut(ctx, pawl.ActionRedrive, []pawl.ID{letter}, func(id pawl.ID) (plan, error) { return d.planRedrive(ctx, id, o, false) })[0]
	return result.Job, result.Err
}

// RedriveMany redrives each of the letters. One that is refused does not stop the others. Jobs of a kind that is
// pawl.RedriveOneByOne are refused, also when the list has just one of them; Args are refused for all.
func (d *Desk) RedriveMany(ctx context.Context, letters []pawl.ID, o RedriveOptions) Results {
	by, err := acting(o.By)
	if err == nil && o.Args != nil {
		err = &pawl.FieldError{Field: "args", Value: string(o.Args), Rule: "must be given for one letter only"}
	}
	if err != nil {
		return refuseAll(letters, err)
	}
	o.By = by
	return d.carryOut(ctx, pawl.ActionRedrive, letters, func(id pawl.ID) (plan, error) { return d.planRedrive(ctx, id, o, true) })
}

// CheckRedrive says what Redrive would refuse, without changing anything; what only the job's store knows, such as the
// holder of a unique key, shows when it is done.
func (d *Desk) CheckRedrive(ctx context.Context, letter pawl.ID, o RedriveOptions) error {
	_, err := d.planRedrive(ctx, letter, o, false)
	return err
}

// CheckRedriveMany says what RedriveMany and an operation would refuse of a letter, as CheckRedrive does for Redrive.
func (d *Desk) CheckRedriveMany(ctx context.Context, letter pawl.ID, o RedriveOptions) error {
	_, err := d.planRedrive(ctx, letter, o, true)
	return err
}

// Retry puts the job of an open letter back: the same id, connection and queue, its envelope byte for byte, ready at
// once, its attempts counted from the start. It keeps the time of its first enqueue, and so a deadline that was counted
// from there. It returns the job's id.
//
// It refuses what Redrive refuses, and a job whose deadline has passed or that has no id (pawl.ErrRedriveRefused), or
// that is still, or again, there (pawl.ErrConflict). A Redrive is the better choice in most cases.
func (d *Desk) Retry(ctx context.Context, letter pawl.ID, o RetryOptions) (job pawl.ID, err error) {
	by, err := acting(o.By)
	if err != nil {
		return pawl.ID{}, err
	}
	o.By = by
	result := d.carryOut(ctx, pawl.ActionRetry, []pawl.ID{letter}, func(id pawl.ID) (plan, error) { return d.planRetry(ctx, id, o, false) })[0]
	return result.Job, result.Err
}

// RetryMany retries each of the letters, with the same rules as RedriveMany.
func (d *Desk) RetryMany(ctx context.Context, letters []pawl.ID, o RetryOptions) Results {
	by, err := acting(o.By)
	if err != nil {
		return refuseAll(letters, err)
	}
	o.By = by
	return d.carryOut(ctx, pawl.ActionRetry, letters, func(id pawl.ID) (plan, error) { return d.planRetry(ctx, id, o, true) })
}

// CheckRetry says what Retry would refuse, without changing anything.
func (d *Desk) CheckRetry(ctx context.Context, letter pawl.ID, o RetryOptions) error {
	_, err := d.planRetry(ctx, letter, o, false)
	return err
}
