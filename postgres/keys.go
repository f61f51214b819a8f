package postgres

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/execer"
)

const (
	selectLetterJobs = `select id, job_id from {s}.letter where id = any($1::uuid[]) and job_id is not null`

	// Callers who want the same key wait here for each other's end. Slots come sorted. Rows are locked by an update that does
	// not take place.
	lockKeys = `insert into {s}.key_lock (slot) select slot from unnest($1::int[]) slot on conflict (slot) do update set slot = excluded.slot where false`

	lockKey = `insert into {s}.key_lock (slot) values ($1) on conflict (slot) do update set slot = excluded.slot where false`

	// A job that lives is named before one that has ended.
	selectKnown = `select u.id, known.living from unnest($1::uuid[]) u (id), lateral (
  select true as living from {s}.job j where j.id = u.id{known} limit 1) known`
	knownTerm = ` union all select false from {t} where id = u.id`

	selectHolders = `select ukey, id from {s}.job where ukey = any($1::uuid[]) and (flags & 16 = 0 or holder is null)
union all
select hash, job_id from {s}.key where hash = any($1::uuid[]) and until_at > now()`

	holdKeys = `insert into {s}.key (hash, job_id, until_at, purge_at)
select hash, id, now() + period * interval '1 microsecond', now() + period * interval '1 microsecond'
from unnest($1::uuid[], $2::uuid[], $3::bigint[]) t (hash, id, period)
on conflict (hash) do update set job_id = excluded.job_id, until_at = excluded.until_at, purge_at = excluded.purge_at`

	// Jobs with unique keys, none of them twice, and others, whose keys are zeros. Those whose keys are held are not stored, but
	// answered: with their holders, and whether their ids were accepted before.
	heldUnique = `with held as materialized (
  select u.id, h.id as holder from unnest($1::uuid[], {hashes}::uuid[]) u (id, hash) cross join lateral (
    select j.id from {s}.job j where j.ukey = u.hash and (j.flags & 16 = 0 or j.holder is null)
    union all
    select k.job_id from {s}.key k where k.hash = u.hash and k.until_at > now() limit 1) h
  where u.hash <> '00000000-0000-0000-0000-000000000000'
)`
	knownUnique = `
select u.id, u.holder, known.living is not null from held u left join lateral (
  select true as living from {s}.job j where j.id = u.id{known} limit 1) known on true`

	insertUnique = heldUnique + `, stored as (
  {insert} where t.id not in (select id from held)
), kept as (
  insert into {s}.key (hash, job_id, until_at, purge_at)
  select u.hash, u.id, now() + u.period * interval '1 microsecond', now() + u.period * interval '1 microsecond'
  from unnest($1::uuid[], $12::uuid[], $13::bigint[]) u (id, hash, period)
  where u.period > 0 and u.id not in (select id from held)
  on conflict (hash) do update set job_id = excluded.job_id, until_at = excluded.until_at, purge_at = excluded.purge_at
)` + knownUnique

	// The same for one job.
	insertUniqueOne = `with held as materialized (
  select j.id from {s}.job j where j.ukey = $6 and (j.flags & 16 = 0 or j.holder is null)
  union all
  select k.job_id from {s}.key k where k.hash = $6 and k.until_at > now() limit 1
), stored as (
  insert into {s}.job (id, queue, kind, flags, envelope, ukey)
  select $1::uuid, $2::int, $3::int, $4::smallint, $5::bytea, $6::uuid where not exists (select 1 from held)
)
select u.id, u.holder, known.living is not null from (select $1::uuid as id, id as holder from held) u left join lateral (
  select true as living from {s}.job j where j.id = u.id{known} limit 1) known on true`

	// The same where all jobs are ready at once, and none of their keys counts for a period.
	insertUniqueNow = heldUnique + `, stored as (
  insert into {s}.job (id, queue, kind, flags, envelope, ukey)
  select id, queue, kind, flags, envelope, nullif(ukey, '00000000-0000-0000-0000-000000000000')
  from unnest($1::uuid[], $2::int[], $3::int[], $4::smallint[], $5::bytea[], $6::uuid[]) t (id, queue, kind, flags, envelope, ukey)
  where t.id not in (select id from held)
)` + knownUnique

	forgetAttempts = `delete from {s}.attempt where job_id = any($1::uuid[])`
	forgetVerdicts = `delete from {s}.verdict where job_id = any($1::uuid[])`
)

// keyHash stands for a unique key: half of its SHA-256.
func keyHash(key string) (hash pawl.ID) {
	sum := sha256.Sum256([]byte(key))
	copy(hash[:], sum[:])
	return hash
}

// keySlots are the sorted locks of keys.
func keySlots(keys idList) []int32 {
	slots := make([]int32, len(keys))
	for i, key := range keys {
		slots[i] = int32(key[0])<<12 | int32(key[1])<<4 | int32(key[2])>>4
	}
	slices.Sort(slots)
	return slices.Compact(slots)
}

// admission decides on jobs with unique keys, and makes way for those that are retried under their own id.
type admission struct {
	*insertion
	x       execer.Execer
	died    map[pawl.ID]pawl.ID   // by letter, the job that died
	known   map[pawl.ID]bool      // ids that were accepted before; true: the job lives
	holders map[pawl.ID][]pawl.ID // by key, the jobs that hold it
}

// admit returns the indices of the jobs to insert.
func (a *admission) admit(ctx context.Context) (rows []int, err error) {
	if err := a.look(ctx); err != nil {
		return nil, fmt.Errorf("look up ids and keys: %w", err)
	}
	if a.batched {
		if err := a.openBatches(ctx, a.x, a.known); err != nil {
			return nil, err
		}
	}
	var retried idList
	held := struct {
		keys, ids idList
		periods   []int64
	}{}
	for i := range a.jobs {
		job, result := &a.jobs[i], &a.results[i]
		if job.Opens {
			continue // it is stored with its batch
		}
		if *result = a.decide(job); result.Status != pawl.Accepted {
			continue
		}
		rows = append(rows, i)
		if a.isRetried(job) {
			retried = append(retried, job.ID)
		}
		if job.Unique.Key != "" && job.Unique.Scope == pawl.UniqueForPeriod {
			held.keys, held.ids = append(held.keys, keyHash(job.Unique.Key)), append(held.ids, job.ID)
			held.periods = append(held.periods, microseconds(job.Unique.Period))
		}
	}
	var steps []step
	if len(retried) > 0 {
		for _, one := range a.slots.live {
			steps = append(steps, step{SQL: a.store.slotText(`delete from {s}.{t} where id = any($1::uuid[])`, one), Args: []any{retried}})
		}
		steps = append(steps, step{SQL: a.store.sql.forgetAttempts, Args: []any{retried}}, step{SQL: a.store.sql.forgetVerdicts, Args: []any{retried}})
	}
	if len(held.keys) > 0 {
		steps = append(steps, step{SQL: a.store.sql.holdKeys, Args: []any{held.keys, held.ids, held.periods}})
	}
	if len(steps) == 0 {
		return rows, nil
	}
	return rows, a.x.Do(ctx, steps...)
}

// look reads what decisions are made by: first the keys are locked, then, in a statement of its own that sees what
// others have committed meanwhile, it is read who holds them.
func (a *admission) look(ctx context.Context) error {
	a.died, a.known, a.holders = map[pawl.ID]pawl.ID{}, map[pawl.ID]bool{}, map[pawl.ID][]pawl.ID{}
	ids, letters, keys := idList{}, idList{}, idList{}
	for i := range a.jobs {
		job := &a.jobs[i]
		ids = append(ids, job.ID)
		if !job.Letter.IsZero() {
			letters = append(letters, job.Letter)
		}
		if job.Unique.Key != "" {
			keys = append(keys, keyHash(job.Unique.Key))
		}
	}
	var first, second idColumn
	var steps []step
	if len(keys) > 0 {
		steps = append(steps, step{SQL: a.store.sql.lockKeys, Args: []any{keySlots(keys)}})
		steps = append(steps, step{SQL: a.store.sql.selectHolders, Args: []any{keys}, Row: func(scan func(...any) error) error {
			err := scan(&first, &second)
			a.holders[pawl.ID(first)] = append(a.holders[pawl.ID(first)], pawl.ID(second))
			return err
		}})
	}
	if len(letters) > 0 {
		steps = append(steps, step{SQL: a.store.sql.selectLetterJobs, Args: []any{letters}, Row: func(scan func(...any) error) error {
			err := scan(&first, &second)
			a.died[pawl.ID(first)] = pawl.ID(second)
			return err
		}})
	}
	var living bool
	steps = append(steps, step{SQL: a.slots.texts.selectKnown, Args: []any{ids}, Row: func(scan func(...any) error) error {
		err := scan(&first, &living)
		a.known[pawl.ID(first)] = living
		return err
	}})
	return a.x.Do(ctx, steps...)
}

// isRetried reports whether a job goes back under the id that it died with.
func (a *admission) isRetried(job *pawl.NewJob) bool {
	return !job.Letter.IsZero() && a.died[job.Letter] == job.ID
}

// decide says what becomes of one job, and remembers it for those after it.
func (a *admission) decide(job *pawl.NewJob) pawl.Enqueued {
	living, known := a.known[job.ID]
	if known && (living || !a.isRetried(job)) {
		return pawl.Enqueued{ID: job.ID, Status: pawl.Repeated}
	}
	if job.Unique.Key != "" {
		key, died := keyHash(job.Unique.Key), a.died[job.Letter]
		for _, holder := range a.holders[key] {
			if holder != job.ID && (died.IsZero() || holder != died) {
				return pawl.Enqueued{ID: holder, Status: pawl.Duplicate}
			}
		}
		a.holders[key] = append(a.holders[key], job.ID)
	}
	a.known[job.ID] = true
	return pawl.Enqueued{ID: job.ID}
}
