package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

// The same columns of live and of ended jobs. An ended one without an envelope is remembered for its id alone.
const (
	liveColumns = `id, kind, queue, case when session is not null then 'reserved' when run_at < ` + parked + ` then 'scheduled'
		else 'waiting' end, attempt, crashes, requeues, enqueued_at, nullif(run_at, ` + parked + `), null,
		coalesce((select name from pawl_session s where s.id = session), ''), coalesce(progress, ''), letter, starts_off, run_at is not null and run_at = ` + parked
	isKept      = "envelope is not null"
	doneColumns = `id, kind, queue, state, attempt, 0, 0, enqueued_at, null, finished_at, '', '', letter, 0, 0`
)

// jobRow is a job as it is stored; what holds it back is not in its row.
type jobRow struct {
	pawl.JobView
	startsOff bool
}

func (r *jobRow) targets() []any {
	return []any{
		(*looseID)(&r.ID), &r.Kind, &r.Queue, &r.State, &r.Attempt, &r.Crashes, &r.Requeues, (*timeColumn)(&r.EnqueuedAt),
		(*timeColumn)(&r.RunAt), (*timeColumn)(&r.FinishedAt), &r.Host, &r.Progress, (*looseID)(&r.Letter), &r.startsOff, &r.HeldInLine,
	}
}

func scanJob(rows *sql.Rows) (r jobRow, err error) { return r, rows.Scan(r.targets()...) }

func scanWholeJob(rows *sql.Rows) (r jobRow, err error) {
	return r, rows.Scan(append(r.targets(), &r.Envelope)...)
}

// hold says of live jobs what holds them back.
func hold(ctx context.Context, x execer, rows []jobRow) ([]pawl.JobView, error) {
	switches, err := readSwitches(ctx, x, now())
	if err != nil {
		return nil, err
	}
	board := desk.NewBoard(switches)
	views := make([]pawl.JobView, len(rows))
	for i := range rows {
		board.Hold(&rows[i].JobView, rows[i].startsOff)
		views[i] = rows[i].JobView
	}
	return views, nil
}

// Job returns one with its envelope and history, or ErrNotFound.
func (s *Store) Job(ctx context.Context, id pawl.ID) (pawl.JobView, error) {
	var view pawl.JobView
	err := s.view(ctx, func(x execer) (err error) {
		view, err = readJob(ctx, x, id)
		return err
	})
	if err != nil {
		return pawl.JobView{}, fmt.Errorf("read job %s: %w", id, err)
	}
	return view, nil
}

func readJob(ctx context.Context, x execer, id pawl.ID) (pawl.JobView, error) {
	var rows []jobRow
	for _, query := range []string{
		"select " + liveColumns + ", envelope from pawl_job where id = ?",
		"select " + doneColumns + ", envelope from pawl_done where id = ? and " + isKept,
	} {
		row, found, err := selectOne(ctx, x, scanWholeJob, query, id[:])
		if err != nil {
			return pawl.JobView{}, err
		}
		if found {
			rows = append(rows, row)
			break
		}
	}
	if len(rows) == 0 {
		return pawl.JobView{}, pawl.ErrNotFound
	}
	views, err := hold(ctx, x, rows)
	if err != nil {
		return pawl.JobView{}, err
	}
	view := views[0]
	view.History, err = readHistory(ctx, x, id)
	return view, err
}

// readHistory finds the attempts that failed, oldest first. Records that cannot be read are left out.
func readHistory(ctx context.Context, x execer, id pawl.ID) ([]pawl.AttemptRecord, error) {
	kept, err := selectRows(ctx, x, scanValue[string], `select record from pawl_attempt where job_id = ? order by n`, id[:])
	var history []pawl.AttemptRecord
	for _, text := range kept {
		var record pawl.AttemptRecord
		if json.Unmarshal([]byte(text), &record) == nil {
			history = append(history, record)
		}
	}
	return history, err
}
