package postgres

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/storable"
)

const (
	// A letter that is there already is left untouched and raises no alert. A group relapses when the letter before was
	// resolved; what dies behind that belongs to it. Times are kept in milliseconds. (An "in" that is asked whether it is true
	// is looked up in a hash table, also where joins by hash are off.)
	insertLetters = `with given as materialized (
  select * from unnest($1::uuid[], $2::smallint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::uuid[], $9::text[],
    $10::text[], $11::text[], $12::int[], $13::text[], $14::text[], $15::text[], $16::text[], $17::timestamptz[], $18::timestamptz[],
    $19::uuid[], $20::text[], $21::text[], $22::text[], $23::bytea[], $24::uuid[])
  t (id, class, reason, fingerprint, kind, queue, connection, job_id, correlation_id, tags, exception_type, attempts, source_message,
    host, server, version, enqueued_at, started_at, previous, message, detail, history, envelope, batch)
), fresh as (
  insert into {s}.letter (id, dead_at, status_at, class, reason, fingerprint, kind, queue, connection, job_id, correlation_id, tags,
    exception_type, attempts, source_message, host, server, version, enqueued_at, started_at, previous, message, batch, group_resolved_at)
  select id, date_trunc('milliseconds', now()), date_trunc('milliseconds', now()), class, reason, fingerprint, kind, queue, connection,
    job_id, correlation_id, array(select json_array_elements_text(tags::json)), exception_type, attempts, source_message, host,
    server, version, enqueued_at, started_at, previous, message, batch, (
      select case when l.status = 2 then l.status_at else l.group_resolved_at end
      from {s}.letter l where l.fingerprint = g.fingerprint order by l.dead_at desc, l.id desc limit 1)
  from given g
  on conflict (id) do nothing returning id, fingerprint
), evidence as (
  insert into {s}.evidence (letter, detail, history, envelope)
  select g.id, g.detail, g.history, g.envelope from given g where (g.id in (select id from fresh)) is true
), alerts as (
  insert into {s}.alert (letter, sink, regression) select f.id, s.name, coalesce((
    select l.status = 2 from {s}.letter l where l.fingerprint = f.fingerprint order by l.dead_at desc, l.id desc limit 1), false)
  from fresh f, {s}.sink s where s.retired_at is null
)
select id from fresh`

	// The outcome of a redrive is written once. (A sum keeps the index on states out of it: it may have many letters that
	// were redriven.)
	writeOutcomes = `with pending as materialized (
  select l.id, t.status, t.outcome, t.next from unnest($1::uuid[], $2::smallint[], $3::text[], $4::uuid[]) t (id, status, outcome, next)
  join {s}.letter l on l.id = t.id where l.status + 0 = 1 and l.redrive_outcome = 'pending' order by l.id for update of l
), moved as (
  update {s}.letter l set status = p.status, redrive_outcome = p.outcome, next_letter = p.next,
    status_at = case when p.status = l.status then l.status_at else now() end
  from pending p where l.id = p.id returning l.id, l.new_job_id, p.status, p.outcome
), heard as (
  update {s}.operation_item i set outcome = case m.outcome when 'succeeded' then 2 when 'died again' then 3 else 4 end
  from moved m where i.job = m.new_job_id and i.outcome = 1
)
insert into {s}.audit (who, door, action, subject, "from", "to", why, outcome)
select 'pawl', 'pawl', 'outcome', id::text, 'redriven', case status when 2 then 'resolved' else 'redriven' end, '', outcome from moved`
)

// deskBatch bounds how many rows of one call share a transaction.
const deskBatch = 500

// RecordDeaths writes letters with their alert rows.
func (s *Store) RecordDeaths(ctx context.Context, letters []pawl.DeadLetter) ([]pawl.Recorded, error) {
	for _, letter := range letters {
		if letter.ID.IsZero() {
			return nil, &pawl.FieldError{Field: "letter", Value: letter.ID, Rule: "must have an id"}
		}
	}
	var out []pawl.Recorded
	for part := range slices.Chunk(letters, deskBatch) {
		var recorded []pawl.Recorded
		err := s.write(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
			recorded, err = s.recordDeaths(ctx, tx, part)
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
func (s *Store) recordDeaths(ctx context.Context, tx pgx.Tx, letters []pawl.DeadLetter) ([]pawl.Recorded, error) {
	if len(letters) == 0 {
		return nil, nil
	}
	rows := make([]letterRow, 0, len(letters))
	open := make(map[pawl.ID]bool, len(letters)) // letters that have not been answered for
	for _, l := range letters {
		if open[l.ID] {
			continue // the first of a batch counts
		}
		open[l.ID] = true
		row, err := newLetterRow(l)
		if err != nil {
			return nil, fmt.Errorf("record letter of job %s: %w", l.JobID, err)
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b letterRow) int { return bytes.Compare(a.ID[:], b.ID[:]) }) // others wait in this order too
	fresh := make(map[pawl.ID]bool, len(rows))
	for len(rows) > 0 {
		n := statementful(rows)
		ids, err := selectRows(ctx, tx, scanID, s.sql.desk.insertLetters, letterArgs(rows[:n])...)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			fresh[pawl.ID(id)] = true
		}
		rows = rows[n:]
	}
	out := make([]pawl.Recorded, len(letters))
	for i, l := range letters {
		out[i] = pawl.Recorded{ID: l.ID, New: fresh[l.ID]}
		fresh[l.ID] = false
	}
	return out, nil
}

// letterRow is a letter as it is stored.
type letterRow struct {
	pawl.DeadLetter
	tags    string // JSON
	history string // JSON
}

func newLetterRow(l pawl.DeadLetter) (letterRow, error) {
	row := letterRow{DeadLetter: storable.Letter(l)}
	tags, err := json.Marshal(row.Tags)
	if err != nil {
		return row, err
	}
	history, err := json.Marshal(row.History)
	row.tags, row.history = string(tags), string(history)
	return row, err
}

// statementful is how many rows, at least one, go into one statement.
func statementful(rows []letterRow) int {
	const most = 8 << 20 // bytes
	size := 0
	for n, r := range rows {
		size += len(r.Envelope) + len(r.Detail) + len(r.history)
		if n > 0 && (size > most || n == deskBatch) {
			return n
		}
	}
	return len(rows)
}

// letterArgs are the arguments of insertLetters.
func letterArgs(rows []letterRow) []any {
	text := func(of func(*letterRow) string) []string { return column(rows, of) }
	id := func(of func(*letterRow) pawl.ID) []pgtype.UUID {
		return column(rows, func(r *letterRow) pgtype.UUID { return idValue(of(r)) })
	}
	return []any{
		id(func(r *letterRow) pawl.ID { return r.ID }),
		column(rows, func(r *letterRow) int16 { return int16(r.Class) }),
		text(func(r *letterRow) string { return string(r.Reason) }),
		text(func(r *letterRow) string { return r.Fingerprint }),
		text(func(r *letterRow) string { return r.Kind }),
		text(func(r *letterRow) string { return r.Queue }),
		text(func(r *letterRow) string { return r.Connection }),
		id(func(r *letterRow) pawl.ID { return r.JobID }),
		text(func(r *letterRow) string { return r.CorrelationID }),
		text(func(r *letterRow) string { return r.tags }),
		text(func(r *letterRow) string { return r.ExceptionType }),
		column(rows, func(r *letterRow) int32 { return int32(min(max(r.Attempts, math.MinInt32), math.MaxInt32)) }),
		text(func(r *letterRow) string { return r.SourceMessageID }),
		text(func(r *letterRow) string { return r.Host }),
		text(func(r *letterRow) string { return r.Server }),
		text(func(r *letterRow) string { return r.Version }),
		column(rows, func(r *letterRow) pgtype.Timestamptz { return timeValue(r.EnqueuedAt) }),
		column(rows, func(r *letterRow) pgtype.Timestamptz { return timeValue(r.StartedAt) }),
		id(func(r *letterRow) pawl.ID { return r.Previous }),
		text(func(r *letterRow) string { return r.Message }),
		text(func(r *letterRow) string { return r.Detail }),
		text(func(r *letterRow) string { return r.history }),
		column(rows, func(r *letterRow) []byte { return r.Envelope }),
		id(func(r *letterRow) pawl.ID { return r.Batch }),
	}
}

// redriveEnd is what became of a job that a letter was redriven as.
type redriveEnd struct {
	letter  pawl.ID
	outcome pawl.RedriveOutcome
	next    pawl.ID // when it died again
}

// redriveEnded writes what became of redrives back to the letters that they came from, if those still wait for it.
func (s *Store) redriveEnded(ctx context.Context, tx pgx.Tx, ends []redriveEnd) error {
	seen := make(map[pawl.ID]bool, len(ends))
	var each []redriveEnd
	for _, end := range ends {
		if !seen[end.letter] {
			seen[end.letter] = true
			each = append(each, end)
		}
	}
	if len(each) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, s.sql.desk.writeOutcomes,
		column(each, func(e *redriveEnd) pgtype.UUID { return idValue(e.letter) }),
		column(each, func(e *redriveEnd) int16 {
			return int16(pawl.Move{Action: pawl.ActionOutcome, Outcome: e.outcome}.To())
		}),
		column(each, func(e *redriveEnd) string { return string(e.outcome) }),
		column(each, func(e *redriveEnd) pgtype.UUID { return idValue(e.next) }))
	return err
}
