package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/page"
)

// groupStretch is how many letters are looked at in one step of a grouping.
const groupStretch = 50_000

const (
	// The next fingerprint in order, and the one behind it: two steps of the index.
	firstGroup = `select fingerprint from pawl_letter where fingerprint >= ? order by fingerprint limit 1`
	nextGroup  = `select fingerprint from pawl_letter where fingerprint > ? order by fingerprint limit 1`
)

// LetterGroups groups what the filter matches by fingerprint.
func (s *Store) LetterGroups(ctx context.Context, filter pawl.LetterFilter, limit int) (out pawl.LetterGroups, err error) {
	limit, err = page.Limit(pawl.Page{Limit: limit})
	if err != nil {
		return out, err
	}
	q, err := newLetterQuery(filter)
	if err != nil {
		return out, err
	}
	err = s.view(ctx, func(x execer) (err error) {
		out, err = q.groups(ctx, x, filter, limit)
		return err
	})
	if err != nil {
		return pawl.LetterGroups{}, fmt.Errorf("group letters: %w", err)
	}
	return out, nil
}

func (q letterQuery) groups(ctx context.Context, x execer, filter pawl.LetterFilter, limit int) (pawl.LetterGroups, error) {
	tally := desk.NewTally(filter, time.UnixMilli(now()))
	if err := q.tally(ctx, x, tally, groupStretch); err != nil {
		return pawl.LetterGroups{}, err
	}
	out := tally.Groups(limit)
	for i := range out.Groups {
		if err := q.newest(ctx, x, &out.Groups[i]); err != nil {
			return pawl.LetterGroups{}, err
		}
	}
	return out, nil
}

// tally counts what the filter matches, so many letters at a time.
func (q letterQuery) tally(ctx context.Context, x execer, tally *desk.Tally, stretch int) error {
	for g, more := newGrouping(q), true; more; {
		end, rest, err := g.end(ctx, x, stretch)
		if err != nil {
			return err
		}
		query, args := g.upTo(end)
		part, _, err := selectOne(ctx, x, scanValue[[]byte], query, args...)
		if err == nil {
			err = tallyPart(tally, part)
		}
		if err != nil {
			return err
		}
		g.from, more = end, rest
	}
	return nil
}

// grouping goes through letters in stretches, in the order of an index, and asks for each as one text: to sort them into
// groups here would take SQLite, which knows no other way, three times as long.
type grouping struct {
	letterQuery
	read  func(columns string) string
	order string // columns of the index, which tell every letter apart
	from  []any  // values of them: where to go on
}

// newGrouping picks the index: that of groups has all that a filter of status and time asks for; for the rest the whole table
// is gone through, since each step from an index into it would cost more, unless the filter leaves few letters.
func newGrouping(q letterQuery) *grouping {
	g := &grouping{letterQuery: q, order: inList}
	switch {
	case q.index != "pawl_letter_status" && q.index != "pawl_letter_time":
		g.read = g.by
	case q.inGroups:
		g.index, g.order = "pawl_letter_group", "fingerprint, dead_at, id"
		g.read = g.by
	default:
		g.read, g.order = g.all, "id"
	}
	return g
}

const inList = "dead_at, id" // the order of lists

// stretch are the terms of what is left from the place to go on, up to another; nil bounds nothing. In the order of lists a
// place is one more bound of times, of which a search takes one on each side.
func (g *grouping) stretch(to []any) where {
	times, bounds := g.times, where{}
	if g.order == inList {
		if g.from != nil {
			times.NotBefore(cursorAt(g.from))
		}
		if to != nil {
			times.Before(cursorAt(to))
		}
		return g.within(times)
	}
	place := "(" + g.order + ") %s (" + marks(g.columns()) + ")"
	if g.from != nil {
		bounds.add(fmt.Sprintf(place, ">="), g.from...)
	}
	if to != nil {
		bounds.add(fmt.Sprintf(place, "<"), to...)
	}
	return g.within(times).and(bounds)
}

func cursorAt(place []any) page.Cursor {
	c := page.Cursor{At: place[0].(int64)}
	copy(c.ID[:], place[1].([]byte))
	return c
}

// end finds where the next stretch ends; false where it is the last one.
func (g *grouping) end(ctx context.Context, x execer, stretch int) ([]any, bool, error) {
	if g.index == "pawl_letter_job" {
		return nil, false, nil
	}
	query, args := g.ending(stretch)
	return selectOne(ctx, x, func(rows *sql.Rows) ([]any, error) {
		place := make([]any, g.columns())
		targets := make([]any, len(place))
		for i := range place {
			targets[i] = &place[i]
		}
		return place, rows.Scan(targets...)
	}, query, args...)
}

func (g *grouping) columns() int { return 1 + strings.Count(g.order, ",") }

// ending is the query of the place behind a stretch.
func (g *grouping) ending(stretch int) (query string, args []any) {
	w := g.stretch(nil)
	return g.read(g.order) + w.sql() + " order by " + g.order + " limit 1 offset ?", append(w.args, stretch)
}

// upTo is the query of a stretch.
func (g *grouping) upTo(end []any) (query string, args []any) {
	w := g.stretch(end).and(g.rest)
	return g.read("cast(group_concat(dead_at || ' ' || fingerprint, char(0)) as blob)") + w.sql(), w.args
}

// tallyPart counts the letters of a stretch: for each its time, a space and its fingerprint, which has no NUL.
func tallyPart(tally *desk.Tally, part []byte) error {
	for len(part) > 0 {
		var one []byte
		one, part, _ = bytes.Cut(part, []byte{0})
		at, fingerprint, _ := bytes.Cut(one, []byte{' '})
		ms, err := strconv.ParseInt(string(at), 10, 64)
		if err != nil {
			return err
		}
		tally.Add(fingerprint, ms, 1)
	}
	return nil
}

// newest reads the letter that stands for its group.
func (q letterQuery) newest(ctx context.Context, x execer, g *pawl.LetterGroup) error {
	query, args := q.ofGroup(*g)
	_, _, err := selectOne(ctx, x, func(rows *sql.Rows) (struct{}, error) {
		return struct{}{}, rows.Scan((*idColumn)(&g.Newest), &g.Kind, &g.ExceptionType, &g.Message, (*timeColumn)(&g.ResolvedAt))
	}, query, args...)
	return err
}

func (q letterQuery) ofGroup(g pawl.LetterGroup) (query string, args []any) {
	var w where
	w.add("fingerprint = ?", g.Fingerprint)
	w.add("dead_at = ?", g.LastSeen.UnixMilli())
	q.index = "pawl_letter_group"
	w = w.and(q.within(q.times)).and(q.rest)
	return q.by("id, kind, exception_type, message, group_resolved_at") + w.sql() + " order by id desc limit 1", w.args
}

// FindGroup returns the one fingerprint that begins with a text.
func (s *Store) FindGroup(ctx context.Context, prefix string) (fingerprint string, err error) {
	if err := desk.CheckGroup(prefix); err != nil {
		return "", err
	}
	var following []string
	err = s.view(ctx, func(x execer) error {
		after, query := prefix, firstGroup
		for range 2 {
			next, found, err := selectOne(ctx, x, scanValue[string], query, after)
			if err != nil || !found {
				return err
			}
			following = append(following, next)
			after, query = next, nextGroup
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("find group: %w", err)
	}
	return desk.OneGroup(prefix, following)
}
