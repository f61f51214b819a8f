package pawl

import (
	"context"
	"fmt"
	"time"
)

// A batch is a group of jobs, its members, and one job that follows when all of them have ended: its callback, whose id is
// the batch's. Kind.EnqueueAfter makes one with its first members. While it is open, whoever knows its id adds members by
// InBatch; a member's handler does so with Job.Batch, and since that member has not ended, the batch is open. So there is
// nothing to close: many members are added by a member.
//
// A member ends when it is done, when it dies, and when an operator removes it; a retry, a release and a crash end nothing.
// One that died was counted as dead: the job that it is redriven or retried as is no member.

// InBatch makes the job a member of a batch that is open. The enqueue is refused with ErrBatchEnded when the callback has
// been enqueued. Only a job that was Accepted is a member.
func InBatch(batch ID) Option {
	return func(d *dispatch) {
		if batch.IsZero() {
			d.refuse("batch", "", "must not be zero")
		}
		d.envelope.Batch = batch
	}
}

// EnqueueAfter opens a batch: it stores the members, all or none, and one job of this kind follows when all of them, and
// those that were added meanwhile, have ended. That job's handler finds in Job.After how they did. Without members it
// follows at once, or soon after the commit.
//
// The result's id is that of the batch, and will be that of the job. Members are made by Kind.New or NewMany. Delay counts from
// the end of the last member; RunAt, InBatch and unique keys are refused. When the outcome is unknown, the call is repeated
// with the same members and WithID.
func (k Kind[T]) EnqueueAfter(ctx context.Context, to Enqueuer, members []NewJob, args T, options ...Option) (Enqueued, error) {
	if to == nil {
		return Enqueued{}, errNoEnqueuer
	}
	callback, err := k.New(ctx, to.Connection(), args, options...)
	if err != nil {
		return Enqueued{}, err
	}
	jobs := make([]NewJob, 1, 1+len(members))
	jobs[0], jobs[0].Opens = callback, true
	if err := jobs[0].Check(); err != nil {
		return Enqueued{}, fmt.Errorf("enqueue %s: %w", k.name, err)
	}
	for i, member := range members {
		if err := member.join(callback.ID); err != nil {
			return Enqueued{}, fmt.Errorf("member %d of %d: %w", i+1, len(members), err)
		}
		jobs = append(jobs, member)
	}
	results, err := to.Enqueue(ctx, jobs)
	if err != nil {
		return Enqueued{ID: callback.ID}, fmt.Errorf("enqueue %s %s after %d jobs: %w", k.name, callback.ID, len(members), err)
	}
	return results[0], nil
}

// join makes a job that was not stored yet a member.
func (j *NewJob) join(batch ID) error {
	e, err := DecodeEnvelope(j.Envelope)
	switch {
	case err != nil:
		return err
	case j.Opens:
		return &FieldError{"member", j.ID, "must not be the callback of a batch"}
	case !j.Batch.IsZero() && j.Batch != batch:
		return &FieldError{"member", j.ID, "must not be in another batch"}
	}
	e.Batch = batch
	j.Batch, j.Envelope = batch, e.Encode()
	return nil
}

// Member is the batch that the job joins; zero: none. What comes from a dead letter joins none.
func (j *NewJob) Member() ID {
	if !j.Letter.IsZero() || j.Opens {
		return ID{}
	}
	return j.Batch
}

// checkCallback refuses what cannot follow a batch.
func (j *NewJob) checkCallback() error {
	for _, rule := range []struct {
		field  string
		value  any
		broken bool
	}{
		{"run at", j.RunAt, !j.RunAt.IsZero()},
		{"unique key", j.Unique.Key, j.Unique.Key != ""},
		{"batch", j.Batch, !j.Batch.IsZero()},
	} {
		if rule.broken {
			return &FieldError{rule.field, rule.value, "must not be given for the job that follows a batch"}
		}
	}
	return nil
}

// BatchEnd is how the members of a batch ended, as its callback sees it.
type BatchEnd struct {
	Batch   ID
	Done    int
	Dead    int // each of them has its letter
	Removed int // by operators
}

// Batch is how a batch stands.
type Batch struct {
	BatchEnd            // so far
	Kind      string    // of the callback
	Queue     string    // the same
	Members   int       // that have joined
	CreatedAt time.Time //
	EndedAt   time.Time // when all had ended, and the callback was enqueued; zero: the batch is open
	Cancelled bool      // an operator has removed the callback: nothing follows
}

// Pending is how many members have not ended.
func (b Batch) Pending() int { return b.Members - b.Done - b.Dead - b.Removed }

// Batches tells how batches stand. Both SQL stores are one.
type Batches interface {
	// Batch returns one, for as long as it is open and for 24 hours after; else ErrNotFound.
	Batch(ctx context.Context, id ID) (Batch, error)
}

// BatchEnded is the error for a job that comes too late. errors.Is(err, ErrBatchEnded) holds.
func BatchEnded(job, batch ID) error {
	return fmt.Errorf("job %s cannot join batch %s: it has ended, or never was: %w", job, batch, ErrBatchEnded)
}
