package pawl

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"
)

// JobInfo is what a handler can read of the job that it runs.
type JobInfo struct {
	ID            ID
	Kind          string
	Queue         string
	Connection    string
	Attempt       int // counted from 1
	MaxTries      int
	Args          json.RawMessage // the exact bytes that were given
	CorrelationID string
	TraceParent   string
	TraceState    string
	Tags          []string
	EnqueuedAt    time.Time // by the store's clock
	Origin        Origin    // what enqueued it; schedule.Origin reads a tick from it
	Batch         ID        // of which it is a member; zero: none, also when it comes from a dead letter
	After         BatchEnd  // how the members of the batch that it follows ended; zero: it follows none
}

// Runner is what stands behind a Job's operations: the host, an inline connection, or a test's fake.
type Runner interface {
	// Settle makes the attempt's transition durable; err is the evidence of a Dead.
	Settle(ctx context.Context, outcome Outcome, err error) error
	// Progress keeps the latest report.
	Progress(ctx context.Context, percent int, note string) error
	// Extend moves the attempt's timeout to d from now and returns the new deadline.
	Extend(ctx context.Context, d time.Duration) (time.Time, error)
}

// Job is one attempt of a job as its handler sees it: FromContext(ctx) returns it. Each attempt has a fresh one, and
// it is of no use after the attempt. Its methods may be called from several goroutines.
//
// Release, Delete and Fail are transitions: they are durable when they return nil, and what the handler returns
// afterwards changes nothing. A second transition returns ErrFinished, one whose reservation was lost ErrLeaseLost;
// one that failed leaves the attempt unfinished.
type Job struct {
	JobInfo
	runner Runner
	logger *slog.Logger

	mu         sync.Mutex
	deadline   time.Time
	transition chan struct{} // holds a token while nobody makes a transition; nil until somebody does
	finished   bool
	ended      bool
	failure    error
}

// NewJobContext makes the Job of one attempt and the ctx that carries it. Runners call it. The ctx is done when cancel
// is called or parent is done, and its Deadline is the job's: where the cause is ErrTimeout, Err is
// context.DeadlineExceeded. The function end closes the attempt and its ctx: it waits for a transition under way,
// makes every later operation return ErrFinished, and reports whether a transition was made.
func NewJobContext(parent context.Context, info JobInfo, runner Runner, logger *slog.Logger, deadline time.Time) (
	ctx context.Context, job *Job, cancel context.CancelCauseFunc, end func() (finished bool),
) {
	c := &jobContext{job: Job{JobInfo: info, runner: runner, logger: logger, deadline: deadline}}
	c.Context, c.stop = context.WithCancelCause(parent)
	if parent.Done() != nil {
		c.unfollow = context.AfterFunc(c.Context, c.close)
	}
	return c, &c.job, c.cancel, c.end
}

// jobContext is a ctx whose end tells a timeout from other cancels, with a deadline that Extend can move. Its channel
// is its own, so that contexts derived from it ask its Err and not that of the ctx beneath.
type jobContext struct {
	context.Context
	stop     context.CancelCauseFunc
	unfollow func() bool // nil when the parent has no end
	job      Job

	mu     sync.Mutex
	done   chan struct{} // nil until somebody asks for it
	closed bool
}

func (c *jobContext) cancel(cause error) {
	c.stop(cause)
	c.close()
}

func (c *jobContext) end() bool {
	finished := c.job.end()
	if c.unfollow != nil {
		c.unfollow()
	}
	c.cancel(nil)
	return finished
}

func (c *jobContext) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed && c.done != nil {
		close(c.done)
	}
	c.closed = true
}

func (c *jobContext) Deadline() (time.Time, bool) { return c.job.Deadline(), true }

func (c *jobContext) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.closed {
			close(c.done)
		}
	}
	return c.done
}

func (c *jobContext) Err() error {
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	switch {
	case !closed:
		return nil
	case context.Cause(c.Context) == ErrTimeout:
		return context.DeadlineExceeded
	}
	return context.Canceled
}

func (c *jobContext) Value(key any) any {
	if key == jobKey {
		return &c.job
	}
	return c.Context.Value(key)
}

// end closes the job to transitions, once the one under way is over.
func (j *Job) end() bool {
	j.mu.Lock()
	j.ended = true
	transition := j.transition
	j.mu.Unlock()
	if transition != nil {
		<-transition
		transition <- struct{}{}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.finished
}

// LastAttempt reports whether a failure of this attempt can only be a death.
func (j *Job) LastAttempt() bool { return j.Attempt >= j.MaxTries }

// Logger has the fixed keys: job, kind, queue, attempt, correlation_id.
func (j *Job) Logger() *slog.Logger {
	if j == nil || j.logger == nil {
		return slog.Default()
	}
	return j.logger
}

// Deadline is when the attempt's timeout cancels its ctx, by this process's clock.
func (j *Job) Deadline() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.deadline
}

// Finished reports whether a transition was made.
func (j *Job) Finished() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.finished
}

// Failure is the error that Fail was called with, or nil.
func (j *Job) Failure() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.failure
}

// Release puts the job back into its queue, to run again after at least delay (finite, at least 0). The attempt
// counts; the budget is checked when the job is claimed again.
func (j *Job) Release(ctx context.Context, delay time.Duration) error {
	if delay < 0 || delay > maxWait {
		return &FieldError{"delay", delay, "must be at least 0 and at most 10 years"}
	}
	return j.settle(ctx, Release{After: delay}, nil)
}

// Delete acknowledges the job now.
func (j *Job) Delete(ctx context.Context) error { return j.settle(ctx, Done{}, nil) }

// Fail ends the job now as a death of class permanent, reason explicit, with err as its evidence.
func (j *Job) Fail(ctx context.Context, err error) error {
	if err == nil {
		return &FieldError{"error", nil, "Fail needs the error that goes into the dead letter"}
	}
	return j.settle(ctx, Dead{DeathPermanent, ReasonExplicit}, err)
}

func (j *Job) settle(ctx context.Context, outcome Outcome, failure error) error {
	if j == nil {
		return ErrNoJob
	}
	transition := j.turn()
	if transition == nil {
		return ErrFinished
	}
	select {
	case <-transition:
		defer func() { transition <- struct{}{} }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if j.over() {
		return ErrFinished
	}
	if err := j.runner.Settle(ctx, outcome, failure); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.finished, j.failure = true, failure
	return nil
}

// turn is what a transition has to take; nil when none can be made any more.
func (j *Job) turn() chan struct{} {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.finished || j.ended {
		return nil
	}
	if j.transition == nil {
		j.transition = make(chan struct{}, 1)
		j.transition <- struct{}{}
	}
	return j.transition
}

func (j *Job) over() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.finished || j.ended
}

// Progress reports how far the job is: percent from 0 to 100, and a note of at most 256 bytes. The latest report is
// shown with the job; it reaches the store with the host's next beat.
func (j *Job) Progress(ctx context.Context, percent int, note string) error {
	switch {
	case j == nil:
		return ErrNoJob
	case percent < 0 || percent > 100:
		return &FieldError{"percent", percent, "must be from 0 to 100"}
	case j.over():
		return ErrFinished
	}
	if err := checkText("note", note, maxKey); err != nil {
		return err
	}
	return j.runner.Progress(ctx, percent, note)
}

// Extend moves the attempt's timeout to d from now.
func (j *Job) Extend(ctx context.Context, d time.Duration) error {
	switch {
	case j == nil:
		return ErrNoJob
	case d <= 0 || d > maxWait:
		return &FieldError{"extension", d, "must be greater than 0 and at most 10 years"}
	case j.over():
		return ErrFinished
	}
	deadline, err := j.runner.Extend(ctx, d)
	if err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.deadline = deadline
	return nil
}
