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
	// The rows of each table are picked before their names are looked up.
	liveTerm = `(select ` + liveColumns + ` from (select * from {s}.job{where}{order}) j` + withNames + `)`
	doneTerm = `(select ` + doneColumns + ` from (select * from {t}{where}{order}) j` + withNames + `)`

	selectSizes = `select now(), coalesce(sum(pg_catalog.pg_relation_size(c.oid)), 0)::bigint from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace where n.nspname = $1 and c.relname = any($2::text[])`

	// A look at recent jobs goes by what the index on their times knows of where they lie.
	lookNear = `set local enable_seqscan = off`
	lookFar  = `set local enable_seqscan = on`
)

// smallTables is how many bytes of jobs are sorted at once, unless a query says otherwise, rather than looked for by
// their times.
const smallTables = 32 << 20

// Jobs lists newest enqueue first, by time and then id.
func (s *Store) Jobs(ctx context.Context, filter pawl.JobFilter, p pawl.Page) (pawl.JobPage, error) {
	q, err := newJobQuery(filter, p)
	if err != nil {
		return pawl.JobPage{}, err
	}
	var out pawl.JobPage
	err = s.inSlots(ctx, s.currentSlots, func(slots slotSet) error {
		return s.view(ctx, func(ctx context.Context, x querier) error {
			rows, err := s.listJobs(ctx, x, q, slots)
			if err != nil {
				return err
			}
			views, err := s.hold(ctx, x, rows)
			out.Jobs, out.Next = page.Cut(views, q.limit, page.Jobs, func(j pawl.JobView) page.Cursor {
				return page.Cursor{At: j.EnqueuedAt.UnixMicro(), ID: j.ID}
			})
			return err
		})
	})
	if err != nil {
		return pawl.JobPage{}, fmt.Errorf("list jobs: %w", err)
	}
	return out, nil
}

// jobQuery is a filter and the place of a page.
type jobQuery struct {
	filter pawl.JobFilter
	state  jobState
	limit  int
	after  *page.Cursor
	small  int64 // bytes of jobs that are sorted at once
}

func newJobQuery(filter pawl.JobFilter, p pawl.Page) (q jobQuery, err error) {
	if err := desk.CheckJobs(filter); err != nil {
		return q, err
	}
	if q.limit, err = page.Limit(p); err != nil {
		return q, err
	}
	if q.state, err = stateOf(filter.State); err != nil {
		return q, err
	}
	after, more, err := page.Decode(page.Jobs, p.After)
	if more {
		q.after = &after
	}
	q.filter, q.small = filter, smallTables
	return q, err
}

// listJobs reads the jobs of a page and one more. No index has the order of the list: it would cost at every enqueue.
// Where there are many jobs, the list is looked for among those of the last seconds before its beginning, then of the last
// minutes, and so on.
func (s *Store) listJobs(ctx context.Context, x querier, q jobQuery, slots slotSet) ([]jobRow, error) {
	c, possible, err := s.jobConditions(ctx, x, q)
	if err != nil || !possible {
		return nil, err
	}
	start, size, err := s.jobSizes(ctx, x, slots)
	if err != nil {
		return nil, err
	}
	if size > q.small {
		if _, err := x.Exec(ctx, lookNear, pgx.QueryExecModeSimpleProtocol); err != nil {
			return nil, err
		}
		if q.after != nil {
			start = time.UnixMicro(q.after.At)
		}
		for _, window := range []time.Duration{2 * time.Second, time.Minute, 30 * time.Minute} {
			rows, err := s.jobsSince(ctx, x, q, c, slots, start.Add(-window))
			if err != nil || len(rows) > q.limit {
				return rows, err
			}
		}
		if _, err := x.Exec(ctx, lookFar, pgx.QueryExecModeSimpleProtocol); err != nil {
			return nil, err
		}
	}
	return s.jobsSince(ctx, x, q, c, slots, time.Time{})
}

// jobSizes are the database's time and how many bytes the tables of jobs have.
func (s *Store) jobSizes(ctx context.Context, x querier, slots slotSet) (now time.Time, size int64, err error) {
	tables := append(column(slots.live, func(t *slot) string { return t.table() }), "job")
	return now, size, x.QueryRow(ctx, selectSizes, s.schema.name, tables).Scan(&now, &size)
}

// jobConditions are those of rows of any table; false where no job can meet them.
func (s *Store) jobConditions(ctx context.Context, x querier, q jobQuery) (c conditions, possible bool, err error) {
	for _, name := range []struct{ column, text string }{{"kind", q.filter.Kind}, {"queue", q.filter.Queue}} {
		if name.text == "" {
			continue
		}
		number, found, err := s.numberOf(ctx, x, name.text)
		if err != nil || !found {
			return c, false, err
		}
		c.add(name.column+" = ?", number)
	}
	if q.state.term != "" {
		c.add(q.state.term)
	}
	if q.after != nil {
		c.add("(enqueued_at, id) < (?, ?)", time.UnixMicro(q.after.At), idBound(q.after.ID))
	}
	return c, true, nil
}

// jobsSince reads the first jobs of a list among those enqueued at or after floor.
func (s *Store) jobsSince(ctx context.Context, x querier, q jobQuery, c conditions, slots slotSet, floor time.Time) ([]jobRow, error) {
	if since := q.filter.Since; !since.IsZero() && since.After(floor) {
		floor = ceilMicro(since)
	}
	var recent conditions
	if !floor.IsZero() {
		recent.add("enqueued_at >= ?", floor)
	}
	c = c.and(recent)
	var terms []string
	var args []any
	add := func(term string, c conditions, times int) {
		const order = " order by enqueued_at desc, id desc limit ?"
		terms = append(terms, strings.NewReplacer("{where}", c.where(), "{order}", order).Replace(term))
		for range times {
			args = append(append(args, c.args...), q.limit+1)
		}
	}
	if q.state.live {
		add(liveTerm, c, 1)
	}
	if q.state.ended && len(slots.live) > 0 {
		add(slots.each(doneTerm, " union all "), c.and(conditions{terms: []string{isKept}}), len(slots.live))
	}
	if len(terms) == 0 {
		return nil, nil
	}
	query := strings.Join(terms, " union all ") + " order by 8 desc, 1 desc limit ?"
	return selectRows(ctx, x, scanJob, s.schema.text(numbered(query)), append(args, q.limit+1)...)
}
