package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

const (
	upsertLimit = `insert into {s}.kind_limit (kind, source, value) values ($1, $2, $3) on conflict (kind, source) do update set value = excluded.value`
	stateLimits = `insert into {s}.kind_limit (kind, source, value) select k, 0, v from unnest($1::int[], $2::text[]) t (k, v) on conflict do nothing`
	deleteLimit = `delete from {s}.kind_limit where kind = $1 and source = $2`

	// Who has passed the gate of a key while it stood open, and not that of its kind, stands before it again.
	standBack = `update {s}.turn t set stage = 1 from (select job_id from {s}.turn where kind = $1 and stage = 2 and lkey is not null limit $2) b
where t.job_id = b.job_id and t.stage = 2`

	// All lines of a kind.
	lookAtKind = `insert into {s}.arrival (lkey, kind) select distinct lkey, $1::int from {s}.turn where kind = $1 and stage = 1
union all select null, $1::int`

	countLines = `select (select count(*) from (select 1 from {s}.turn where kind = $1 and stage = 3 limit $2) t),
  (select count(*) from (select 1 from {s}.turn where kind = $1 and stage in (1, 2) and pending limit $2) w)`
)

// Sources of a limit.
const (
	limitStated = 0
	limitSet    = 1
)

// limitCache is what this process knows of limits, so that claims need not ask each time.
type limitCache struct {
	mu     sync.Mutex
	stated map[string]bool // kinds whose jobs were enqueued here: what they state is known to the store
	kinds  map[int32]pawl.Limit
	read   time.Time
}

// limitsLast is how long a claim goes by what was read before.
const limitsLast = time.Second

// limitsInForce are the limits that claims go by.
func (s *Store) limitsInForce(ctx context.Context) (map[int32]pawl.Limit, error) {
	c := &s.limits
	c.mu.Lock()
	kinds, fresh := c.kinds, time.Since(c.read) < limitsLast
	c.mu.Unlock()
	if fresh {
		return kinds, nil
	}
	err := s.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		rows, err := conn.Query(ctx, s.sql.selectLimits)
		if err != nil {
			return err
		}
		found, err := readLimitRows(rows)
		kinds = map[int32]pawl.Limit{}
		for _, row := range found {
			kinds[row.kind] = row.limit
		}
		maps.DeleteFunc(kinds, func(_ int32, l pawl.Limit) bool { return l.IsZero() })
		return err
	})
	if err == nil {
		c.mu.Lock()
		c.kinds, c.read = kinds, time.Now()
		c.mu.Unlock()
	}
	return kinds, err
}

// forgetLimits makes the next claim read them again.
func (s *Store) forgetLimits() {
	s.limits.mu.Lock()
	defer s.limits.mu.Unlock()
	s.limits.read = time.Time{}
}

// stateLimits notes what the kinds of jobs state, where the store has not heard of it. Their kinds must have numbers. It must
// not be called while a connection is held.
func (s *Store) stateLimits(ctx context.Context, jobs []pawl.NewJob) error {
	unknown := map[string]string{}
	s.limits.mu.Lock()
	for i := range jobs {
		job := &jobs[i]
		if job.Limit.IsZero() || s.limits.stated[job.Kind] || unknown[job.Kind] != "" {
			continue
		}
		text, err := json.Marshal(job.Limit)
		if err != nil {
			s.limits.mu.Unlock()
			return err
		}
		unknown[job.Kind] = string(text)
	}
	s.limits.mu.Unlock()
	if len(unknown) == 0 {
		return nil
	}
	kinds := slices.Sorted(maps.Keys(unknown))
	texts := make([]string, len(kinds))
	for i, kind := range kinds {
		texts[i] = unknown[kind]
	}
	err := s.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		_, err := conn.Exec(ctx, s.sql.desk.stateLimits, s.names.of(kinds), texts)
		return err
	})
	if err != nil {
		return fmt.Errorf("note limits: %w", err)
	}
	s.limits.mu.Lock()
	defer s.limits.mu.Unlock()
	for _, kind := range kinds {
		if s.limits.stated == nil {
			s.limits.stated = map[string]bool{}
		}
		s.limits.stated[kind] = true
	}
	return nil
}

func (s *Store) writeLimit(ctx context.Context, tx pgx.Tx, kind int32, source int, limit *pawl.Limit) error {
	if limit == nil {
		_, err := tx.Exec(ctx, s.sql.desk.deleteLimit, kind, source)
		return err
	}
	text, err := json.Marshal(limit)
	if err == nil {
		_, err = tx.Exec(ctx, s.sql.desk.upsertLimit, kind, source, string(text))
	}
	return err
}

// limitRows are all that are stored, by kind.
func (s *Store) limitRows(ctx context.Context, q querier) (stated map[int32]pawl.Limit, set map[int32]*pawl.Limit, names map[int32]string, err error) {
	rows, err := q.Query(ctx, s.sql.selectLimits)
	if err != nil {
		return nil, nil, nil, err
	}
	found, err := readLimitRows(rows)
	stated, set, names = map[int32]pawl.Limit{}, map[int32]*pawl.Limit{}, map[int32]string{}
	for _, row := range found {
		if names[row.kind] = row.name; row.source == limitSet {
			set[row.kind] = &row.limit
		} else {
			stated[row.kind] = row.limit
		}
	}
	return stated, set, names, err
}

// SetLimit overrules what a kind states.
func (s *Store) SetLimit(ctx context.Context, kind string, limit *pawl.Limit, by pawl.By) error {
	if err := desk.CheckLimit(kind, limit, by); err != nil {
		return err
	}
	err := s.number(ctx, []string{kind}, nil)
	if err == nil {
		err = s.write(ctx, func(ctx context.Context, tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, lockSwitches, s.schema.lock("limits")); err != nil {
				return fmt.Errorf("wait for another change: %w", err)
			}
			number := s.names.of([]string{kind})[0]
			stated, set, _, err := s.limitRows(ctx, tx)
			if err != nil {
				return err
			}
			if err := s.writeLimit(ctx, tx, number, limitSet, limit); err != nil {
				return err
			}
			_, err = s.writeAudit(ctx, tx, audited{by, desk.LimitEntry(kind, stated[number], set[number], limit)})
			return err
		})
	}
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

// giveKinds gives turns in all lines of some kinds, whose limits have changed.
func (s *Store) giveKinds(ctx context.Context, kinds ...string) error {
	s.forgetLimits()
	limits, err := s.limitsInForce(ctx)
	if err != nil {
		return err
	}
	for _, kind := range s.names.of(kinds) {
		for moved := int64(standBackAtOnce); moved == standBackAtOnce && limits[kind].PerKey > 0; {
			err := s.write(ctx, func(ctx context.Context, tx pgx.Tx) error {
				if _, err := tx.Exec(ctx, lockTurns, s.schema.lock("turns")); err != nil {
					return err
				}
				tag, err := tx.Exec(ctx, s.sql.desk.standBack, kind, standBackAtOnce)
				moved = tag.RowsAffected()
				return err
			})
			if err != nil {
				return err
			}
		}
		err := s.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
			_, err := conn.Exec(ctx, s.sql.desk.lookAtKind, kind)
			return err
		})
		if err != nil {
			return err
		}
	}
	s.giveTurns(ctx)
	s.waker.announce() // claimers look again
	return nil
}

// registerLimits notes what the kinds of a host state.
func (s *Store) registerLimits(ctx context.Context, host pawl.HostInfo) error {
	var changed []string
	err := s.write(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
		changed, err = s.register(ctx, tx, host)
		return err
	})
	if err != nil || len(changed) == 0 {
		return err
	}
	return s.giveKinds(ctx, changed...)
}

// register notes what the kinds of a host state, and returns those that state something else than before.
func (s *Store) register(ctx context.Context, tx pgx.Tx, host pawl.HostInfo) (changed []string, err error) {
	stated, _, _, err := s.limitRows(ctx, tx)
	if err != nil {
		return nil, err
	}
	var lines []audited
	for i, kind := range s.names.of(host.Kinds) {
		name := host.Kinds[i]
		limit := host.Limits[name]
		if limit == stated[kind] {
			continue
		}
		if err := s.writeLimit(ctx, tx, kind, limitStated, &limit); err != nil {
			return nil, err
		}
		by := desk.System()
		by.Why = "host " + host.Name + " was started"
		lines = append(lines, audited{by, desk.StatedEntry(name, stated[kind], limit)})
		changed = append(changed, name)
	}
	if len(lines) > 0 {
		_, err = s.writeAudit(ctx, tx, lines...)
	}
	return changed, err
}

// mostCounted bounds what is counted of a line.
const mostCounted = 10_000

// Limits lists the kinds that are held to a limit, or whose limit was overruled.
func (s *Store) Limits(ctx context.Context) (out []pawl.KindLimit, err error) {
	err = s.view(ctx, func(ctx context.Context, q querier) error {
		out = nil
		stated, set, names, err := s.limitRows(ctx, q)
		if err != nil {
			return err
		}
		for kind, name := range names {
			k := pawl.KindLimit{
				Kind: name, Limit: desk.InForce(stated[kind], set[kind]), Stated: stated[kind], Overruled: set[kind] != nil,
			}
			if k.Limit.IsZero() && !k.Overruled {
				continue
			}
			if err := q.QueryRow(ctx, s.sql.desk.countLines, kind, mostCounted).Scan(&k.Through, &k.Waiting); err != nil {
				return err
			}
			out = append(out, k)
		}
		slices.SortFunc(out, func(a, b pawl.KindLimit) int { return cmp.Compare(a.Kind, b.Kind) })
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list limits: %w", err)
	}
	return out, nil
}

// limitRow is what a kind states, or what was set in its place.
type limitRow struct {
	kind   int32
	name   string
	source int16
	limit  pawl.Limit
}

func readLimitRows(rows pgx.Rows) ([]limitRow, error) {
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r limitRow, err error) {
		var value string
		err = row.Scan(&r.kind, &r.name, &r.source, &value)
		return r, errors.Join(err, json.Unmarshal([]byte(value), &r.limit))
	})
}
