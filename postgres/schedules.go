package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/page"
)

const (
	// The state of the latest job, from wherever it is known: {ended} stands for the tables of finished jobs.
	selectSchedules = `select ` + desk.ScheduleColumns + `, coalesce(l.state, d.state, r.state, ''), coalesce(d.ended_at, r.ended_at)
from {s}.schedule s left join {s}.run r on r.job_id = s.last_job
left join lateral (select ` + runState + ` as state from {s}.job j where j.id = s.last_job) l on true
left join lateral ({ended}) d on true`

	selectRuns = `select r.tick_at, r.manual, r.job_id, coalesce(l.state, d.state, r.state), coalesce(d.ended_at, r.ended_at)
from {s}.run r
left join lateral (select ` + runState + ` as state from {s}.job j where j.id = r.job_id) l on true
left join lateral ({ended}) d on true
where r.schedule = $1 order by r.id desc limit $2`

	runState = `case when j.holder is not null then 'reserved' when j.run_at is not null then 'scheduled' else 'waiting' end`

	deleteRuns     = `delete from {s}.run where schedule = $1`
	deleteSchedule = `delete from {s}.schedule where id = $1`
	noteManual     = `update {s}.schedule set last_job = $2 where id = $1`
)

// endedTexts is the text of a query in which {ended} stands for what the tables of finished jobs say of the job whose id
// is given. Where only its id is remembered, when it ended is not known: it was just now, or a while ago.
func (s *Store) endedTexts(slots slotSet, text, id string) string {
	term := `select case state when 0 then 'done' when 1 then 'dead' else 'removed' end as state, coalesce(finished_at, now()) as ended_at from {t} where id = ` + id
	ended := slots.each(term, " union all ")
	if ended == "" {
		ended = `select null::text as state, null::timestamptz as ended_at where false`
	}
	return s.schema.text(strings.ReplaceAll(text, "{ended}", ended+" limit 1"))
}

var _ pawl.Declarations = (*Store)(nil)

func scanSchedule(rows pgx.Rows) (*desk.ScheduleRow, error) {
	r := &desk.ScheduleRow{}
	err := rows.Scan(append(r.Targets(columns), (*string)(&r.LastState), (*timeColumn)(&r.LastEnded))...)
	if r.LastState == pawl.JobDone && r.LastEnded.After(r.LastSuccess) {
		r.LastSuccess = r.LastEnded
	}
	return r, err
}

// Schedules lists by name.
func (s *Store) Schedules(ctx context.Context, filter pawl.ScheduleFilter, p pawl.Page) (pawl.SchedulePage, error) {
	c, limit, err := scheduleConditions(filter, p)
	if err != nil {
		return pawl.SchedulePage{}, err
	}
	var out pawl.SchedulePage
	err = s.inSlots(ctx, s.currentSlots, func(slots slotSet) error {
		query := s.endedTexts(slots, numbered(selectSchedules+c.where()+" order by s.name limit ?"), "s.last_job")
		return s.view(ctx, func(ctx context.Context, q querier) error {
			rows, err := selectRows(ctx, q, scanSchedule, query, append(c.args, limit+1)...)
			if err != nil {
				return err
			}
			out = pawl.SchedulePage{}
			if len(rows) > limit {
				rows = rows[:limit]
				out.Next = page.EncodeName(page.Schedules, rows[limit-1].Name)
			}
			all, err := s.readDeclarers(ctx, q)
			for _, r := range rows {
				r.Declarers = desk.Declarers(all, r.Name)
				out.Schedules = append(out.Schedules, r.ScheduleView)
			}
			return err
		})
	})
	if err != nil {
		return pawl.SchedulePage{}, fmt.Errorf("list schedules: %w", err)
	}
	return out, nil
}

func scheduleConditions(f pawl.ScheduleFilter, p pawl.Page) (c conditions, limit int, err error) {
	if err := desk.CheckScheduleFilter(f); err != nil {
		return c, 0, err
	}
	if limit, err = page.Limit(p); err != nil {
		return c, 0, err
	}
	after, err := page.DecodeName(page.Schedules, p.After)
	if err != nil {
		return c, 0, err
	}
	c.add("s.name > ?", after)
	c.text("s.kind = ?", f.Kind)
	if f.Prefix != "" {
		c.add("s.name >= ? and starts_with(s.name, ?)", f.Prefix, f.Prefix)
	}
	c.add("not s.removed")
	return c, limit, nil
}

// Schedule returns one with its latest jobs, or ErrNotFound.
func (s *Store) Schedule(ctx context.Context, name string) (pawl.ScheduleView, error) {
	if err := desk.CheckName("schedule name", name); err != nil {
		return pawl.ScheduleView{}, err
	}
	var view pawl.ScheduleView
	err := s.inSlots(ctx, s.currentSlots, func(slots slotSet) error {
		return s.view(ctx, func(ctx context.Context, q querier) (err error) {
			view, err = s.readSchedule(ctx, q, slots, name)
			return err
		})
	})
	if err != nil {
		return pawl.ScheduleView{}, fmt.Errorf("read schedule: %w", err)
	}
	return view, nil
}

func (s *Store) readSchedule(ctx context.Context, q querier, slots slotSet, name string) (view pawl.ScheduleView, err error) {
	row, found, err := selectOne(ctx, q, scanSchedule, s.endedTexts(slots, selectSchedules+" where s.name = $1 and not s.removed", "s.last_job"), name)
	if err != nil {
		return view, err
	}
	if !found {
		return view, desk.NoSchedule(name)
	}
	all, err := s.readDeclarers(ctx, q)
	if err != nil {
		return view, err
	}
	view = row.ScheduleView
	view.Declarers = desk.Declarers(all, name)
	view.Runs, err = selectRows(ctx, q, func(rows pgx.Rows) (r pawl.ScheduleRun, err error) {
		return r, rows.Scan((*timeColumn)(&r.Tick), &r.Manual, (*idColumn)(&r.Job), (*string)(&r.State), (*timeColumn)(&r.Ended))
	}, s.endedTexts(slots, selectRuns, "r.job_id"), row.ID, pawl.ScheduleRuns)
	return view, err
}

// scheduleChange is a row to be changed, and what it is changed in.
type scheduleChange struct {
	tx  pgx.Tx
	row *desk.ScheduleRow // nil: there is none
	at  time.Time         // the store's now
}

// changeSchedule reads a row, has it changed, and stores it with its line in the trail. Where change returns no entry
// nothing is written, and where it returns no row, that is not.
func (s *Store) changeSchedule(ctx context.Context, name string, by pawl.By,
	change func(ctx context.Context, c scheduleChange) (*desk.ScheduleRow, *pawl.AuditEntry, error),
) error {
	return s.write(ctx, func(ctx context.Context, tx pgx.Tx) error {
		c := scheduleChange{tx: tx}
		if _, err := tx.Exec(ctx, lockSchedules, s.schema.lock("schedules")); err != nil {
			return fmt.Errorf("wait for another change: %w", err)
		}
		if err := tx.QueryRow(ctx, `select now()`).Scan((*timeColumn)(&c.at)); err != nil {
			return err
		}
		row, found, err := selectOne(ctx, tx, scanScheduleRow, s.sql.schedules.selectScheduleRow, name)
		if err != nil {
			return err
		}
		if found {
			c.row = row
		}
		row, entry, err := change(ctx, c)
		if err != nil || entry == nil {
			return err
		}
		if row != nil {
			if err := s.writeScheduleRow(ctx, tx, row); err != nil {
				return err
			}
		}
		_, err = s.writeAudit(ctx, tx, audited{by, *entry})
		return err
	})
}

func scanScheduleRow(rows pgx.Rows) (*desk.ScheduleRow, error) {
	r := &desk.ScheduleRow{}
	return r, rows.Scan(r.Targets(columns)...)
}

// AddSchedule stores a new one.
func (s *Store) AddSchedule(ctx context.Context, added pawl.Schedule, by pawl.By) error {
	added, err := desk.CheckSchedule(added, by)
	if err != nil {
		return err
	}
	err = s.changeSchedule(ctx, added.Name, by, func(ctx context.Context, c scheduleChange) (*desk.ScheduleRow, *pawl.AuditEntry, error) {
		if c.row != nil && !c.row.Removed {
			return nil, nil, fmt.Errorf("schedule %s is there already: %w", added.Name, pawl.ErrConflict)
		}
		if err := s.checkKind(ctx, c.tx, added); err != nil {
			return nil, nil, err
		}
		fresh, err := desk.NewScheduleRow(added, c.at)
		if c.row != nil {
			fresh.ID = c.row.ID
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
	err = s.changeSchedule(ctx, set.Name, by, func(ctx context.Context, c scheduleChange) (*desk.ScheduleRow, *pawl.AuditEntry, error) {
		if err := s.mayChange(ctx, c, set.Name); err != nil {
			return nil, nil, err
		}
		if err := s.checkKind(ctx, c.tx, set); err != nil {
			return nil, nil, err
		}
		entry := desk.ScheduleEntry(pawl.ActionSet, set.Name, desk.Says(c.row.Schedule), desk.Says(set))
		c.row.Declared, c.row.Fingerprint, c.row.Seen = false, "", nil
		return c.row, &entry, c.row.Change(set, c.at)
	})
	if err != nil {
		return fmt.Errorf("set schedule: %w", err)
	}
	return nil
}

// mayChange refuses what is not there, and what the code of a live host declares.
func (s *Store) mayChange(ctx context.Context, c scheduleChange, name string) error {
	if c.row == nil || c.row.Removed {
		return desk.NoSchedule(name)
	}
	all, err := s.readDeclarers(ctx, c.tx)
	if err != nil {
		return err
	}
	return c.row.MayChange(all)
}

// DeleteSchedule removes one. Its jobs stay.
func (s *Store) DeleteSchedule(ctx context.Context, name string, by pawl.By) error {
	if err := desk.CheckBy(by); err != nil {
		return err
	}
	err := s.changeSchedule(ctx, name, by, func(ctx context.Context, c scheduleChange) (*desk.ScheduleRow, *pawl.AuditEntry, error) {
		if err := s.mayChange(ctx, c, name); err != nil {
			return nil, nil, err
		}
		for _, statement := range []string{s.sql.schedules.deleteRuns, s.sql.schedules.deleteSchedule} {
			if _, err := c.tx.Exec(ctx, statement, c.row.ID); err != nil {
				return nil, nil, err
			}
		}
		entry := desk.ScheduleEntry(pawl.ActionDelete, name, desk.Says(c.row.Schedule), "")
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
	err := s.changeSchedule(ctx, name, by, func(_ context.Context, c scheduleChange) (*desk.ScheduleRow, *pawl.AuditEntry, error) {
		if c.row == nil || c.row.Removed {
			return nil, nil, desk.NoSchedule(name)
		}
		entry := desk.ScheduleEntry(pawl.ActionPause, name, desk.Pausing(c.row.Paused), desk.Pausing(paused))
		if !c.row.Pause(paused, c.at) {
			return nil, nil, nil
		}
		return c.row, &entry, nil
	})
	if err != nil {
		return fmt.Errorf("pause schedule: %w", err)
	}
	return nil
}

// RunSchedule enqueues a job of the schedule now.
func (s *Store) RunSchedule(ctx context.Context, name string, by pawl.By) (pawl.ID, error) {
	if err := desk.CheckBy(by); err != nil {
		return pawl.ID{}, err
	}
	var id pawl.ID
	err := s.namedFirst(ctx, func(slots slotSet) error {
		return s.changeSchedule(ctx, name, by, func(ctx context.Context, c scheduleChange) (_ *desk.ScheduleRow, _ *pawl.AuditEntry, err error) {
			if c.row == nil || c.row.Removed {
				return nil, nil, desk.NoSchedule(name)
			}
			id, err = s.runNow(ctx, c, slots)
			entry := desk.ScheduleEntry(pawl.ActionRunNow, name, "", "")
			entry.Outcome = id.String()
			return nil, &entry, err
		})
	})
	if err != nil {
		return pawl.ID{}, fmt.Errorf("run schedule: %w", err)
	}
	s.waker.announce()
	return id, nil
}

func (s *Store) runNow(ctx context.Context, c scheduleChange, slots slotSet) (pawl.ID, error) {
	open, err := s.openRuns(ctx, c.tx, []*desk.ScheduleRow{c.row})
	if err != nil {
		return pawl.ID{}, err
	}
	job, err := c.row.RunNow(s.Connection(), open[c.row.ID], c.at)
	if err != nil {
		return pawl.ID{}, err
	}
	var runs newRuns
	runs.add(c.row.ID, c.at, job.ID)
	if err := s.insertJobsOf(ctx, c.tx, []pawl.NewJob{job}, runs, true, slots); err != nil {
		return pawl.ID{}, err
	}
	_, err = c.tx.Exec(ctx, s.sql.schedules.noteManual, c.row.ID, idValue(job.ID))
	return job.ID, err
}

// DeclareSchedules brings what a host's code declares into the store, each in its own right.
func (s *Store) DeclareSchedules(ctx context.Context, session pawl.SessionID, schedules []pawl.Schedule) ([]pawl.Declared, error) {
	return desk.DeclareAll(ctx, schedules, func(ctx context.Context, declared pawl.Schedule) (pawl.DeclareStatus, error) {
		return s.declare(ctx, session, declared)
	})
}

func (s *Store) declare(ctx context.Context, session pawl.SessionID, declared pawl.Schedule) (status pawl.DeclareStatus, err error) {
	err = s.changeSchedule(ctx, declared.Name, desk.System(), func(ctx context.Context, c scheduleChange) (*desk.ScheduleRow, *pawl.AuditEntry, error) {
		var live bool
		err := c.tx.QueryRow(ctx, s.schema.text(`select exists (select 1 from {s}.session where id = $1 and ended_at is null)`), int64(session)).Scan(&live)
		if err == nil && !live {
			err = sessionLost(session)
		}
		if err != nil {
			return nil, nil, err
		}
		if err := s.checkKind(ctx, c.tx, declared); err != nil {
			return nil, nil, err
		}
		all, err := s.readDeclarers(ctx, c.tx)
		if err != nil {
			return nil, nil, err
		}
		changed, entry, decided, err := desk.Declare(c.row, declared, session, all, c.at)
		status = decided
		return changed, entry, err
	})
	return status, err
}
