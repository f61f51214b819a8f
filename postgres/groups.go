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
	// The groups of what {where} picks, with how many died in each minute and when the first of them did.
	selectGroups = `select fingerprint, array_agg((date_part('epoch', first) * 1000)::bigint), array_agg(deaths), max(last), now() from (
  select fingerprint, count(*) as deaths, min(dead_at) as first, max(dead_at) as last from {s}.letter{where}
  group by fingerprint, date_bin('1 minute', dead_at, 'epoch'::timestamptz)) m
group by fingerprint`

	// The newest letter of each group, which is looked for among those that died last.
	selectNewest = `select n.id, n.kind, n.exception_type, n.message, n.group_resolved_at
from unnest(?::text[], ?::timestamptz[]) with ordinality g (fingerprint, last, i)
cross join lateral (select id, kind, exception_type, message, group_resolved_at from {s}.letter{where}{and}fingerprint = g.fingerprint
  and dead_at = g.last order by id desc limit 1) n
order by g.i`

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
	err = s.viewLetters(ctx, list, func(ctx context.Context, q querier) (err error) {
		out, err = s.readGroups(ctx, q, list, filter, limit)
		return err
	})
	if err != nil {
		return pawl.LetterGroups{}, fmt.Errorf("group letters: %w", err)
	}
	return out, nil
}

func (s *Store) readGroups(ctx context.Context, q querier, list letterQuery, filter pawl.LetterFilter, limit int) (out pawl.LetterGroups, err error) {
	groups := list.groups()
	var tally *desk.Tally
	_, err = selectRows(ctx, q, func(rows pgx.Rows) (_ struct{}, err error) {
		var fingerprint string
		var firsts, deaths []int64
		var last, now time.Time
		if err := rows.Scan(&fingerprint, &firsts, &deaths, (*timeColumn)(&last), (*timeColumn)(&now)); err != nil {
			return struct{}{}, err
		}
		if tally == nil {
			tally = desk.NewTally(filter, now)
		}
		for i, first := range firsts {
			tally.Add([]byte(fingerprint), first, int(deaths[i]))
		}
		tally.Seen([]byte(fingerprint), last.UnixMilli())
		return struct{}{}, nil
	}, s.schema.text(groups.text), groups.args...)
	if err != nil || tally == nil {
		return out, err
	}
	out = tally.Groups(limit)
	newest, i := list.newest(out.Groups), 0
	_, err = selectRows(ctx, q, func(rows pgx.Rows) (_ struct{}, err error) {
		g := &out.Groups[i]
		i++
		return struct{}{}, rows.Scan((*idColumn)(&g.Newest), &g.Kind, &g.ExceptionType, &g.Message, (*timeColumn)(&g.ResolvedAt))
	}, s.schema.text(newest.text), newest.args...)
	return out, err
}

// groups is the query of all groups.
func (q letterQuery) groups() query {
	c := q.all()
	return query{numbered(strings.Replace(selectGroups, "{where}", c.where(), 1)), c.args}
}

// newest is the query of the letters that stand for groups.
func (q letterQuery) newest(groups []pawl.LetterGroup) query {
	c := q.all()
	and := " where "
	if len(c.terms) > 0 {
		and = " and "
	}
	text := strings.NewReplacer("{where}", c.where(), "{and}", and).Replace(selectNewest)
	args := []any{
		column(groups, func(g *pawl.LetterGroup) string { return g.Fingerprint }),
		column(groups, func(g *pawl.LetterGroup) time.Time { return g.LastSeen }),
	}
	return query{numbered(text), append(args, c.args...)}
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
