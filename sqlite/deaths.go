package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/storable"
)

// batch bounds how many rows of one call share a transaction with the calls of others.
const batch = 500

// RecordDeaths writes letters with their alert rows.
func (s *Store) RecordDeaths(ctx context.Context, letters []pawl.DeadLetter) ([]pawl.Recorded, error) {
	for _, letter := range letters {
		if letter.ID.IsZero() {
			return nil, &pawl.FieldError{Field: "letter", Value: letter.ID, Rule: "must have an id"}
		}
	}
	var out []pawl.Recorded
	for len(letters) > 0 {
		part := letters[:min(batch, len(letters))]
		letters = letters[len(part):]
		var recorded []pawl.Recorded
		err := s.write(ctx, func(ctx context.Context, w *writer) (err error) {
			recorded, err = recordDeaths(ctx, w, part, now())
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("record deaths: %w", err)
		}
		out = append(out, recorded...)
	}
	return out, nil
}

// recordDeaths writes letters that are not there yet, with one alert row for every sink that is not retired.
func recordDeaths(ctx context.Context, x execer, letters []pawl.DeadLetter, at int64) ([]pawl.Recorded, error) {
	out := make([]pawl.Recorded, len(letters))
	for i, letter := range letters {
		fresh, err := insertLetter(ctx, x, storable.Letter(letter), at)
		if err != nil {
			return nil, fmt.Errorf("record letter of job %s: %w", letter.JobID, err)
		}
		out[i] = pawl.Recorded{ID: letter.ID, New: fresh}
	}
	return out, nil
}

func insertLetter(ctx context.Context, x execer, l pawl.DeadLetter, at int64) (fresh bool, err error) {
	tags, err := jsonArray(l.Tags)
	if err != nil {
		return false, err
	}
	history, err := jsonArray(l.History)
	if err != nil {
		return false, err
	}
	before, _, err := selectOne(ctx, x, scanGroupState, selectGroupState, l.Fingerprint, l.ID[:])
	if err != nil {
		return false, err
	}
	n, err := change(ctx, x, `
		insert into pawl_letter (id, dead_at, status_at, group_resolved_at, status, class, reason, fingerprint, kind, queue, connection,
			job_id, correlation_id, tags, exception_type, attempts, source_message, host, server, version, enqueued_at, started_at,
			previous, message, batch)
		values (?1, ?2, ?2, ?3, 0, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23)
		on conflict (id) do nothing`,
		l.ID[:], at, before.resolvedAt, int64(l.Class), string(l.Reason), l.Fingerprint, l.Kind, l.Queue, l.Connection, idValue(l.JobID),
		l.CorrelationID, tags, l.ExceptionType, l.Attempts, l.SourceMessageID, l.Host, l.Server, l.Version,
		timeValue(l.EnqueuedAt), timeValue(l.StartedAt), idValue(l.Previous), l.Message, idValue(l.Batch))
	if err != nil || n == 0 {
		return false, err
	}
	_, err = x.ExecContext(ctx, `insert into pawl_evidence (letter, detail, history, envelope) values (?, ?, ?, ?)`,
		l.ID[:], l.Detail, history, l.Envelope)
	if err != nil {
		return false, err
	}
	_, err = x.ExecContext(ctx, `
		insert into pawl_alert (letter, sink, regression) select ?1, name, ?2 from pawl_sink where retired_at is null`,
		l.ID[:], before.resolved)
	return true, err
}

// selectGroupState asks whether the letter before one, in its group, is resolved, and since when; or else, when the group had
// been before that letter's death.
const selectGroupState = `select status = 2, iif(status = 2, max(status_at, dead_at), group_resolved_at) from pawl_letter
where fingerprint = ? and id <> ? order by dead_at desc, id desc limit 1`

// groupState is how a group stands when another of its jobs dies.
type groupState struct {
	resolved   bool
	resolvedAt sql.NullInt64
}

func scanGroupState(rows *sql.Rows) (s groupState, err error) {
	return s, rows.Scan(&s.resolved, &s.resolvedAt)
}

func jsonArray[T any](list []T) (string, error) {
	if len(list) == 0 {
		return "[]", nil
	}
	b, err := json.Marshal(list)
	return string(b), err
}

// redriveEnded writes what became of a redrive back to the letter that it came from, if that still waits for it.
func redriveEnded(ctx context.Context, x execer, letter pawl.ID, outcome pawl.RedriveOutcome, next pawl.ID, at int64) error {
	before, found, err := readFate(ctx, x, letter)
	if err != nil || !found {
		return err
	}
	move := pawl.Move{Letter: letter, Action: pawl.ActionOutcome, By: desk.System(), Outcome: outcome}
	if move.Allowed(before.Status, before.Outcome, before.NewJob) != nil {
		return nil
	}
	after := before.Moved(move, pawl.ID{}, time.UnixMilli(at))
	after.Next = next
	return writeFate(ctx, x, move, before, after, at)
}
