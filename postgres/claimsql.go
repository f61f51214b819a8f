package postgres

import "strings"

// A claim looks along lanes: a queue, a position from which on, a bound before which, and a window, the length of the
// stretch that it examines at most. Lanes come in order of priority. For each it finds the first job there is (lo), the
// last one in the window (hi), and whether there are more behind the window (open). It takes nothing from behind a lane
// that is open, since what is there comes first. The session is locked against its end only if there is something to
// take: an idle look writes nothing.
//
// Where hosts meet at the head of a queue, a lane is searched in a block (of 2^shift numbers) that no other claim searches
// meanwhile, which an advisory lock says for as long as the transaction lasts. The lane then begins where sampled jobs
// cease to be held by others; from there on there is a block for each host ($11), and each begins to look for a free one
// at another: claims that met would pass over each other's jobs, and lock what was claimed a moment ago, for which its settle would wait.
//
// Tokens come from a stretch that was drawn before ($8 is the one before the first), so none repeats. The commit waits
// for the disk like any other: a host that finds a reservation gone after a settle of unknown outcome takes it for
// settled, so no crash of the server may take a claim back.
//
// A claim that the network delivers after its host has given it up and looked for what it took would take jobs that
// nobody knows of. That look begins a new epoch of the session, and claims of an earlier one ($9; negative: of any) take
// nothing.
//
// $1 is the session, $2-$5 and $10 the lanes, $6 the kinds, $7 the number of jobs. The rows of the answer: one header (what 0),
// one for each lane (1), one for each job (2).
const claimTemplate = `with me as materialized (
  select $9::bigint < 0 or epoch = $9 as timely from {s}.session where id = $1 and ended_at is null{opened}
), ` + claimRules + `, lane as materialized (
  select n.ord, n.queue, l.lo, l.stop, h.seq as head, coalesce(l.lo > h.seq, false)::int + 2 * (f.holder is not null)::int as crowd,
    (select h.seq from {s}.job h where h.queue = n.queue and h.run_at is null{rows} and h.seq >= l.lo
      and h.seq < l.stop order by h.seq desc limit 1) as hi,
    l.lo is not null and (b.seq is not null or exists (select 1 from {s}.job o where o.queue = n.queue and o.run_at is null{rows}
      and o.seq >= l.stop and o.seq < n.bound)) as open,
    {present} as present
  from unnest($2::int[], $3::bigint[], $4::bigint[], $5::bigint[], $10::int[]) with ordinality n (queue, start, bound, win, shift, ord)
  left join lateral (select j.seq, j.holder from {s}.job j where j.queue = n.queue and j.run_at is null{rows}
    and j.seq >= n.start and j.seq < n.bound order by j.seq limit 1) f on true
  left join lateral (select f.seq + case when n.shift = 0 or f.holder is null then 0 else (
    select coalesce(min(step) filter (where free), 33) - 1 from (
      select step, coalesce((select p.holder is null from {s}.job p where p.queue = n.queue and p.run_at is null
        and p.seq >= f.seq + (step << (n.shift - 1)) order by p.seq limit 1), true) as free
      from generate_series(1::bigint, 32) step) probed) << (n.shift - 1) end as seq) h on true
  left join lateral (select block << n.shift as seq from (
      select h.seq >> n.shift) base (n), generate_series(0::bigint, $11 - 1) step,
      lateral (select base.n + ($1 + step + $11 - base.n % $11) % $11) place (block)
    where n.shift > 0 and case when (select p.holder is null from {s}.job p where p.queue = n.queue and p.run_at is null
        and p.seq >= block << n.shift and p.seq < (block + 1) << n.shift order by p.seq desc limit 1)
      then pg_try_advisory_xact_lock(hashtext('{l}') # n.queue # (n.shift << 24), (block & 2147483647)::int) end
    limit 1) b on true
  left join lateral (select greatest(h.seq, b.seq) as lo,
    case when b.seq is null then least(h.seq + n.win, n.bound) else b.seq + (1::bigint << n.shift) end as stop) l on true
  where exists (select 1 from me where timely) and n.queue <> all ((select paused from rule)::int[])
), pick as materialized (
  select p.tid, lane.ord, row_number() over () as n from lane cross join lateral (
    select j.ctid as tid from {s}.job j
    where j.queue = lane.queue and j.run_at is null and j.seq >= lane.lo and j.seq < lane.stop
      and j.holder is null and j.kind = any ($6::int[]) and {which}
      and j.kind <> all ((select off_kinds from rule)::int[])
      and (j.flags & 2 = 0 or j.kind = any ((select on_kinds from rule)::int[]))
    order by j.seq limit $7 for update skip locked) p
  where lane.ord <= coalesce((select min(ord) from lane where open), 2147483647)
  limit $7
), fence as materialized (
  select 1 from {s}.session where id = $1 and ended_at is null
    and ($9::bigint < 0 or epoch = $9) and exists (select 1 from pick) for share
), taken as (
  update {s}.job j set holder = $1, claim = $8 + pick.n, attempt = j.attempt + 1
  from fence, pick where j.ctid = pick.tid
  returning pick.ord, j.seq, j.id, j.claim, j.kind, j.attempt, j.crashes, j.requeues, j.flags, j.started, j.enqueued_at,
    j.ready_at, j.letter, j.envelope
)
select 2::smallint, ord::int, seq, id, claim, kind, attempt, crashes::int, requeues, flags::int, started is not null,
  enqueued_at, ready_at, letter, envelope from taken
union all
select 1::smallint, ord::int, head, null, hi, null, crowd, null, null, present::int, open, null, null, null, null from lane
union all
select 0::smallint, 0, pg_snapshot_xmin(w.x)::text::bigint, null, pg_snapshot_xmax(w.x)::text::bigint,
  (select count(*)::int from {s}.session where ended_at is null), null, null, null,
  (exists (select 1 from me))::int + 2 * (exists (select 1 from {s}.job where run_at is null and crashes >= 2 and holder is null))::int
    + 4 * (exists (select 1 from me where timely))::int + 8 * (exists (select 1 from {s}.arrival where alone))::int,
  null, now(), null, null, convert_to((select off_kinds::text || on_kinds::text from rule), 'UTF8')
from pg_current_snapshot() w (x)`

// claimRules are what operators have switched.
const claimRules = `rule as materialized (
  select coalesce(array_agg(name) filter (where what = 'kind' and not value), '{}') as off_kinds,
    coalesce(array_agg(name) filter (where what = 'kind' and value), '{}') as on_kinds,
    coalesce(array_agg(name) filter (where what = 'queue' and value), '{}') as paused
  from (select what, name, value from {s}.switch where until is null or until > now() order by what, name) w
)`

// claimKind tells claims apart by the jobs that they may take.
type claimKind struct{ opened, rows, which, present string }

var (
	claimAny      = claimKind{which: "j.crashes < 2", present: "null"}
	claimSuspects = claimKind{rows: " and crashes >= 2", which: "j.crashes >= 2", present: "null"}

	// Orphans have been ready for $12 microseconds, and the session has been open all the while. Their lanes say whether
	// there is any job of the kinds.
	claimOrphans = claimKind{
		opened: " and opened_at <= now() - $12::bigint * interval '1 microsecond'",
		which:  "coalesce(j.ready_at, j.enqueued_at) <= now() - $12::bigint * interval '1 microsecond'",
		present: `exists (select 1 from {s}.job p where p.queue = n.queue and p.run_at is null and p.seq >= l.lo
      and p.seq < l.stop and p.kind = any ($6::int[]))`,
	}
)

func claimText(k claimKind) string {
	return strings.NewReplacer("{opened}", k.opened, "{rows}", k.rows, "{which}", k.which, "{present}", k.present).Replace(claimTemplate)
}

const (
	takeTokens = `select nextval('{l}.claim_seq')`

	// Kinds that nobody has registered for $1 microseconds; with 0, whatever is not in $2.
	selectOrphanKinds = `select k.name from {s}.kind k
where k.name <> all ($2::int[]) and ($1::bigint = 0 or coalesce(k.seen_at < now() - $1::bigint * interval '1 microsecond', true)
  and not exists (select 1 from {s}.session s where s.ended_at is null and k.name = any (s.kinds)))`

	selectAttempts = `select u.id, a.record from unnest($1::uuid[]) u (id), lateral (
  select n, record from {s}.attempt a where a.job_id = u.id order by n desc limit 20) a order by u.id, a.n`
	selectVerdicts = `select job_id, letter from {s}.verdict where job_id = any ($1::uuid[])`
)
