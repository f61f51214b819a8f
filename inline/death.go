package inline

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/pawljobs/pawl"
)

// recordBudget is the time that the record of a death has. It does not end with the caller's ctx: a caller that went away
// is no reason to lose the record.
const recordBudget = 10 * time.Second

// newToken draws a reservation's number at random: there is no store here that could count. Of 2^63 numbers, two runs
// of one job do not meet.
func newToken() (pawl.Token, error) {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return 0, fmt.Errorf("draw reservation token: %w", err)
	}
	return pawl.Token(max(binary.BigEndian.Uint64(b[:])>>1, 1)), nil
}

// die records the death that the outcome of a failed attempt always is here, and returns what the job failed with; where
// the record could not be made, joined with why.
func (a *attempt) die(ctx context.Context, outcome pawl.Outcome, record *pawl.AttemptRecord, failure error) error {
	death, _ := outcome.(pawl.Dead)
	if death.Class == pawl.DeathExhausted && death.Reason != pawl.ReasonDeadline {
		death.Reason = pawl.ReasonSync
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordBudget)
	defer cancel()
	return errors.Join(failure, a.bury(ctx, death, record, failure))
}

// bury writes the letter, and then the death's one line into the log. Without dead letters it does nothing.
func (a *attempt) bury(ctx context.Context, death pawl.Dead, record *pawl.AttemptRecord, failure error) error {
	q := a.queue
	if q.letters == nil {
		return nil
	}
	job := a.job
	if record != nil {
		job.History = []pawl.AttemptRecord{*record}
	}
	startedAt := time.Time{}
	if !a.started.IsZero() {
		startedAt = a.started.UTC()
	}
	letter := pawl.NewDeadLetter(q.undertaker, job, death, startedAt, failure)
	if _, err := q.letters.RecordDeaths(ctx, []pawl.DeadLetter{letter}); err != nil {
		return fmt.Errorf("record death: %w", err)
	}
	q.logger.LogAttrs(ctx, slog.LevelError, "job dead-lettered",
		slog.String("job", letter.JobID.String()), slog.String("kind", letter.Kind), slog.String("queue", letter.Queue),
		slog.Int("attempt", letter.Attempts), slog.String("class", death.Class.String()),
		slog.String("correlation_id", letter.CorrelationID),
		slog.String("reason", string(death.Reason)), slog.String("letter", letter.ID.String()))
	return nil
}

// record is the attempt's line in its letter.
func (a *attempt) record(ending pawl.Ending, failure error) *pawl.AttemptRecord {
	evidence := pawl.NewEvidence(failure)
	return &pawl.AttemptRecord{
		Attempt: 1, Ending: ending, StartedAt: a.started.UTC(), Duration: time.Since(a.started),
		Host: a.queue.undertaker.Host, Type: evidence.Type, Message: evidence.Message,
	}
}
