package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/execer"
)

// Flags of a job.
const (
	flagOnce       = 1
	flagStartsOff  = 2
	flagSide       = 4 // has rows in attempt or verdict
	flagCancel     = 8
	flagKeyWaiting = 16  // its unique key counts only while it waits
	flagLined      = 32  // has a row in turn
	flagLinedKind  = 64  // with its kind in it
	flagLinedKeys  = 128 // with a key in it
	flagMember     = 256 // of a batch
)

const (
	insertPlain = `insert into {s}.job (id, queue, kind, flags, envelope)
select * from unnest($1::uuid[], $2::int[], $3::int[], $4::smallint[], $5::bytea[])`

	insertOne = `insert into {s}.job (id, queue, kind, flags, envelope) values ($1, $2, $3, $4, $5)`

	// Zeros stand for nulls. $6 are delays and $7 and $8 are times, all in microseconds.
	insertFull = insertFrom + `unnest($1::uuid[], $2::int[], $3::int[], $4::smallint[], $5::bytea[], $6::bigint[], $7::bigint[], $8::bigint[], $9::uuid[], $10::uuid[], $11::uuid[])
    t (id, queue, kind, flags, envelope, delay, at, enqueued, letter, ukey, batch)) t`
	insertFrom = `insert into {s}.job (id, queue, kind, flags, envelope, run_at, ready_at, enqueued_at, letter, ukey, batch)
select id, queue, kind, flags, envelope, case when due > now() then due when flags & 32 <> 0 then 'infinity' end,
  case when due > now() then due when enqueued <> 0 then now() end,
  case when enqueued <> 0 then 'epoch'::timestamptz + enqueued * interval '1 microsecond' else now() end,
  nullif(letter, '00000000-0000-0000-0000-000000000000'), nullif(ukey, '00000000-0000-0000-0000-000000000000'),
  nullif(batch, '00000000-0000-0000-0000-000000000000')
from (select *, case when at <> 0 then 'epoch'::timestamptz + at * interval '1 microsecond'
    else now() + delay * interval '1 microsecond' end as due
  from `

	// Where an id may be there already. It costs a quarter more of the log, so it is left out until one is.
	unlessThere = ` on conflict (id) do nothing returning id`

	// An id whose job has ended is not accepted again. That is looked for after the insert: before it, the job could
	// end in between and be missed in both places.
	removeEnded = `with ended as materialized (
  select array_agg(u.id) as ids from unnest($1::uuid[]) u (id), lateral ({union} limit 1) d)
select b.id from ended, lateral {s}.take_back(ended.ids) b (id) where ended.ids is not null`
	endedTerm = `select 1 from {t} where id = u.id`

	// Where none is expected, one divides by zero and so ends the transaction.
	refuseEnded = `select 1 / (1 - count(*)::int) from (
  select 1 from unnest($1::uuid[]) u (id), lateral ({union} limit 1) d limit 1) ended`
	refuseOne = `select 1 / (1 - (false{or})::int) from (values ($1::uuid)) u (id)`
	orTerm    = ` or exists (select 1 from {t} where id = u.id)`
)

// insertion is the storing of one or several calls' jobs, all or none.
type insertion struct {
	store    *Store
	jobs     []pawl.NewJob
	kinds    []int32
	queues   []int32
	keys     idList  // hashes of the jobs' unique keys; nil where there are none
	locks    tidList // of these, each once
	results  []pawl.Enqueued
	slots    slotSet
	full     bool          // some job has more than the plain columns
	lined    bool          // some job stands in line
	special  bool          // some job has a unique key or comes from a letter, or there is a batch
	swift    bool          // for all that, one statement can decide on all: no letters, no key twice, nobody in line, no batch
	batched  bool          // some job opens a batch or joins one
	notify   bool          // in the transaction itself
	alone    bool          // nobody gives turns after its commit: it is a caller's, or this principal may not
	guest    bool          // it is a caller's transaction, which goes on
	apart    bool          // each job is a call of its own
	refusals map[int]error // of calls of one job each; see checkApart
	hopeful  bool          // ids that are there already are not expected, and end the transaction
}

// newInsertion looks up what the jobs need to be stored. It must not be called while a connection is held.
func (s *Store) newInsertion(ctx context.Context, jobs []pawl.NewJob) (*insertion, error) {
	slots, err := s.currentSlots(ctx)
	if err != nil {
		return nil, err
	}
	in := s.insertionOf(jobs, slots)
	if kinds, queues := in.number(); len(kinds)+len(queues) > 0 {
		if err := s.number(ctx, kinds, queues); err != nil {
			return nil, err
		}
		in.number()
	}
	if in.lined {
		return in, s.stateLimits(ctx, jobs)
	}
	return in, nil
}

// insertionOf is newInsertion for jobs whose names have numbers.
func (s *Store) insertionOf(jobs []pawl.NewJob, slots slotSet) *insertion {
	in := &insertion{
		store: s, jobs: jobs, slots: slots, alone: !s.turns.allowed, results: make([]pawl.Enqueued, len(jobs)),
		kinds: make([]int32, len(jobs)), queues: make([]int32, len(jobs)),
	}
	for i := range jobs {
		job := &jobs[i]
		in.batched = in.batched || job.Opens || !job.Member().IsZero()
		in.special = in.special || in.batched || job.Unique.Key != "" || !job.Letter.IsZero()
		in.lined = in.lined || job.OrderingKey != "" || job.Limited
		in.full = in.full || in.special || in.lined || job.Delay != 0 || !job.RunAt.IsZero() || !job.EnqueuedAt.IsZero()
	}
	in.hashKeys()
	return in
}

// hashKeys looks at the unique keys, and whether one statement can decide on them.
func (in *insertion) hashKeys() {
	if !in.special {
		return
	}
	in.keys, in.swift = make(idList, len(in.jobs)), !in.lined && !in.batched
	first := make(map[uint32]int, len(in.jobs)) // by lock, the first that needs it
	for i := range in.jobs {
		job := &in.jobs[i]
		in.swift = in.swift && job.Letter.IsZero()
		if job.Unique.Key == "" {
			continue
		}
		key := keyHash(job.Unique.Key)
		lock := lockOf(key)
		if at, shared := first[lock]; !shared {
			first[lock] = i
			in.locks = append(in.locks, lockPlace(lock, in.store.pageSize))
		} else if in.keys[at] == key || slices.Contains(in.keys[:i], key) {
			in.swift = false
		}
		in.keys[i] = key
	}
}

// isPlain reports whether the steps of run need no transaction around them, if nothing unexpected happens.
func (in *insertion) isPlain() bool { return !in.special || in.swift }

// number fills in the numbers of the jobs' kinds and queues, and returns the names that have none.
func (in *insertion) number() (kinds, queues []string) {
	n := &in.store.names
	n.mu.RLock()
	defer n.mu.RUnlock()
	for i := range in.jobs {
		in.kinds[i], in.queues[i] = n.numbers[in.jobs[i].Kind], n.numbers[in.jobs[i].Queue]
		if in.kinds[i] == 0 {
			kinds = append(kinds, in.jobs[i].Kind)
		}
		if in.queues[i] == 0 {
			queues = append(queues, in.jobs[i].Queue)
		}
	}
	return kinds, queues
}

// run stores the jobs and fills the results.
func (in *insertion) run(ctx context.Context, x execer.Execer) error {
	for i := range in.jobs {
		in.results[i] = pawl.Enqueued{ID: in.jobs[i].ID}
	}
	rows := make([]int, len(in.jobs))
	for i := range rows {
		rows[i] = i
	}
	if in.special && in.swift && in.hopeful {
		return in.insertSwiftly(ctx, x)
	}
	if in.special {
		a := admission{insertion: in, x: x}
		var err error
		if rows, err = a.admit(ctx); err != nil {
			return err
		}
	}
	if len(rows) > 0 {
		if err := in.insertRows(ctx, x, rows); err != nil {
			return err
		}
	}
	if in.batched && !in.guest {
		return in.join(ctx, x)
	}
	return nil
}

// insertRows stores the jobs at these indices.
func (in *insertion) insertRows(ctx context.Context, x execer.Execer, rows []int) error {
	there := make(map[pawl.ID]bool)
	stored, removed := 0, 0
	var one idColumn
	steps := make([]step, 0, 4)
	for start := 0; start < len(rows); start += insertBatch {
		part := rows[start:min(start+insertBatch, len(rows))]
		insert := in.statement(part)
		insert.Row = func(scan func(...any) error) error {
			stored++
			err := scan(&one)
			there[pawl.ID(one)] = true
			return err
		}
		if in.hopeful {
			stored += len(part)
			insert.Row = nil
		}
		steps = append(steps, insert)
		switch {
		case len(in.slots.live) == 0:
		case in.hopeful && insert.SQL == in.store.sql.insertOne:
			steps = append(steps, step{SQL: in.slots.texts.refuseOne, Args: insert.Args[:1]})
		case in.hopeful:
			steps = append(steps, step{SQL: in.slots.texts.refuseEnded, Args: insert.Args[:1]})
		default:
			steps = append(steps, step{SQL: in.slots.texts.removeEnded, Args: insert.Args[:1], Row: func(scan func(...any) error) error {
				removed++
				err := scan(&one)
				there[pawl.ID(one)] = false
				return err
			}})
		}
		if in.lined {
			steps = in.lineUp(steps, part)
		}
	}
	if in.notify {
		steps = append(steps, step{SQL: `select pg_notify($1, '')`, Args: []any{in.store.schema.channel}})
	}
	if err := x.Do(ctx, steps...); err != nil {
		return fmt.Errorf("insert jobs: %w", err)
	}
	in.mark(rows, there, stored, removed)
	return nil
}

// mark says of the jobs that were not stored that their ids were there.
func (in *insertion) mark(rows []int, there map[pawl.ID]bool, stored, removed int) {
	if removed == 0 && stored == len(rows) {
		return
	}
	for _, i := range rows {
		id := in.jobs[i].ID
		if new, said := there[id]; said && !new || !said && !in.hopeful {
			in.results[i].Status = pawl.Repeated
		}
		there[id] = false // the second of a batch is a repeat
	}
}

// statement is the insert of the jobs at these indices.
func (in *insertion) statement(rows []int) step {
	n := len(rows)
	if job := &in.jobs[rows[0]]; n == 1 && in.hopeful && !in.full {
		i := rows[0]
		return step{SQL: in.store.sql.insertOne, Args: []any{[16]byte(job.ID), in.queues[i], in.kinds[i], flagsOf(job), job.Envelope}}
	}
	plain, full := in.store.sql.insertPlainUnless, in.store.sql.insertFullUnless
	if in.hopeful {
		plain, full = in.store.sql.insertPlain, in.store.sql.insertFull
	}
	if !in.full {
		return step{SQL: plain, Args: in.plainArgs(rows)}
	}
	delays, ats, enqueued := make([]int64, n), make([]int64, n), make([]int64, n)
	letters, keys, batches := make(idList, n), make(idList, n), make(idList, n)
	for r, i := range rows {
		job := &in.jobs[i]
		delays[r], ats[r], enqueued[r] = microseconds(job.Delay), epochMicros(job.RunAt), epochMicros(job.EnqueuedAt)
		letters[r], batches[r] = job.Letter, job.Member()
		if job.Unique.Key != "" && job.Unique.Scope != pawl.UniqueForPeriod {
			keys[r] = in.keys[i]
		}
	}
	args := append(in.plainArgs(rows), delays, ats, enqueued, letters, keys, batches)
	if in.lined {
		full, args = in.store.sql.insertLinedUnless, append(args, in.lineArgs(rows)...)
		if in.hopeful {
			full = in.store.sql.insertLined
		}
	}
	return step{SQL: full, Args: args}
}

// plainArgs are the plain columns of these jobs.
func (in *insertion) plainArgs(rows []int) []any {
	n := len(rows)
	ids, queues, kinds := make(idList, n), make([]int32, n), make([]int32, n)
	flags, envelopes := make([]int16, n), make([][]byte, n)
	for r, i := range rows {
		job := &in.jobs[i]
		ids[r], queues[r], kinds[r], flags[r], envelopes[r] = job.ID, in.queues[i], in.kinds[i], flagsOf(job), job.Envelope
	}
	return []any{ids, queues, kinds, flags, envelopes}
}

func flagsOf(job *pawl.NewJob) (flags int16) {
	if job.Once {
		flags |= flagOnce
	}
	if job.StartsOff {
		flags |= flagStartsOff
	}
	if job.OrderingKey != "" || job.Limited {
		flags |= flagLined
	}
	if job.Limited {
		flags |= flagLinedKind
	}
	if job.OrderingKey != "" || job.Limited && job.LimitKey != "" {
		flags |= flagLinedKeys
	}
	if !job.Member().IsZero() {
		flags |= flagMember
	}
	if job.Unique.Key != "" && job.Unique.Scope == pawl.UniqueWaiting {
		flags |= flagKeyWaiting
	}
	return flags
}

// microseconds rounds up: a wait is never shortened.
func microseconds(d time.Duration) int64 {
	return int64(max(d, 0)/time.Microsecond) + min(1, int64(max(d, 0)%time.Microsecond))
}

// epochMicros is the first time of the database's that is not before t; 0 for the zero time.
func epochMicros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	micros := t.UnixMicro()
	if time.UnixMicro(micros).Before(t) {
		micros++
	}
	if micros == 0 {
		micros = 1
	}
	return micros
}
