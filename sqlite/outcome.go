package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
)

const (
	fence = ` where session = ?1 and token = ?2 and +id = ?3`

	clear = `update pawl_job set session = null, token = null, room = zeroblob(10), cancel = 0, progress = null, `

	waitAgain = clear + `started = 0, run_at = ?4, ready_at = ?4` + fence + notCancelled
	queueUp   = clear + `started = 0, seq = ?4, ready_at = ?5, run_at = iif(turn <> 0, ` + parked + `, null)` + fence + notCancelled

	// As if it had not been claimed: a mark of this reservation goes unless its handler was interrupted, an earlier one
	// stays.
	giveBack = clear + `started = iif(started = token and not ?4, 0, started), seq = iif(seq > 0, seq - 4611686018427387904, seq),
attempt = attempt - 1, requeues = requeues + ?4, ready_at = iif(?4, ?5, ready_at)` + fence + notCancelled

	selectEnding = `select kind, queue, attempt, enqueued_at, letter, unique_key, turn <> 0, batch, envelope from pawl_job` + fence
	insertEnded  = `insert or replace into pawl_done (id, kind, queue, state, attempt, enqueued_at, finished_at, letter, envelope)
values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)`
	deleteEnded   = `delete from pawl_job` + fence
	deleteVerdict = `delete from pawl_verdict where job_id = ?1`

	appendRecord = `insert into pawl_attempt (job_id, n, record)
select ?1, coalesce(max(n), 0) + 1, ?2 from pawl_attempt where job_id = ?1`
	trimRecords = `delete from pawl_attempt where job_id = ?1
and n <= (select max(n) from pawl_attempt where job_id = ?1) - ?2`
)

// settleOne settles a member that is not a plain acknowledgement.
func (b *settling) settleOne(ctx context.Context, i int) error {
	item := &b.items[i]
	var changed int64
	var err error
	switch outcome := item.Outcome.(type) {
	case pawl.Retry:
		changed, err = b.putBack(ctx, item.Reservation, outcome.After)
	case pawl.Release:
		changed, err = b.putBack(ctx, item.Reservation, outcome.After)
	case pawl.GiveBack:
		changed, err = b.change(ctx, giveBack, item.Reservation, outcome.Interrupted, b.at)
		b.w.ready = b.w.ready || changed > 0
	case pawl.Done:
		changed, err = b.end(ctx, item, string(pawl.JobDone), pawl.RedriveSucceeded)
	case pawl.Dead:
		changed, err = b.end(ctx, item, string(pawl.JobDead), pawl.RedriveDiedAgain)
	}
	if err != nil {
		return err
	}
	if changed == 0 {
		return b.notSettled(ctx, i)
	}
	return b.keepRecord(ctx, item)
}

// notSettled deals with a member that no statement has found: its job is to be cancelled, or it is not the session's.
func (b *settling) notSettled(ctx context.Context, i int) error {
	removed, err := b.removeInstead(ctx, &b.items[i])
	if err == nil && !removed {
		b.results[i] = pawl.LeaseLost(b.items[i].Reservation)
	}
	return err
}

// change runs a fenced statement.
func (b *settling) change(ctx context.Context, statement string, r pawl.Reservation, args ...any) (int64, error) {
	all := append(make([]any, 0, 3+len(args)), b.session, int64(r.Token), r.ID[:])
	return change(ctx, b.w, statement, append(all, args...)...)
}

// putBack schedules the job, or puts it at the end of its queue at once.
func (b *settling) putBack(ctx context.Context, r pawl.Reservation, after time.Duration) (int64, error) {
	if after > 0 {
		changed, err := b.change(ctx, waitAgain, r, b.at+wholeMillis(after))
		if err == nil && changed > 0 {
			err = b.turns.back(ctx, r.ID, 0) // it joins the lines when it is due
		}
		return changed, err
	}
	seq, _, err := selectOne(ctx, b.w, scanValue[int64], takeSeq, 1)
	if err != nil {
		return 0, fmt.Errorf("draw number: %w", err)
	}
	changed, err := b.change(ctx, queueUp, r, seq, b.at)
	if err == nil && changed > 0 {
		err = b.turns.back(ctx, r.ID, seq)
	}
	b.w.ready = b.w.ready || changed > 0
	return changed, err
}

// ending is what is read of a job that ends.
type ending struct {
	care
	kind, queue string
	attempt     int
	enqueuedAt  int64
	envelope    []byte
}

func scanEnding(rows *sql.Rows) (e ending, err error) {
	return e, rows.Scan(&e.kind, &e.queue, &e.attempt, &e.enqueuedAt, (*looseID)(&e.letter), &e.key, &e.turn, (*looseID)(&e.batch), &e.envelope)
}

// end moves one job to the finished ones, with its letter and alerts when it is dead.
func (b *settling) end(ctx context.Context, item *pawl.Settlement, state string, outcome pawl.RedriveOutcome) (int64, error) {
	job, found, err := selectOne(ctx, b.w, scanEnding, selectEnding, b.session, int64(item.Token), item.ID[:])
	if err != nil || !found {
		return 0, err
	}
	job.token, job.id = item.Token, item.ID
	came, next := job.letter, pawl.ID{}
	if outcome == pawl.RedriveDiedAgain {
		if next, err = b.bury(ctx, *item.Letter, job); err != nil {
			return 0, err
		}
		came = next
	}
	var envelope any // null without history
	if b.history {
		envelope = job.envelope
	}
	_, err = b.w.ExecContext(ctx, insertEnded, item.ID[:], job.kind, job.queue, state, job.attempt, job.enqueuedAt, b.at,
		idValue(came), envelope)
	if err != nil {
		return 0, fmt.Errorf("keep finished job: %w", err)
	}
	if err := b.leave(ctx, job.care, outcome, next); err != nil {
		return 0, err
	}
	if _, err := b.w.ExecContext(ctx, deleteVerdict, item.ID[:]); err != nil {
		return 0, fmt.Errorf("remove verdict: %w", err)
	}
	return b.change(ctx, deleteEnded, item.Reservation)
}

// bury records the letter of a job, completed from its row.
func (b *settling) bury(ctx context.Context, letter pawl.DeadLetter, job ending) (pawl.ID, error) {
	if len(letter.Envelope) == 0 {
		letter.Envelope = job.envelope
	}
	if letter.Previous.IsZero() {
		letter.Previous = job.letter
	}
	recorded, err := recordDeaths(ctx, b.w, []pawl.DeadLetter{letter}, b.at)
	if err != nil {
		return pawl.ID{}, err
	}
	return recorded[0].ID, nil
}

// keepRecord appends what the attempt left, and keeps the latest. A claim that is given back as if it had not been
// leaves nothing.
func (b *settling) keepRecord(ctx context.Context, item *pawl.Settlement) error {
	if item.Record == nil || item.Outcome == (pawl.GiveBack{}) {
		return nil
	}
	return b.appendRecord(ctx, item)
}

func (b *settling) appendRecord(ctx context.Context, item *pawl.Settlement) error {
	text, err := json.Marshal(item.Record)
	if err != nil {
		return fmt.Errorf("keep record of attempt: %w", err)
	}
	if _, err := b.w.ExecContext(ctx, appendRecord, item.ID[:], string(text)); err != nil {
		return fmt.Errorf("keep record of attempt: %w", err)
	}
	if _, err := b.w.ExecContext(ctx, trimRecords, item.ID[:], pawl.HistoryLimit); err != nil {
		return fmt.Errorf("trim records of attempts: %w", err)
	}
	return nil
}
