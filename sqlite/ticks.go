package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

const (
	selectNextTick     = `select due_at from pawl_schedule where due_at is not null order by due_at limit 1`
	selectDueSchedules = `select ` + desk.ScheduleColumns + ` from pawl_schedule s where s.due_at is not null and s.due_at <= ?1 order by s.due_at limit ?2`

	selectOpenRuns = `select coalesce(max(j.session is null), 0), coalesce(max(j.session is not null), 0)
from pawl_run r indexed by pawl_run_schedule join pawl_job j on j.id = r.job_id where r.schedule = ?1 and r.check_at is not null`

	insertTickRun = `insert into pawl_run (schedule, tick_at, manual, job_id, check_at) values (?1, ?2, ?3, ?4, ?5)`
	trimRuns      = `delete from pawl_run where schedule = ?1 and id <= (select id from pawl_run where schedule = ?1 order by id desc limit 1 offset ?2)`

	selectNextCheck = `select check_at from pawl_run where check_at is not null order by check_at limit 1`
	selectToCheck   = `select r.id, r.schedule, r.check_at, j.id is not null, coalesce(d.state, ''), d.finished_at
from pawl_run r left join pawl_job j on j.id = r.job_id left join pawl_done d on d.id = r.job_id
where r.check_at is not null and r.check_at <= ?1 order by r.check_at limit ?2`
	postponeCheck = `update pawl_run set check_at = ?2 where id = ?1`
	endRun        = `update pawl_run set check_at = null, state = ?2, ended_at = ?3 where id = ?1`
	noteSuccess   = `update pawl_schedule set success_at = max(coalesce(success_at, 0), ?2) where id = ?1`
)

// runSchedules gives due ticks their jobs, and looks what became of those of earlier ones. Where nothing is due it
// reads two numbers.
func (s *Store) runSchedules(ctx context.Context, request pawl.SweepRequest, report *pawl.SweepReport) error {
	var next, check int64
	var ticks, checks bool
	look := func(x execer) (err error) {
		if next, ticks, err = selectOne(ctx, x, scanValue[int64], selectNextTick); err != nil {
			return err
		}
		check, checks, err = selectOne(ctx, x, scanValue[int64], selectNextCheck)
		return err
	}
	if err := s.view(ctx, look); err != nil {
		return err
	}
	if ticks && next <= now() {
		limit := min(request.Limit, desk.SchedulesAtOnce)
		fired, rows := 0, 0
		err := s.write(ctx, func(ctx context.Context, w *writer) (err error) {
			fired, rows, err = s.fireDue(ctx, w, limit)
			if err == nil {
				next, ticks, err = selectOne(ctx, w, scanValue[int64], selectNextTick)
			}
			return err
		})
		if err != nil {
			return err
		}
		report.Ticks, report.More = fired, report.More || rows == limit
	}
	if ticks {
		if wait := longMillis(next - now()); report.NextDue < 0 || wait < report.NextDue {
			report.NextDue = wait
		}
	}
	if !checks || check > now() {
		return nil
	}
	return s.write(ctx, func(ctx context.Context, w *writer) error {
		return checkRuns(ctx, w, min(request.Limit, desk.RunsAtOnce))
	})
}

// fireDue acts on schedules that are due.
func (s *Store) fireDue(ctx context.Context, w *writer, limit int) (fired, rows int, err error) {
	at := now()
	moment := time.UnixMilli(at).UTC()
	due, err := selectRows(ctx, w, scanScheduleRow, selectDueSchedules, at, limit)
	if err != nil {
		return 0, 0, err
	}
	var jobs []pawl.NewJob
	for _, row := range due {
		var open desk.OpenRuns
		if row.Overlap != pawl.OverlapAllow {
			if open, err = openRuns(ctx, w, row); err != nil {
				return 0, 0, err
			}
		}
		tick := row.Next
		made, ticks := row.Due(s.Connection(), open, moment)
		if err := advanceRow(ctx, w, row, tick); err != nil {
			return 0, 0, err
		}
		for i, job := range made {
			if err := insertRun(ctx, w, row.ID, ticks[i], false, job.ID, moment); err != nil {
				return 0, 0, err
			}
		}
		jobs = append(jobs, made...)
	}
	if len(jobs) == 0 {
		return 0, len(due), nil
	}
	w.ready = true
	_, err = insertJobs(ctx, w, jobs, at) // one whose id is there was made by this tick before
	return len(jobs), len(due), err
}

// openRuns says which jobs of a schedule have not ended.
func openRuns(ctx context.Context, x execer, row *desk.ScheduleRow) (desk.OpenRuns, error) {
	open, _, err := selectOne(ctx, x, func(rows *sql.Rows) (o desk.OpenRuns, err error) {
		return o, rows.Scan(&o.Waiting, &o.Running)
	}, selectOpenRuns, row.ID)
	if err != nil {
		return open, fmt.Errorf("look for jobs of schedule %s: %w", row.Name, err)
	}
	return open, nil
}

// insertRun remembers a job of a schedule, and forgets the oldest.
func insertRun(ctx context.Context, x execer, schedule int64, tick time.Time, manual bool, job pawl.ID, now time.Time) error {
	if _, err := x.ExecContext(ctx, insertTickRun, schedule, tick.UnixMilli(), manual, job[:], now.Add(desk.RunLook).UnixMilli()); err != nil {
		return err
	}
	_, err := x.ExecContext(ctx, trimRuns, schedule, pawl.ScheduleRuns)
	return err
}

// checkRuns writes down what became of jobs, before they are forgotten.
func checkRuns(ctx context.Context, w *writer, limit int) error {
	type run struct {
		id, schedule, checkAt int64
		lives                 bool
		state                 pawl.JobState
		ended                 time.Time
	}
	at := now()
	runs, err := selectRows(ctx, w, func(rows *sql.Rows) (r run, err error) {
		return r, rows.Scan(&r.id, &r.schedule, &r.checkAt, &r.lives, &r.state, (*timeColumn)(&r.ended))
	}, selectToCheck, at, limit)
	if err != nil {
		return fmt.Errorf("look after jobs of schedules: %w", err)
	}
	for _, r := range runs {
		if r.lives {
			_, err = w.ExecContext(ctx, postponeCheck, r.id, at+desk.RunLook.Milliseconds())
		} else {
			_, err = w.ExecContext(ctx, endRun, r.id, string(r.state), timeValue(r.ended))
		}
		if err == nil && r.state == pawl.JobDone {
			_, err = w.ExecContext(ctx, noteSuccess, r.schedule, timeValue(r.ended))
		}
		if err != nil {
			return fmt.Errorf("look after jobs of schedules: %w", err)
		}
	}
	return nil
}
