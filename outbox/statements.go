package outbox

import (
	"strings"

	"github.com/pawljobs/pawl/internal/guest"
)

// statements are the texts for one table. Both dialects take the same arguments in the same order.
type statements struct {
	quick                           string // before claims and settlements; "" in SQLite
	insert                          string // in SQLite its beginning
	turn, charge, over, claim       string // turn is "" in SQLite
	leases, claimFree, lease        string // SQLite only
	mark, giveBack, refuse, condemn string
	bury, erase, release, purge     string
	markRun, eraseRun               string
	lanes, count, failing, oldest   string
	ready, list, listFailing        string
	find, retry                     string
	readOff, setOff, clearOff       string
}

// A claim is one row, a lease: all that waits for a connection between two numbers is the dispatcher's. The messages
// themselves are not written to before it is known what became of them.
const (
	// Claims of one connection are made one after the other.
	turnPostgres = `select 1 from (select pg_advisory_xact_lock($1)) locked`

	// What a lease held that ran out is charged to its messages; those that took dispatchers down time and again only where
	// they were claimed alone. Rows between that waited, or were committed later, cannot be told apart and are charged as well.
	charge = `{expired} update {t} set attempts = attempts + 1, lost = lost + 1 from v
where {t}.connection = $1 and {t}.ended_at is null and {t}.seq between v.first and v.last
  and {t}.locked_until <= {now} and (v.first = v.last or {t}.lost < $2)`
	over = `delete from {l} where connection = $1 and locked_until <= {now}`

	// A claim takes what is ready from one place on, in order, up to where another lease begins. A message whose dispatchers
	// vanished time and again is taken alone, so that it is the only one to be charged if it was the cause. What a claim takes
	// is bounded in bytes, too; the first message is always taken.
	claimPostgres = `with held as materialized (
  select first, last from {l} where connection = $1
), head as materialized (
  select o.seq, o.id, o.attempts + 1 as attempts, o.lost, coalesce(o.last_error, '') as last_error, {ms created_at} as created_at,
    coalesce({ms run_at}, 0) as run_at, coalesce(greatest(ceil(extract(epoch from o.delay_until - now()) * 1000)::bigint, 0), 0) as delay, o.envelope
  from {t} o where o.connection = $1 and o.ended_at is null and o.seq > $2 and o.locked_until <= now()
    and not exists (select 1 from held h where o.seq between h.first and h.last)
    and not exists (select 1 from {c} where name = 'off')
  order by o.seq limit $3
), front as materialized (
  select seq, lost >= $6 as alone, (select min(first) from held where first > head.seq) as wall from head order by seq limit 1
), chosen as materialized (
  select * from (
    select head.*, front.seq as front, alone, wall, sum(octet_length(envelope)) over (order by head.seq) - octet_length(envelope) as before
    from head cross join front
  ) sized
  where before < $7 and (wall is null or seq < wall) and case when alone then seq = front else lost < $6 end
), lease as (
  insert into {l} (connection, first, last, claimed_by, locked_until)
  select $1, min(seq), max(seq), $4, now() + $5 * interval '1 millisecond' from chosen having count(*) > 0 returning token
)
select (select token from lease), seq, id, attempts, lost, last_error, created_at, run_at, delay, envelope from chosen order by seq`

	// In SQLite the write lock is held from the look at the leases until the new one is made. What few messages have is one
	// column, null for the others: each column of a row costs as much as finding the row.
	leasesSQLite = `select first, last, locked_until <= {now} from {l} where connection = ?1`
	claimSQLite  = `select seq, id, created_at, envelope,
  case when attempts > 0 or lost > 0 or last_error is not null or run_at is not null or delay_until is not null then json_object(
    'attempts', attempts, 'lost', lost, 'last_error', last_error, 'run_at', run_at, 'delay', max(delay_until - {now}, 0)) end
from {t}
where connection = ?1 and ended_at is null and seq > ?2 and locked_until <= {now}{free}
  and not exists (select 1 from {c} where name = 'off')
order by seq limit ?3`
	notHeld = `
  and not exists (select 1 from {l} v where v.connection = ?1 and {t}.seq between v.first and v.last)`
	leaseSQLite = `insert into {l} (connection, first, last, claimed_by, locked_until) values (?1, ?2, ?3, ?4, {now} + ?5) returning token`

	// What is still under the lease that it was claimed with, which cannot be taken away meanwhile. It names no column of the
	// index of what is pending, lest a planner that knows nothing of the table yet goes through all of that.
	own = ` where {own} and status < 2 and exists (select 1 from mine)`
	// The same of a run: messages whose numbers follow each other, so that between the first and the last lie no others.
	ownRun = ` where {run} and status < 2`

	// The job, or the letter, has the bytes from now on.
	erase    = `{mine} delete from {t}`
	mark     = `{mine} update {t} set status = 2, attempts = attempts + 1, ended_at = {now}, envelope = {none}`
	giveBack = `{mine} update {t} set lost = 0, locked_until = {now} + {span $3}` + own
	bury     = `{mine} update {t} set status = 3, ended_at = {now}, envelope = {none}` + own

	refuse  = `{mine} update {t} set attempts = $5, lost = 0, last_error = $3, locked_until = {now} + {span $4}` + own
	condemn = `{mine} update {t} set attempts = $4, last_error = $3` + own
	release = `delete from {l} where token = $1`

	purgePostgres = `delete from {t} where ctid = any(array(
  select ctid from {t} where ended_at < now() - $1 * interval '1 millisecond' order by ended_at limit $2 for update skip locked))`
	purgeSQLite = `delete from {t} where seq in (select seq from {t} where ended_at < {now} - ?1 order by ended_at limit ?2)`

	// Connections are few, and each is found by one look into the index.
	lanes = `with recursive lane (connection) as (
  select min(connection) from {t} where ended_at is null
  union all
  select (select min(o.connection) from {t} o where o.ended_at is null and o.connection > lane.connection) from lane
  where lane.connection is not null
)
select connection from lane where connection is not null`
	count   = `select count(*) from (select 1 from {t} o where o.connection = $1 and o.ended_at is null limit $2) counted`
	failing = `select count(*) from (select 1 from {t} o where o.connection = $1 and o.ended_at is null and o.attempts > 0 limit $2) counted`
	oldest  = `select {age o.created_at} from {t} o where o.connection = $1 and o.ended_at is null order by o.seq limit 1`

	ready = `select 1 from {t} where connection = $1 and ended_at is null and seq > $2 and locked_until <= {now} limit 1`

	look = `select o.seq, o.id, o.connection, o.status, o.attempts, coalesce(o.last_error, ''), {ms created_at}, coalesce({ms ended_at}, 0), {wait},
  coalesce((select max(v.claimed_by) from {l} v where v.connection = o.connection and o.seq between v.first and v.last and v.locked_until > {now}), ''),
  o.envelope from {t} o`
	list  = look + ` where o.connection = $1 and o.ended_at is null and o.seq > $2{failing} order by o.seq limit $3`
	find  = look + ` where o.id = $1`
	retry = `update {t} set attempts = 0, lost = 0, locked_until = {always} where id = $1 and ended_at is null`

	readOff  = `select value from {c} where name = 'off'`
	setOff   = `insert into {c} (name, value) values ('off', $1) on conflict (name) do update set value = excluded.value`
	clearOff = `delete from {c} where name = 'off'`

	// Claims and marks go by the indexes whatever the statistics of a table say that was empty a minute ago. Neither needs
	// to wait for the disk: if the server loses one, its rows are dispatched again and the target knows their ids. A
	// dispatcher that hangs half-way holds up no other.
	quickPostgres = `select 1 from (select set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
  set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true),
  set_config('synchronous_commit', 'off', true), set_config('lock_timeout', '10s', true),
  set_config('idle_in_transaction_session_timeout', '10s', true)) settings`

	insertPostgres = `insert into {t} (id, connection, run_at, delay_until, envelope)
select id, $1, case when at <> 0 then 'epoch'::timestamptz + at * interval '1 millisecond' end,
  case when delay <> 0 then clock_timestamp() + delay * interval '1 millisecond' end, envelope
from unnest($2::uuid[], $3::bigint[], $4::bigint[], $5::bytea[]) with ordinality u (id, at, delay, envelope, place)
order by place on conflict (id) do nothing returning id`
	notify = `select pg_notify($1, '')`

	insertSQLite = `insert into {t} (id, connection, run_at, delay_until, created_at, envelope)
select column1, column2, column3, {now} + column4, {now}, column5 from (values `
	insertSQLiteRow = `(?, ?, ?, ?, ?)`
	insertSQLiteEnd = `) where true on conflict (id) do nothing returning id`
)

func newStatements(h *guest.Home) statements {
	texts := []string{
		"{now}", "now()", "{none}", `'\x'::bytea`, "{own}", "id = any($1::uuid[])",
		"{run}", "connection = (select connection from mine) and ended_at is null and seq between $1 and $3", "{span $3}", "$3 * interval '1 millisecond'", "{span $4}", "$4 * interval '1 millisecond'",
		"{ms created_at}", "(extract(epoch from o.created_at) * 1000)::bigint", "{ms run_at}", "(extract(epoch from o.run_at) * 1000)::bigint",
		"{age o.created_at}", "(extract(epoch from now() - o.created_at) * 1000)::bigint",
		"{ms ended_at}", "(extract(epoch from o.ended_at) * 1000)::bigint", "{always}", "'-infinity'",
		"{wait}", "(extract(epoch from greatest(o.locked_until, now()) - now()) * 1000)::bigint",
		"{mine}", "with mine as materialized (select connection from {l} where token = $2 for update)",
		"{expired}", "with v as materialized (select first, last from {l} where connection = $1 and locked_until <= now() for update)",
	}
	s := statements{quick: quickPostgres, insert: insertPostgres, turn: turnPostgres, claim: claimPostgres, purge: purgePostgres}
	if h.Dialect == guest.SQLite {
		texts = []string{
			"{now}", guest.NowSQLite, "{none}", "x''", "{own}", "seq in (select value from json_each($1))",
			"{run}", "seq between $1 and $3 and exists (select 1 from mine)", "{span $3}", "$3", "{span $4}", "$4",
			"{age o.created_at}", guest.NowSQLite + " - o.created_at", "{ms created_at}", "o.created_at", "{ms ended_at}", "o.ended_at",
			"{always}", "0", "{wait}", "max(o.locked_until - " + guest.NowSQLite + ", 0)",
			"{mine}", "with mine as (select 1 from {l} where token = $2)",
			"{expired}", "with v as (select first, last from {l} where connection = $1 and locked_until <= " + guest.NowSQLite + ")",
		}
		s = statements{insert: insertSQLite, claim: strings.Replace(claimSQLite, "{free}", notHeld, 1), lease: leaseSQLite, purge: purgeSQLite}
		s.leases, s.claimFree = leasesSQLite, strings.Replace(claimSQLite, "{free}", "", 1)
	}
	replace := strings.NewReplacer(texts...)
	text := func(template string) string {
		template = replace.Replace(template)
		if h.Dialect == guest.SQLite {
			template = strings.ReplaceAll(template, "$", "?")
		}
		return h.Text(template)
	}
	s.insert, s.claim, s.lease, s.purge = text(s.insert), text(s.claim), text(s.lease), text(s.purge)
	s.leases, s.claimFree = text(s.leases), text(s.claimFree)
	s.charge, s.over, s.release = text(charge), text(over), text(release)
	s.mark, s.erase, s.markRun, s.eraseRun = text(mark+own), text(erase+own), text(mark+ownRun), text(erase+ownRun)
	s.giveBack, s.bury = text(giveBack), text(bury)
	s.refuse, s.condemn = text(refuse), text(condemn)
	s.failing, s.find, s.retry = text(failing), text(find), text(retry)
	s.list, s.listFailing = text(strings.Replace(list, "{failing}", "", 1)), text(strings.Replace(list, "{failing}", " and o.attempts > 0", 1))
	s.lanes, s.count, s.oldest, s.ready, s.readOff, s.setOff, s.clearOff = text(lanes), text(count), text(oldest), text(ready), text(readOff), text(setOff), text(clearOff)
	return s
}
