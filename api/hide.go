package api

import (
	"github.com/pawljobs/pawl/internal/wire"
	"github.com/pawljobs/pawl/ops"
)

// mask stands for what a token may not see.
const mask = "(hidden)"

// hidden is a text's mask; there is none where there is no text.
func hidden[T ~string](text T) T {
	if text == "" {
		return ""
	}
	return mask
}

func hideLetter(l *wire.Letter) {
	l.Message, l.Note = hidden(l.Message), hidden(l.Note)
}

func hideAttempts(history []wire.Attempt) {
	for i := range history {
		history[i].Message = hidden(history[i].Message)
	}
}

// hideStatus masks the messages of failures, and the troubles that quote one.
func hideStatus(s *ops.Status) {
	for i := range s.Failures.Groups {
		s.Failures.Groups[i].Message = hidden(s.Failures.Groups[i].Message)
	}
	for i, t := range s.Troubles {
		if t.What == ops.OpenFailures || t.What == ops.AlertsLate || t.What == ops.ScheduleStuck {
			s.Troubles[i].Text = mask
		}
	}
}
