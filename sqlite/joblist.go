package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/page"
)

// Jobs lists newest enqueue first, by time and then id.
func (s *Store) Jobs(ctx context.Context, filter pawl.JobFilter, p pawl.Page) (pawl.JobPage, error) {
	q, err := newJobQuery(filter, p)
	if err != nil {
		return pawl.JobPage{}, err
	}
	var out pawl.JobPage
	err = s.view(ctx, func(x execer) error {
		jobs, err := q.run(ctx, x)
		if err != nil {
			return err
		}
		out.Jobs, out.Next = page.Cut(jobs, q.limit, page.Jobs, placeOfJob)
		return nil
	})
	if err != nil {
		return pawl.JobPage{}, fmt.Errorf("list jobs: %w", err)
	}
	return out, nil
}

func placeOfJob(j pawl.JobView) page.Cursor {
	return page.Cursor{At: j.EnqueuedAt.UnixMilli(), ID: j.ID}
}

// jobQuery is a filter and a page as SQL.
type jobQuery struct {
	where  where
	state  jobState
	limit  int
	recent int // rows of each table that are looked at first
}

// jobState says where the jobs of a state lie, and how they are told there.
type jobState struct {
	live, ended bool
	term        string
}

var jobStates = map[pawl.JobState]jobState{
	"":                {live: true, ended: true},
	pawl.JobWaiting:   {live: true, term: "session is null and (run_at is null or run_at = " + parked + ")"},
	pawl.JobScheduled: {live: true, term: "session is null and run_at < " + parked},
	pawl.JobReserved:  {live: true, term: "session is not null"},
	pawl.JobDone:      {ended: true, term: "state = 'done'"},
	pawl.JobDead:      {ended: true, term: "state = 'dead'"},
	pawl.JobRemoved:   {ended: true, term: "state = 'removed'"},
}

func newJobQuery(filter pawl.JobFilter, p pawl.Page) (q jobQuery, err error) {
	q.recent = recent
	if q.limit, err = page.Limit(p); err != nil {
		return q, err
	}
	var ok bool
	if q.state, ok = jobStates[filter.State]; !ok {
		return q, &pawl.FieldError{Field: "state", Value: filter.State, Rule: "must be waiting, scheduled, reserved, done, dead or removed"}
	}
	after, more, err := page.Decode(page.Jobs, p.After)
	if err != nil {
		return q, err
	}
	w := &q.where
	w.check(desk.CheckJobs(filter))
	w.text("kind = ?", filter.Kind)
	w.text("queue = ?", filter.Queue)
	w.bound("enqueued_at >= ?", filter.Since)
	if q.state.term != "" {
		w.add(q.state.term)
	}
	if more {
		w.add("(enqueued_at, id) < (?, ?)", after.At, after.ID[:])
	}
	return q, w.err
}

// run reads both tables and merges them.
func (q jobQuery) run(ctx context.Context, x execer) ([]pawl.JobView, error) {
	var rows []jobRow
	for _, source := range []struct {
		wanted    bool
		near, all func(context.Context, execer) ([]jobRow, error)
	}{
		{q.state.live, q.nearLive, q.allLive},
		{q.state.ended, q.nearEnded, q.allEnded},
	} {
		if !source.wanted {
			continue
		}
		some, err := source.near(ctx, x)
		if err == nil && some == nil {
			some, err = source.all(ctx, x)
		}
		if err != nil {
			return nil, err
		}
		rows = append(rows, some...)
	}
	return hold(ctx, x, q.first(rows))
}

// first orders rows as they are listed and keeps what a page needs.
func (q jobQuery) first(rows []jobRow) []jobRow {
	slices.SortFunc(rows, func(a, b jobRow) int {
		return cmp.Or(b.EnqueuedAt.Compare(a.EnqueuedAt), bytes.Compare(b.ID[:], a.ID[:]))
	})
	return rows[:min(len(rows), q.limit+1)]
}

const (
	fromLive  = "select " + liveColumns + " from pawl_job"
	fromEnded = "select " + doneColumns + " from pawl_done"
	listOrder = " order by enqueued_at desc, id desc limit ?"
)

func (q jobQuery) allLive(ctx context.Context, x execer) ([]jobRow, error) {
	return q.rows(ctx, x, fromLive, q.where)
}

func (q jobQuery) allEnded(ctx context.Context, x execer) ([]jobRow, error) {
	w := q.where
	w.add(isKept)
	return q.rows(ctx, x, fromEnded, w)
}

func (q jobQuery) rows(ctx context.Context, x execer, from string, w where) ([]jobRow, error) {
	return selectRows(ctx, x, scanJob, from+w.sql()+listOrder, append(w.args, q.limit+1)...)
}

// No index is in the order of lists: it would cost at every enqueue. The tables are ordered nearly so, by the number
// that a job draws when it joins its queue and by the time of its end, neither of which comes before its enqueue. So
// the newest jobs are looked for among the recent rows first, and the whole table is sorted only where it cannot be
// told that they are all there.
const recent = 5000

// nearLive finds a page among the jobs that drew their numbers last, and those at the front, which have left the order.
// It returns nil where it cannot tell. A job that still has the number that it drew at its enqueue tells: those that
// drew before it were enqueued before it.
func (q jobQuery) nearLive(ctx context.Context, x execer) ([]jobRow, error) {
	floor, found, err := selectOne(ctx, x, scanValue[int64],
		`select seq from pawl_job where seq > 0 order by seq desc limit 1 offset ?`, q.recent)
	if err != nil || !found || q.state.term == jobStates[pawl.JobReserved].term {
		return nil, err
	}
	oldest, found, err := selectOne(ctx, x, scanValue[int64], `
		select enqueued_at from pawl_job
		where seq > ? and letter is null and (ready_at = enqueued_at or run_at is not null and attempt = 0)
		order by enqueued_at limit 1`, floor)
	if err != nil || !found {
		return nil, err
	}
	back, front := q.where, q.where
	back.add("seq > ?", floor)
	front.add("seq < 0")
	rows, err := q.rows(ctx, x, fromLive, back)
	if err != nil {
		return nil, err
	}
	ahead, err := q.rows(ctx, x, fromLive, front)
	if err != nil {
		return nil, err
	}
	return q.certain(append(rows, ahead...), oldest), nil
}

// nearEnded finds a page among the jobs that ended last. It returns nil where it cannot tell: what ended before them
// was enqueued before that.
func (q jobQuery) nearEnded(ctx context.Context, x execer) ([]jobRow, error) {
	floor, found, err := selectOne(ctx, x, scanValue[int64],
		`select finished_at from pawl_done order by finished_at desc limit 1 offset ?`, q.recent)
	if err != nil || !found {
		return nil, err
	}
	w := q.where
	w.add(isKept)
	w.add("finished_at > ?", floor)
	rows, err := q.rows(ctx, x, fromEnded, w)
	return q.certain(rows, floor), err
}

// certain returns the first rows when they fill a page and were all enqueued after others can have been.
func (q jobQuery) certain(rows []jobRow, others int64) []jobRow {
	rows = q.first(rows)
	if len(rows) <= q.limit || rows[q.limit].EnqueuedAt.UnixMilli() <= others {
		return nil
	}
	return rows
}
