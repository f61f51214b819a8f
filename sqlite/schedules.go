package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/page"
)

const (
	// The state of the latest job, from wherever it is known.
	selectSchedules = `select ` + desk.ScheduleColumns + `,
coalesce((select ` + liveState + ` from pawl_job j where j.id = s.last_job), d.state, r.state, ''), coalesce(d.finished_at, r.ended_at)
from pawl_schedule s left join pawl_done d on d.id = s.last_job left join pawl_run r on r.job_id = s.last_job`

	selectRuns = `select r.tick_at, r.manual, r.job_id,
coalesce((select ` + liveState + ` from pawl_job j where j.id = r.job_id), d.state, r.state), coalesce(d.finished_at, r.ended_at)
from pawl_run r left join pawl_done d on d.id = r.job_id where r.schedule = ?1 order by r.id desc limit ?2`

	liveState = `case when j.session is not null then 'reserved' when j.run_at is not null then 'scheduled' else 'waiting' end`

	deleteRuns     = `delete from pawl_run where schedule = ?1`
	deleteSchedule = `delete from pawl_schedule where id = ?1`
	noteManual     = `update pawl_schedule set last_job = ?2 where id = ?1`
)

var _ pawl.Declarations = (*Store)(nil)

func scanSchedule(rows *sql.Rows) (*desk.ScheduleRow, error) {
	r := &desk.ScheduleRow{}
	err := rows.Scan(append(r.Targets(columns), &r.LastState, (*timeColumn)(&r.LastEnded))...)
	if r.LastState == pawl.JobDone && r.LastEnded.After(r.LastSuccess) {
		r.LastSuccess = r.LastEnded
	}
	return r, err
}

// Schedules lists by name.
func (s *Store) Schedules(ctx context.Context, filter pawl.ScheduleFilter, p pawl.Page) (pawl.SchedulePage, error) {
	query, args, limit, err := scheduleQuery(filter, p)
	if err != nil {
		return pawl.SchedulePage{}, err
	}
	var out pawl.SchedulePage
	err = s.view(ctx, func(x execer) error {
		rows, err := selectRows(ctx, x, scanSchedule, query, args...)
		if err != nil {
			return err
		}
		if len(rows) > limit {
			rows = rows[:limit]
			out.Next = page.EncodeName(page.Schedules, rows[limit-1].Name)
		}
		all, err := readDeclarers(ctx, x)
		for _, r := range rows {
			r.Declarers = desk.Declarers(all, r.Name)
			out.Schedules = append(out.Schedules, r.ScheduleView)
		}
		return err
	})
	if err != nil {
		return pawl.SchedulePage{}, fmt.Errorf("list schedules: %w", err)
	}
	return out, nil
}

func scheduleQuery(f pawl.ScheduleFilter, p pawl.Page) (query string, args []any, limit int, err error) {
	if limit, err = page.Limit(p); err != nil {
		return "", nil, 0, err
	}
	after, err := page.DecodeName(page.Schedules, p.After)
	if err != nil {
		return "", nil, 0, err
	}
	var w where
	w.check(desk.CheckScheduleFilter(f))
	w.add("s.name > ?", after)
	w.text("s.kind = ?", f.Kind)
	if f.Prefix != "" {
		w.add("s.name >= ? and substr(s.name, 1, length(?)) = ?", f.Prefix, f.Prefix, f.Prefix)
	}
	w.add("s.removed = 0")
	return selectSchedules + w.sql() + " order by s.name limit ?", append(w.args, limit+1), limit, w.err
}

// Schedule returns one with its latest jobs, or ErrNotFound.
func (s *Store) Schedule(ctx context.Context, name string) (pawl.ScheduleView, error) {
	var view pawl.ScheduleView
	err := s.view(ctx, func(x execer) error {
		row, found, err := selectOne(ctx, x, scanSchedule, selectSchedules+" where s.name = ? and s.removed = 0", name)
		if err != nil {
			return err
		}
		if !found {
			return desk.NoSchedule(name)
		}
		view = row.ScheduleView
		all, err := readDeclarers(ctx, x)
		if err != nil {
			return err
		}
		view.Declarers = desk.Declarers(all, name)
		view.Runs, err = selectRows(ctx, x, func(rows *sql.Rows) (r pawl.ScheduleRun, err error) {
			return r, rows.Scan((*timeColumn)(&r.Tick), &r.Manual, (*idColumn)(&r.Job), &r.State, (*timeColumn)(&r.Ended))
		}, selectRuns, row.ID, pawl.ScheduleRuns)
		return err
	})
	if err != nil {
		return pawl.ScheduleView{}, fmt.Errorf("read schedule: %w", err)
	}
	return view, nil
}

// changeSchedule reads a row, has it changed, and stores it with its line in the trail. Where change returns no entry
// nothing is written. There is a row but for one that is nil.
func (s *Store) changeSchedule(ctx context.Context, name string, by pawl.By,
	change func(ctx context.Context, w *writer, row *desk.ScheduleRow, at time.Time) (*desk.ScheduleRow, *pawl.AuditEntry, error),
) error {
	return s.write(ctx, func(ctx context.Context, w *writer) error {
		row, err := readScheduleRow(ctx, w, name)
		if err != nil {
			return err
		}
		at := now()
		row, entry, err := change(ctx, w, row, time.UnixMilli(at).UTC())
		if err != nil || entry == nil {
			return err
		}
		if row != nil {
			if err := writeScheduleRow(ctx, w, row); err != nil {
				return err
			}
		}
		_, err = writeAudit(ctx, w, at, by, *entry)
		return err
	})
}

// AddSchedule stores a new one.
func (s *Store) AddSchedule(ctx context.Context, added pawl.Schedule, by pawl.By) error {
	added, err := desk.CheckSchedule(added, by)
	if err != nil {
		return err
	}
	err = s.changeSchedule(ctx, added.Name, by, func(ctx context.Context, w *writer, row *desk.ScheduleRow, at time.Time) (*desk.ScheduleRow, *pawl.AuditEntry, error) {
		if row != nil && !row.Removed {
			return nil, nil, fmt.Errorf("schedule %s is there already: %w", added.Name, pawl.ErrConflict)
		}
		if err := checkKind(ctx, w, added); err != nil {
			return nil, nil, err
		}
		fresh, err := desk.NewScheduleRow(added, at)
		if row != nil {
			fresh.ID = row.ID
		}
		entry := desk.ScheduleEntry(pawl.ActionAdd, added.Name, "", desk.Says(added))
		return fresh, &entry, err
	})
	if err != nil {
		return fmt.Errorf("add schedule: %w", err)
	}
	return nil
}

// SetSchedule replaces what a schedule says. From then on it is the operator's.
func (s *Store) SetSchedule(ctx context.Context, set pawl.Schedule, by pawl.By) error {
	set, err := desk.CheckSchedule(set, by)
	if err != nil {
		return err
	}
	err = s.changeSchedule(ctx, set.Name, by, func(ctx context.Context, w *writer, row *desk.ScheduleRow, at time.Time) (*desk.ScheduleRow, *pawl.AuditEntry, error) {
		if err := mayChange(ctx, w, row, set.Name); err != nil {
			return nil, nil, err
		}
		if err := checkKind(ctx, w, set); err != nil {
			return nil, nil, err
		}
		entry := desk.ScheduleEntry(pawl.ActionSet, set.Name, desk.Says(row.Schedule), desk.Says(set))
		row.Declared, row.Fingerprint, row.Seen = false, "", nil
		return row, &entry, row.Change(set, at)
	})
	if err != nil {
		return fmt.Errorf("set schedule: %w", err)
	}
	return nil
}

// mayChange refuses what is not there, and what the code of a live host declares.
func mayChange(ctx context.Context, x execer, row *desk.ScheduleRow, name string) error {
	if row == nil || row.Removed {
		return desk.NoSchedule(name)
	}
	all, err := readDeclarers(ctx, x)
	if err != nil {
		return err
	}
	return row.MayChange(all)
}

// DeleteSchedule removes one. Its jobs stay.
func (s *Store) DeleteSchedule(ctx context.Context, name string, by pawl.By) error {
	if err := desk.CheckBy(by); err != nil {
		return err
	}
	err := s.changeSchedule(ctx, name, by, func(ctx context.Context, w *writer, row *desk.ScheduleRow, _ time.Time) (*desk.ScheduleRow, *pawl.AuditEntry, error) {
		if err := mayChange(ctx, w, row, name); err != nil {
			return nil, nil, err
		}
		for _, statement := range []string{deleteRuns, deleteSchedule} {
			if _, err := w.ExecContext(ctx, statement, row.ID); err != nil {
				return nil, nil, err
			}
		}
		entry := desk.ScheduleEntry(pawl.ActionDelete, name, desk.Says(row.Schedule), "")
		return nil, &entry, nil
	})
	if err != nil {
		return fmt.Errorf("delete schedule: %w", err)
	}
	return nil
}

// PauseSchedule pauses or resumes one.
func (s *Store) PauseSchedule(ctx context.Context, name string, paused bool, by pawl.By) error {
	if err := desk.CheckBy(by); err != nil {
		return err
	}
	err := s.changeSchedule(ctx, name, by, func(_ context.Context, _ *writer, row *desk.ScheduleRow, at time.Time) (*desk.ScheduleRow, *pawl.AuditEntry, error) {
		if row == nil || row.Removed {
			return nil, nil, desk.NoSchedule(name)
		}
		entry := desk.ScheduleEntry(pawl.ActionPause, name, desk.Pausing(row.Paused), desk.Pausing(paused))
		if !row.Pause(paused, at) {
			return nil, nil, nil
		}
		return row, &entry, nil
	})
	if err != nil {
		return fmt.Errorf("pause schedule: %w", err)
	}
	return nil
}

// RunSchedule enqueues a job of the schedule now.
func (s *Store) RunSchedule(ctx context.Context, name string, by pawl.By) (id pawl.ID, err error) {
	if err := desk.CheckBy(by); err != nil {
		return pawl.ID{}, err
	}
	err = s.changeSchedule(ctx, name, by, func(ctx context.Context, w *writer, row *desk.ScheduleRow, at time.Time) (*desk.ScheduleRow, *pawl.AuditEntry, error) {
		if row == nil || row.Removed {
			return nil, nil, desk.NoSchedule(name)
		}
		open, err := openRuns(ctx, w, row)
		if err != nil {
			return nil, nil, err
		}
		job, err := row.RunNow(s.Connection(), open, at)
		if err != nil {
			return nil, nil, err
		}
		if _, err := insertJobs(ctx, w, []pawl.NewJob{job}, at.UnixMilli()); err != nil {
			return nil, nil, err
		}
		if err := insertRun(ctx, w, row.ID, at, true, job.ID, at); err != nil {
			return nil, nil, err
		}
		if _, err := w.ExecContext(ctx, noteManual, row.ID, job.ID[:]); err != nil {
			return nil, nil, err
		}
		w.ready, id = true, job.ID
		entry := desk.ScheduleEntry(pawl.ActionRunNow, name, "", "")
		entry.Outcome = job.ID.String()
		return nil, &entry, nil
	})
	if err != nil {
		return pawl.ID{}, fmt.Errorf("run schedule: %w", err)
	}
	return id, nil
}

// DeclareSchedules brings what a host's code declares into the store, each in its own right.
func (s *Store) DeclareSchedules(ctx context.Context, session pawl.SessionID, schedules []pawl.Schedule) ([]pawl.Declared, error) {
	return desk.DeclareAll(ctx, schedules, func(ctx context.Context, declared pawl.Schedule) (pawl.DeclareStatus, error) {
		return s.declare(ctx, session, declared)
	})
}

func (s *Store) declare(ctx context.Context, session pawl.SessionID, declared pawl.Schedule) (status pawl.DeclareStatus, err error) {
	err = s.changeSchedule(ctx, declared.Name, desk.System(), func(ctx context.Context, w *writer, row *desk.ScheduleRow, at time.Time) (*desk.ScheduleRow, *pawl.AuditEntry, error) {
		_, live, err := readSession(ctx, w, session)
		if err == nil && !live {
			err = sessionLost(session)
		}
		if err != nil {
			return nil, nil, err
		}
		if err := checkKind(ctx, w, declared); err != nil {
			return nil, nil, err
		}
		all, err := readDeclarers(ctx, w)
		if err != nil {
			return nil, nil, err
		}
		changed, entry, decided, err := desk.Declare(row, declared, session, all, at)
		status = decided
		return changed, entry, err
	})
	return status, err
}
