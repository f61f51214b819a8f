package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/page"
)

// groupStretch is how many letters are read in one step of a grouping, each as some 40 bytes. A text is looked for in four times as
// many.
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

// tally counts what the filter matches, by one of three ways; each asks for letters as one text, since to sort them into groups
// would take SQLite, which knows no other way, three times as long.
func (q letterQuery) tally(ctx context.Context, x execer, tally *desk.Tally, stretch int) error {
	q, _, many, err := q.settle(ctx, x, newestFirst)
	switch {
	case err != nil:
		return err
	case many:
		return q.tallyTable(ctx, x, tally, 4*stretch)
	case q.index == jobIndex || q.index == batchIndex || len(q.rest().terms) > 0: // few
		query, args := q.matching(asText, false)
		_, err := tallyPart(ctx, x, tally, query, args, 0)
		return err
	}
	g := newGrouping(q)
	for {
		query, args := g.next(stretch)
		end, err := tallyPart(ctx, x, tally, query, args, stretch)
		if err != nil || end == nil {
			return err
		}
		if g.from != nil && g.from.at == end.at && bytes.Equal(g.from.fingerprint, end.fingerprint) {
			stretch *= 2 // all of them died at the same time
		}
		g.from = end
	}
}

// tallyTable goes through the whole table for a text, at once or from one id to another. The index of the evidence has the ids of
// letters and nothing else, so it tells soonest how many there are and how far to go.
func (q letterQuery) tallyTable(ctx context.Context, x execer, tally *desk.Tally, stretch int) error {
	left, _, err := selectOne(ctx, x, scanValue[int], countLetters)
	if err != nil {
		return err
	}
	for from := []byte{}; ; left -= stretch {
		var to []byte
		if left > stretch {
			if to, _, err = selectOne(ctx, x, scanValue[[]byte], nextLetters, from, stretch); err != nil {
				return err
			}
		}
		query, args := q.stretchOfTable(from, to)
		if _, err := tallyPart(ctx, x, tally, query, args, 0); err != nil || to == nil {
			return err
		}
		from = to
	}
}

const (
	countLetters = `select count(*) from pawl_evidence`
	nextLetters  = `select letter from pawl_evidence where letter >= ? order by letter limit 1 offset ?`
)

// stretchOfTable is the query of the letters from an id to before another; nil is no end.
func (q letterQuery) stretchOfTable(from, to []byte) (query string, args []any) {
	var w where
	w.add("id >= ?", from)
	if to != nil {
		w.add("id < ?", to)
	}
	w = w.and(q.within(q.times)).and(q.rest())
	return q.all(asText) + w.sql(), w.args
}

// grouping goes through letters in stretches, in the order of an index.
type grouping struct {
	letterQuery
	from *died // where to go on
}

// newGrouping picks the index: that of groups has all that a filter of status and time asks for, and that of lists what others
// do.
func newGrouping(q letterQuery) *grouping {
	if q.inGroups {
		q.index = groupIndex
	}
	return &grouping{letterQuery: q}
}

// next is the query of the next letters.
func (g *grouping) next(stretch int) (query string, args []any) {
	times, order := g.times, " order by dead_at, id"
	var w where
	if g.index == groupIndex {
		order = " order by fingerprint, dead_at"
		if g.from != nil {
			w.add("(fingerprint, dead_at) >= (?, ?)", string(g.from.fingerprint), g.from.at)
		}
	} else if g.from != nil {
		times.NotBefore(page.Cursor{At: g.from.at})
	}
	w = w.and(g.within(times))
	return "select " + asText + " from (" + g.by("dead_at, fingerprint") + w.sql() + order + " limit ?)", append(w.args, stretch)
}

// asText is letters as one text: of each its time, a space and its fingerprint, which has no NUL; between them a NUL.
const asText = "cast(group_concat(dead_at || ' ' || fingerprint, char(0)) as blob)"

// died is deaths of one time, and one group, that are read one behind the other.
type died struct {
	fingerprint []byte
	at          int64
	deaths      int
}

// tallyPart counts letters that a query returns as text. Where they are as many as a stretch has, letters may follow that are like
// the last ones, of one time: those are not counted but returned, to go on from.
func tallyPart(ctx context.Context, x execer, tally *desk.Tally, query string, args []any, stretch int) (*died, error) {
	part, _, err := selectOne(ctx, x, scanValue[[]byte], query, args...)
	if err != nil {
		return nil, err
	}
	var alike []died
	letters := 0
	for ; len(part) > 0; letters++ {
		var one []byte
		one, part, _ = bytes.Cut(part, []byte{0})
		at, fingerprint, _ := bytes.Cut(one, []byte{' '})
		ms, err := strconv.ParseInt(string(at), 10, 64)
		if err != nil {
			return nil, err
		}
		if len(alike) > 0 && ms != alike[0].at {
			count(tally, alike)
			alike = alike[:0]
		}
		if n := len(alike); n > 0 && bytes.Equal(fingerprint, alike[n-1].fingerprint) {
			alike[n-1].deaths++
		} else {
			alike = append(alike, died{fingerprint, ms, 1})
		}
	}
	if stretch > 0 && letters == stretch {
		return &alike[0], nil
	}
	count(tally, alike)
	return nil, nil
}

func count(tally *desk.Tally, some []died) {
	for _, d := range some {
		tally.Add(d.fingerprint, d.at, d.deaths)
	}
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
	q.index = groupIndex
	w = w.and(q.within(q.times)).and(q.rest())
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
