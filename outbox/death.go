package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/pawljobs/pawl"
)

// die records the letters of messages and then marks them dead. Whatever fails in between, they are not dispatched any
// more: their number of claims says so, and a later claim finds the letters that are there.
func (l *lane) die(ctx context.Context, rows []*row, rest *settlement) error {
	ctx, cancel := l.detached(ctx)
	defer cancel()
	own, err := l.source.condemn(ctx, rest.lease, rows)
	if err != nil {
		l.database.Report(err)
		return err
	}
	if len(own) == 0 {
		return nil
	}
	letters := make([]pawl.DeadLetter, len(own))
	for i, r := range own {
		letters[i] = l.letter(r)
	}
	recorded, err := l.letters.RecordDeaths(ctx, letters)
	if err == nil && len(recorded) != len(letters) {
		err = fmt.Errorf("the store of dead letters answered for %d of %d", len(recorded), len(letters))
	}
	if err != nil {
		l.deaths.Report(err, "messages", len(own))
		rest.refused = append(rest.refused, own...)
		return err
	}
	l.deaths.Over()
	for i := range recorded {
		if recorded[i].New {
			l.died.Add(1)
			l.announce(ctx, letters[i])
		}
	}
	if err := l.source.bury(ctx, rest.lease, own); err != nil {
		l.database.Report(err)
		return err
	}
	return nil
}

// announce is the death's one line in the log.
func (l *lane) announce(ctx context.Context, letter pawl.DeadLetter) {
	l.config.Logger.LogAttrs(ctx, slog.LevelError, "job dead-lettered",
		slog.String("message", letter.SourceMessageID), slog.String("kind", letter.Kind), slog.String("queue", letter.Queue),
		slog.Int("attempt", letter.Attempts), slog.String("class", letter.Class.String()),
		slog.String("correlation_id", letter.CorrelationID),
		slog.String("reason", string(letter.Reason)), slog.String("letter", letter.ID.String()))
}

// letter is the record of a message that could not be dispatched. It has the message's bytes and no job.
func (l *lane) letter(r *row) pawl.DeadLetter {
	evidence := pawl.NewEvidence(r.err)
	letter := pawl.DeadLetter{
		ID:              letterID(l.connection, r.id),
		SourceMessageID: r.id.String(),
		Connection:      l.connection,
		Kind:            pawl.UndecodableKind,
		Envelope:        r.envelope,
		ExceptionType:   evidence.Type,
		Message:         evidence.Message,
		Detail:          evidence.Detail,
		Attempts:        min(r.attempts, l.config.Tries),
		Class:           pawl.DeathPoison,
		Reason:          reason(r.err),
		Host:            l.config.Name,
		Server:          "outbox",
		Version:         l.config.Version,
		EnqueuedAt:      r.createdAt,
	}
	if envelope, err := pawl.DecodeEnvelope(r.envelope); err == nil {
		letter.Kind, letter.Queue = envelope.Kind, envelope.Policy.Queue
		letter.CorrelationID, letter.Tags = envelope.CorrelationID, envelope.Tags
	}
	letter.Fingerprint = pawl.Fingerprint(letter.Kind, letter.ExceptionType, letter.Message)
	return letter
}

// letterID is a function of the message alone, so that recording its death again finds the first record. It is not the id
// of any letter of a job.
func letterID(connection string, message pawl.ID) pawl.ID {
	return pawl.LetterID("outbox\x00"+connection, message, 0)
}

func reason(err error) pawl.Reason {
	var poison *pawl.PoisonError
	switch {
	case errors.As(err, &poison):
		return poison.Reason
	case errors.Is(err, errVanished):
		return pawl.ReasonCrashLoop
	}
	return pawl.ReasonRefused
}
