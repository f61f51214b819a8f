package postgres

// A settle that frees slots of a kind passes them on itself: as many leave as are let through, so the number of those who are
// through stays as it is, whoever counts it meanwhile, and the lock of those who give turns is not needed. It is for
// acknowledgements of jobs without keys whose kind's limit is a number, of at most $4, that is not exceeded; and it waits for
// nobody: what is locked is passed over. Where fewer were let through than left, and of all others, word is left as ever: somebody
// may have come meanwhile, and was not seen.
//
// The rows of the answer: one for each job that has ended, with its flags; one for each that became ready, without; and one without
// an id, which says whether word was left.
const (
	settlePassing = `with gone as (
  delete from {s}.job j using unnest($1::uuid[], $2::bigint[]) t (id, claim)
  where j.id = t.id and j.claim = t.claim and j.holder = $3 and j.letter is null and j.flags & 4 = 0
  returning j.id, j.enqueued_at, j.queue, j.kind, j.attempt, j.requeues, j.crashes, j.flags, j.envelope, j.batch
){kept}, left_lines as (
  delete from {s}.turn t using gone where gone.flags & 32 <> 0 and t.job_id = gone.id returning t.okey, t.lkey, t.kind, t.stage
), freed as materialized (
  select kind, count(*) as n from left_lines where kind is not null group by kind having bool_and(stage = 3 and okey is null and lkey is null)
), held as materialized (
  select f.kind, f.n from freed f cross join lateral (
    select coalesce((value::json ->> 'concurrency')::int, 0) as most, value::json ->> 'starts' is null as unrated
    from {s}.kind_limit l where l.kind = f.kind order by source desc limit 1) l
  where unrated and most between 1 and $4
    and (select count(*) from (select 1 from {s}.turn t where t.kind = f.kind and t.stage = 3 limit l.most + 1) t) <= most
), first as materialized (
  select h.kind, w.job_id, w.place from held h cross join lateral (
    select t.job_id, t.place from {s}.turn t join {s}.job j on j.id = t.job_id
    where t.kind = h.kind and t.stage = 2 and t.pending and j.run_at is not null order by t.place limit h.n for update of t, j skip locked) w
), passed as (
  update {s}.turn t set stage = 3, pending = false from first f where t.job_id = f.job_id
), placed as materialized (
  select job_id, nextval('{l}.job_seq') as seq from (select job_id from first order by place) p
), made as (
  update {s}.job j set run_at = null, ready_at = now(), seq = p.seq from placed p where j.id = p.job_id
), came as (
  insert into {s}.arrival (okey, lkey, kind) select distinct on (okey, lkey, kind) okey, lkey, kind from left_lines l
  where not exists (select 1 from held h where h.kind = l.kind and h.n <= (select count(*) from first f where f.kind = h.kind))
  order by okey, lkey, kind returning 1
), counted as (
  insert into {s}.tally (batch, done) select batch, count(*) from gone where flags & 256 <> 0 group by batch
)
select id, flags from gone
union all select job_id, null from first
union all select null, (exists (select 1 from came))::int::smallint`

	settlePassingKept = `, kept as (insert into {current} ({columns}) select {values} from gone)`
)
