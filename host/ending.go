package host

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pawljobs/pawl"
)

// endingOf says how an attempt whose handler returned has ended, given what had cancelled its ctx.
func endingOf(cause, err error) pawl.Ending {
	switch {
	case err == nil:
		return pawl.EndReturned
	case errors.Is(cause, pawl.ErrCancelled):
		return pawl.EndCancelled
	case panicked(err):
		return pawl.EndPanicked
	case errors.Is(cause, pawl.ErrTimeout):
		return pawl.EndTimedOut
	case errors.Is(cause, pawl.ErrShutdown):
		return pawl.EndInterrupted
	}
	return pawl.EndReturned
}

func panicked(err error) bool {
	_, is := err.(*pawl.PanicError)
	return is
}

// textOf is an error's text in a form that can be logged, whatever the error is.
func textOf(err error) string { return pawl.NewEvidence(err).Message }

// explain adds to a bare error of the context why it ended; the class has been decided before.
func explain(cause, err error) error {
	ended := pawl.ChainHas(err, context.Canceled) || pawl.ChainHas(err, context.DeadlineExceeded)
	if cause == nil || !ended || pawl.ChainHas(err, cause) {
		return err
	}
	return fmt.Errorf("%w (%w)", err, cause)
}

func (a *attempt) facts(ending pawl.Ending) pawl.Facts {
	return pawl.Facts{
		Job: a.job.ID, Attempt: a.job.Attempt, Crashes: a.job.Crashes, Started: a.job.Started, Ending: ending,
		Now: a.clock.time(time.Now()), Deadline: a.envelope.Deadline(a.job.EnqueuedAt),
	}
}

// attrs are the fixed keys of the attempt's lines.
func (a *attempt) attrs() []slog.Attr {
	a.mu.Lock()
	correlation := a.envelope.CorrelationID
	a.mu.Unlock()
	return []slog.Attr{
		slog.String("job", a.job.ID.String()), slog.String("kind", a.job.Kind), slog.String("queue", a.job.Queue),
		slog.Int("attempt", a.job.Attempt), slog.String("correlation_id", correlation),
	}
}

// line writes the one line of an execution.
func (a *attempt) line(outcome pawl.Outcome, ending pawl.Ending) {
	ctx := context.Background()
	if !a.log.Enabled(ctx, slog.LevelInfo) {
		return
	}
	name := outcomeName(outcome)
	switch {
	case a.host.base.Err() != nil:
		name = "not recorded"
	case ending == pawl.EndCancelled:
		name = "cancelled"
	}
	a.log.LogAttrs(ctx, slog.LevelInfo, "job ran", append([]slog.Attr{slog.String("outcome", name)}, a.ran(ending)...)...)
}

// ran is what the line of an execution says of the run.
func (a *attempt) ran(ending pawl.Ending) []slog.Attr {
	return []slog.Attr{
		slog.String("ending", string(ending)), slog.Duration("duration", time.Since(a.started)),
		slog.Duration("waited", a.clock.time(a.started).Sub(a.job.ReadyAt)),
	}
}

func outcomeName(outcome pawl.Outcome) string {
	switch o := outcome.(type) {
	case pawl.Done:
		return "done"
	case pawl.Retry:
		return "retry after " + o.After.String()
	case pawl.Release:
		return "released"
	case pawl.GiveBack:
		return "given back"
	case pawl.Dead:
		return "dead: " + string(o.Reason)
	}
	return "reservation lost"
}
