package postgres

const (
	// One gives turns at a time, over all hosts. What he commits need not wait for the disk: if it is lost, so is that the
	// arrivals were taken. The lock has a statement of its own before those that count, since one sees what was committed
	// before it began.
	lockTurns  = `select set_config('synchronous_commit', 'off', true), set_config('pawl.turns', 'true', true), pg_advisory_xact_lock($1)`
	seizeTurns = `select set_config('synchronous_commit', 'off', true), set_config('pawl.turns', pg_try_advisory_xact_lock($1)::text, true)`

	// All that there is to do where the ends and enqueues of jobs have left word of kinds alone, at whose gates few are let
	// through, by their number: $1 is how many at most. It says how much of the word it has taken, and whether
	// there is more to do.
	giveQuickly = `with held as materialized (
  select kind, most from (
    select distinct on (kind) kind, coalesce((value::json ->> 'concurrency')::int, 0) as most, value::json ->> 'starts' is null as unrated
    from {s}.kind_limit order by kind, source desc) l
  where unrated and most between 1 and $1
), word as materialized (
  select a.n, h.kind from (select n, job_id, okey, lkey, kind from {s}.arrival where n >= $3 order by n limit $2) a
  left join held h on h.kind = a.kind and a.job_id is null and a.okey is null and a.lkey is null
), taken as (
  delete from {s}.arrival a using word w
  where a.n = w.n and w.kind is not null and current_setting('pawl.turns', true) = 'true' returning w.kind, a.n
), free as materialized (
  select h.kind, h.most - (select count(*) from (select 1 from {s}.turn t where t.kind = h.kind and t.stage = 3 limit h.most) t) as n
  from held h where h.kind in (select kind from taken)
), first as materialized (
  select f.job_id from free g cross join lateral (
    select t.job_id from {s}.turn t where t.kind = g.kind and t.stage = 2 and t.pending order by t.place limit g.n for update) f
), passed as (
  update {s}.turn t set stage = 3, pending = false from first f where t.job_id = f.job_id returning t.job_id, t.place
), placed as materialized (
  select job_id, nextval('{l}.job_seq') as seq from (select job_id from passed order by place) p
), made as (
  update {s}.job j set run_at = null, ready_at = now(), seq = p.seq from placed p where j.id = p.job_id and j.run_at is not null returning 1
)
select current_setting('pawl.turns', true) = 'true', (select count(*) from taken), (select count(*) from made),
  exists (select 1 from word where kind is null) or exists (select 1 from {s}.rate where next_at <= now()), (select coalesce(max(n), 0) from taken)`

	// Who finds somebody else at it leaves the rest to him: he looks once more when he has let go of the lock. The first row
	// says that nobody else is.
	takeArrivals = `with taken as (
  delete from {s}.arrival where current_setting('pawl.turns', true) = 'true' and n in (select n from {s}.arrival where n >= $2 order by n limit $1)
  returning n, job_id, okey, lkey, kind
)
select 0, null, null, null, null where current_setting('pawl.turns', true) = 'true' union all select n, job_id, okey, lkey, kind from taken`
	selectLimits = `select l.kind, n.text, l.source, l.value from {s}.kind_limit l join {s}.name n on n.id = l.kind order by l.kind, l.source`
	selectRates  = `select kind, tokens, counted_at, next_at, now() from {s}.rate`

	// The place tells this life of a job from its next one, under the same id: a row that somebody has put there meanwhile stays.
	leaveLines = `with ended as materialized (
  select t.job_id, t.place from unnest($1::uuid[]) u (id) join {s}.turn t on t.job_id = u.id
  where not exists (select 1 from {s}.job j where j.id = u.id)
)
delete from {s}.turn t using ended e where t.job_id = e.job_id and t.place = e.place returning t.okey, t.lkey, t.kind`

	behindOrder = `case when t.lkey is not null then 1 when t.kind is not null then 2 else 3 end`
	returnStand = ` returning t.job_id, t.place, t.okey, t.lkey, t.kind, t.stage, t.pending`

	// A job that is neither ready nor reserved leaves its limits, and stands in their lines, at the end, once it is due. It is locked
	// before, lest a settle lets it through meanwhile; in the order of the ids, as whatever locks jobs.
	leaveLimits = `with away as materialized (
  select t.job_id from {s}.turn t join {s}.job j on j.id = t.job_id where t.job_id = any ($1::uuid[]) and j.run_at is not null
  order by t.job_id for update
)
update {s}.turn t set place = case when t.okey is not null and t.stage = 0 then t.place else u.place end,
  pending = j.run_at = 'infinity', stage = case when t.okey is not null and t.stage = 0 then 0 else ` + behindOrder + ` end
from (select id, nextval('{l}.job_seq') as place from (select id from unnest($1::uuid[]) with ordinality v (id, n) order by n) v) u
join away a on a.job_id = u.id join {s}.job j on j.id = u.id
where t.job_id = u.id` + returnStand

	passOrders = `with first as materialized (
  select f.job_id from unnest($1::uuid[]) g (okey) cross join lateral (
    select t.job_id from {s}.turn t where t.okey = g.okey and t.stage = 0 order by t.place limit 1) f
  where not exists (select 1 from {s}.turn h where h.okey = g.okey and h.stage > 0)
)
update {s}.turn t set stage = ` + behindOrder + `, pending = j.run_at is not distinct from 'infinity'
from first f left join {s}.job j on j.id = f.job_id where t.job_id = f.job_id` + returnStand

	// $2 is how many there may be; 0: any number. No more than $3 pass at a time.
	passKeys = `with free as materialized (
  select g.lkey, case when g.most = 0 then $3::int
    else least($3::int, g.most - (select count(*) from (select 1 from {s}.turn h where h.lkey = g.lkey and h.stage >= 2 limit g.most) h)) end as n
  from unnest($1::uuid[], $2::int[]) g (lkey, most)
), first as materialized (
  select f.job_id from free g cross join lateral (
    select t.job_id from {s}.turn t where t.lkey = g.lkey and t.stage = 1 and t.pending order by t.place limit g.n) f
)
update {s}.turn t set stage = 2 from first f where t.job_id = f.job_id` + returnStand

	// $4 is how many there are tokens for; negative: there is no rate.
	passKinds = `with free as materialized (
  select g.kind, g.tokens, least($3::int, case when g.tokens < 0 then $3::int else g.tokens end, case when g.most = 0 then $3::int
    else g.most - (select count(*) from (select 1 from {s}.turn h where h.kind = g.kind and h.stage = 3 limit g.most) h) end) as n
  from unnest($1::int[], $2::int[], $4::int[]) g (kind, most, tokens)
), first as materialized (
  select f.job_id, g.tokens >= 0 as rated from free g cross join lateral (
    select t.job_id from {s}.turn t where t.kind = g.kind and t.stage = 2 and t.pending order by t.place limit g.n for update) f
)
update {s}.turn t set stage = 3, pending = f.rated from first f where t.job_id = f.job_id` + returnStand

	letThrough = `update {s}.job j set run_at = null, ready_at = now(), seq = u.seq
from (select id, nextval('{l}.job_seq') as seq from (select id from unnest($1::uuid[]) with ordinality v (id, n) order by n) v) u
where j.id = u.id and j.run_at is not null`

	countPiles = `select g.kind, (select count(*) from (select 1 from {s}.turn t where t.kind = g.kind and t.stage = 3 and t.pending limit g.most) t),
  exists (select 1 from {s}.turn t where t.kind = g.kind and t.stage = 2 and t.pending)
from unnest($1::int[], $2::int[]) g (kind, most)`
	writeRate = `insert into {s}.rate (kind, tokens, counted_at, next_at) values ($1, $2, $3, $4)
on conflict (kind) do update set tokens = excluded.tokens, counted_at = excluded.counted_at, next_at = excluded.next_at`
	countStarts = `update {s}.turn t set pending = false from unnest($1::uuid[]) u (id)
where t.job_id = u.id and t.stage = 3 and t.pending returning t.kind`

	insertJobArrivals = `insert into {s}.arrival (job_id) select id from unnest($1::uuid[]) u (id)`
	lookAgain         = `insert into {s}.arrival (lkey, kind) select nullif(lkey, '00000000-0000-0000-0000-000000000000'), kind
from unnest($1::uuid[], $2::int[]) t (lkey, kind)`
)
