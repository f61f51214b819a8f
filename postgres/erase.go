package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

// eraseStretch is how many rows are looked at in one step. What they hold is read one after the other.
const eraseStretch = 500

// residue is where old bytes lie for a while after an erase.
const residue = "row versions that vacuum has not removed yet, the server's write-ahead log, and backups"

const (
	walkLetters = `select l.id, l.job_id, l.kind, l.queue, l.correlation_id, l.tags, l.enqueued_at,
  l.erased_at is not null and (not $3 or l.message = '` + desk.ErasedText + `'), e.envelope
from {s}.letter l join {s}.evidence e on e.letter = l.id where l.id > $1 and l.dead_at >= $4 order by l.id limit $2`
	walkJobs = `select j.id, j.letter, k.text, q.text, j.enqueued_at, j.envelope
from {s}.job j` + withNames + ` where j.id > $1 order by j.id limit $2`
	walkBatches = `select j.id, null::uuid, k.text, q.text, j.created_at, j.envelope
from {s}.batch j` + withNames + ` where j.id > $1 and j.envelope is not null order by j.id limit $2`
	walkDone = `select j.id, j.letter, k.text, q.text, j.enqueued_at, j.envelope
from {s}.%s j` + withNames + ` where j.id > $1 and j.finished_at is not null order by j.id limit $2`

	selectEvidence = `select detail, history, envelope from {s}.evidence where letter = $1 for update`
	eraseLetter    = `update {s}.letter set erased_at = coalesce(erased_at, $2), message = case when $3 then '` + desk.ErasedText + `' else message end,
  note = case when $3 then '' else note end, tags = case when $3 then '{}' else tags end
where id = $1 and (erased_at is null or $3 and message <> '` + desk.ErasedText + `')`
	eraseEvidence = `update {s}.evidence set envelope = $2, detail = $3, history = $4 where letter = $1`
	selectEnding  = `select history, envelope from {s}.%s where id = $1 and finished_at is not null for update`
	eraseEnding   = `update {s}.%s set envelope = $2, history = $3 where id = $1`
	eraseKey      = `update {s}.key set job_id = null, until_at = null where hash = $1 and job_id = $2`
	eraseNow      = `select now()`
)

// EraseArgs removes args from letters and history, and what cannot run without them.
func (s *Store) EraseArgs(ctx context.Context, erase pawl.Erase) (pawl.Erased, error) {
	return desk.RunErase(ctx, erase, func(ctx context.Context, counted *desk.Erasing) error {
		z := erasing{Erasing: counted, store: s}
		err := z.run(ctx)
		if err == nil && !z.DryRun {
			z.Done.Residue = residue
		}
		return err
	})
}

// erasing is one erase under way.
type erasing struct {
	*desk.Erasing
	store *Store
	began time.Time // the database's
	audit int64     // the line in the trail
}

// run erases the letters, removes or counts what has not ended, erases the finished jobs, and then the letters of what has
// died since it began.
func (z *erasing) run(ctx context.Context) error {
	err := z.store.view(ctx, func(ctx context.Context, q querier) (err error) {
		z.began, _, err = selectOne(ctx, q, scanValue[time.Time], eraseNow)
		return err
	})
	if err == nil {
		err = z.write(ctx, nil, nil)
	}
	if err == nil {
		err = z.letters(ctx, time.Unix(0, 0))
	}
	if err == nil {
		err = z.unfinished(ctx)
	}
	if err == nil {
		err = z.store.inSlots(ctx, z.store.currentSlots, func(slots slotSet) error { return z.finished(ctx, slots) })
	}
	if err == nil {
		err = z.letters(ctx, z.began.Add(-time.Millisecond))
	}
	return err
}

// eraseOne erases one, and counts it unless another erase was faster. It may be called again with counts as they were.
type eraseOne func(ctx context.Context, tx pgx.Tx, c desk.Picked, done *pawl.Erased) error

// write erases some in a transaction, with the counts in the trail.
func (z *erasing) write(ctx context.Context, some []desk.Picked, one eraseOne) error {
	if z.DryRun {
		return nil
	}
	line, done := z.audit, z.Done
	err := z.store.write(ctx, func(ctx context.Context, tx pgx.Tx) error {
		done = z.Done
		for _, c := range some {
			if err := one(ctx, tx, c, &done); err != nil {
				return err
			}
		}
		entry := desk.EraseEntry(z.Erase, done)
		if z.audit == 0 {
			first, err := z.store.writeAudit(ctx, tx, audited{z.By, entry})
			line = first.ID
			return err
		}
		_, err := tx.Exec(ctx, z.store.sql.desk.updateAudit, z.audit, entry.Outcome)
		return err
	})
	if err == nil {
		z.audit, z.Done = line, done
	}
	return err
}

// walk calls each with what is picked of every stretch of rows, in the order of their ids.
func (z *erasing) walk(ctx context.Context, text string, args []any, scan func(pgx.Rows) (desk.Picked, error), each func([]desk.Picked) error) error {
	for after := (pawl.ID{}); ; {
		var some []desk.Picked
		n := 0
		err := z.store.view(ctx, func(ctx context.Context, q querier) error {
			some, n = nil, 0
			ids, err := selectRows(ctx, q, func(rows pgx.Rows) (pawl.ID, error) {
				c, err := scan(rows)
				place := c.ID
				if place.IsZero() {
					place = c.Job
				}
				if err == nil && desk.Erases(z.Erase, c.Carried) {
					c.Envelope = nil
					some = append(some, c)
				}
				return place, err
			}, z.store.schema.text(text), append([]any{idBound(after), eraseStretch}, args...)...)
			if n = len(ids); n > 0 {
				after = ids[n-1]
			}
			return err
		})
		if err == nil && len(some) > 0 {
			err = each(some)
		}
		if err != nil || n < eraseStretch {
			return err
		}
	}
}

func (z *erasing) letters(ctx context.Context, since time.Time) error {
	scan := func(rows pgx.Rows) (c desk.Picked, err error) {
		return c, rows.Scan((*idColumn)(&c.ID), (*idColumn)(&c.Job), &c.Kind, &c.Queue, &c.CorrelationID, &c.Tags,
			(*timeColumn)(&c.EnqueuedAt), &c.Before, &c.Envelope)
	}
	return z.walk(ctx, walkLetters, []any{z.Texts, since}, scan, func(some []desk.Picked) error {
		return z.write(ctx, z.FreshLetters(some), z.eraseLetter)
	})
}

func (z *erasing) eraseLetter(ctx context.Context, tx pgx.Tx, c desk.Picked, done *pawl.Erased) error {
	changed, err := tx.Exec(ctx, z.store.schema.text(eraseLetter), idValue(c.ID), z.began, z.Texts)
	if err != nil {
		return err
	}
	letter, found, err := selectOne(ctx, tx, func(rows pgx.Rows) (l pawl.DeadLetter, err error) {
		return l, rows.Scan(&l.Detail, jsonColumn{&l.History}, &l.Envelope)
	}, z.store.schema.text(selectEvidence), idValue(c.ID))
	switch {
	case err != nil || !found:
		return err
	case changed.RowsAffected() == 0: // another erase was faster
		done.Before++
		return nil
	}
	z.CountLetter(done, c)
	if z.Texts {
		letter.Detail, letter.History = "", desk.EraseHistory(letter.History)
	}
	history, err := json.Marshal(letter.History)
	if err != nil {
		return err
	}
	left, _ := desk.EraseEnvelope(letter.Envelope, c.Job, c.Kind, c.Queue, z.Texts, z.began)
	_, err = tx.Exec(ctx, z.store.schema.text(eraseEvidence), idValue(c.ID), left, letter.Detail, string(history))
	return err
}

// job reads a row of a job, finished or not.
func (z *erasing) job(rows pgx.Rows) (c desk.Picked, err error) {
	var id, letter pawl.ID
	var envelope []byte
	err = rows.Scan((*idColumn)(&id), (*idColumn)(&letter), &c.Kind, &c.Queue, (*timeColumn)(&c.EnqueuedAt), &envelope)
	c.Carried = desk.CarriedBy(id, letter, c.Kind, envelope)
	c.Before = desk.IsErased(envelope, z.Texts)
	return c, err
}

// unfinished removes the jobs that have not ended, or counts them, with those that are to follow batches.
func (z *erasing) unfinished(ctx context.Context) error {
	for _, text := range []string{walkBatches, walkJobs} {
		err := z.walk(ctx, text, nil, z.job, func(some []desk.Picked) error {
			return z.RemoveUnfinished(some, func(ids []pawl.ID) ([]pawl.Cancelled, error) { return z.store.CancelJobs(ctx, ids, z.By) })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (z *erasing) finished(ctx context.Context, slots slotSet) error {
	for _, one := range slots.live {
		table := one.table()
		erase := func(ctx context.Context, tx pgx.Tx, c desk.Picked, done *pawl.Erased) error {
			return z.eraseFinished(ctx, tx, table, c, done)
		}
		err := z.walk(ctx, fmt.Sprintf(walkDone, table), nil, z.job, func(some []desk.Picked) error {
			return z.write(ctx, z.FreshFinished(some), erase)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (z *erasing) eraseFinished(ctx context.Context, tx pgx.Tx, table string, c desk.Picked, done *pawl.Erased) error {
	s := z.store.schema
	var history *string
	job, found, err := selectOne(ctx, tx, func(rows pgx.Rows) (j pawl.JobView, err error) {
		return j, rows.Scan(&history, &j.Envelope)
	}, s.text(fmt.Sprintf(selectEnding, table)), idValue(c.Job))
	if err != nil || !found {
		return err
	}
	if desk.IsErased(job.Envelope, z.Texts) { // another erase was faster
		done.Before++
		return nil
	}
	z.CountFinished(done, c)
	if z.Texts && history != nil {
		var records []pawl.AttemptRecord
		if json.Unmarshal([]byte(*history), &records) != nil {
			records = nil // it cannot be read, and is not shown
		}
		text, err := json.Marshal(desk.EraseHistory(records))
		if err != nil {
			return err
		}
		*history = string(text)
	}
	left, key := desk.EraseEnvelope(job.Envelope, c.Job, c.Kind, c.Queue, z.Texts, z.began)
	if _, err := tx.Exec(ctx, s.text(fmt.Sprintf(eraseEnding, table)), idValue(c.Job), left, history); err != nil || key == "" {
		return err
	}
	_, err = tx.Exec(ctx, s.text(eraseKey), idValue(keyHash(key)), idValue(c.Job))
	return err
}
