package desk

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/schedule"
)

// ScheduleColumns are those that Targets take.
const ScheduleColumns = `s.id, s.name, s.kind, s.says, s.args, s.from_at, s.until_at, s.declared, s.fingerprint, s.seen, s.removed, s.paused,
s.created_at, s.changed_at, s.next_at, s.due_at, s.last_at, s.last_job, s.success_at, s.fired, s.missed, s.missed_at, s.skipped, s.skipped_at, s.problem`

// Columns are how a store's driver reads what it does not know by itself.
type Columns struct {
	ID   func(*pawl.ID) any
	Time func(*time.Time) any
	JSON func(to any) any
}

// Targets take a row's ScheduleColumns.
func (r *ScheduleRow) Targets(c Columns) []any {
	return []any{
		&r.ID, &r.Name, &r.Kind,
		saysColumn{&r.Schedule},
		(*[]byte)(&r.Args), c.Time(&r.From), c.Time(&r.Until),
		&r.Declared, &r.Fingerprint, c.JSON(&r.Seen),
		&r.Removed, &r.Paused, c.Time(&r.CreatedAt), c.Time(&r.ChangedAt),
		c.Time(&r.Next), c.Time(&r.DueAt), c.Time(&r.LastTick), c.ID(&r.LastJob), c.Time(&r.LastSuccess),
		&r.Fired, &r.MissedTicks, c.Time(&r.MissedAt), &r.SkippedTicks, c.Time(&r.SkippedAt), &r.Problem,
	}
}

// saysColumn reads what a schedule says. Text that is none of ours becomes its spec, which cannot be read then: that is
// told of this one schedule, and does not stop the others.
type saysColumn struct{ to *pawl.Schedule }

// Scan takes the text from any driver.
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

// Values are what operators and code decide of a row: name, kind, says, args, from_at, until_at, declared, fingerprint, seen,
// removed, paused, created_at, changed_at, next_at, due_at.
func (r *ScheduleRow) Values(at func(time.Time) any) ([]any, error) {
	says, err := schedule.Encode(r.Schedule)
	if err != nil {
		return nil, err
	}
	seen, err := json.Marshal(append([]string{}, r.Seen...))
	return []any{
		r.Name, r.Kind, says, append([]byte{}, r.Args...), at(r.From), at(r.Until), r.Declared, r.Fingerprint, string(seen),
		r.Removed, r.Paused, at(r.CreatedAt), at(r.ChangedAt), at(r.Next), at(r.DueAt),
	}, err
}

// Moved is what a tick decides of a row: id; the tick, by which it is told whether somebody else has moved it on; next_at, due_at,
// last_at, last_job, fired, missed, missed_at, skipped, skipped_at, problem.
func (r *ScheduleRow) Moved(tick time.Time, at func(time.Time) any, id func(pawl.ID) any) []any {
	return []any{
		r.ID, at(tick), at(r.Next), at(r.DueAt), at(r.LastTick), id(r.LastJob),
		r.Fired, r.MissedTicks, at(r.MissedAt), r.SkippedTicks, at(r.SkippedAt), r.Problem,
	}
}

// MovedMeanwhile is the error where somebody else has.
func MovedMeanwhile(r *ScheduleRow) error {
	return fmt.Errorf("schedule %s was moved on meanwhile: %w", r.Name, pawl.ErrConflict)
}
