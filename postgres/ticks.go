package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/execer"
)

const (
	selectNextTick = `select least(due_at - now(), interval '10000 days') from {s}.schedule where due_at is not null order by due_at limit 1`
	anyCheck       = `select exists (select 1 from {s}.run where check_at is not null and check_at <= now())`

	selectDueSchedules = `select ` + desk.ScheduleColumns + `, now() from {s}.schedule s where s.due_at is not null and s.due_at <= now() order by s.due_at limit $1`
	lockTaken          = ` for update skip locked`

	selectOpenRuns = `select r.schedule, bool_or(j.holder is null), bool_or(j.holder is not null)
from {s}.run r join {s}.job j on j.id = r.job_id where r.schedule = any($1::bigint[]) and r.check_at is not null group by r.schedule`

	insertRuns = `insert into {s}.run (schedule, tick_at, manual, job_id, check_at)
select t.schedule, t.tick, $4, t.job, now() + $5 from unnest($1::bigint[], $2::timestamptz[], $3::uuid[]) with ordinality t (schedule, tick, job, n) order by n`
	trimRuns = `delete from {s}.run r using unnest($1::bigint[]) t (schedule)
where r.schedule = t.schedule and r.id <= (select x.id from {s}.run x where x.schedule = t.schedule order by x.id desc limit 1 offset $2)`

	// {ended} stands for the tables of finished jobs.
	checkRuns = `select r.id, r.schedule, exists (select 1 from {s}.job j where j.id = r.job_id), coalesce(d.state, ''), d.ended_at
from (select id, schedule, job_id, check_at from {s}.run where check_at is not null and check_at <= now() order by check_at limit $1 for update skip locked) r
left join lateral ({ended}) d on true`
	endRuns = `update {s}.run r set state = t.state, ended_at = t.ended, check_at = case when t.lives then now() + $5 end
from unnest($1::bigint[], $2::bool[], $3::text[], $4::timestamptz[]) t (id, lives, state, ended) where r.id = t.id`
	noteSuccess = `update {s}.schedule s set success_at = greatest(s.success_at, t.ended)
from (select schedule, max(ended) as ended from unnest($1::bigint[], $2::timestamptz[]) u (schedule, ended) group by schedule) t where s.id = t.schedule`
)

// queueSchedules adds to a sweep's batch the look for schedules and for jobs of theirs that are to be looked after.
func (w *sweeping) queueSchedules(batch *pgx.Batch) {
	w.tick = -1
	batch.Queue(w.store.sql.schedules.selectNextTick).Query(func(rows pgx.Rows) error {
		var next time.Duration
		_, err := pgx.ForEachRow(rows, []any{&next}, func() error {
			w.tick = max(0, next)
			return nil
		})
		return err
	})
	batch.Queue(w.store.sql.schedules.anyCheck).QueryRow(func(row pgx.Row) error { return row.Scan(&w.check) })
}

// runSchedules gives due ticks their jobs, and looks what became of those of earlier ones, as far as there are any.
func (s *Store) runSchedules(ctx context.Context, found *sweeping, report *pawl.SweepReport) error {
	next := found.tick
	if next == 0 {
		fired, rows, after, err := s.fireSchedules(ctx, min(int(found.limit), desk.SchedulesAtOnce))
		if err != nil {
			return fmt.Errorf("run schedules: %w", err)
		}
		report.Ticks, next = fired, after
		report.More = report.More || rows == min(int(found.limit), desk.SchedulesAtOnce)
		if fired > 0 {
			s.waker.announce()
			found.arrivals = true // some of them may stand in line
		}
	}
	if next >= 0 && (report.NextDue < 0 || next < report.NextDue) {
		report.NextDue = next
	}
	if !found.check {
		return nil
	}
	err := s.inSlots(ctx, s.currentSlots, func(slots slotSet) error {
		return s.write(ctx, func(ctx context.Context, tx pgx.Tx) error {
			return s.checkRuns(ctx, tx, slots, min(int(found.limit), desk.RunsAtOnce))
		})
	})
	if err != nil {
		return fmt.Errorf("look after jobs of schedules: %w", err)
	}
	return nil
}

func scanDueSchedule(rows pgx.Rows) (due dueSchedule, err error) {
	due.row = &desk.ScheduleRow{}
	return due, rows.Scan(append(due.row.Targets(columns), (*timeColumn)(&due.now))...)
}

type dueSchedule struct {
	row *desk.ScheduleRow
	now time.Time
}

// namedFirst calls f, which inserts jobs that the store has kept, again when what it needed to know was missing or out of date:
// numbers of names, or the tables of finished jobs.
func (s *Store) namedFirst(ctx context.Context, f func(slots slotSet) error) error {
	for try := 1; ; try++ {
		err := s.inSlots(ctx, s.currentSlots, f)
		var unnamed *unnamedError
		if !errors.As(err, &unnamed) || try == mostTries {
			return err
		}
		if err := s.number(ctx, unnamed.kinds, unnamed.queues); err != nil {
			return err
		}
	}
}

// unnamedError undoes a transaction whose jobs' kinds or queues have no numbers yet: those are drawn outside of it.
type unnamedError struct{ kinds, queues []string }

func (e *unnamedError) Error() string {
	return fmt.Sprintf("no numbers for %q and %q", e.kinds, e.queues)
}

// fireSchedules acts on schedules that are due and that nobody else is acting on.
func (s *Store) fireSchedules(ctx context.Context, limit int) (fired, rows int, next time.Duration, err error) {
	err = s.namedFirst(ctx, func(slots slotSet) error {
		return s.write(ctx, func(ctx context.Context, tx pgx.Tx) error {
			fired, rows, next = 0, 0, -1
			due, err := selectRows(ctx, tx, scanDueSchedule, s.sql.schedules.lockDueSchedules, limit)
			if err != nil {
				return err
			}
			if rows = len(due); rows > 0 {
				if fired, err = s.fire(ctx, tx, due, slots); err != nil {
					return err
				}
			}
			after, found, err := selectOne(ctx, tx, scanValue[time.Duration], s.sql.schedules.selectNextTick)
			if found {
				next = max(0, after)
			}
			return err
		})
	})
	return fired, rows, next, err
}

// fire moves locked schedules on and stores the jobs of their ticks.
func (s *Store) fire(ctx context.Context, tx pgx.Tx, due []dueSchedule, slots slotSet) (fired int, err error) {
	schedules := column(due, func(d *dueSchedule) *desk.ScheduleRow { return d.row })
	open, err := s.openRuns(ctx, tx, schedules)
	if err != nil {
		return 0, err
	}
	var jobs []pawl.NewJob
	var runs newRuns
	batch := &pgx.Batch{}
	for i, row := range schedules {
		tick := row.Next
		made, ticks := row.Due(s.Connection(), open[row.ID], due[i].now)
		for i := range made {
			runs.add(row.ID, ticks[i], made[i].ID)
		}
		jobs = append(jobs, made...)
		batch.Queue(s.sql.schedules.advanceSchedule, row.Moved(tick, anyTime, anyID)...)
	}
	results := tx.SendBatch(ctx, batch)
	for _, row := range schedules {
		tag, err := results.Exec()
		if err == nil && tag.RowsAffected() != 1 {
			err = desk.MovedMeanwhile(row)
		}
		if err != nil {
			return 0, errors.Join(err, results.Close())
		}
	}
	if err := results.Close(); err != nil || len(jobs) == 0 {
		return 0, err
	}
	return len(jobs), s.insertJobsOf(ctx, tx, jobs, runs, false, slots) // one whose id is there was made by this tick before
}

// openRuns says which jobs of schedules have not ended.
func (s *Store) openRuns(ctx context.Context, tx pgx.Tx, rows []*desk.ScheduleRow) (map[int64]desk.OpenRuns, error) {
	all := map[int64]desk.OpenRuns{}
	ids := column(rows, func(r **desk.ScheduleRow) int64 { return (*r).ID })
	found, err := tx.Query(ctx, s.sql.schedules.selectOpenRuns, ids)
	if err != nil {
		return nil, fmt.Errorf("look for jobs of schedules: %w", err)
	}
	var id int64
	var open desk.OpenRuns
	_, err = pgx.ForEachRow(found, []any{&id, &open.Waiting, &open.Running}, func() error {
		all[id] = open
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for jobs of schedules: %w", err)
	}
	return all, nil
}

// newRuns are the jobs that schedules make.
type newRuns struct {
	schedules []int64
	ticks     []time.Time
	jobs      idList
}

func (n *newRuns) add(schedule int64, tick time.Time, job pawl.ID) {
	n.schedules, n.ticks, n.jobs = append(n.schedules, schedule), append(n.ticks, tick), append(n.jobs, job)
}

// insertJobsOf stores jobs of schedules, and remembers whose they are.
func (s *Store) insertJobsOf(ctx context.Context, tx pgx.Tx, jobs []pawl.NewJob, runs newRuns, manual bool, slots slotSet) error {
	in := s.insertionOf(jobs, slots)
	if kinds, queues := in.number(); len(kinds)+len(queues) > 0 {
		return &unnamedError{kinds, queues}
	}
	if err := in.run(ctx, execer.OnPgx(tx)); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, s.sql.schedules.insertRuns, runs.schedules, runs.ticks, runs.jobs, manual, desk.RunLook); err != nil {
		return fmt.Errorf("remember jobs of schedules: %w", err)
	}
	if _, err := tx.Exec(ctx, s.sql.schedules.trimRuns, runs.schedules, pawl.ScheduleRuns); err != nil {
		return fmt.Errorf("forget old jobs of schedules: %w", err)
	}
	return nil
}

// checkRuns writes down what became of jobs, before they are forgotten.
func (s *Store) checkRuns(ctx context.Context, tx pgx.Tx, slots slotSet, limit int) error {
	type run struct {
		id, schedule int64
		lives        bool
		state        string
		ended        time.Time
	}
	runs, err := selectRows(ctx, tx, func(rows pgx.Rows) (r run, err error) {
		return r, rows.Scan(&r.id, &r.schedule, &r.lives, &r.state, (*timeColumn)(&r.ended))
	}, s.endedTexts(slots, checkRuns, "r.job_id"), limit)
	if err != nil || len(runs) == 0 {
		return err
	}
	_, err = tx.Exec(ctx, s.sql.schedules.endRuns,
		column(runs, func(r *run) int64 { return r.id }), column(runs, func(r *run) bool { return r.lives }),
		column(runs, func(r *run) string { return r.state }), column(runs, func(r *run) pgtype.Timestamptz { return timeValue(r.ended) }), desk.RunLook)
	if err != nil {
		return err
	}
	var schedules []int64
	var ended []time.Time
	for _, r := range runs {
		if r.state == string(pawl.JobDone) {
			schedules, ended = append(schedules, r.schedule), append(ended, r.ended)
		}
	}
	if len(schedules) > 0 {
		_, err = tx.Exec(ctx, s.sql.schedules.noteSuccess, schedules, ended)
	}
	return err
}
