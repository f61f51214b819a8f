package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

// The same columns of live and of ended jobs, whose rows are called j. An ended one without a time is remembered for its
// id alone.
const (
	liveColumns = `j.id, k.text, q.text, case when j.holder is not null then 'reserved' when j.run_at < 'infinity' then 'scheduled'
    else 'waiting' end, j.attempt, j.crashes, j.requeues, j.enqueued_at, case when j.holder is null then nullif(j.run_at, 'infinity') end, null::timestamptz,
  coalesce((select name from {s}.session where id = j.holder), ''), coalesce(j.progress, ''), j.letter, j.flags & 2 <> 0,
  j.run_at is not distinct from 'infinity'`
	doneColumns = `j.id, k.text, q.text, case j.state when 0 then 'done' when 1 then 'dead' else 'removed' end,
  j.attempt, j.crashes, j.requeues, j.enqueued_at, null::timestamptz, j.finished_at, '', '', j.letter, false, false`
	isKept = `finished_at is not null`

	withNames = ` join {s}.name k on k.id = j.kind join {s}.name q on q.id = j.queue`

	selectLive   = `select ` + liveColumns + `, null, envelope from {s}.job j` + withNames + ` where j.id = $1`
	selectDone   = `select ` + doneColumns + `, j.history, j.envelope from {t} j` + withNames + ` where j.id = $1 and j.` + isKept
	selectRecord = `select record from {s}.attempt where job_id = $1 order by n`
)

// jobRow is a job as it is stored; what holds it back is not in its row.
type jobRow struct {
	pawl.JobView
	startsOff bool
}

func (r *jobRow) targets() []any {
	return []any{
		(*idColumn)(&r.ID), &r.Kind, &r.Queue, (*string)(&r.State), &r.Attempt, &r.Crashes, &r.Requeues,
		(*timeColumn)(&r.EnqueuedAt), (*timeColumn)(&r.RunAt), (*timeColumn)(&r.FinishedAt), &r.Host, &r.Progress,
		(*idColumn)(&r.Letter), &r.startsOff, &r.HeldInLine,
	}
}

func scanJob(rows pgx.Rows) (r jobRow, err error) { return r, rows.Scan(r.targets()...) }

func scanWholeJob(rows pgx.Rows) (r jobRow, err error) {
	return r, rows.Scan(append(r.targets(), jsonColumn{&r.History}, &r.Envelope)...)
}

// hold says of live jobs what holds them back.
func (s *Store) hold(ctx context.Context, q querier, rows []jobRow) ([]pawl.JobView, error) {
	switches, err := s.readSwitches(ctx, q)
	if err != nil {
		return nil, err
	}
	board := desk.NewBoard(switches)
	for i := range rows {
		board.Hold(&rows[i].JobView, rows[i].startsOff)
	}
	return column(rows, func(r *jobRow) pawl.JobView { return r.JobView }), nil
}

// Job returns one with its envelope and history, or ErrNotFound.
func (s *Store) Job(ctx context.Context, id pawl.ID) (pawl.JobView, error) {
	var view pawl.JobView
	err := s.inSlots(ctx, s.currentSlots, func(slots slotSet) error {
		return s.view(ctx, func(ctx context.Context, q querier) (err error) {
			view, err = s.readJob(ctx, q, slots, id)
			return err
		})
	})
	if err != nil {
		return pawl.JobView{}, fmt.Errorf("read job %s: %w", id, err)
	}
	return view, nil
}

func (s *Store) readJob(ctx context.Context, q querier, slots slotSet, id pawl.ID) (pawl.JobView, error) {
	row, found, err := selectOne(ctx, q, scanWholeJob, s.sql.desk.selectLive, idValue(id))
	if err == nil && found {
		row.History, err = selectRows(ctx, q, func(rows pgx.Rows) (r pawl.AttemptRecord, err error) {
			return r, rows.Scan(jsonColumn{&r})
		}, s.sql.desk.selectRecord, idValue(id))
	}
	if err == nil && !found && len(slots.live) > 0 {
		row, found, err = selectOne(ctx, q, scanWholeJob, s.inEachSlot(slots, selectDone, " union all "), idValue(id))
	}
	if err != nil {
		return pawl.JobView{}, err
	}
	if !found {
		return pawl.JobView{}, pawl.ErrNotFound
	}
	views, err := s.hold(ctx, q, []jobRow{row})
	if err != nil {
		return pawl.JobView{}, err
	}
	return views[0], nil
}

// inEachSlot joins a term for every table of finished jobs into the text of a statement.
func (s *Store) inEachSlot(slots slotSet, term, separator string) string {
	return s.schema.text(slots.each(term, separator))
}

// numberOf looks up the number of a name; false where no job has ever had it.
func (s *Store) numberOf(ctx context.Context, q querier, text string) (int32, bool, error) {
	if len(s.names.unknown([]string{text})) > 0 {
		rows, err := q.Query(ctx, s.sql.selectNumbers, []string{text})
		if err := s.learnNames(rows, err); err != nil {
			return 0, false, err
		}
	}
	number := s.names.of([]string{text})[0]
	return number, number != 0, nil
}

// jobState says where the jobs of a state lie, and how they are told there.
type jobState struct {
	live, ended bool
	term        string
}

func stateOf(state pawl.JobState) (jobState, error) {
	switch state {
	case "":
		return jobState{live: true, ended: true}, nil
	case pawl.JobWaiting:
		return jobState{live: true, term: "holder is null and (run_at is null or run_at = 'infinity')"}, nil
	case pawl.JobScheduled:
		return jobState{live: true, term: "holder is null and run_at < 'infinity'"}, nil
	case pawl.JobReserved:
		return jobState{live: true, term: "holder is not null"}, nil
	case pawl.JobDone:
		return jobState{ended: true, term: "state = 0"}, nil
	case pawl.JobDead:
		return jobState{ended: true, term: "state = 1"}, nil
	case pawl.JobRemoved:
		return jobState{ended: true, term: "state = 2"}, nil
	}
	states := []string{"waiting", "scheduled", "reserved", "done", "dead", "removed"}
	return jobState{}, &pawl.FieldError{Field: "state", Value: state, Rule: "must be one of " + strings.Join(states, ", ")}
}
