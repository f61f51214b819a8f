package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/page"
)

const (
	groupOrder = ` group by fingerprint) order by letters desc, last desc, fingerprint limit ?`

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
		out, err = q.groups(ctx, x, limit)
		return err
	})
	if err != nil {
		return pawl.LetterGroups{}, fmt.Errorf("group letters: %w", err)
	}
	return out, nil
}

func (q letterQuery) groups(ctx context.Context, x execer, limit int) (out pawl.LetterGroups, err error) {
	query, args := q.grouped(limit)
	out.Groups, err = selectRows(ctx, x, func(rows *sql.Rows) (g pawl.LetterGroup, err error) {
		return g, rows.Scan(&g.Fingerprint, &g.Letters, (*timeColumn)(&g.FirstSeen), (*timeColumn)(&g.LastSeen), &out.All, &out.Letters)
	}, query, args...)
	for i := range out.Groups {
		if err == nil {
			err = q.newest(ctx, x, &out.Groups[i])
		}
	}
	return out, err
}

// grouped is the query of the largest groups, with the counts of all beside each. The index of groups has their order,
// and all that a filter of status and time asks for; for the rest the whole table is gone through, since each step from
// the index into it would cost more.
func (q letterQuery) grouped(limit int) (query string, args []any) {
	whole := q.index == "pawl_letter_status" || q.index == "pawl_letter_time"
	if whole {
		q.index = "pawl_letter_group"
	}
	from := q.by
	if whole && !q.inGroups {
		from = q.all
	}
	w := q.within(q.times).and(q.rest)
	return `select fingerprint, letters, first, last, count(*) over (), sum(letters) over () from (` +
		from("fingerprint, count(*) as letters, min(dead_at) as first, max(dead_at) as last") + w.sql() + groupOrder, append(w.args, limit)
}

// newest reads the letter that stands for its group.
func (q letterQuery) newest(ctx context.Context, x execer, g *pawl.LetterGroup) error {
	query, args := q.ofGroup(*g)
	_, _, err := selectOne(ctx, x, func(rows *sql.Rows) (struct{}, error) {
		return struct{}{}, rows.Scan((*idColumn)(&g.Newest), &g.Kind, &g.ExceptionType, &g.Message)
	}, query, args...)
	return err
}

func (q letterQuery) ofGroup(g pawl.LetterGroup) (query string, args []any) {
	var w where
	w.add("fingerprint = ?", g.Fingerprint)
	w.add("dead_at = ?", g.LastSeen.UnixMilli())
	q.index = "pawl_letter_group"
	w = w.and(q.within(q.times)).and(q.rest)
	return q.by("id, kind, exception_type, message") + w.sql() + " order by id desc limit 1", w.args
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
