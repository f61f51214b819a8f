package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/schedule"
)

const (
	scheduleColumns = `s.id, s.name, s.kind, s.says, s.args, s.from_at, s.until_at, s.declared, s.fingerprint, s.seen, s.removed, s.paused,
s.created_at, s.changed_at, s.next_at, s.due_at, s.last_at, s.last_job, s.success_at, s.fired, s.missed, s.missed_at, s.skipped, s.skipped_at, s.problem`

	selectScheduleRow = `select ` + scheduleColumns + ` from pawl_schedule s where s.name = ?1`

	insertSchedule = `insert into pawl_schedule (name, kind, says, args, from_at, until_at, declared, fingerprint, seen, removed, paused,
created_at, changed_at, next_at, due_at) values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)`

	updateSchedule = `update pawl_schedule set kind = ?2, says = ?3, args = ?4, from_at = ?5, until_at = ?6, declared = ?7, fingerprint = ?8,
seen = ?9, removed = ?10, paused = ?11, created_at = ?12, changed_at = ?13, next_at = ?14, due_at = ?15, problem = '' where name = ?1`

	// The fence of a tick: whoever has moved the schedule on since it was read has taken it.
	advanceSchedule = `update pawl_schedule set next_at = ?3, due_at = ?4, last_at = ?5, last_job = ?6, fired = ?7, missed = ?8, missed_at = ?9,
skipped = ?10, skipped_at = ?11, problem = ?12 where id = ?1 and next_at = ?2`

	selectDeclarers = `select id, name, json_extract(info, '$.Schedules') from pawl_session where ended_at is null and json_extract(info, '$.Schedules') is not null`
	selectKindSeen  = `select 1 from pawl_kind where kind = ?1`
)

func scanScheduleRow(rows *sql.Rows) (*desk.ScheduleRow, error) {
	r := &desk.ScheduleRow{}
	err := rows.Scan(scheduleTargets(r)...)
	return r, err
}

func scheduleTargets(r *desk.ScheduleRow) []any {
	return []any{
		&r.ID, &r.Name, &r.Kind,
		saysColumn{&r.Schedule},
		(*[]byte)(&r.Args), (*timeColumn)(&r.From), (*timeColumn)(&r.Until),
		&r.Declared, &r.Fingerprint,
		jsonColumn{&r.Seen},
		&r.Removed, &r.Paused, (*timeColumn)(&r.CreatedAt), (*timeColumn)(&r.ChangedAt),
		(*timeColumn)(&r.Next), (*timeColumn)(&r.DueAt), (*timeColumn)(&r.LastTick), (*idColumn)(&r.LastJob), (*timeColumn)(&r.LastSuccess),
		&r.Fired, &r.MissedTicks, (*timeColumn)(&r.MissedAt), &r.SkippedTicks, (*timeColumn)(&r.SkippedAt), &r.Problem,
	}
}

// saysColumn reads what a schedule says. Text that is none of ours becomes its spec, which cannot be read then: that is
// told of this one schedule, and does not stop the others.
type saysColumn struct{ to *pawl.Schedule }

func (c saysColumn) Scan(value any) error {
	text, ok := value.(string)
	if !ok {
		return fmt.Errorf("what a schedule says is a %T", value)
	}
	if schedule.Decode(text, c.to) != nil {
		c.to.Spec = text
	}
	return nil
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
	says, err := schedule.Encode(r.Schedule)
	if err != nil {
		return err
	}
	seen, err := json.Marshal(append([]string{}, r.Seen...))
	if err != nil {
		return err
	}
	statement := updateSchedule
	if r.ID == 0 {
		statement = insertSchedule
	}
	_, err = x.ExecContext(ctx, statement, r.Name, r.Kind, says, append([]byte{}, r.Args...), timeValue(r.From), timeValue(r.Until), r.Declared,
		r.Fingerprint, string(seen), r.Removed, r.Paused, timeValue(r.CreatedAt), timeValue(r.ChangedAt), timeValue(r.Next), timeValue(r.DueAt))
	return err
}

// advanceRow moves a schedule on from its tick, unless somebody else has.
func advanceRow(ctx context.Context, x execer, r *desk.ScheduleRow, from time.Time) error {
	n, err := change(ctx, x, advanceSchedule, r.ID, timeValue(from), timeValue(r.Next), timeValue(r.DueAt), timeValue(r.LastTick), idValue(r.LastJob),
		r.Fired, r.MissedTicks, timeValue(r.MissedAt), r.SkippedTicks, timeValue(r.SkippedAt), r.Problem)
	if err == nil && n != 1 {
		err = fmt.Errorf("schedule %s was moved on meanwhile: %w", r.Name, pawl.ErrConflict)
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
	if err == nil && !known && !s.Removed {
		err = desk.UnknownKind(s)
	}
	return err
}
