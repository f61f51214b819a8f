package postgres

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

const (
	// Jobs of one queue that are enqueued no later than $2 go to the finished ones; what hangs on them goes along. They
	// are picked in the order of an index and locked in that of their ids.
	clearJobs = `with picked as materialized (
  select id from {s}.job where queue = $1 and enqueued_at <= $2 and {part} limit $3
), locked as materialized (
  select id from {s}.job where id in (select id from picked) order by id for update
), gone as (
  delete from {s}.job j using locked l where j.id = l.id
  returning j.id, j.seq, j.run_at, j.enqueued_at, j.queue, j.kind, j.attempt, j.requeues, j.crashes, j.flags, j.letter, j.envelope, j.batch
), attempts as (
  delete from {s}.attempt a using gone g where a.job_id = g.id and g.flags & 4 <> 0 returning a.job_id, a.n, a.record
), verdicts as (
  delete from {s}.verdict v using gone g where v.job_id = g.id and g.flags & 4 <> 0
), counted as (
  insert into {s}.tally (batch, removed) select batch, count(*) from gone where flags & 256 <> 0 group by batch
), came as (
  insert into {s}.arrival (job_id) select id from gone where flags & 32 <> 0
){kept}
select seq, nullif(run_at, 'infinity'), letter from gone`

	keepRemoved = `, kept as (
  insert into {current} (id, state, finished_at, enqueued_at, queue, kind, attempt, requeues, crashes, letter, history, envelope)
  select g.id, 2, now(), g.enqueued_at, g.queue, g.kind, g.attempt, g.requeues, g.crashes, g.letter,
    case when g.flags & 4 <> 0 then (select json_agg(a.record::json order by a.n)::text from attempts a where a.job_id = g.id) end,
    g.envelope from gone g on conflict (id) do nothing
)`
	rememberRemoved = `, kept as (insert into {current} (id, state) select id, 2 from gone on conflict (id) do nothing)`

	clearReady     = `run_at is null and seq >= $4 order by seq`
	clearScheduled = `run_at is not null and run_at >= $4 order by run_at` // what is parked, too

	updateAudit = `update {s}.audit set outcome = $2 where id = $1`
)

// clearBatch is how many jobs go in one transaction.
const clearBatch = 1000

// ClearQueue removes the jobs that are in a queue when it is called. It goes by batches, so that others get at the rows;
// the line in the trail says after each batch how many have gone.
func (s *Store) ClearQueue(ctx context.Context, queue string, by pawl.By) (int, error) {
	if err := desk.CheckBy(by); err != nil {
		return 0, err
	}
	if err := desk.CheckName("queue", queue); err != nil {
		return 0, err
	}
	if err := s.number(ctx, nil, []string{queue}); err != nil {
		return 0, fmt.Errorf("clear queue %s: %w", queue, err)
	}
	c := clearing{store: s, queue: queue, by: by}
	for !c.over {
		var next clearing
		err := s.inSlots(ctx, s.writableSlots, func(slots slotSet) error {
			return s.write(ctx, func(ctx context.Context, tx pgx.Tx) (err error) {
				next = c
				return next.step(ctx, tx, slots)
			})
		})
		if err != nil {
			return c.cleared, fmt.Errorf("clear queue %s after %d jobs: %w", queue, c.cleared, err)
		}
		c = next
		s.giveIfAny(ctx)
	}
	return c.cleared, nil
}

// clearing is how far a clear has come.
type clearing struct {
	store   *Store
	queue   string
	by      pawl.By
	audit   pawl.AuditEntry // the line in the trail; later enqueues than it stay
	cleared int

	ready   bool  // going through what is ready or reserved, after what is scheduled
	seq     int64 // where to go on among the ready
	runAt   pgtype.Timestamptz
	inRound int  // how many went since it began anew
	over    bool // a round has found nothing
}

// step removes one batch. It goes through the scheduled and then the ready jobs, again and again until nothing was left:
// meanwhile, one may become the other.
func (c *clearing) step(ctx context.Context, tx pgx.Tx, slots slotSet) error {
	if c.audit.ID == 0 {
		if err := c.begin(ctx, tx); err != nil {
			return err
		}
	}
	n, err := c.remove(ctx, tx, slots)
	if err != nil {
		return err
	}
	c.cleared, c.inRound = c.cleared+n, c.inRound+n
	switch {
	case n > 0:
	case !c.ready:
		c.ready = true
	default:
		c.over = c.inRound == 0
		c.restart()
	}
	_, err = tx.Exec(ctx, c.store.sql.desk.updateAudit, c.audit.ID, strconv.Itoa(c.cleared))
	return err
}

func (c *clearing) begin(ctx context.Context, tx pgx.Tx) (err error) {
	c.audit, err = c.store.writeAudit(ctx, tx, audited{c.by, pawl.AuditEntry{
		Action: pawl.ActionClear, Subject: "queue " + c.queue, Outcome: "0",
	}})
	c.restart()
	return err
}

func (c *clearing) restart() {
	c.ready, c.inRound, c.seq = false, 0, math.MinInt64
	c.runAt = pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
}

// removed is a job that has gone.
type removed struct {
	seq    int64
	runAt  time.Time
	letter pawl.ID
}

func scanRemoved(rows pgx.Rows) (r removed, err error) {
	return r, rows.Scan(&r.seq, (*timeColumn)(&r.runAt), (*idColumn)(&r.letter))
}

func (c *clearing) remove(ctx context.Context, tx pgx.Tx, slots slotSet) (int, error) {
	part, from := clearScheduled, any(c.runAt)
	if c.ready {
		part, from = clearReady, c.seq
	}
	queue := c.store.names.of([]string{c.queue})[0]
	gone, err := selectRows(ctx, tx, scanRemoved, c.store.clearText(part, slots), queue, c.audit.At, clearBatch, from)
	if err != nil {
		return 0, err
	}
	var ends []redriveEnd
	for _, job := range gone {
		if !job.letter.IsZero() {
			ends = append(ends, redriveEnd{letter: job.letter, outcome: pawl.RedriveCancelled})
		}
		c.passed(job)
	}
	return len(gone), c.store.redriveEnded(ctx, tx, ends)
}

// passed moves the place to go on to that of a job which has gone: the index behind it is full of such.
func (c *clearing) passed(job removed) {
	switch {
	case c.ready:
		c.seq = max(c.seq, job.seq)
	case c.runAt.InfinityModifier != pgtype.Finite || job.runAt.After(c.runAt.Time):
		c.runAt = timeValue(job.runAt)
	}
}

// clearText is the statement that clears a part of a queue.
func (s *Store) clearText(part string, slots slotSet) string {
	kept := keepRemoved
	if s.config.History < 0 {
		kept = rememberRemoved
	}
	if slots.current < 0 {
		kept = ""
	}
	text := strings.NewReplacer("{part}", part, "{kept}", kept).Replace(clearJobs)
	return s.schema.text(strings.ReplaceAll(text, "{current}", "{s}."+slots.table()))
}
