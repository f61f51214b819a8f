package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/page"
)

const (
	// The largest groups of what {where} picks, and the newest letter of each, which is looked for among those that died
	// last. Counts of all stand beside each.
	selectGroups = `select g.fingerprint, g.letters, g.first, g.last, g.groups, g.sum, n.id, n.kind, n.exception_type, n.message from (
  select fingerprint, letters, first, last, count(*) over () as groups, (sum(letters) over ())::bigint as sum from (
    select fingerprint, count(*) as letters, min(dead_at) as first, max(dead_at) as last from {s}.letter{where} group by fingerprint) c
  order by letters desc, last desc, fingerprint limit ?) g
cross join lateral (select id, kind, exception_type, message from {s}.letter{where}{and}fingerprint = g.fingerprint and dead_at = g.last
  order by id desc limit 1) n
order by g.letters desc, g.last desc, g.fingerprint`

	// The first fingerprint that is not before a text, and the one behind it: two steps of the index.
	selectFollowing = `with recursive following (fingerprint, n) as (
  (select fingerprint, 1 from {s}.letter where fingerprint >= $1 order by fingerprint limit 1)
  union all
  select (select fingerprint from {s}.letter where fingerprint > f.fingerprint order by fingerprint limit 1), n + 1
  from following f where n < 2 and f.fingerprint is not null
)
select fingerprint from following where fingerprint is not null order by n`
)

// LetterGroups groups what the filter matches by fingerprint.
func (s *Store) LetterGroups(ctx context.Context, filter pawl.LetterFilter, limit int) (out pawl.LetterGroups, err error) {
	limit, err = page.Limit(pawl.Page{Limit: limit})
	if err != nil {
		return out, err
	}
	list, err := newLetterQuery(filter)
	if err != nil {
		return out, err
	}
	groups := list.groups(limit)
	err = s.view(ctx, func(ctx context.Context, q querier) (err error) {
		out.Groups, err = selectRows(ctx, q, func(rows pgx.Rows) (g pawl.LetterGroup, err error) {
			return g, rows.Scan(&g.Fingerprint, &g.Letters, (*timeColumn)(&g.FirstSeen), (*timeColumn)(&g.LastSeen), &out.All,
				&out.Letters, (*idColumn)(&g.Newest), &g.Kind, &g.ExceptionType, &g.Message)
		}, s.schema.text(groups.text), groups.args...)
		return err
	})
	if err != nil {
		return pawl.LetterGroups{}, fmt.Errorf("group letters: %w", err)
	}
	return out, nil
}

// groups is the query of the largest groups.
func (q letterQuery) groups(limit int) query {
	c := q.all()
	and := " where "
	if len(c.terms) > 0 {
		and = " and "
	}
	text := strings.NewReplacer("{where}", c.where(), "{and}", and).Replace(selectGroups)
	args := slices.Concat(c.args, []any{limit}, c.args)
	return query{numbered(text), args}
}

// FindGroup returns the one fingerprint that begins with a text.
func (s *Store) FindGroup(ctx context.Context, prefix string) (string, error) {
	if err := desk.CheckGroup(prefix); err != nil {
		return "", err
	}
	var following []string
	err := s.view(ctx, func(ctx context.Context, q querier) (err error) {
		following, err = selectRows(ctx, q, scanValue[string], s.sql.desk.selectFollowing, prefix)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("find group: %w", err)
	}
	return desk.OneGroup(prefix, following)
}
