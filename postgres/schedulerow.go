package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

const (
	// Changes by operators and code come one after the other. Ticks take the row alone.
	lockSchedules     = `select pg_advisory_xact_lock($1)`
	selectScheduleRow = `select ` + desk.ScheduleColumns + ` from {s}.schedule s where s.name = $1 for update`

	insertSchedule = `insert into {s}.schedule (name, kind, says, args, from_at, until_at, declared, fingerprint, seen, removed, paused,
created_at, changed_at, next_at, due_at) values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)`

	updateSchedule = `update {s}.schedule set kind = $2, says = $3, args = $4, from_at = $5, until_at = $6, declared = $7, fingerprint = $8,
seen = $9, removed = $10, paused = $11, created_at = $12, changed_at = $13, next_at = $14, due_at = $15, problem = '' where name = $1`

	// The fence of a tick: whoever has moved the schedule on since it was read has taken it.
	advanceSchedule = `update {s}.schedule set next_at = $3, due_at = $4, last_at = $5, last_job = $6, fired = $7, missed = $8, missed_at = $9,
skipped = $10, skipped_at = $11, problem = $12 where id = $1 and next_at = $2`

	selectDeclarers = `select id, name, info::json ->> 'Schedules' from {s}.session where ended_at is null and info::json ->> 'Schedules' is not null`
	selectKindSeen  = `select true from {s}.name n join {s}.kind k on k.name = n.id where n.text = $1 and k.seen_at is not null`
)

// scheduleStatements are the texts for one schema.
type scheduleStatements struct {
	selectScheduleRow, insertSchedule, updateSchedule, advanceSchedule string
	selectDeclarers, selectKindSeen                                    string
	deleteRuns, deleteSchedule, noteManual                             string
	selectNextTick, anyCheck, selectDueSchedules, lockDueSchedules     string
	selectOpenRuns, insertRuns, trimRuns, endRuns, noteSuccess         string
}

func newScheduleStatements(s schema) scheduleStatements {
	return scheduleStatements{
		selectScheduleRow: s.text(selectScheduleRow), insertSchedule: s.text(insertSchedule), updateSchedule: s.text(updateSchedule),
		advanceSchedule: s.text(advanceSchedule), selectDeclarers: s.text(selectDeclarers), selectKindSeen: s.text(selectKindSeen),
		deleteRuns: s.text(deleteRuns), deleteSchedule: s.text(deleteSchedule), noteManual: s.text(noteManual),
		selectNextTick: s.text(selectNextTick), anyCheck: s.text(anyCheck),
		selectDueSchedules: s.text(selectDueSchedules), lockDueSchedules: s.text(selectDueSchedules + lockTaken),
		selectOpenRuns: s.text(selectOpenRuns), insertRuns: s.text(insertRuns), trimRuns: s.text(trimRuns),
		endRuns: s.text(endRuns), noteSuccess: s.text(noteSuccess),
	}
}

// writeScheduleRow stores what operators and code decide; what ticks do is advanceSchedule's.
func (s *Store) writeScheduleRow(ctx context.Context, tx pgx.Tx, r *desk.ScheduleRow) error {
	values, err := r.Values(anyTime)
	if err != nil {
		return err
	}
	statement := s.sql.schedules.updateSchedule
	if r.ID == 0 {
		statement = s.sql.schedules.insertSchedule
	}
	_, err = tx.Exec(ctx, statement, values...)
	return err
}

// readDeclarers are the live hosts that declare schedules.
func (s *Store) readDeclarers(ctx context.Context, q querier) ([]desk.Declarer, error) {
	return selectRows(ctx, q, func(rows pgx.Rows) (d desk.Declarer, err error) {
		return d, rows.Scan(&d.Session, &d.Host, jsonColumn{&d.Schedules})
	}, s.sql.schedules.selectDeclarers)
}

// checkKind refuses a kind that no host has ever registered.
func (s *Store) checkKind(ctx context.Context, q querier, checked pawl.Schedule) error {
	_, known, err := selectOne(ctx, q, scanValue[bool], s.sql.schedules.selectKindSeen, checked.Kind)
	if err != nil {
		return fmt.Errorf("look up kind: %w", err)
	}
	return desk.CheckKnown(checked, known)
}
