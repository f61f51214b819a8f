package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

// eraseStretch is how many rows are looked at in one step. What they hold is read one after the other.
const eraseStretch = 500

const (
	walkLetters = `select l.id, l.id, coalesce(l.job_id, x''), l.kind, l.queue, l.correlation_id, l.tags, l.enqueued_at,
	l.erased_at is not null and (not ?3 or l.message = '` + desk.ErasedText + `'), e.envelope
from pawl_letter l join pawl_evidence e on e.letter = l.id where l.id > ?1 and l.dead_at >= ?4 order by l.id limit ?2`
	walkDone = `select rowid, id, coalesce(letter, x''), kind, queue, enqueued_at, envelope from pawl_done
where rowid > ?1 and envelope is not null order by rowid limit ?2`
	walkJobs = `select seq, id, coalesce(letter, x''), kind, queue, enqueued_at, envelope from pawl_job
where seq > ?1 order by seq limit ?2`

	walkBatches = `select b.id, b.id, x'', b.kind, b.queue, b.created_at, j.envelope
from pawl_batch b join pawl_batch_job j on j.batch = b.id where b.id > ?1 order by b.id limit ?2`

	eraseLetter = `update pawl_letter set erased_at = coalesce(erased_at, ?2) where id = ?1
and (erased_at is null or ?3 and message <> '` + desk.ErasedText + `')`
	eraseWords    = `update pawl_letter set message = '` + desk.ErasedText + `', note = '', tags = '[]' where id = ?1`
	eraseEvidence = `update pawl_evidence set envelope = ?2, detail = ?3, history = ?4 where letter = ?1`
	eraseDone     = `update pawl_done set envelope = ?2 where id = ?1`
	eraseKey      = `delete from pawl_key where key = ?1 and job_id = ?2 and until > 0`
	eraseRecord   = `update pawl_attempt set record = ?3 where job_id = ?1 and n = ?2`
)

// EraseArgs removes args from letters and history, and what cannot run without them.
func (s *Store) EraseArgs(ctx context.Context, erase pawl.Erase) (pawl.Erased, error) {
	return desk.RunErase(ctx, erase, func(ctx context.Context, counted *desk.Erasing) error {
		z := erasing{Erasing: counted, store: s, began: now()}
		err := z.run(ctx)
		if err == nil && !z.DryRun {
			z.Done.Residue = s.wipe(ctx)
		}
		return err
	})
}

// erasing is one erase under way.
type erasing struct {
	*desk.Erasing
	store *Store
	began int64
	audit int64 // the line in the trail
}

// run erases the letters, removes or counts what has not ended, erases the finished jobs, and then the letters of what has
// died since it began.
func (z *erasing) run(ctx context.Context) error {
	if err := z.write(ctx, nil, nil); err != nil {
		return err
	}
	if err := z.letters(ctx, 0); err != nil {
		return err
	}
	if err := z.unfinished(ctx); err != nil {
		return err
	}
	if err := z.finished(ctx); err != nil {
		return err
	}
	return z.letters(ctx, z.began)
}

// eraseOne erases one, and counts it unless another erase was faster. It may be called again with counts as they were.
type eraseOne func(ctx context.Context, w *writer, c desk.Picked, done *pawl.Erased) error

// write erases some in a transaction, with the counts in the trail.
func (z *erasing) write(ctx context.Context, some []desk.Picked, one eraseOne) error {
	if z.DryRun {
		return nil
	}
	line, done := z.audit, z.Done
	err := z.store.write(ctx, func(ctx context.Context, w *writer) (err error) {
		done = z.Done
		if _, err := w.conn.ExecContext(ctx, "pragma secure_delete = on"); err != nil {
			return err
		}
		for _, c := range some {
			if err == nil {
				err = one(ctx, w, c, &done)
			}
		}
		entry := desk.EraseEntry(z.Erase, done)
		switch {
		case err != nil:
		case z.audit == 0:
			line, err = writeAudit(ctx, w, now(), z.By, entry)
		default:
			_, err = w.ExecContext(ctx, `update pawl_audit set outcome = ? where id = ?`, entry.Outcome, z.audit)
		}
		if _, offErr := w.conn.ExecContext(ctx, "pragma secure_delete = fast"); err == nil {
			err = offErr
		}
		return err
	})
	if err == nil {
		z.audit, z.Done = line, done
	}
	return err
}

// walk calls each with what is picked of every stretch of rows. A scan returns the place of its row.
func walk[P any](ctx context.Context, z *erasing, after P, query string, args []any, scan func(*sql.Rows) (P, desk.Picked, error), each func([]desk.Picked) error) error {
	for {
		var some []desk.Picked
		n := 0
		err := z.store.view(ctx, func(x execer) error {
			some, n = nil, 0
			places, err := selectRows(ctx, x, func(rows *sql.Rows) (P, error) {
				place, c, err := scan(rows)
				if err == nil && desk.Erases(z.Erase, c.Carried) {
					c.Envelope = nil
					some = append(some, c)
				}
				return place, err
			}, query, append([]any{after, eraseStretch}, args...)...)
			if n = len(places); n > 0 {
				after = places[n-1]
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

func (z *erasing) letters(ctx context.Context, since int64) error {
	scan := func(rows *sql.Rows) (place []byte, c desk.Picked, err error) {
		return place, c, rows.Scan(&place, (*idColumn)(&c.ID), (*looseID)(&c.Job), &c.Kind, &c.Queue, &c.CorrelationID, jsonColumn{&c.Tags},
			(*timeColumn)(&c.EnqueuedAt), &c.Before, &c.Envelope)
	}
	return walk(ctx, z, []byte{}, walkLetters, []any{z.Texts, since}, scan, func(some []desk.Picked) error {
		return z.write(ctx, z.FreshLetters(some), z.eraseLetter)
	})
}

func (z *erasing) eraseLetter(ctx context.Context, w *writer, c desk.Picked, done *pawl.Erased) error {
	letter, found, err := selectOne(ctx, w, func(rows *sql.Rows) (l pawl.DeadLetter, err error) {
		return l, rows.Scan(&l.Detail, jsonColumn{&l.History}, &l.Envelope)
	}, `select detail, history, envelope from pawl_evidence where letter = ?`, c.ID[:])
	if err != nil || !found {
		return err
	}
	if n, err := change(ctx, w, eraseLetter, c.ID[:], z.began, z.Texts); err != nil || n == 0 {
		done.Before++ // another erase was faster
		return err
	}
	z.CountLetter(done, c)
	if z.Texts {
		letter.Detail, letter.History = "", desk.EraseHistory(letter.History)
		if _, err := w.ExecContext(ctx, eraseWords, c.ID[:]); err != nil {
			return err
		}
	}
	history, err := jsonArray(letter.History)
	if err != nil {
		return err
	}
	left, _ := desk.EraseEnvelope(letter.Envelope, c.Job, c.Kind, c.Queue, z.Texts, time.UnixMilli(z.began))
	_, err = w.ExecContext(ctx, eraseEvidence, c.ID[:], left, letter.Detail, history)
	return err
}

// job reads a row of a job, finished or not.
func (z *erasing) job(rows *sql.Rows) (place int64, c desk.Picked, err error) {
	var id, letter pawl.ID
	var envelope []byte
	err = rows.Scan(&place, (*looseID)(&id), (*looseID)(&letter), &c.Kind, &c.Queue, (*timeColumn)(&c.EnqueuedAt), &envelope)
	c.Carried = desk.CarriedBy(id, letter, c.Kind, envelope)
	c.Before = desk.IsErased(envelope, z.Texts)
	return place, c, err
}

// callback reads a row of a job that is to follow a batch.
func (z *erasing) callback(rows *sql.Rows) (place []byte, c desk.Picked, err error) {
	var id, letter pawl.ID
	var envelope []byte
	err = rows.Scan(&place, (*looseID)(&id), (*looseID)(&letter), &c.Kind, &c.Queue, (*timeColumn)(&c.EnqueuedAt), &envelope)
	c.Carried = desk.CarriedBy(id, letter, c.Kind, envelope)
	return place, c, err
}

// unfinished removes the jobs that have not ended, or counts them, with those that are to follow batches.
func (z *erasing) unfinished(ctx context.Context) error {
	remove := func(some []desk.Picked) error {
		return z.RemoveUnfinished(some, func(ids []pawl.ID) ([]pawl.Cancelled, error) { return z.store.CancelJobs(ctx, ids, z.By) })
	}
	if err := walk(ctx, z, []byte{}, walkBatches, nil, z.callback, remove); err != nil {
		return err
	}
	return walk(ctx, z, int64(-1<<62), walkJobs, nil, z.job, remove)
}

func (z *erasing) finished(ctx context.Context) error {
	return walk(ctx, z, int64(-1<<62), walkDone, nil, z.job, func(some []desk.Picked) error {
		return z.write(ctx, z.FreshFinished(some), z.eraseFinished)
	})
}

func (z *erasing) eraseFinished(ctx context.Context, w *writer, c desk.Picked, done *pawl.Erased) error {
	stored, found, err := selectOne(ctx, w, scanValue[[]byte], `select envelope from pawl_done where id = ? and envelope is not null`, c.Job[:])
	if err != nil || !found {
		return err
	}
	if desk.IsErased(stored, z.Texts) { // another erase was faster
		done.Before++
		return nil
	}
	z.CountFinished(done, c)
	left, key := desk.EraseEnvelope(stored, c.Job, c.Kind, c.Queue, z.Texts, time.UnixMilli(z.began))
	if _, err := w.ExecContext(ctx, eraseDone, c.Job[:], left); err != nil {
		return err
	}
	if key != "" {
		if _, err := w.ExecContext(ctx, eraseKey, key, c.Job[:]); err != nil {
			return err
		}
	}
	if z.Texts {
		return eraseRecords(ctx, w, c.Job)
	}
	return nil
}

// eraseRecords takes the messages from the attempts of a job.
func eraseRecords(ctx context.Context, w *writer, job pawl.ID) error {
	type kept struct {
		n      int64
		record string
	}
	all, err := selectRows(ctx, w, func(rows *sql.Rows) (k kept, err error) {
		return k, rows.Scan(&k.n, &k.record)
	}, `select n, record from pawl_attempt where job_id = ?`, job[:])
	for _, k := range all {
		if err != nil {
			return err
		}
		record := make([]pawl.AttemptRecord, 1)
		if json.Unmarshal([]byte(k.record), &record[0]) != nil {
			record[0] = pawl.AttemptRecord{} // it cannot be read, and is not shown
		}
		var text []byte
		if text, err = json.Marshal(desk.EraseHistory(record)[0]); err == nil {
			_, err = w.ExecContext(ctx, eraseRecord, job[:], k.n, string(bytes.TrimSpace(text)))
		}
	}
	return err
}
