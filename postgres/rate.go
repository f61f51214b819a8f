package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawljobs/pawl/internal/desk"
)

// rateRow is the bucket of a kind.
type rateRow struct {
	desk.Bucket
	next pgtype.Timestamptz
}

// readRates reads the buckets, and has the kinds looked at for which there is a token now.
func (t *giving) readRates(rows pgx.Rows) error {
	t.rates = map[int32]rateRow{}
	var kind int32
	var r rateRow
	_, err := pgx.ForEachRow(rows, []any{&kind, &r.Tokens, &r.CountedAt, &r.next, &t.now}, func() error {
		t.rates[kind] = r
		if r.next.Valid && !r.next.Time.After(t.now) {
			t.look(lines{kind: kind})
		}
		return nil
	})
	return err
}

// rated are those of some kinds that have a rate, with their bursts.
func (t *giving) rated(kinds []int32) (rated, bursts []int32) {
	for _, kind := range kinds {
		if _, burst := t.limits[kind].Rate(); burst > 0 {
			rated, bursts = append(rated, kind), append(bursts, int32(burst))
		}
	}
	return rated, bursts
}

// piles are how many of each kind are through and have not started, and whether others wait.
func (t *giving) piles(ctx context.Context, kinds, bursts []int32) (piles map[int32]int, waiting map[int32]bool, err error) {
	piles, waiting = map[int32]int{}, map[int32]bool{}
	if t.now.IsZero() {
		if err := t.conn.QueryRow(ctx, `select now()`).Scan(&t.now); err != nil {
			return nil, nil, err
		}
	}
	rows, err := t.conn.Query(ctx, t.store.sql.countPiles, kinds, bursts)
	if err != nil {
		return nil, nil, err
	}
	var kind int32
	var pile int
	var waits bool
	_, err = pgx.ForEachRow(rows, []any{&kind, &pile, &waits}, func() error {
		piles[kind], waiting[kind] = pile, waits
		return nil
	})
	return piles, waiting, err
}

// tokens are how many of each kind may be let through by its rate; -1 where it has none.
func (t *giving) tokens(ctx context.Context, kinds []int32) ([]int32, error) {
	free := make([]int32, len(kinds))
	rated, bursts := t.rated(kinds)
	if len(rated) == 0 {
		for i := range free {
			free[i] = -1
		}
		return free, nil
	}
	piles, _, err := t.piles(ctx, rated, bursts)
	for i, kind := range kinds {
		if free[i] = -1; slices.Contains(rated, kind) {
			n, _ := t.rates[kind].Free(t.limits[kind], t.now, piles[kind])
			free[i] = int32(max(n, 0))
		}
	}
	return free, err
}

// noteNext notes when the next job of each kind is to be let through.
func (t *giving) noteNext(ctx context.Context, kinds []int32) error {
	rated, bursts := t.rated(kinds)
	if len(rated) == 0 {
		return nil
	}
	piles, waiting, err := t.piles(ctx, rated, bursts)
	if err != nil {
		return err
	}
	for _, kind := range rated {
		rate, next := t.rates[kind], pgtype.Timestamptz{}
		if _, wait := rate.Free(t.limits[kind], t.now, piles[kind]); waiting[kind] && wait > 0 {
			next = pgtype.Timestamptz{Time: t.now.Add(wait + time.Microsecond), Valid: true}
		}
		if next == rate.next || !next.Valid && !rate.next.Valid {
			continue
		}
		if rate.CountedAt.IsZero() {
			rate.Bucket = rate.At(t.limits[kind], t.now)
		}
		if _, err := t.conn.Exec(ctx, t.store.sql.writeRate, kind, rate.Tokens, rate.CountedAt, next); err != nil {
			return err
		}
	}
	return nil
}

// countStarts takes the tokens of jobs that were claimed, and has their kinds looked at.
func (t *giving) countStarts(ctx context.Context, started idList) error {
	if len(started) == 0 {
		return nil
	}
	rows, err := t.conn.Query(ctx, t.store.sql.countStarts, started)
	if err != nil {
		return err
	}
	starts := map[int32]int{}
	var kind int32
	if _, err = pgx.ForEachRow(rows, []any{&kind}, func() error { starts[kind]++; return nil }); err != nil {
		return err
	}
	if _, _, err := t.piles(ctx, nil, nil); err != nil { // reads the clock
		return err
	}
	for kind, n := range starts {
		limit, rate := t.limits[kind], t.rates[kind]
		if limit.Starts == 0 {
			continue
		}
		rate.Bucket = rate.Take(limit, t.now, n)
		t.rates[kind] = rate
		t.look(lines{kind: kind})
		if _, err := t.conn.Exec(ctx, t.store.sql.writeRate, kind, rate.Tokens, rate.CountedAt, rate.next); err != nil {
			return err
		}
	}
	return nil
}
