package inline

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/pawljobs/pawl"
)

// Settle is the handler's own transition: Delete and Fail end the job now, Release cannot be.
func (a *attempt) Settle(ctx context.Context, outcome pawl.Outcome, failure error) error {
	switch outcome := outcome.(type) {
	case pawl.Done:
	case pawl.Dead:
		ctx, cancel := context.WithTimeout(ctx, recordBudget)
		defer cancel()
		if err := a.bury(ctx, outcome, a.record(pawl.EndReturned, failure), failure); err != nil {
			return err
		}
	default:
		return fmt.Errorf("release %s on an inline connection, which has no queue to put it back into: %w", a.job.ID, pawl.ErrUnsupported)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.failure = failure
	return nil
}

// Progress is taken and shown to nobody: the caller waits for the end.
func (a *attempt) Progress(context.Context, int, string) error { return nil }

// Extend moves the timeout, unless it has passed.
func (a *attempt) Extend(_ context.Context, d time.Duration) (time.Time, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ctx.Err() != nil || !a.timeout.Stop() {
		return time.Time{}, fmt.Errorf("extend %s, whose context is cancelled: %w", a.job.ID, pawl.ErrTimeout)
	}
	a.timeout.Reset(d)
	return time.Now().Add(d), nil
}

// transitioned is the result of a job that its handler has settled: what it returned afterwards changes nothing.
func (a *attempt) transitioned(returned error) error {
	if returned != nil {
		attrs := append(a.attrs(), slog.String("error", pawl.NewEvidence(returned).Message))
		a.queue.logger.LogAttrs(a.ctx, slog.LevelWarn, "handler failed after its job was settled", attrs...)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failure
}

func (a *attempt) attrs() []slog.Attr {
	return []slog.Attr{
		slog.String("job", a.job.ID.String()), slog.String("kind", a.job.Kind), slog.String("queue", a.job.Queue),
		slog.Int("attempt", 1),
	}
}

func (q *Enqueuer) jobLogger(info pawl.JobInfo) *slog.Logger {
	return q.logger.With("job", info.ID.String(), "kind", info.Kind, "queue", info.Queue, "attempt", info.Attempt,
		"correlation_id", info.CorrelationID)
}
