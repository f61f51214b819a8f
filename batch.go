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
	jobs, err := NewBatch(callback, members)
	if err != nil {
		return Enqueued{}, err
	}
	results, err := to.Enqueue(ctx, jobs)
	if err != nil {
		return Enqueued{ID: callback.ID}, fmt.Errorf("enqueue %s %s after %d jobs: %w", k.name, callback.ID, len(members), err)
	}
	return results[0], nil
}

// NewBatch makes of a job the callback of a batch and of others its members. One Enqueue of what it returns, the callback first,
// opens the batch: EnqueueAfter does so.
func NewBatch(callback NewJob, members []NewJob) ([]NewJob, error) {
	callback.Opens = true
	if err := callback.Check(); err != nil {
		return nil, fmt.Errorf("enqueue %s: %w", callback.Kind, err)
	}
	jobs := append(make([]NewJob, 0, 1+len(members)), callback)
	for i, member := range members {
		if err := member.join(callback.ID); err != nil {
			return nil, fmt.Errorf("member %d of %d: %w", i+1, len(members), err)
		}
		jobs = append(jobs, member)
	}
	return jobs, nil
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
	if e.Batch != batch { // else its bytes are kept
		e.Batch = batch
		j.Envelope = e.Encode()
	}
	j.Batch = batch
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
		{"letter", j.Letter, !j.Letter.IsZero()},
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

// State tells whether members may still join.
func (b Batch) State() BatchState {
	if b.EndedAt.IsZero() {
		return BatchIsOpen
	}
	return BatchHasEnded
}

// BatchState is where a batch is.
type BatchState string

const (
	BatchIsOpen   BatchState = "open"  // members have not ended
	BatchHasEnded BatchState = "ended" // all have, and the callback was enqueued, unless it was cancelled
)

// Batches tells how batches stand, for as long as they are open and for 24 hours after.
type Batches interface {
	// Batch returns one, or ErrNotFound.
	Batch(ctx context.Context, id ID) (Batch, error)
	// Batches lists them, the one that was opened last first.
	Batches(ctx context.Context, filter BatchFilter, page Page) (BatchPage, error)
	// BatchMembers lists those members of a batch that have not ended, by their ids; ErrNotFound where there is no such
	// batch. Those that have ended are counted, and not listed.
	BatchMembers(ctx context.Context, id ID, page Page) (JobPage, error)
}

// BatchFilter picks batches; zero fields match all.
type BatchFilter struct {
	State BatchState
	Kind  string    // of the callback
	Queue string    // the same
	Since time.Time // opened at or after
}

// BatchPage is a part of a list of batches.
type BatchPage struct {
	Batches []Batch
	Next    string // "" on the last page
}

// BatchEnded is the error for a job that comes too late. errors.Is(err, ErrBatchEnded) holds.
func BatchEnded(job, batch ID) error {
	return fmt.Errorf("job %s cannot join batch %s: it has ended, or never was: %w", job, batch, ErrBatchEnded)
}
