package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

const (
	selectLimits = `select kind, source, value from pawl_limit order by kind, source`
	selectLimit  = `select kind, source, value from pawl_limit where kind = ?1`
	upsertLimit  = `insert into pawl_limit (kind, source, value) values (?1, ?2, ?3) on conflict (kind, source) do update set value = excluded.value`
	stateLimit   = `insert into pawl_limit (kind, source, value) values (?1, 0, ?2) on conflict (kind, source) do nothing`
	deleteLimit  = `delete from pawl_limit where kind = ?1 and source = ?2`

	// Who has passed the gate of a key while it stood open, and not that of its kind, stands before it again.
	standBack = `update pawl_turn set stage = 1 where job_id in (select job_id from pawl_turn where kind = ?1 and stage = 2 and lkey is not null limit ?2)`

	keysInLine   = `select distinct lkey from pawl_turn where kind = ?1 and stage = 1`
	countWaiting = `select count(*) from (select 1 from pawl_turn where kind = ?1 and stage in (1, 2) and pending = 1 limit ?2)`

	selectRate = `select tokens, counted_at, next_at from pawl_rate where kind = ?1`
	upsertRate = `insert into pawl_rate (kind, tokens, counted_at, next_at) values (?1, ?2, ?3, ?4)
on conflict (kind) do update set tokens = excluded.tokens, counted_at = excluded.counted_at, next_at = excluded.next_at`
	selectRatesDue = `select kind from pawl_rate where next_at is not null and next_at <= ?1 limit ?2`
	selectNextRate = `select min(next_at) from pawl_rate where next_at is not null`

	countStarts = `update pawl_turn set pending = 0 where stage = 3 and pending = 1
and job_id in (select id from pawl_job where session = ?1 and token > ?2 and turn & 2 <> 0) returning kind`
)

// Sources of a limit.
const (
	limitStated = 0
	limitSet    = 1
)

// limitRow is what a kind states, or what was set in its place.
type limitRow struct {
	kind   string
	source int
	limit  pawl.Limit
}

func scanLimit(rows *sql.Rows) (r limitRow, err error) {
	return r, rows.Scan(&r.kind, &r.source, jsonColumn{&r.limit})
}

// readLimits are the limits that are in force.
func readLimits(ctx context.Context, x execer) (map[string]pawl.Limit, error) {
	rows, err := selectRows(ctx, x, scanLimit, selectLimits)
	limits := make(map[string]pawl.Limit, len(rows))
	for _, row := range rows {
		limits[row.kind] = row.limit // what was set comes after what is stated
	}
	maps.DeleteFunc(limits, func(_ string, l pawl.Limit) bool { return l.IsZero() })
	return limits, err
}

func writeLimit(ctx context.Context, x execer, kind string, source int, limit *pawl.Limit) error {
	if limit == nil {
		_, err := x.ExecContext(ctx, deleteLimit, kind, source)
		return err
	}
	text, err := json.Marshal(limit)
	if err == nil {
		_, err = x.ExecContext(ctx, upsertLimit, kind, source, string(text))
	}
	return err
}

// SetLimit overrules what a kind states.
func (s *Store) SetLimit(ctx context.Context, kind string, limit *pawl.Limit, by pawl.By) error {
	if err := desk.CheckLimit(kind, limit, by); err != nil {
		return err
	}
	err := s.write(ctx, func(ctx context.Context, w *writer) error {
		stated, set, err := limitsOf(ctx, w, kind)
		if err != nil {
			return err
		}
		if err := writeLimit(ctx, w, kind, limitSet, limit); err != nil {
			return err
		}
		_, err = writeAudit(ctx, w, now(), by, desk.LimitEntry(kind, stated, set, limit))
		return err
	})
	if err == nil {
		err = s.giveKinds(ctx, kind)
	}
	if err != nil {
		return fmt.Errorf("set limit of kind %s: %w", kind, err)
	}
	return nil
}

// standBackAtOnce bounds a transaction.
const standBackAtOnce = 10_000

// limitsOf are what a kind states, and what was set in its place.
func limitsOf(ctx context.Context, x execer, kind string) (stated pawl.Limit, set *pawl.Limit, err error) {
	rows, err := selectRows(ctx, x, scanLimit, selectLimit, kind)
	for _, row := range rows {
		if row.source == limitSet {
			set = &row.limit
		} else {
			stated = row.limit
		}
	}
	return stated, set, err
}

// giveKinds gives turns in all lines of some kinds, whose limits have changed.
func (s *Store) giveKinds(ctx context.Context, kinds ...string) error {
	for _, kind := range kinds {
		for moved := int64(standBackAtOnce); moved == standBackAtOnce; {
			err := s.write(ctx, func(ctx context.Context, w *writer) error {
				limits, err := readLimits(ctx, w)
				if moved = 0; err == nil && limits[kind].PerKey > 0 {
					moved, err = change(ctx, w, standBack, kind, standBackAtOnce)
				}
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	for more := true; more; {
		err := s.write(ctx, func(ctx context.Context, w *writer) error {
			t := newTurns(w, now())
			for _, kind := range kinds {
				t.kinds[kind] = true
				keys, err := selectRows(ctx, w, scanValue[[]byte], keysInLine, kind)
				if err != nil {
					return err
				}
				for _, key := range keys {
					t.keys[string(key)] = kind
				}
			}
			_, err := t.give(ctx)
			w.ready, more = true, t.more // claimers look again
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// register notes what the kinds of a host state, and returns those that state something else than before.
func register(ctx context.Context, x execer, host pawl.HostInfo, at int64) (changed []string, err error) {
	rows, err := selectRows(ctx, x, scanLimit, selectLimits)
	if err != nil {
		return nil, err
	}
	before := map[string]pawl.Limit{}
	for _, row := range rows {
		if row.source == limitStated {
			before[row.kind] = row.limit
		}
	}
	for _, kind := range host.Kinds {
		limit := host.Limits[kind]
		if limit == before[kind] {
			continue
		}
		if err := writeLimit(ctx, x, kind, limitStated, &limit); err != nil {
			return nil, err
		}
		by := desk.System()
		by.Why = "host " + host.Name + " was started"
		if _, err := writeAudit(ctx, x, at, by, desk.StatedEntry(kind, before[kind], limit)); err != nil {
			return nil, err
		}
		changed = append(changed, kind)
	}
	return changed, nil
}

// mostCounted bounds what is counted of a line.
const mostCounted = 10_000

// Limits lists the kinds that are held to a limit, or whose limit was overruled.
func (s *Store) Limits(ctx context.Context) (out []pawl.KindLimit, err error) {
	err = s.view(ctx, func(x execer) error {
		rows, err := selectRows(ctx, x, scanLimit, selectLimits)
		if err != nil {
			return err
		}
		kinds := map[string]*pawl.KindLimit{}
		for _, row := range rows {
			if kinds[row.kind] == nil {
				kinds[row.kind] = &pawl.KindLimit{Kind: row.kind}
			}
			k := kinds[row.kind]
			if k.Limit, k.Overruled = row.limit, row.source == limitSet; !k.Overruled {
				k.Stated = row.limit
			}
		}
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			k := kinds[kind]
			if k.Through, _, err = selectOne(ctx, x, scanValue[int], countKind, kind, mostCounted); err != nil {
				return err
			}
			if k.Waiting, _, err = selectOne(ctx, x, scanValue[int], countWaiting, kind, mostCounted); err != nil {
				return err
			}
			if !k.Limit.IsZero() || k.Overruled {
				out = append(out, *k)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list limits: %w", err)
	}
	return out, nil
}

// rateRow is the bucket of a kind.
type rateRow struct {
	desk.Bucket
	next sql.NullInt64
}

func readRate(ctx context.Context, x execer, kind string) (rateRow, error) {
	r, _, err := selectOne(ctx, x, func(rows *sql.Rows) (r rateRow, err error) {
		return r, rows.Scan(&r.Tokens, (*timeColumn)(&r.CountedAt), &r.next)
	}, selectRate, kind)
	return r, err
}

func writeRate(ctx context.Context, x execer, kind string, r rateRow) error {
	_, err := x.ExecContext(ctx, upsertRate, kind, r.Tokens, r.CountedAt.UnixMilli(), r.next)
	return err
}

// giveByRate lets through as many of a kind, free at most, as there are tokens for, and notes when there will be the next.
func (t *turns) giveByRate(ctx context.Context, kind string, limit pawl.Limit, free int) error {
	_, burst := limit.Rate()
	now := time.UnixMilli(t.at).UTC()
	rate, err := readRate(ctx, t.x, kind)
	if err != nil {
		return err
	}
	pile, _, err := selectOne(ctx, t.x, scanValue[int], countPile, kind, burst)
	if err != nil {
		return err
	}
	tokens, _ := rate.Free(limit, now, pile)
	passed := len(t.ready)
	if free = min(free, max(tokens, 0)); free > 0 {
		if err := t.pass(ctx, passKind, []any{true}, firstOfKind, kind, free); err != nil {
			return err
		}
	}
	_, wait := rate.Free(limit, now, pile+len(t.ready)-passed)
	next := sql.NullInt64{}
	if wait > 0 {
		_, next.Valid, err = selectOne(ctx, t.x, scanValue[[]byte], firstOfKind, kind, 1)
		next.Int64 = t.at + wholeMillis(wait)
	}
	if !next.Valid {
		next.Int64 = 0
	}
	if err != nil || next == rate.next {
		return err
	}
	if rate.CountedAt.IsZero() {
		rate.Bucket = rate.At(limit, now)
	}
	rate.next = next
	return writeRate(ctx, t.x, kind, rate)
}

// countStarts takes the tokens of the jobs that a claim has got, and lets the next through.
func (c *claim) countStarts(ctx context.Context) error {
	rated := slices.ContainsFunc(slices.Collect(maps.Values(c.limits)), func(l pawl.Limit) bool { return l.Starts > 0 })
	if !rated {
		return nil
	}
	started, err := selectRows(ctx, c.x, scanValue[string], countStarts, int64(c.request.Session), c.base)
	if err != nil || len(started) == 0 {
		return err
	}
	t := newTurns(c.x, c.at)
	starts := map[string]int{}
	for _, kind := range started {
		starts[kind]++
	}
	for kind, n := range starts {
		limit := c.limits[kind]
		if limit.Starts == 0 {
			continue
		}
		rate, err := readRate(ctx, c.x, kind)
		if err != nil {
			return err
		}
		rate.Bucket = rate.Take(limit, time.UnixMilli(c.at).UTC(), n)
		if err := writeRate(ctx, c.x, kind, rate); err != nil {
			return err
		}
		t.kinds[kind] = true
	}
	ready, err := t.give(ctx)
	c.more = c.more || ready
	return err
}
