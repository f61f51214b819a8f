package postgres

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/execer"
)

const (
	openBatches = `insert into {s}.batch (id, kind, queue, delay, envelope)
select * from unnest($1::uuid[], $2::int[], $3::int[], $4::bigint[], $5::bytea[]) on conflict (id) do nothing returning id`

	// Until the commit of whoever adds members, nobody ends the batch; that they are counted is kept from nobody.
	lockOpenBatches = `select id from {s}.batch where id = any($1::uuid[]) and coalesce(ended_at, 'infinity') = 'infinity' order by id for key share` // which the index of open ones does not answer

	noteMembers = `insert into {s}.tally (batch, members) select * from unnest($1::uuid[], $2::bigint[])`
	noteEnds    = `insert into {s}.tally (batch, done, dead, removed) select * from unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[])`
	noteHeld    = `insert into {s}.tally (batch, held) select id, true from unnest($1::uuid[]) t (id)`

	// One counts at a time, over all hosts. What he commits need not wait for the disk: if it is lost, the notes are there again.
	// Who finds somebody else at it leaves the rest to him: he looks once more when he has let go of the lock.
	lockBatches = `select pg_try_advisory_xact_lock($1), set_config('synchronous_commit', 'off', true)`

	// In the order of their numbers: a member's end is never counted before what that member has added.
	countMembers = `with taken as (
  delete from {s}.tally where n in (select n from {s}.tally where $2::bool or not held order by n limit $1) returning batch, members, done, dead, removed
), sums as materialized (
  select batch, sum(members) as members, sum(done) as done, sum(dead) as dead, sum(removed) as removed from taken group by batch
), counted as (
  update {s}.batch b set members = b.members + s.members, done = b.done + s.done, dead = b.dead + s.dead, removed = b.removed + s.removed
  from sums s where b.id = s.batch returning b.id, b.ended_at is null and b.members = b.done + b.dead + b.removed as over
)
select s.batch, coalesce(c.over, false) from sums s left join counted c on c.id = s.batch`

	// A batch that somebody is adding to is passed over.
	lockOver = `select id, envelope from {s}.batch where id = any($1::uuid[]) order by id for update skip locked`

	// Nobody can add to these any more. What was added just before they were locked is still to be counted.
	endBatches = `update {s}.batch b set ended_at = now(), envelope = null where b.id = any($1::uuid[])
  and not exists (select 1 from {s}.tally t where t.batch = b.id)
returning b.id, ` + batchColumns + `, b.members, b.done, b.dead, b.removed`

	batchColumns = `(select text from {s}.name where id = b.kind), (select text from {s}.name where id = b.queue), b.delay, b.created_at, b.ended_at, b.cancelled`

	// With what was not counted yet.
	selectBatches = `select b.id, ` + batchColumns + `, b.members + t.members, b.done + t.done, b.dead + t.dead, b.removed + t.removed
from {s}.batch b, lateral (select coalesce(sum(members), 0)::bigint as members, coalesce(sum(done), 0)::bigint as done,
  coalesce(sum(dead), 0)::bigint as dead, coalesce(sum(removed), 0)::bigint as removed from {s}.tally where batch = b.id) t`
	selectBatch   = selectBatches + ` where b.id = $1`
	cancelBatches = `with found as materialized (select id, envelope from {s}.batch where id = any($1::uuid[]) and envelope is not null order by id for no key update)
update {s}.batch b set cancelled = true, envelope = null from found f where b.id = f.id returning b.id, b.created_at, b.queue, b.kind, f.envelope`
	anyTally     = `select exists (select 1 from {s}.tally where $1::bool or not held)`
	purgeBatches = `delete from {s}.batch where id in (
  select id from {s}.batch where ended_at < now() - $2::interval order by ended_at limit $1 for update skip locked)`
)

// talliesAtOnce is how many notes are counted in one transaction.
const talliesAtOnce = 5000

// tallies are members of batches that have ended.
type tallies map[pawl.ID]*tally

type tally struct{ done, dead, removed int64 }

func (t tallies) of(batch pawl.ID) *tally {
	if t[batch] == nil {
		t[batch] = &tally{}
	}
	return t[batch]
}

// noteEnds leaves word of members that have ended.
func (s *Store) noteEnds(ctx context.Context, tx pgx.Tx, ends tallies) error {
	if len(ends) == 0 {
		return nil
	}
	batches := make(idList, 0, len(ends))
	var done, dead, removed []int64
	for batch, n := range ends {
		batches = append(batches, batch)
		done, dead, removed = append(done, n.done), append(dead, n.dead), append(removed, n.removed)
	}
	if _, err := tx.Exec(ctx, s.sql.noteEnds, batches, done, dead, removed); err != nil {
		return fmt.Errorf("count members of batches: %w", err)
	}
	return nil
}

// countBatches counts what members have done until now, held batches too, and enqueues what follows those that are over.
// Where it fails, or another host is at it, that goes on with it.
func (s *Store) countBatches(ctx context.Context) {
	if !s.turns.allowed { // this one only enqueues
		return
	}
	s.counts.do(ctx, s.background, func(ctx context.Context) { s.countAll(ctx, true) })
}

// runCounts counts when it is asked to, until the store is closed. It rests for three times as long as it has worked: what is
// noted meanwhile is counted together.
func (s *Store) runCounts() {
	for {
		select {
		case <-s.counts.notify:
		case <-s.background.Done():
			return
		}
		if !s.turns.allowed {
			continue
		}
		began := time.Now()
		s.counts.await(s.background, s.background, func(ctx context.Context) { s.countAll(ctx, false) })
		select {
		case <-time.After(min(3*time.Since(began), time.Second)):
		case <-s.background.Done():
			return
		}
	}
}

// countAll counts until nothing is left to be counted, or another host counts.
func (s *Store) countAll(ctx context.Context, held bool) {
	for more := true; more; held = false {
		var c counting
		err := s.namedFirst(ctx, func(slots slotSet) error {
			return s.write(ctx, func(ctx context.Context, tx pgx.Tx) error {
				c = counting{store: s, tx: tx, held: held}
				return c.run(ctx, slots)
			})
		})
		if more = c.mine; err == nil && more {
			more, err = s.anyTally(ctx, false)
		}
		if err != nil {
			if s.background.Err() == nil {
				s.config.Logger.Warn("batches could not be counted; a sweep does it", "error", err)
			}
			return
		}
		if c.followed > 0 {
			s.waker.announce()
		}
		if c.lined {
			s.giveTurns(ctx)
		}
	}
}

// anyTally reports whether there is something to count; held, whether a batch is to be looked at that somebody added to.
func (s *Store) anyTally(ctx context.Context, held bool) (any bool, err error) {
	err = s.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, s.sql.anyTally, held).Scan(&any)
	})
	return any, err
}

// counting is one transaction that counts.
type counting struct {
	store    *Store
	tx       pgx.Tx
	held     bool // look at those that somebody was adding to
	mine     bool // nobody else counts
	followed int
	lined    bool
}

func (c *counting) run(ctx context.Context, slots slotSet) error {
	err := c.tx.QueryRow(ctx, lockBatches, c.store.schema.lock("batches")).Scan(&c.mine, nil)
	if err != nil || !c.mine {
		return err
	}
	rows, err := c.tx.Query(ctx, c.store.sql.countMembers, talliesAtOnce, c.held)
	if err != nil {
		return err
	}
	var over idList
	var id idColumn
	var isOver bool
	_, err = pgx.ForEachRow(rows, []any{&id, &isOver}, func() error {
		if isOver {
			over = append(over, pawl.ID(id))
		}
		return nil
	})
	if err != nil || len(over) == 0 {
		return err
	}
	return c.end(ctx, over, slots)
}

// end enqueues what follows batches, and leaves word of those that cannot end yet.
func (c *counting) end(ctx context.Context, over idList, slots slotSet) error {
	envelopes, err := c.lock(ctx, over)
	if err != nil {
		return fmt.Errorf("lock batches: %w", err)
	}
	free := make(idList, 0, len(envelopes))
	for id := range envelopes {
		free = append(free, id)
	}
	ended, err := selectRows(ctx, c.tx, scanBatch, c.store.sql.endBatches, free)
	if err != nil {
		return fmt.Errorf("end batches: %w", err)
	}
	done := map[pawl.ID]bool{}
	var jobs []pawl.NewJob
	for _, row := range ended {
		done[row.BatchEnd.Batch] = true
		if row.Envelope = envelopes[row.BatchEnd.Batch]; !row.Cancelled {
			jobs = append(jobs, row.Callback())
		}
	}
	if later := slices.DeleteFunc(over, func(id pawl.ID) bool { return done[id] }); len(later) > 0 {
		if _, err := c.tx.Exec(ctx, c.store.sql.noteHeld, later); err != nil {
			return fmt.Errorf("note batches that somebody adds to: %w", err)
		}
	}
	if len(jobs) == 0 {
		return nil
	}
	in := c.store.insertionOf(jobs, slots)
	if kinds, queues := in.number(); len(kinds)+len(queues) > 0 {
		return &unnamedError{kinds, queues}
	}
	c.followed, c.lined = len(jobs), in.lined
	if err := in.run(ctx, execer.OnPgx(c.tx)); err != nil {
		return fmt.Errorf("enqueue what follows %d batches: %w", len(jobs), err)
	}
	return nil
}

// lock locks those of some batches that nobody is adding to, and returns the envelopes of what follows them.
func (c *counting) lock(ctx context.Context, over idList) (map[pawl.ID][]byte, error) {
	rows, err := c.tx.Query(ctx, c.store.sql.lockOver, over)
	if err != nil {
		return nil, err
	}
	envelopes := map[pawl.ID][]byte{}
	var id idColumn
	var envelope []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &envelope}, func() error {
		envelopes[pawl.ID(id)] = bytes.Clone(envelope)
		return nil
	})
	return envelopes, err
}

func scanBatch(rows pgx.Rows) (b desk.BatchRow, err error) {
	var delay int64
	err = rows.Scan((*idColumn)(&b.BatchEnd.Batch), &b.Kind, &b.Queue, &delay, (*timeColumn)(&b.CreatedAt), (*timeColumn)(&b.EndedAt), &b.Cancelled,
		&b.Members, &b.Done, &b.Dead, &b.Removed)
	b.Delay = time.Duration(delay) * time.Microsecond
	return b, err
}

// countIfAny counts batches where members have joined or ended.
func (s *Store) countIfAny(ctx context.Context) {
	if any, err := s.anyTally(ctx, false); err == nil && any {
		s.countBatches(ctx)
	}
}

// takeCallbacks has nothing follow some batches that are open, and returns what would have.
func (s *Store) takeCallbacks(ctx context.Context, tx pgx.Tx, ids idList) (jobs []*ended, err error) {
	rows, err := tx.Query(ctx, s.sql.cancelBatches, ids)
	if err != nil {
		return nil, err
	}
	var job ended
	_, err = pgx.ForEachRow(rows, []any{(*idColumn)(&job.id), &job.enqueuedAt, &job.queue, &job.kind, &job.envelope}, func() error {
		one := job
		one.envelope = bytes.Clone(job.envelope)
		jobs = append(jobs, &one)
		return nil
	})
	return jobs, err
}
