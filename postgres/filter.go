package postgres

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/page"
)

// conditions are those of a query. Values only ever become parameters, for each of which a term has a question mark.
type conditions struct {
	terms []string
	args  []any
}

func (c *conditions) add(term string, args ...any) {
	c.terms = append(c.terms, term)
	c.args = append(c.args, args...)
}

// text adds a term for a text, unless that is empty.
func (c *conditions) text(term, value string) {
	if value != "" {
		c.add(term, value)
	}
}

// and returns the terms of both.
func (c conditions) and(other conditions) conditions {
	return conditions{slices.Concat(c.terms, other.terms), slices.Concat(c.args, other.args)}
}

func (c conditions) where() string {
	if len(c.terms) == 0 {
		return ""
	}
	return " where " + strings.Join(c.terms, " and ")
}

// numbered puts a numbered parameter in the place of each question mark of a query.
func numbered(query string) string {
	var b strings.Builder
	for n := 1; ; n++ {
		before, after, found := strings.Cut(query, "?")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		b.WriteString("$" + strconv.Itoa(n))
		query = after
	}
}

// ceilMicro is the first stored time that is not before t.
func ceilMicro(t time.Time) time.Time {
	micros := time.UnixMicro(t.UnixMicro())
	if micros.Before(t) {
		return micros.Add(time.Microsecond)
	}
	return micros
}

// letterQuery is a filter of letters: what an index in the order of lists answers, times included, and the rest, for which
// the rows themselves must be looked at.
type letterQuery struct {
	driven, rest conditions
	times        page.Span
	few          bool // an index leaves few rows, whatever else lies in the store
	text         bool // is looked for
}

// readTexts is for reads that look for a text, perhaps in all letters: the planner does not know what that takes. So they work in
// memory rather than by files, and with help where the server has hands free.
const readTexts = `set local parallel_setup_cost = 100; set local parallel_tuple_cost = 0.001;
select pg_catalog.set_config('work_mem', greatest(pg_catalog.pg_size_bytes(pg_catalog.current_setting('work_mem')) / 1024, 16384) || 'kB', true)`

// viewLetters is a view of what a filter picks.
func (s *Store) viewLetters(ctx context.Context, filter letterQuery, f func(ctx context.Context, q querier) error) error {
	return s.view(ctx, func(ctx context.Context, q querier) error {
		if filter.text && !filter.few {
			if _, err := q.Exec(ctx, readTexts, pgx.QueryExecModeSimpleProtocol); err != nil {
				return err
			}
		}
		return f(ctx, q)
	})
}

func newLetterQuery(f pawl.LetterFilter) (q letterQuery, err error) {
	if err := desk.CheckLetters(f); err != nil {
		return q, err
	}
	if !f.JobID.IsZero() {
		q.driven.add("job_id = ?", idValue(f.JobID))
	}
	q.driven.text("fingerprint = ?", f.Fingerprint)
	q.few = len(q.driven.terms) > 0
	if !f.Batch.IsZero() {
		q.driven.add("batch = ?", idValue(f.Batch))
	}
	switch len(f.Status) {
	case 0:
	case 1:
		q.driven.add("status = ?", int16(f.Status[0]))
	default:
		q.rest.add("status = any(?)", column(f.Status, func(s *pawl.Status) int16 { return int16(*s) }))
	}
	c := &q.rest
	if len(f.Class) > 0 {
		c.add("class = any(?)", column(f.Class, func(k *pawl.DeathClass) int16 { return int16(*k) }))
	}
	c.text("reason = ?", string(f.Reason))
	c.text("kind = ?", f.Kind)
	c.text("queue = ?", f.Queue)
	c.text("connection = ?", f.Connection)
	c.text("correlation_id = ?", f.CorrelationID)
	if !f.StatusBefore.IsZero() {
		c.add("status_at < ?", ceilMicro(f.StatusBefore))
	}
	if f.Regression {
		c.add("group_resolved_at is not null")
	}
	c.text("? = any(tags)", f.Tag)
	if f.Text != "" { // in the collation "C", in which ASCII letters alone have cases
		text := lowerASCII(f.Text)
		q.text = true // the first term finds most of what many have, without the time for lower
		c.add(`(strpos(message collate "C", ?) > 0 or strpos(lower(message collate "C"), ?) > 0 or strpos(lower(exception_type collate "C"), ?) > 0)`, text, text, text)
	}
	q.few = q.few || len(c.terms) == 0
	q.times = letterTimes(f)
	return q, nil
}

// near are the conditions that an index answers.
func (q letterQuery) near() conditions {
	c := q.driven.and(conditions{})
	c.within(q.times)
	return c
}

// all are the conditions of the whole filter.
func (q letterQuery) all() conditions {
	return q.near().and(q.rest)
}

func lowerASCII(text string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + ('a' - 'A')
		}
		return r
	}, text)
}

// letterTimes is the span of a filter's times.
func letterTimes(f pawl.LetterFilter) (times page.Span) {
	if !f.Since.IsZero() {
		times.NotBefore(page.Cursor{At: ceilMicro(f.Since).UnixMicro()})
	}
	if !f.Until.IsZero() {
		times.Before(page.Cursor{At: ceilMicro(f.Until).UnixMicro()})
	}
	return times
}

// within adds the bounds of a span of letters.
func (c *conditions) within(times page.Span) {
	if times.From != nil {
		c.add("(dead_at, id) >= (?, ?)", time.UnixMicro(times.From.At), idBound(times.From.ID))
	}
	if times.To != nil {
		c.add("(dead_at, id) < (?, ?)", time.UnixMicro(times.To.At), idBound(times.To.ID))
	}
}

// idBound is an id as an argument, the zero id too.
func idBound(id pawl.ID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }
