package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/pawljobs/pawl"
)

// The same columns of live and of ended jobs.
const (
	liveColumns = `id, kind, queue, case when session is not null then 'reserved' when run_at is not null then 'scheduled'
		else 'waiting' end, attempt, crashes, requeues, enqueued_at, run_at, null,
		coalesce((select name from pawl_session s where s.id = session), ''), coalesce(progress, ''), letter, starts_off`
	doneColumns = `id, kind, queue, state, attempt, 0, 0, enqueued_at, null, finished_at, '', '', letter, 0`
)

// jobRow is a job as it is stored; what holds it back is not in its row.
type jobRow struct {
	pawl.JobView
	startsOff bool
}

func (r *jobRow) targets() []any {
	return []any{
		(*idColumn)(&r.ID), &r.Kind, &r.Queue, &r.State, &r.Attempt, &r.Crashes, &r.Requeues, (*timeColumn)(&r.EnqueuedAt),
		(*timeColumn)(&r.RunAt), (*timeColumn)(&r.FinishedAt), &r.Host, &r.Progress, (*idColumn)(&r.Letter), &r.startsOff,
	}
}

func scanJob(rows *sql.Rows) (r jobRow, err error) { return r, rows.Scan(r.targets()...) }

func scanWholeJob(rows *sql.Rows) (r jobRow, err error) {
	return r, rows.Scan(append(r.targets(), &r.Envelope)...)
}

// Jobs lists newest enqueue first, by time and then id.
func (s *Store) Jobs(ctx context.Context, filter pawl.JobFilter, page pawl.Page) (pawl.JobPage, error) {
	q, err := newJobQuery(filter, page)
	if err != nil {
		return pawl.JobPage{}, err
	}
	var out pawl.JobPage
	err = s.view(ctx, func(x execer) error {
		jobs, err := q.run(ctx, x)
		if err != nil {
			return err
		}
		out.Jobs, out.Next = cut(jobs, q.limit, listJobs, func(j pawl.JobView) cursor {
			return cursor{j.EnqueuedAt.UnixMilli(), j.ID}
		})
		return nil
	})
	if err != nil {
		return pawl.JobPage{}, fmt.Errorf("list jobs: %w", err)
	}
	return out, nil
}

type jobQuery struct {
	live, done string // "" where the state rules it out
	args       []any  // of each
	limit      int
}

// jobStates says where the jobs of a state lie, and how they are told there.
var jobStates = map[pawl.JobState]struct {
	live, done bool
	term       string
}{
	"":                {live: true, done: true},
	pawl.JobWaiting:   {live: true, term: "session is null and run_at is null"},
	pawl.JobScheduled: {live: true, term: "session is null and run_at is not null"},
	pawl.JobReserved:  {live: true, term: "session is not null"},
	pawl.JobDone:      {done: true, term: "state = 'done'"},
	pawl.JobDead:      {done: true, term: "state = 'dead'"},
	pawl.JobRemoved:   {done: true, term: "state = 'removed'"},
}

func newJobQuery(filter pawl.JobFilter, page pawl.Page) (q jobQuery, err error) {
	if q.limit, err = pageLimit(page); err != nil {
		return q, err
	}
	state, ok := jobStates[filter.State]
	if !ok {
		return q, &pawl.FieldError{Field: "state", Value: filter.State, Rule: "must be waiting, scheduled, reserved, done, dead or removed"}
	}
	w, err := jobWhere(filter)
	if err != nil {
		return q, err
	}
	if state.term != "" {
		w.add(state.term)
	}
	after, more, err := decodeCursor(listJobs, page.After)
	if err != nil {
		return q, err
	}
	if more {
		w.add("(enqueued_at, id) < (?, ?)", after.at, after.id[:])
	}
	tail := w.sql() + " order by enqueued_at desc, id desc limit ?"
	q.args = append(w.args, q.limit+1)
	if state.live {
		q.live = "select " + liveColumns + " from pawl_job" + tail
	}
	if state.done {
		q.done = "select " + doneColumns + " from pawl_done" + tail
	}
	return q, nil
}

// run reads both tables and merges them.
func (q jobQuery) run(ctx context.Context, x execer) ([]pawl.JobView, error) {
	var all []jobRow
	for _, query := range []string{q.live, q.done} {
		if query == "" {
			continue
		}
		rows, err := selectRows(ctx, x, scanJob, query, q.args...)
		if err != nil {
			return nil, err
		}
		all = append(all, rows...)
	}
	slices.SortFunc(all, func(a, b jobRow) int {
		return cmp.Or(b.EnqueuedAt.Compare(a.EnqueuedAt), bytes.Compare(b.ID[:], a.ID[:]))
	})
	return hold(ctx, x, all[:min(len(all), q.limit+1)])
}

// hold says of live jobs what holds them back.
func hold(ctx context.Context, x execer, rows []jobRow) ([]pawl.JobView, error) {
	switches, err := readSwitches(ctx, x, now())
	if err != nil {
		return nil, err
	}
	kinds, paused := map[string]bool{}, map[string]bool{}
	for _, k := range switches.Kinds {
		kinds[k.Kind] = k.On
	}
	for _, q := range switches.Queues {
		paused[q.Queue] = true
	}
	views := make([]pawl.JobView, len(rows))
	for i, r := range rows {
		if r.State == pawl.JobWaiting || r.State == pawl.JobScheduled {
			on, set := kinds[r.Kind]
			r.HeldByKind = set && !on || !set && r.startsOff
			r.HeldByQueue = paused[r.Queue]
		}
		views[i] = r.JobView
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
		"select " + doneColumns + ", envelope from pawl_done where id = ?",
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
	view.History, err = readHistory(ctx, x, view)
	return view, err
}

// readHistory finds the attempts that failed: of a dead job they lie with its letter.
func readHistory(ctx context.Context, x execer, view pawl.JobView) ([]pawl.AttemptRecord, error) {
	if view.State == pawl.JobDead {
		history, _, err := selectOne(ctx, x, func(rows *sql.Rows) (h []pawl.AttemptRecord, err error) {
			return h, rows.Scan(jsonColumn{&h})
		}, `select history from pawl_evidence where letter = ?`, idValue(view.Letter))
		return history, err
	}
	return selectRows(ctx, x, func(rows *sql.Rows) (r pawl.AttemptRecord, err error) {
		return r, rows.Scan(jsonColumn{&r})
	}, `select record from pawl_attempt where job_id = ? order by n`, view.ID[:])
}
