package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Finished jobs lie in tables done_N, each for a day (a slot). A slot is made a day ahead and known to every process
// long before it is written to; it is forgotten when its last row is over age, and its table is dropped when nobody
// can have it in mind any more.
const (
	slotSpan    = 24 * time.Hour
	slotsFresh  = time.Minute      // how long a process relies on what it knows of the slots
	slotsLinger = 10 * time.Minute // between the end of a slot and the drop of its table
)

// slot is one of the tables.
type slot struct {
	n         int
	from      time.Time
	until     time.Time
	used      time.Time // zero: never written to
	retired   bool
	overAge   bool // its last row is
	droppable bool
}

// isDue reports that the slot is to be forgotten or dropped.
func (t slot) isDue() bool { return t.droppable || t.overAge && !t.retired }

func (t slot) table() string { return "done_" + strconv.Itoa(t.n) }

// slots is what this process knows of them.
type slots struct {
	mu     sync.Mutex
	known  slotSet
	read   time.Time // by this process's clock
	marked map[int]time.Time
	warned sync.Once
}

func (c *slots) init() {
	c.known.current, c.marked = -1, map[int]time.Time{}
}

// slotSet is one state of the slots. A set is never changed.
type slotSet struct {
	live    []slot // not retired, the oldest first
	current int    // index of the one that is written to now; -1: none
	texts   slotTexts
}

func (t slotSet) same(other slotSet) bool {
	return t.current == other.current && len(t.live) > 0 &&
		slices.EqualFunc(t.live, other.live, func(a, b slot) bool { return a.n == b.n })
}

// table is the one that is written to, or "".
func (t slotSet) table() string {
	if t.current < 0 {
		return ""
	}
	return t.live[t.current].table()
}

// each joins a term for every live slot, with {t} replaced by its qualified table.
func (t slotSet) each(term, separator string) string {
	terms := make([]string, len(t.live))
	for i, one := range t.live {
		terms[i] = strings.ReplaceAll(term, "{t}", "{s}."+one.table())
	}
	return strings.Join(terms, separator)
}

const (
	selectSlots = `select n, from_at, until_at, coalesce(used_at, from_at), retired_at is not null,
  until_at < now() and (used_at is null or used_at < now() - $1::interval), coalesce(retired_at < now() - $2::interval, false), now()
from {s}.slot order by from_at`
	markSlot = `update {s}.slot set used_at = now() where n = $1 and (used_at is null or used_at < now() - interval '20 seconds')`
)

// readSlots looks at the slots, and returns all of them and the database's clock too.
func (s *Store) readSlots(ctx context.Context, q interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
},
) (all []slot, now time.Time, err error) {
	began := time.Now()
	rows, err := q.Query(ctx, s.sql.selectSlots, s.slotAge(), slotsLinger)
	if err != nil {
		return nil, now, err
	}
	return s.takeSlots(rows, began)
}

// slotAge is the age of the last row at which a slot is forgotten.
func (s *Store) slotAge() time.Duration { return max(s.config.History, remembered) + 2*slotsFresh }

// takeSlots reads the answer to selectSlots, which was asked for at began, and keeps it.
func (s *Store) takeSlots(rows pgx.Rows, began time.Time) (all []slot, now time.Time, err error) {
	var one slot
	_, err = pgx.ForEachRow(rows, []any{&one.n, &one.from, &one.until, &one.used, &one.retired, &one.overAge, &one.droppable, &now}, func() error {
		all = append(all, one)
		return nil
	})
	if err != nil {
		return nil, now, err
	}
	known := slotSet{current: -1}
	for _, one := range all {
		if one.retired {
			continue
		}
		if !one.from.After(now) {
			known.current = len(known.live)
		}
		known.live = append(known.live, one)
	}
	s.slots.mu.Lock()
	defer s.slots.mu.Unlock()
	if known.texts = s.slots.known.texts; !known.same(s.slots.known) {
		known.texts = s.schema.slotTexts(known, s.config.History >= 0)
	}
	s.slots.known, s.slots.read = known, began
	return all, now, nil
}

// currentSlots returns the slots as they were at most a minute ago. It must not be called while a connection is held.
func (s *Store) currentSlots(ctx context.Context) (slotSet, error) {
	s.slots.mu.Lock()
	known, fresh := s.slots.known, time.Since(s.slots.read) < slotsFresh
	s.slots.mu.Unlock()
	if fresh {
		return known, nil
	}
	err := s.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		_, _, err := s.readSlots(ctx, conn)
		return err
	})
	if err != nil {
		return slotSet{}, fmt.Errorf("look at tables of finished jobs: %w", err)
	}
	s.slots.mu.Lock()
	defer s.slots.mu.Unlock()
	return s.slots.known, nil
}

// forgetSlots makes the next call look again.
func (s *Store) forgetSlots() {
	s.slots.mu.Lock()
	defer s.slots.mu.Unlock()
	s.slots.read = time.Time{}
}

// writableSlots is currentSlots for a writer: the slot bears a mark that says that it was written to in this minute.
func (s *Store) writableSlots(ctx context.Context) (slotSet, error) {
	known, err := s.currentSlots(ctx)
	if err != nil || known.current < 0 {
		return known, err
	}
	n := known.live[known.current].n
	s.slots.mu.Lock()
	marked := time.Since(s.slots.marked[n]) < slotsFresh
	s.slots.mu.Unlock()
	if marked {
		return known, nil
	}
	began := time.Now()
	err = s.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		_, err := conn.Exec(ctx, s.sql.markSlot, n)
		return err
	})
	if err != nil {
		return slotSet{}, fmt.Errorf("mark table of finished jobs: %w", err)
	}
	s.slots.mu.Lock()
	defer s.slots.mu.Unlock()
	s.slots.marked[n] = began
	return known, nil
}

const (
	// These are the owner's: see migrations/0013_rights.sql.
	makeDays  = `select {s}.make_days()`
	retireDay = `select {s}.retire_day($1, $2)`
	dropDay   = `select {s}.drop_day($1)`

	// A few rows are counted, many estimated.
	countSlot = `select greatest((select count(*) from (select 1 from {s}.{t} limit 10000) t),
  (select reltuples::bigint from pg_catalog.pg_class where oid = '{l}.{t}'::regclass))`
)

// keepSlots makes the slots that will be needed.
func (s *Store) keepSlots(ctx context.Context) error {
	return s.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		all, now, err := s.readSlots(ctx, conn)
		if err != nil || ahead(all, now) {
			return err
		}
		err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, `select pg_advisory_xact_lock($1)`, s.schema.lock("slots")); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, s.sql.makeDays)
			return err
		})
		if err == nil {
			_, _, err = s.readSlots(ctx, conn)
		}
		return err
	})
}

// sweepSlots is keepSlots for a host: without the rights it goes on as long as there is a table to write to.
func (s *Store) sweepSlots(ctx context.Context) error {
	err := s.keepSlots(ctx)
	if state(err) != insufficientRights {
		return err
	}
	s.slots.warned.Do(func() {
		s.config.Logger.Warn("tables for finished jobs cannot be made; the last one stays in use", "error", err)
	})
	return nil
}

// ahead reports whether there is a slot for now and one after it.
func ahead(all []slot, now time.Time) bool {
	return len(all) > 1 && all[len(all)-1].until.After(now.Add(slotSpan)) && !all[0].from.After(now)
}

// slotText is a statement about the table of a slot.
func (s *Store) slotText(template string, t slot) string {
	return s.schema.text(strings.ReplaceAll(template, "{t}", t.table()))
}

// retireSlots forgets slots whose last row is over age and drops tables that nobody has in mind any more. It returns
// how many rows were forgotten.
func (s *Store) retireSlots(ctx context.Context) (purged int, err error) {
	err = s.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		purged = 0
		all, _, err := s.readSlots(ctx, conn)
		if err != nil {
			return err
		}
		retired := false
		for _, one := range all {
			switch {
			case one.droppable:
				s.dropSlot(ctx, conn, one)
			case one.overAge && !one.retired:
				n, err := s.retire(ctx, conn, one)
				if err != nil {
					return err
				}
				purged += n
				retired = true
			}
		}
		if retired {
			_, _, err = s.readSlots(ctx, conn)
		}
		return err
	})
	return purged, err
}

func (s *Store) retire(ctx context.Context, q querier, one slot) (rows int, err error) {
	if err := q.QueryRow(ctx, s.slotText(countSlot, one)).Scan(&rows); err != nil {
		return 0, err
	}
	var retired bool
	if err := q.QueryRow(ctx, s.sql.retireDay, one.n, s.slotAge()).Scan(&retired); err != nil || !retired {
		return 0, err
	}
	return rows, nil
}

// dropSlot drops a table. Whoever still reads it keeps it for another while.
func (s *Store) dropSlot(ctx context.Context, conn *pgxpool.Conn, one slot) {
	err := pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `set local lock_timeout = '100ms'`); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, s.sql.dropDay, one.n)
		return err
	})
	if err != nil && state(err) != lockNotAvailable {
		s.config.Logger.Warn("drop a table of finished jobs", "table", one.table(), "error", err)
	}
}
