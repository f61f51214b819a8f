package resilience

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
)

// ErrOpen means that a call was not made because the downstream's breaker is open. It is transient.
var ErrOpen = errors.New("circuit breaker is open")

// Rung names a limit of the ladder.
type Rung string

// The rungs that this package enforces itself.
const (
	RungAttempt Rung = "attempt"
	RungTotal   Rung = "total"
)

// TimeoutError means that a rung of the ladder cut an attempt off. It is transient; errors.Is with
// context.DeadlineExceeded holds.
type TimeoutError struct {
	Downstream string
	Rung       Rung
	Limit      time.Duration // of that rung
	Attempt    int           // within the call, counted from 1; 0 as the cause of a context
	Err        error         // what the attempt returned, marked transient; nil as the cause of a context
}

// Error names the downstream and the rung.
func (e *TimeoutError) Error() string {
	text := fmt.Sprintf("%s: %s timeout (%v)", e.Downstream, e.Rung, e.Limit)
	if e.Attempt > 0 {
		text += fmt.Sprintf(" in attempt %d", e.Attempt)
	}
	return text
}

// Timeout is true, as for the timeouts of package net.
func (e *TimeoutError) Timeout() bool { return true }

// Unwrap returns context.DeadlineExceeded and the attempt's own error.
func (e *TimeoutError) Unwrap() []error {
	if e.Err == nil {
		return []error{context.DeadlineExceeded}
	}
	return []error{context.DeadlineExceeded, e.Err}
}

// cause is what the context of a rung ends with.
func (d *Downstream) cause(rung Rung, limit time.Duration) error {
	return &TimeoutError{Downstream: d.name, Rung: rung, Limit: limit}
}

// timedOut returns the error of an attempt that one of our rungs cut off; nil if it was none of them.
func timedOut(ctx context.Context, attempt int, err error) error {
	rung, ours := context.Cause(ctx).(*TimeoutError)
	if !ours || ctx.Err() == nil {
		return nil
	}
	out := *rung
	out.Attempt, out.Err = attempt, pawl.Transient(err)
	return &out
}

// refused is the error of a call that was not made.
func (d *Downstream) refused() error {
	return pawl.Transient(fmt.Errorf("call %s: %w", d.name, ErrOpen))
}

// abandoned is the error of a call whose caller went away while it waited for the next attempt.
func (d *Downstream) abandoned(ctx context.Context, last error) error {
	return fmt.Errorf("wait to call %s again: %w; before that: %w", d.name, context.Cause(ctx), last)
}
