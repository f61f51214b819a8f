package alert

import (
	"context"
	"log/slog"

	"github.com/pawljobs/pawl"
)

// Log returns the sink "log": one Warn line for each death, and in a digest for each group, with how
// many died. It is never an Error line, since the host has written
// that one already when the death was recorded. The exception message is not in it: it may hold what a log should not.
// A nil logger is slog.Default().
func Log(logger *slog.Logger) pawl.Sink {
	if logger == nil {
		logger = slog.Default()
	}
	return logSink{logger}
}

type logSink struct{ logger *slog.Logger }

func (s logSink) Name() string { return "log" }

func (s logSink) Deliver(ctx context.Context, alert pawl.Alert) error {
	if alert.Test {
		s.logger.LogAttrs(ctx, slog.LevelWarn, trial, slog.String("alert", alert.Key))
		return nil
	}
	if len(alert.Letters) == 0 {
		return errNoLetter
	}
	for i, group := range groupsOf(alert) {
		letter := alert.Letters[i]
		attrs := []slog.Attr{
			slog.String("letter", letter.ID.String()),
			slog.String("job", letter.JobID.String()),
			slog.String("kind", letter.Kind),
			slog.String("queue", letter.Queue),
			slog.Int("attempt", letter.Attempts),
			slog.String("class", letter.Class.String()),
			slog.String("reason", string(letter.Reason)),
			slog.String("correlation_id", letter.CorrelationID),
			slog.String("error_type", letter.ExceptionType),
			slog.String("alert", alert.Key),
		}
		if alert.Digest != nil {
			attrs = append(attrs, slog.Int("deaths", group.Deaths))
		}
		if group.Regression {
			attrs = append(attrs, slog.Bool("regression", true))
		}
		s.logger.LogAttrs(ctx, slog.LevelWarn, "dead letter alert", attrs...)
	}
	if alert.Digest != nil && alert.Digest.More > 0 {
		s.logger.LogAttrs(ctx, slog.LevelWarn, "dead letter alert: there are more groups of deaths",
			slog.Int("groups", alert.Digest.More), slog.String("alert", alert.Key))
	}
	return nil
}
