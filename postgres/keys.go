package postgres

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/execer"
)

const (
	selectLetterJobs = `select id, job_id from {s}.letter where id = any($1::uuid[]) and job_id is not null`

	// Callers who want the same key wait here for each other's end. Rows are locked in the order of their places, whatever
	// that of the list.
	lockKeys = `select count(*) from (select from {s}.key_lock where ctid = any($1::tid[]) for no key update) locked`

	// Fewer than expected divide by zero and so end the transaction.
	lockAllKeys = `select 1 / (n = $2::int)::int from (` + lockKeys + `) t (n)`

	// A job that lives is named before one that has ended.
	selectKnown = `select u.id, known.living from unnest($1::uuid[]) u (id), lateral (
  select true as living from {s}.job j where j.id = u.id{known} limit 1) known`
	knownTerm = ` union all select false from {t} where id = u.id`

	selectHolders = `select u.hash, h.id from unnest($1::uuid[]) u (hash), lateral (
  select j.id from {s}.job j where j.ukey = u.hash and (j.flags & 16 = 0 or j.holder is null)
  union all
  select k.job_id from {s}.key k where k.hash = u.hash and k.until_at > now()) h`

	holdKeys = `insert into {s}.key (hash, job_id, until_at, purge_at)
select hash, id, now() + period * interval '1 microsecond', now() + period * interval '1 microsecond'
from unnest($1::uuid[], $2::uuid[], $3::bigint[]) t (hash, id, period)
on conflict (hash) do update set job_id = excluded.job_id, until_at = excluded.until_at, purge_at = excluded.purge_at`

	// Jobs with unique keys, none of them twice, and others, whose hashes are zeros. Those whose keys are held are not stored, but
	// answered, by their places in the lists, with their holders. If a job of theirs lives already, that divides by zero.
	// Each key is looked up right before its job is stored, which is why the stored are counted: both are in the same page of job_key.
	// Lists that are unnested where columns are named are not put together in memory before.
	lookedUnique = `with looked as materialized (
  select t.*, case when t.hash <> '00000000-0000-0000-0000-000000000000' then coalesce(
    (select j.id from {s}.job j where j.ukey = t.hash and (j.flags & 16 = 0 or j.holder is null) limit 1),
    case when exists (select from {s}.key where purge_at > now()) then (select k.job_id from {s}.key k where k.hash = t.hash and k.until_at > now()) end) end as holder
  from (select {lists}, generate_series(1, cardinality($1::uuid[])) as n) t
), stored as (
  {insert} returning 1
)`
	refusedUnique = `
select u.n, u.holder, 1 / (living.id is null)::int from looked u left join lateral (select j.id from {s}.job j where j.id = u.id limit 1) living on true
where u.holder is not null and (select count(*) from stored) >= 0`

	insertUnique = lookedUnique + `, kept as (
  insert into {s}.key (hash, job_id, until_at, purge_at)
  select hash, id, now() + period * interval '1 microsecond', now() + period * interval '1 microsecond'
  from looked where period > 0 and holder is null
  on conflict (hash) do update set job_id = excluded.job_id, until_at = excluded.until_at, purge_at = excluded.purge_at
)` + refusedUnique
	listsUnique = `unnest($1::uuid[]) as id, unnest($2::int[]) as queue, unnest($3::int[]) as kind, unnest($4::smallint[]) as flags, unnest($5::bytea[]) as envelope,
    unnest($6::bigint[]) as delay, unnest($7::bigint[]) as at, unnest($8::bigint[]) as enqueued, unnest($9::uuid[]) as letter, unnest($10::uuid[]) as ukey,
    unnest($11::uuid[]) as batch, unnest($12::uuid[]) as hash, unnest($13::bigint[]) as period`

	// The same where all jobs are ready at once, and none of their keys counts for a period.
	insertUniqueNow = lookedUnique + refusedUnique
	listsUniqueNow  = `unnest($1::uuid[]) as id, unnest($2::int[]) as queue, unnest($3::int[]) as kind, unnest($4::smallint[]) as flags, unnest($5::bytea[]) as envelope, unnest($6::uuid[]) as hash`
	insertNow       = `insert into {s}.job (id, queue, kind, flags, envelope, ukey)
  select id, queue, kind, flags, envelope, nullif(hash, '00000000-0000-0000-0000-000000000000') from looked where holder is null`

	// The same for one job.
	insertUniqueOne = `with held as materialized (
  select j.id from {s}.job j where j.ukey = $6 and (j.flags & 16 = 0 or j.holder is null)
  union all
  select k.job_id from {s}.key k where k.hash = $6 and k.until_at > now() limit 1
), stored as (
  insert into {s}.job (id, queue, kind, flags, envelope, ukey)
  select $1::uuid, $2::int, $3::int, $4::smallint, $5::bytea, $6::uuid where not exists (select 1 from held)
)
select 1, held.id, 1 / (living.id is null)::int from held left join lateral (select j.id from {s}.job j where j.id = $1 limit 1) living on true`

	forgetAttempts = `delete from {s}.attempt where job_id = any($1::uuid[])`
	forgetVerdicts = `delete from {s}.verdict where job_id = any($1::uuid[])`
)

// keyHash stands for a unique key: half of its SHA-256.
func keyHash(key string) (hash pawl.ID) {
	sum := sha256.Sum256([]byte(key))
	copy(hash[:], sum[:])
	return hash
}

// lockOf is the lock of a key: one of 2^18.
func lockOf(key pawl.ID) uint32 { return uint32(key[0])<<10 | uint32(key[1])<<2 | uint32(key[2])>>6 }

// lockPlace is where the row of a lock lies: those of a table that was filled once, and never changed since, lie side by side from
// its start, as many on each page as there is room for.
func lockPlace(lock uint32, pageSize int) pgtype.TID {
	const pageHeader, row = 24, 36
	perPage := uint32(pageSize-pageHeader) / row
	return pgtype.TID{BlockNumber: lock / perPage, OffsetNumber: uint16(lock%perPage + 1), Valid: true}
}

// lockSurely is the step that locks the keys, if there are any.
func (in *insertion) lockSurely() step {
	return step{SQL: in.store.sql.lockAllKeys, Args: []any{in.locks, len(in.locks)}}
}

// lock is the same, and says what is wrong.
func (in *insertion) lock() step {
	return step{SQL: in.store.sql.lockKeys, Args: []any{in.locks}, Row: func(scan func(...any) error) error {
		var locked int
		if err := scan(&locked); err != nil || locked == len(in.locks) {
			return err
		}
		return fmt.Errorf("rows are missing in %s, which are the locks of unique keys; fill it again: truncate %[1]s; "+
			"insert into %[1]s (slot) select generate_series(0, 262143)", in.store.schema.text("{s}.key_lock"))
	}}
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
		steps = append(steps, a.lock())
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
			switch {
			case !died.IsZero() && holder == died:
			case holder == job.ID: // whose period goes on, though its end is forgotten
				return pawl.Enqueued{ID: job.ID, Status: pawl.Repeated}
			default:
				return pawl.Enqueued{ID: holder, Status: pawl.Duplicate}
			}
		}
		a.holders[key] = append(a.holders[key], job.ID)
	}
	a.known[job.ID] = true
	return pawl.Enqueued{ID: job.ID}
}
