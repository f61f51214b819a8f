package postgres

import (
	"context"
	"fmt"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/execer"
)

const (
	// Some jobs with unique keys, and others, whose keys are zeros. Those whose keys are held are not stored, but answered: with
	// their holders as far as this statement can see them, and whether their ids were accepted before. Ids that are there already
	// are not expected elsewhere.
	insertUnique = `with held as materialized (
  select u.id from unnest($1::uuid[], $13::uuid[]) u (id, hash) where (u.hash in (` + heldPeriods + `)) is true
), stored as (
  {insert} where t.id not in (select id from held) and ` + unlessHeld + `
), began as (
  insert into {s}.key (hash, job_id, until_at, purge_at)
  select u.hash, u.id, now() + u.period * interval '1 microsecond', now() + u.period * interval '1 microsecond'
  from unnest($1::uuid[], $13::uuid[], $14::bigint[]) u (id, hash, period)
  where u.period > 0 and (u.id in (select id from stored)) is true
  on conflict (hash) do update set job_id = excluded.job_id, until_at = excluded.until_at, purge_at = excluded.purge_at
    where key.until_at is null or key.until_at <= now()
)
` + refused

	// The same where all jobs are ready at once, and none of their keys counts for a period.
	insertUniqueNow = `with stored as (
  insert into {s}.job (id, seq, queue, kind, flags, envelope, ukey)
  select id, ` + nextSeq + `, queue, kind, flags, envelope, nullif(place, '00000000-0000-0000-0000-000000000000')
  from unnest($1::uuid[], $2::int[], $3::int[], $4::smallint[], $5::bytea[], {places}::uuid[], {hashes}::uuid[], $8::bigint[])
    t (id, queue, kind, flags, envelope, place, hash, seq)
  where hash not in (` + heldPeriods + `) and ` + unlessHeld + `
)
` + refused

	// The same for one job.
	insertUniqueOne = `with stored as (
  insert into {s}.job (id, queue, kind, flags, envelope, ukey)
  select $1::uuid, $2::int, $3::int, $4::smallint, $5::bytea, $6::uuid
  where not exists (select 1 from {s}.key k where k.hash = $7 and k.until_at > now()) and ` + unlessHeld + `
)
select u.id, h.id, coalesce(h.passes, false), known.living is not null from (values ($1::uuid, $6::uuid, $7::uuid)) u (id, place, hash)
left join lateral (` + holders + ` limit 1) h on true
left join lateral (select true as living from {s}.job j where j.id = u.id{known} limit 1) known on true
where not exists (select 1 from stored)`

	heldPeriods = `select k.hash from {s}.key k where k.hash = any({hashes}::uuid[]) and k.until_at > now()`

	unlessHeld = `pg_current_xact_id() is not null
  on conflict (ukey) where ukey is not null do nothing returning id`

	refused = `select u.id, h.id, coalesce(h.passes, false), known.living is not null
from unnest($1::uuid[], {places}::uuid[], {hashes}::uuid[]) u (id, place, hash)
left join lateral (` + holders + ` limit 1) h on true
left join lateral (select true as living from {s}.job j where j.id = u.id{known} limit 1) known on true
where u.id not in (select id from stored)`

	// After the insert, in a statement of its own, which sees what the other could not: an id whose job has ended, a period that
	// has begun. None is expected: one divides by zero and so ends the transaction.
	refuseUnique = `select 1 / (1 - count(*)::int) from (
  {ended}select 1 from unnest($1::uuid[], $2::uuid[], $3::uuid[]) u (id, place, hash)
  where exists (select 1 from {s}.key k where k.hash = any($3::uuid[]) and k.until_at > now()) and exists (
    select 1 from {s}.key k, {s}.job j
    where k.hash = u.hash and k.until_at > now() and k.job_id <> u.id and j.id = u.id and j.ukey = u.place) limit 1) refused`
	endedAmong = `select 1 from unnest($1::uuid[]) u (id), lateral ({union} limit 1) d
  union all
  `
	refuseUniqueOne = `select 1 / (1 - (false{or} or exists (
  select 1 from {s}.key k, {s}.job j
  where k.hash = $3 and k.until_at > now() and k.job_id <> u.id and j.id = u.id and j.ukey = $2))::int) from (values ($1::uuid)) u (id)`
)

// insertSwiftly stores jobs with unique keys in one round trip, but for those that are neither stored nor seen to be kept out: another
// transaction was waited for, or their key has to be passed on first. They are tried again.
func (in *insertion) insertSwiftly(ctx context.Context, x execer.Execer, rows []int) error {
	if in.inKeyOrder(rows) {
		if err := in.drawSeqs(ctx, x); err != nil {
			return err
		}
	}
	s := swiftly{insertion: in, now: in.allNow()}
	for len(rows) > 0 {
		steps := s.steps(rows)
		s.again, s.passing = nil, keys{}
		if err := x.Do(ctx, steps...); err != nil {
			return fmt.Errorf("insert unique jobs: %w", err)
		}
		rows = s.again
	}
	return nil
}

// swiftly is an insertSwiftly under way.
type swiftly struct {
	*insertion
	now     bool  // they have nothing but plain columns and keys that do not count for a period
	again   []int // to be tried again
	passing keys  // to be passed on before
}

// steps store the jobs at these indices.
func (s *swiftly) steps(rows []int) (steps []step) {
	if len(s.passing.hashes) > 0 {
		steps = append(steps, step{SQL: s.store.sql.yieldKeys, Args: []any{s.passing.places, s.passing.hashes}})
	}
	var id, holder idColumn
	var passes, known bool
	refused := func(scan func(...any) error) error {
		holder = idColumn{}
		err := scan(&id, &holder, &passes, &known)
		i := s.index[pawl.ID(id)]
		switch {
		case known:
			s.results[i] = pawl.Enqueued{ID: pawl.ID(id), Status: pawl.Repeated}
		case passes:
			s.passing.add(s.keys, i)
			s.again = append(s.again, i)
		case pawl.ID(holder).IsZero():
			s.again = append(s.again, i)
		default:
			s.results[i] = pawl.Enqueued{ID: pawl.ID(holder), Status: pawl.Duplicate}
		}
		return err
	}
	for start := 0; start < len(rows); start += insertBatch {
		insert, refuse := s.unique(rows[start:min(start+insertBatch, len(rows))])
		insert.Row = refused
		steps = append(steps, insert, refuse)
	}
	if s.notify {
		steps = append(steps, step{SQL: `select pg_notify($1, '')`, Args: []any{s.store.schema.channel}})
	}
	return steps
}

// allNow reports whether the jobs have nothing but plain columns and keys that count as long as they live.
func (in *insertion) allNow() bool {
	for i := range in.jobs {
		job := &in.jobs[i]
		if job.Delay != 0 || !job.RunAt.IsZero() || !job.EnqueuedAt.IsZero() || job.Unique.Scope == pawl.UniqueForPeriod {
			return false
		}
	}
	return true
}

// unique are the statements for a part of the jobs.
func (s *swiftly) unique(rows []int) (insert, refuse step) {
	texts := &s.slots.texts
	if i := rows[0]; s.now && len(rows) == 1 && !s.keys.hashes[i].IsZero() {
		job, place, hash := &s.jobs[i], [16]byte(s.keys.places[i]), [16]byte(s.keys.hashes[i])
		return step{SQL: texts.insertUniqueOne, Args: []any{[16]byte(job.ID), s.queues[i], s.kinds[i], flagsOf(job), job.Envelope, place, hash}},
			step{SQL: texts.refuseUniqueOne, Args: []any{[16]byte(job.ID), place, hash}}
	}
	some := keys{make(idList, len(rows)), make(idList, len(rows))}
	periods := make([]int64, len(rows))
	for r, i := range rows {
		some.hashes[r], some.places[r] = s.keys.hashes[i], s.keys.places[i]
		if unique := s.jobs[i].Unique; unique.Scope == pawl.UniqueForPeriod {
			periods[r] = microseconds(unique.Period)
		}
	}
	if s.now {
		insert = step{SQL: texts.insertUniqueNow, Args: append(s.plainArgs(rows), some.places, some.hashes, s.places(rows))}
	} else {
		insert = step{SQL: texts.insertUnique, Args: append(s.statement(rows).Args, some.hashes, periods)}
	}
	return insert, step{SQL: texts.refuseUnique, Args: []any{insert.Args[0], some.places, some.hashes}}
}
