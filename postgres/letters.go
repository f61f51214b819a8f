package postgres

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
)

const (
	// A letter that is there already is left untouched and raises no alert.
	insertLetters = `with fresh as (
  insert into {s}.letter (id, dead_at, class, reason, fingerprint, kind, queue, connection, job_id, correlation_id, tags,
    exception_type, attempts, source_message, host, server, version, enqueued_at, started_at, previous, message)
  values ($1, now(), $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20)
  on conflict (id) do nothing returning id
), evidence as (
  insert into {s}.evidence (letter, detail, history, envelope) select id, $21, $22, $23 from fresh
), alerts as (
  insert into {s}.alert (letter, sink, key, due_at) select f.id, s.name, f.id || '/' || s.name, now() from fresh f, {s}.sink s
)
select count(*) from fresh`

	writeFate = `with moved as (
  update {s}.letter l set status = t.status, redrive_outcome = t.outcome, next_letter = t.next
  from unnest($1::uuid[], $2::smallint[], $3::text[], $4::uuid[]) t (id, status, outcome, next)
  where l.id = t.id and l.status = 1 and l.redrive_outcome = 'pending' returning l.id, t.status, t.outcome
)
insert into {s}.audit (who, door, action, subject, "from", "to", why, outcome)
select 'pawl', 'pawl', 'outcome', id::text, 'redriven', case status when 2 then 'resolved' else 'redriven' end, '', outcome from moved`
)

// recordDeaths writes letters that are not there yet, with one alert row for every sink.
func (s *Store) recordDeaths(ctx context.Context, tx pgx.Tx, letters []pawl.DeadLetter) ([]pawl.Recorded, error) {
	batch := &pgx.Batch{}
	for _, l := range letters {
		history, err := json.Marshal(l.History)
		if err != nil {
			return nil, err
		}
		tags := append([]string{}, l.Tags...)
		batch.Queue(s.sql.insertLetters, l.ID, int16(l.Class), string(l.Reason), l.Fingerprint, l.Kind, l.Queue, l.Connection,
			idValue(l.JobID), l.CorrelationID, tags, l.ExceptionType, l.Attempts, l.SourceMessageID, l.Host, l.Server, l.Version,
			timeValue(l.EnqueuedAt), timeValue(l.StartedAt), idValue(l.Previous), l.Message, l.Detail, string(history), l.Envelope)
	}
	if batch.Len() == 0 {
		return nil, nil
	}
	results := tx.SendBatch(ctx, batch)
	out := make([]pawl.Recorded, len(letters))
	for i, l := range letters {
		var fresh int
		if err := results.QueryRow().Scan(&fresh); err != nil {
			_ = results.Close()
			return nil, err
		}
		out[i] = pawl.Recorded{ID: l.ID, New: fresh > 0}
	}
	return out, results.Close()
}

// redriveEnd is what became of a job that a letter was redriven as.
type redriveEnd struct {
	letter  pawl.ID
	outcome pawl.RedriveOutcome
	next    pawl.ID // when it died again
}

// redriveEnded writes what became of redrives back to the letters that they came from, if those still wait for it.
func (s *Store) redriveEnded(ctx context.Context, tx pgx.Tx, ends []redriveEnd) error {
	if len(ends) == 0 {
		return nil
	}
	letters, statuses, outcomes := make(idList, len(ends)), make([]int16, len(ends)), make([]string, len(ends))
	nexts := make([]any, len(ends))
	for i, e := range ends {
		move := pawl.Move{Action: pawl.ActionOutcome, Outcome: e.outcome}
		letters[i], statuses[i], outcomes[i], nexts[i] = e.letter, int16(move.To()), string(e.outcome), idValue(e.next)
	}
	_, err := tx.Exec(ctx, s.sql.writeFate, letters, statuses, outcomes, nexts)
	return err
}
