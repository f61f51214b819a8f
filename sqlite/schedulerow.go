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
	selectScheduleRow = `select ` + desk.ScheduleColumns + ` from pawl_schedule s where s.name = ?1`

	insertSchedule = `insert into pawl_schedule (name, kind, says, args, from_at, until_at, declared, fingerprint, seen, removed, paused,
created_at, changed_at, next_at, due_at) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)`

	updateSchedule = `update pawl_schedule set kind = ?2, says = ?3, args = ?4, from_at = ?5, until_at = ?6, declared = ?7, fingerprint = ?8,
seen = ?9, removed = ?10, paused = ?11, created_at = ?12, changed_at = ?13, next_at = ?14, due_at = ?15, problem = '' where name = ?1`

	// The fence of a tick: whoever has moved the schedule on since it was read has taken it.
	advanceSchedule = `update pawl_schedule set next_at = ?3, due_at = ?4, last_at = ?5, last_job = ?6, fired = ?7, missed = ?8, missed_at = ?9,
skipped = ?10, skipped_at = ?11, problem = ?12 where id = ?1 and next_at = ?2`

	selectDeclarers = `select id, name, json_extract(info, '$.Schedules') from pawl_session
where ended_at is null and iif(json_valid(info), json_extract(info, '$.Schedules') is not null, false)`
	selectKindSeen = `select 1 from pawl_kind where kind = ?1`
)

func scanScheduleRow(rows *sql.Rows) (*desk.ScheduleRow, error) {
	r := &desk.ScheduleRow{}
	err := rows.Scan(r.Targets(columns)...)
	return r, err
}

// readScheduleRow returns the row of a name, or nil.
func readScheduleRow(ctx context.Context, x execer, name string) (*desk.ScheduleRow, error) {
	row, found, err := selectOne(ctx, x, scanScheduleRow, selectScheduleRow, name)
	if err != nil || !found {
		return nil, err
	}
	return row, nil
}

// writeScheduleRow stores what operators and code decide; what ticks do is advanceRow's.
func writeScheduleRow(ctx context.Context, x execer, r *desk.ScheduleRow) error {
	values, err := r.Values(timeValue)
	if err != nil {
		return err
	}
	statement := updateSchedule
	if r.ID == 0 {
		statement = insertSchedule
	}
	_, err = x.ExecContext(ctx, statement, values...)
	return err
}

// advanceRow moves a schedule on from its tick, unless somebody else has.
func advanceRow(ctx context.Context, x execer, r *desk.ScheduleRow, from time.Time) error {
	n, err := change(ctx, x, advanceSchedule, r.Moved(from, timeValue, idValue)...)
	if err == nil && n != 1 {
		err = desk.MovedMeanwhile(r)
	}
	return err
}

// readDeclarers are the live hosts that declare schedules.
func readDeclarers(ctx context.Context, x execer) ([]desk.Declarer, error) {
	return selectRows(ctx, x, func(rows *sql.Rows) (d desk.Declarer, err error) {
		return d, rows.Scan(&d.Session, &d.Host, jsonColumn{&d.Schedules})
	}, selectDeclarers)
}

// checkKind refuses a kind that no host has ever registered.
func checkKind(ctx context.Context, x execer, s pawl.Schedule) error {
	_, known, err := selectOne(ctx, x, scanValue[int64], selectKindSeen, s.Kind)
	if err != nil {
		return fmt.Errorf("look up kind: %w", err)
	}
	return desk.CheckKnown(s, known)
}
