package postgres

import (
	"math"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

const (
	// What is due goes to the end of its queue, in the order in which it fell due.
	makeDue = `with due as materialized (
  select tid, run_at, old, nextval('{l}.job_seq') as seq from (
    select ctid as tid, run_at, seq as old from {s}.job where run_at <= now() and (run_at, seq) > ($2, $3) and holder is null
    order by run_at, seq limit $1 for update skip locked) d
), moved as (
  update {s}.job j set run_at = case when j.flags & 32 <> 0 then 'infinity'::timestamptz end, seq = due.seq from due where j.ctid = due.tid
  returning j.id, j.flags, j.seq
), came as (
  insert into {s}.arrival (job_id) select id from moved where flags & 32 <> 0 order by seq
)
select (select count(*) from moved), run_at, old from (select run_at, old from due order by run_at desc, old desc limit 1) l`

	// A Duration ends at 292 years, and the wait for a job need not.
	selectNextDue = `select least(run_at - now(), interval '10000 days') from {s}.job where run_at < 'infinity' and (run_at, seq) > ($1, $2) and holder is null
order by run_at, seq limit 1`

	dueAtOnce = 2000                  // jobs in one statement
	dueMany   = 5000                  // moved since a look from the beginning: then the next one comes after
	duePause  = time.Second           // so long
	dueSlow   = 50 * time.Millisecond // a look from the beginning that takes longer
	dueShare  = 20                    // is followed by that many times its own duration without one
)

// dueCursor is how far the schedule was searched: nothing due is known to be before it. What was moved leaves dead
// entries in the index, which an old snapshot can keep there for hours, so not every look begins at its front. But a
// transaction may commit late what it scheduled early; so the whole is looked at again from time to time.
type dueCursor struct {
	mu    sync.Mutex
	at    dueMark
	moved int64         // since the last look from the beginning
	whole time.Time     // of the last look from the beginning
	pause time.Duration // after it, if it was slow

	backlog bool      // more is due than one sweep has moved; claims may take it where it stands
	filled  bool      // the last that looked there got all that it wanted
	turn    bool      // the last claim has looked there first
	wide    int       // how many rows the next is to look at for each job, as a power of two
	taken   int       // jobs, in that way
	since   time.Time // since then
}

// dueMark is a place in the schedule.
type dueMark struct {
	runAt pgtype.Timestamptz
	seq   int64
}

var dueStart = dueMark{pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}, math.MinInt64}

// begin is where a look starts.
func (c *dueCursor) begin(now time.Time) dueMark {
	c.mu.Lock()
	defer c.mu.Unlock()
	pause := c.pause
	if c.moved >= dueMany {
		pause = max(pause, duePause)
	}
	if !c.at.runAt.Valid || now.Sub(c.whole) >= pause {
		return dueStart
	}
	return c.at
}

// looked notes what a look from a place has moved, the last one among it.
func (c *dueCursor) looked(from dueMark, moved, limit int64, last dueMark, began time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.backlog = moved == limit
	if from == dueStart {
		c.moved, c.pause, c.whole = 0, 0, time.Now()
		if took := c.whole.Sub(began); took > dueSlow {
			c.pause = dueShare * took
		}
	}
	if moved > 0 {
		c.moved += moved
		c.at = last
	}
}

// queue adds the move of due jobs to a sweep's batch, and the look for the next that will be.
func (c *dueCursor) queue(batch *pgx.Batch, w *sweeping) {
	began := time.Now()
	if c.leave(began) {
		w.next = dueAgain
		return
	}
	from := c.begin(began)
	batch.Queue(w.store.sql.makeDue, w.dueLimit, from.runAt, from.seq).Query(func(rows pgx.Rows) error {
		var last dueMark
		_, err := pgx.ForEachRow(rows, []any{&w.due, &last.runAt, &last.seq}, func() error { return nil })
		if err == nil {
			c.looked(from, w.due, w.dueLimit, last, began)
		}
		return err
	})
	batch.Queue(w.store.sql.selectNextDue, from.runAt, from.seq).Query(func(rows pgx.Rows) error {
		var next time.Duration
		_, err := pgx.ForEachRow(rows, []any{&next}, func() error {
			w.next = max(0, next)
			return nil
		})
		return err
	})
}
