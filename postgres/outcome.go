package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/execer"
)

// Ways in which a job goes back to its queue.
const (
	backLater       = 1 // scheduled
	backAtEnd       = 2
	backUncounted   = 3 // to the front, as if it had not been claimed
	backInterrupted = 4 // to the front, counted as a requeue
	backClosed      = 5 // to the front, since its session was closed
)

const (
	// A start mark outlives a reservation that was cut off; one that says that its handler did not run takes its own
	// mark with it.
	putBack = `with back as (
  update {s}.job j set holder = null, claim = null, progress = null, flags = (j.flags & ~8) | t.side,
  started = case when t.way <= 2 or t.way = 3 and j.started = j.claim then null else j.started end,
  run_at = case when t.way = 1 then now() + t.after * interval '1 microsecond' when t.way = 2 and j.flags & 32 <> 0 then 'infinity' end,
  ready_at = case t.way when 1 then now() + t.after * interval '1 microsecond' when 3 then j.ready_at else now() end,
  seq = case when t.way = 2 then nextval('{l}.job_seq') when t.way > 2 and j.seq >= 0 then j.seq - 4611686018427387904 else j.seq end,
  attempt = j.attempt - (t.way > 2)::int, requeues = j.requeues + (t.way = 4)::int
from unnest($1::uuid[], $2::bigint[], $4::smallint[], $5::bigint[], $6::smallint[]) t (id, claim, way, after, side)
where j.id = t.id and j.claim = t.claim and j.holder = $3 and j.flags & 8 = 0 returning j.id, j.flags & 32 <> 0 and t.way <= 2 as lined
), came as (
  insert into {s}.arrival (job_id) select id from back where lined
)
select id, lined from back`

	endJobs = `delete from {s}.job j using unnest($1::uuid[], $2::bigint[]) t (id, claim)
where j.id = t.id and j.claim = t.claim and j.holder = $3
returning ` + endedColumns

	insertEnded = `insert into {current} (id, state, finished_at, enqueued_at, queue, kind, attempt, requeues, crashes, letter, history, envelope)
select id, state, case when $11 then now() end, enqueued_at, queue, kind, attempt, requeues, crashes,
  nullif(letter, '00000000-0000-0000-0000-000000000000'), nullif(history, ''), case when $11 then envelope end
from unnest($1::uuid[], $2::smallint[], $3::timestamptz[], $4::int[], $5::int[], $6::int[], $7::int[], $8::smallint[], $9::uuid[],
  $10::text[], $12::bytea[]) t (id, state, enqueued_at, queue, kind, attempt, requeues, crashes, letter, history, envelope)
on conflict (id) do nothing`

	insertRecords = `insert into {s}.attempt (job_id, record) select * from unnest($1::uuid[], $2::text[])`
	trimRecords   = `delete from {s}.attempt a using unnest($1::uuid[]) u (id)
where a.job_id = u.id and a.n <= (select n from {s}.attempt o where o.job_id = u.id order by n desc offset 20 limit 1)`
)

// settleTogether settles members in a transaction.
func (b *settling) settleTogether(ctx context.Context, tx pgx.Tx, members []int, slots slotSet) error {
	var back, ending []int
	for _, i := range members {
		b.results[i] = pawl.LeaseLost(b.items[i].Reservation)
		switch b.items[i].Outcome.(type) {
		case pawl.Done, pawl.Dead:
			ending = append(ending, i)
		default:
			back = append(back, i)
		}
	}
	if err := b.putBack(ctx, tx, back); err != nil {
		return fmt.Errorf("put back jobs: %w", err)
	}
	if err := b.removeInstead(ctx, tx, back, slots); err != nil {
		return fmt.Errorf("remove cancelled jobs: %w", err)
	}
	if err := b.end(ctx, tx, ending, slots); err != nil {
		return fmt.Errorf("end jobs: %w", err)
	}
	var next []pawl.NewJob
	for _, i := range members {
		if b.results[i] == nil {
			next = append(next, b.items[i].Enqueue...)
		}
	}
	if len(next) == 0 {
		return nil
	}
	b.ready = true
	in := b.store.insertionOf(next, slots)
	in.number()
	b.lined, b.batched = b.lined || in.lined, b.batched || in.batched
	if err := in.run(ctx, execer.OnPgx(tx)); err != nil {
		return fmt.Errorf("enqueue follow-ups: %w", err)
	}
	return nil
}

// way says how an outcome puts its job back.
func way(outcome pawl.Outcome) (way int16, after time.Duration) {
	switch o := outcome.(type) {
	case pawl.Retry:
		after = o.After
	case pawl.Release:
		after = o.After
	case pawl.GiveBack:
		if o.Interrupted {
			return backInterrupted, 0
		}
		return backUncounted, 0
	}
	if after > 0 {
		return backLater, after
	}
	return backAtEnd, 0
}

// putBack returns jobs to their queues, with the records of their attempts.
func (b *settling) putBack(ctx context.Context, tx pgx.Tx, members []int) error {
	if len(members) == 0 {
		return nil
	}
	ids, claims := b.reservations(members)
	ways, afters, sides := make([]int16, len(ids)), make([]int64, len(ids)), make([]int16, len(ids))
	index := make(map[pawl.ID]int, len(ids))
	for n, i := range members {
		var after time.Duration
		ways[n], after = way(b.items[i].Outcome)
		afters[n] = microseconds(after)
		if b.items[i].Record != nil && ways[n] != backUncounted {
			sides[n] = flagSide
		}
		index[ids[n]] = n
	}
	rows, err := tx.Query(ctx, b.store.sql.putBack, ids, claims, int64(b.session), ways, afters, sides)
	if err != nil {
		return err
	}
	records := recordList{}
	var id idColumn
	var lined bool
	_, err = pgx.ForEachRow(rows, []any{&id, &lined}, func() error {
		b.lined = b.lined || lined
		n := index[pawl.ID(id)]
		item := &b.items[members[n]]
		b.results[members[n]] = nil
		b.ready = b.ready || ways[n] != backLater
		if sides[n] == 0 {
			return nil
		}
		return records.add(item.ID, *item.Record)
	})
	if err != nil {
		return err
	}
	return records.insert(ctx, b.store, tx)
}

// recordList is records of attempts on their way into the database.
type recordList struct {
	ids   idList
	texts []string
	many  idList // jobs that may have more than are kept
}

func (l *recordList) add(id pawl.ID, record pawl.AttemptRecord) error {
	text, err := json.Marshal(record)
	l.ids, l.texts = append(l.ids, id), append(l.texts, string(text))
	if record.Attempt > pawl.HistoryLimit {
		l.many = append(l.many, id)
	}
	return err
}

func (l *recordList) insert(ctx context.Context, s *Store, tx pgx.Tx) error {
	if len(l.ids) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, s.sql.insertRecords, l.ids, l.texts); err != nil {
		return fmt.Errorf("keep records of attempts: %w", err)
	}
	if len(l.many) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, s.sql.trimRecords, l.many); err != nil {
		return fmt.Errorf("trim records of attempts: %w", err)
	}
	return nil
}

// ended is a job that was removed from its queue for good.
type ended struct {
	member     int
	id         pawl.ID
	enqueuedAt time.Time
	queue      int32
	kind       int32
	attempt    int32
	requeues   int32
	crashes    int16
	flags      int16
	letter     pawl.ID
	batch      pawl.ID
	envelope   []byte
	history    []json.RawMessage
}

// targets take endedColumns.
func (e *ended) targets() []any {
	return []any{
		(*idColumn)(&e.id), &e.enqueuedAt, &e.queue, &e.kind, &e.attempt, &e.requeues, &e.crashes, &e.flags,
		(*idColumn)(&e.letter), &e.envelope, (*idColumn)(&e.batch),
	}
}

// end removes jobs, keeps them among the finished ones, and writes the letters of the dead.
func (b *settling) end(ctx context.Context, tx pgx.Tx, members []int, slots slotSet) error {
	if len(members) == 0 {
		return nil
	}
	ids, claims := b.reservations(members)
	index := make(map[pawl.ID]int, len(ids))
	for n, i := range members {
		index[ids[n]] = i
	}
	rows, err := tx.Query(ctx, b.store.sql.endJobs, ids, claims, int64(b.session))
	if err != nil {
		return err
	}
	var jobs []*ended
	var one ended
	_, err = pgx.ForEachRow(rows, one.targets(), func() error {
		job := one
		job.envelope = append([]byte{}, one.envelope...)
		job.member = index[job.id]
		b.results[job.member] = nil
		jobs = append(jobs, &job)
		b.see(job.flags)
		return nil
	})
	if err != nil || len(jobs) == 0 {
		return err
	}
	if err := b.store.takePast(ctx, tx, jobs); err != nil {
		return fmt.Errorf("take earlier attempts: %w", err)
	}
	if err := b.bury(ctx, tx, jobs); err != nil {
		return err
	}
	ends := tallies{}
	for _, job := range jobs {
		if _, dead := b.items[job.member].Outcome.(pawl.Dead); !job.batch.IsZero() && dead {
			ends.of(job.batch).dead++
		} else if !job.batch.IsZero() {
			ends.of(job.batch).done++
		}
	}
	if err := b.store.noteEnds(ctx, tx, ends); err != nil {
		return err
	}
	return b.keep(ctx, tx, jobs, slots)
}

// takePast moves what is in other tables into the jobs, and leaves word of those that stood in line.
func (s *Store) takePast(ctx context.Context, tx pgx.Tx, jobs []*ended) error {
	index := map[pawl.ID]*ended{}
	var ids, lined idList
	for _, job := range jobs {
		if job.flags&flagLined != 0 {
			lined = append(lined, job.id)
		}
		if job.flags&flagSide != 0 {
			index[job.id] = job
			ids = append(ids, job.id)
		}
	}
	if len(lined) > 0 {
		if _, err := tx.Exec(ctx, s.sql.insertJobArrivals, lined); err != nil {
			return fmt.Errorf("leave lines: %w", err)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	batch := &pgx.Batch{}
	batch.Queue(s.sql.selectAttempts, ids)
	batch.Queue(s.sql.forgetAttempts, ids)
	batch.Queue(s.sql.forgetVerdicts, ids)
	results := tx.SendBatch(ctx, batch)
	err := readPast(results, func(id pawl.ID, text string) error {
		index[id].history = append(index[id].history, json.RawMessage(text))
		return nil
	})
	return errors.Join(err, results.Close())
}

// bury writes the letters of the dead, and what became of redrives to the letters that they came from.
func (b *settling) bury(ctx context.Context, tx pgx.Tx, jobs []*ended) error {
	var letters []pawl.DeadLetter
	var fates []redriveEnd
	for _, job := range jobs {
		item := &b.items[job.member]
		if _, dead := item.Outcome.(pawl.Dead); !dead {
			if !job.letter.IsZero() {
				fates = append(fates, redriveEnd{letter: job.letter, outcome: pawl.RedriveSucceeded})
			}
			continue
		}
		letter := *item.Letter
		if len(letter.Envelope) == 0 {
			letter.Envelope = job.envelope
		}
		if letter.Previous.IsZero() {
			letter.Previous = job.letter
		}
		if !job.letter.IsZero() {
			fates = append(fates, redriveEnd{letter: job.letter, outcome: pawl.RedriveDiedAgain, next: letter.ID})
		}
		letters = append(letters, letter)
		job.letter = letter.ID
	}
	if _, err := b.store.recordDeaths(ctx, tx, letters); err != nil {
		return fmt.Errorf("record deaths: %w", err)
	}
	if err := b.store.redriveEnded(ctx, tx, fates); err != nil {
		return fmt.Errorf("write outcomes of redrives: %w", err)
	}
	return nil
}

// keep writes the jobs to the finished ones.
func (b *settling) keep(ctx context.Context, tx pgx.Tx, jobs []*ended, slots slotSet) error {
	if slots.texts.insertEnded == "" {
		return nil
	}
	states := make([]int16, len(jobs))
	for n, job := range jobs {
		item := &b.items[job.member]
		if _, dead := item.Outcome.(pawl.Dead); dead {
			states[n] = stateDead
		}
		if item.Record != nil {
			text, err := json.Marshal(item.Record)
			if err != nil {
				return err
			}
			job.history = append(job.history, text)
		}
	}
	return b.store.keepEnded(ctx, tx, jobs, states, slots)
}

// States of finished jobs.
const (
	stateDone    = 0
	stateDead    = 1
	stateRemoved = 2
)

// keepEnded writes jobs that have ended to the table of finished ones.
func (s *Store) keepEnded(ctx context.Context, tx pgx.Tx, jobs []*ended, states []int16, slots slotSet) error {
	n := len(jobs)
	ids, letters, crashes := make(idList, n), make(idList, n), make([]int16, n)
	enqueued, envelopes, histories := make([]time.Time, n), make([][]byte, n), make([]string, n)
	queues, kinds, attempts, requeues := make([]int32, n), make([]int32, n), make([]int32, n), make([]int32, n)
	keep := s.config.History >= 0
	for i, job := range jobs {
		ids[i], enqueued[i], queues[i], kinds[i] = job.id, job.enqueuedAt, job.queue, job.kind
		attempts[i], requeues[i], crashes[i], letters[i] = job.attempt, job.requeues, job.crashes, job.letter
		if !keep {
			continue
		}
		envelopes[i] = job.envelope
		if len(job.history) > 0 {
			text, err := json.Marshal(job.history)
			if err != nil {
				return err
			}
			histories[i] = string(text)
		}
	}
	_, err := tx.Exec(ctx, slots.texts.insertEnded, ids, states, enqueued, queues, kinds, attempts, requeues, crashes, letters,
		histories, keep, envelopes)
	return err
}
