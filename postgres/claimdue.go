package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// What falls due is moved to the end of its queue by a sweep, a new row with entries in every index. Where more is due than
// one sweep moves, a claim that has found nothing else takes such jobs where they stand: it writes what it writes to
// a ready one, and the job keeps its place in the schedule for as long as it is held. Every way back clears that.
//
// $1 is the session, $2 and $3 the place behind which to look, $4 the number of jobs to look at, $5 the queues, $6 the
// kinds, $7 the number of jobs to take, $8 the token before the first, $9 the epoch. The rows of the answer are those of
// claimTemplate; the header's are how many were looked at, and the place of the last that was taken or else looked at.
const claimDue = `with me as materialized (
  select $9::bigint < 0 or epoch = $9 as timely from {s}.session where id = $1 and ended_at is null
), ` + claimRules + `, look as materialized (
  select tid, run_at, seq, row_number() over () as n from (
    select ctid as tid, run_at, seq from {s}.job where run_at <= now() and (run_at, seq) > ($2, $3) order by run_at, seq limit $4) d
), pick as materialized (
  select tid, row_number() over () as n from (
    select l.tid from look l join {s}.job j on j.ctid = l.tid
    where exists (select 1 from me where timely) and j.holder is null and j.flags & 32 = 0 and j.crashes < 2
      and j.queue = any ($5::int[]) and j.queue <> all ((select paused from rule)::int[])
      and j.kind = any ($6::int[]) and j.kind <> all ((select off_kinds from rule)::int[])
      and (j.flags & 2 = 0 or j.kind = any ((select on_kinds from rule)::int[]))
    order by l.n limit $7 for update of j skip locked) p
), fence as materialized (
  select 1 from {s}.session where id = $1 and ended_at is null
    and ($9::bigint < 0 or epoch = $9) and exists (select 1 from pick) for share
), taken as (
  update {s}.job j set holder = $1, claim = $8 + pick.n, attempt = j.attempt + 1
  from fence, pick where j.ctid = pick.tid
  returning pick.n, j.queue, j.run_at, j.seq, j.id, j.claim, j.kind, j.attempt, j.crashes, j.requeues, j.flags, j.started, j.enqueued_at,
    j.ready_at, j.letter, j.envelope
)
select 2::smallint, array_position($5::int[], queue), 4611686018427387904 + n, id, claim, kind, attempt, crashes::int, requeues,
  flags::int, started is not null, enqueued_at, ready_at, letter, envelope from taken
union all
select 0::smallint, (select count(*)::int from look), f.seq, null, null, null, null, null, null,
  (exists (select 1 from me))::int + 4 * (exists (select 1 from me where timely))::int, null, now(), f.run_at, null, null
from (select 1) one left join lateral (
  (select 1, run_at, seq from taken order by n desc limit 1) union all (select 2, run_at, seq from look order by n desc limit 1)
  order by 1 limit 1) f on true`

const (
	dueWide  = 3                     // as a power of two, rows that are looked at for each that is asked for, at most: others may hold them
	dueFast  = 15_000                // jobs in a second taken where they stand: about half of what sweeps move
	dueAgain = 50 * time.Millisecond // then a sweep leaves them alone for so long
)

// takeDue claims jobs that are due where they stand, where there are more than sweeps have moved.
func (c *claim) takeDue(ctx context.Context) error {
	due := &c.store.due
	from, wide, ok := due.standing()
	if !ok {
		return nil
	}
	limit := c.limit - len(c.jobs)
	tokens, err := c.tokens(ctx, limit)
	if err != nil {
		return fmt.Errorf("draw tokens: %w", err)
	}
	lanes := make([]*lane, len(c.queues))
	for i := range lanes {
		lanes[i] = &lane{queue: i}
	}
	before, look := len(c.jobs), limit<<wide
	args := []any{int64(c.request.Session), from.runAt, from.seq, look, c.queues, c.kinds, limit, tokens, c.store.held.epoch(c.request.Session)}
	var looked int
	last := from
	var flags int32
	c.reserve()
	err = c.store.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		c.jobs, c.places, looked = c.jobs[:before], c.places[:before], 0
		rows, err := conn.Query(ctx, c.store.sql.claimDue, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if r := row(rows.RawValues()); r.int16(0) != rowHeader {
				c.addJob(r, lanes)
			} else {
				flags, c.now = r.int32(9), r.time(11)
				if looked = int(r.int32(1)); looked > 0 {
					last = dueMark{pgtype.Timestamptz{Time: r.time(12), Valid: true}, r.int64(2)}
				}
			}
		}
		return rows.Err()
	})
	switch {
	case err != nil:
		return fmt.Errorf("due jobs: %w", err)
	case flags&headerAlive == 0:
		return sessionLost(c.request.Session)
	case flags&headerTimely == 0:
		return errEpoch
	}
	taken := len(c.jobs) - before
	due.took(taken, limit, looked < look, last)
	c.more = c.more || taken > 0
	return c.nameQueuesAndKinds(ctx, before)
}

// standing is the place from which on jobs may be taken where they stand, if they may be, and how many rows are to be
// looked at for each, as a power of two.
func (c *dueCursor) standing() (from dueMark, wide int, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.at.runAt.Valid {
		return dueStart, c.wide, c.backlog
	}
	return c.at, c.wide, c.backlog
}

// first reports whether a claim is to look at the schedule first: every other one, for as long as there is enough in it.
func (c *dueCursor) first() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turn = c.backlog && c.filled && !c.turn
	return c.turn
}

// took notes that a claim has taken some of the jobs that it wanted where they stood, up to a place, and whether it has
// seen all that is due.
func (c *dueCursor) took(jobs, wanted int, all bool, last dueMark) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.filled = last, jobs == wanted
	c.moved += int64(jobs)
	c.taken += jobs
	switch {
	case all && jobs == 0:
		c.backlog = false
	case jobs < wanted/2 && !all:
		c.wide = min(c.wide+1, dueWide)
	default:
		c.wide = max(c.wide-1, 0)
	}
}

// leave reports whether what is due is to be left to claims: they have lately taken it about as fast as sweeps move it.
func (c *dueCursor) leave(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	fast := c.backlog && float64(c.taken) >= dueFast*now.Sub(c.since).Seconds()
	c.taken, c.since = 0, now
	return fast
}
