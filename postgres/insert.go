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
	flagKeyPeriod  = 512 // its unique key counts for a period
)

const (
	insertPlain = `insert into {s}.job (id, queue, kind, flags, envelope)
select * from unnest($1::uuid[], $2::int[], $3::int[], $4::smallint[], $5::bytea[])`

	insertOne = `insert into {s}.job (id, queue, kind, flags, envelope) values ($1, $2, $3, $4, $5)`

	// Zeros stand for nulls. $12 are places in the queue: 0 the next one, -n the nth of the statement's jobs. $6 are delays and $7 and $8 are times, all in microseconds.
	insertFull = `insert into {s}.job (id, seq, queue, kind, flags, envelope, run_at, ready_at, enqueued_at, letter, ukey, batch)
select id, ` + nextSeq + `, queue, kind, flags, envelope, case when due > now() then due when flags & 32 <> 0 then 'infinity' end,
  case when due > now() then due when enqueued <> 0 then now() end,
  case when enqueued <> 0 then 'epoch'::timestamptz + enqueued * interval '1 microsecond' else now() end,
  nullif(letter, '00000000-0000-0000-0000-000000000000'), nullif(ukey, '00000000-0000-0000-0000-000000000000'),
  nullif(batch, '00000000-0000-0000-0000-000000000000')
from (select *, case when at <> 0 then 'epoch'::timestamptz + at * interval '1 microsecond'
    else now() + delay * interval '1 microsecond' end as due
  from unnest($1::uuid[], $2::int[], $3::int[], $4::smallint[], $5::bytea[], $6::bigint[], $7::bigint[], $8::bigint[], $9::uuid[], $10::uuid[], $11::uuid[], $12::bigint[])
    t (id, queue, kind, flags, envelope, delay, at, enqueued, letter, ukey, batch, seq)) t`
	nextSeq = `case when seq = 0 then nextval('{l}.job_seq') when seq > 0 then seq else (
  (select array_agg(nextval('{l}.job_seq')) from generate_series(1, cardinality($1::uuid[]))))[-seq] end`

	// Where an id or a unique key may be there already. It costs a quarter more of the log, so it is left out until one is. If it has to
	// wait for somebody else's transaction, this one has a number before it has a place in the queue: see drawSeqs.
	unlessThere = ` where pg_current_xact_id() is not null on conflict do nothing`
	returning   = ` returning id`

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
	keys     keys // empty where there are no special jobs
	index    map[pawl.ID]int
	seqs     []int64 // their places in the queue where they were drawn before
	results  []pawl.Enqueued
	slots    slotSet
	full     bool          // some job has more than the plain columns
	lined    bool          // some job stands in line
	special  bool          // some job has a unique key or comes from a letter, or there is a batch
	keyed    bool          // some job has a unique key
	swift    bool          // for all that, one statement can decide on all: no letters, no id twice, nobody in line, no batch
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
	n := len(in.jobs)
	in.keys, in.keyed, in.swift = keys{make(idList, n), make(idList, n)}, false, !in.lined && !in.batched
	in.index = make(map[pawl.ID]int, n)
	for i := range in.jobs {
		job := &in.jobs[i]
		in.swift = in.swift && job.Letter.IsZero()
		in.index[job.ID] = i
		if job.Unique.Key != "" {
			in.keyed = true
			in.keys.hashes[i], in.keys.places[i] = digests(job.Unique.Key)
		}
	}
	in.swift = in.swift && len(in.index) == n
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
	in.seqs = nil
	for i := range in.jobs {
		in.results[i] = pawl.Enqueued{ID: in.jobs[i].ID}
	}
	rows := make([]int, len(in.jobs))
	for i := range rows {
		rows[i] = i
	}
	switch {
	case in.special && in.swift && in.hopeful:
		return in.insertSwiftly(ctx, x, rows)
	case in.special:
		a := admission{insertion: in, x: x}
		if err := a.insertAll(ctx, rows); err != nil {
			return err
		}
	default:
		if _, err := in.insertRows(ctx, x, rows, nil); err != nil {
			return err
		}
	}
	if in.batched && !in.guest {
		return in.join(ctx, x)
	}
	return nil
}

// storing is what becomes of the jobs of one insertRows.
type storing struct {
	there           map[pawl.ID]bool // by id: true, it was stored; false, it was and had to be removed
	kept            map[pawl.ID]bool // removed for the sake of its key
	stored, removed int
}

// insertRows stores the jobs at these indices. Of those that the admission a (nil: they are nothing special) has accepted, it
// returns the ids that were refused all the same, maybe for their keys.
func (in *insertion) insertRows(ctx context.Context, x execer.Execer, rows []int, a *admission) (overtaken map[pawl.ID]bool, err error) {
	if len(rows) == 0 {
		return nil, nil
	}
	s := storing{there: map[pawl.ID]bool{}, kept: map[pawl.ID]bool{}}
	steps := make([]step, 0, 4)
	for start := 0; start < len(rows); start += insertBatch {
		steps = in.insertPart(steps, rows[start:min(start+insertBatch, len(rows))], a, &s)
	}
	if in.notify {
		steps = append(steps, step{SQL: `select pg_notify($1, '')`, Args: []any{in.store.schema.channel}})
	}
	if err := x.Do(ctx, steps...); err != nil {
		return nil, fmt.Errorf("insert jobs: %w", err)
	}
	return in.mark(rows, s), nil
}

// insertPart adds to the steps those that store the jobs at the indices of part.
func (in *insertion) insertPart(steps []step, part []int, a *admission, s *storing) []step {
	var one idColumn
	insert := in.statement(part)
	insert.Row = func(scan func(...any) error) error {
		s.stored++
		err := scan(&one)
		s.there[pawl.ID(one)] = true
		return err
	}
	if in.hopeful {
		s.stored += len(part)
		insert.Row = nil
	}
	steps = append(steps, insert)
	remove := func(scan func(...any) error) error {
		s.removed++
		err := scan(&one)
		s.there[pawl.ID(one)] = false
		return err
	}
	if a != nil {
		steps = a.follow(steps, part, func(scan func(...any) error) error {
			err := remove(scan)
			s.kept[pawl.ID(one)] = true
			return err
		})
	}
	switch {
	case len(in.slots.live) == 0:
	case in.hopeful && insert.SQL == in.store.sql.insertOne:
		steps = append(steps, step{SQL: in.slots.texts.refuseOne, Args: insert.Args[:1]})
	case in.hopeful:
		steps = append(steps, step{SQL: in.slots.texts.refuseEnded, Args: insert.Args[:1]})
	default:
		steps = append(steps, step{SQL: in.slots.texts.removeEnded, Args: insert.Args[:1], Row: remove})
	}
	if in.lined {
		steps = in.lineUp(steps, part)
	}
	return steps
}

// mark says of the jobs that were not stored that their ids were there, and returns those of which it may have been the keys.
func (in *insertion) mark(rows []int, s storing) (overtaken map[pawl.ID]bool) {
	if s.removed == 0 && s.stored == len(rows) {
		return nil
	}
	overtaken = map[pawl.ID]bool{}
	for _, i := range rows {
		id := in.jobs[i].ID
		new, said := s.there[id]
		switch {
		case s.kept[id], !said && !in.hopeful && in.jobs[i].Unique.Key != "":
			overtaken[id] = true
		case said && !new, !said && !in.hopeful:
			in.results[i].Status = pawl.Repeated
		}
		s.there[id] = false // the second of a batch is a repeat
	}
	return overtaken
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
		if in.keyed {
			keys[r] = in.keys.places[i]
		}
	}
	args := append(in.plainArgs(rows), delays, ats, enqueued, letters, keys, batches, in.places(rows))
	if in.lined {
		full, args = in.store.sql.insertLinedUnless, append(args, in.lineArgs(rows)...)
		if in.hopeful {
			full = in.store.sql.insertLined
		}
	}
	return step{SQL: full, Args: args}
}

// places are the places in the queue of jobs that are stored in the order of these indices: that of the indices.
func (in *insertion) places(rows []int) []int64 {
	places := make([]int64, len(rows))
	switch {
	case in.seqs != nil:
		for r, i := range rows {
			places[r] = in.seqs[i]
		}
	case !slices.IsSorted(rows):
		order := make([]int, len(rows))
		for r := range order {
			order[r] = r
		}
		slices.SortFunc(order, func(a, b int) int { return rows[a] - rows[b] })
		for n, r := range order {
			places[r] = int64(-n - 1)
		}
	}
	return places
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
	switch {
	case job.Unique.Key == "":
	case job.Unique.Scope == pawl.UniqueWaiting:
		flags |= flagKeyWaiting
	case job.Unique.Scope == pawl.UniqueForPeriod:
		flags |= flagKeyPeriod
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
