package outbox

import (
	"strings"

	"github.com/pawljobs/pawl/internal/guest"
)

// statements are the texts for one table. Both dialects take the same arguments in the same order.
type statements struct {
	quick                           string // before claims and marks; "" in SQLite
	insert                          string // in SQLite its beginning
	claim, take                     string // in SQLite two, in PostgreSQL one
	mark, giveBack, refuse, condemn string
	bury, purge                     string
	lanes, count, oldest, ready     string
	readOff, setOff, clearOff       string
}

// A claim takes what is ready from one place on, in order. A row whose dispatchers vanished time and again is taken alone,
// so that it is the only one to be charged if it was the cause. What a claim takes is bounded in bytes, too; the first row
// is always taken. A claim changes no column of an index.
const (
	claimPostgres = `with head as materialized (
  select ctid, seq, status = 1 and lost + 1 >= $6 as suspect, octet_length(envelope) as size from {t}
  where connection = $1 and ended_at is null and seq > $2 and locked_until <= now()
    and not exists (select 1 from {c} where name = 'off')
  order by seq limit $3 for update skip locked
), sized as (
  select ctid, seq, suspect, sum(size) over (order by seq) - size as before,
    first_value(suspect) over (order by seq) as alone, row_number() over (order by seq) as place from head
)
update {t} o set status = 1, attempts = attempts + 1, lost = case when status = 1 then lost + 1 else 0 end,
  claimed_by = $4, locked_until = now() + $5 * interval '1 millisecond'
from sized s where o.ctid = s.ctid and before < $7 and case when alone then place = 1 else not suspect end
returning o.seq, o.id, o.attempts, o.lost, coalesce(o.last_error, ''), {ms created_at}, coalesce({ms run_at}, 0),
  coalesce(greatest(ceil(extract(epoch from o.delay_until - now()) * 1000)::bigint, 0), 0), o.envelope`

	// In SQLite the write lock is held between the two.
	readySQLite = `select seq, id, attempts + 1, case when status = 1 then lost + 1 else 0 end, coalesce(last_error, ''), created_at,
  coalesce(run_at, 0), max(coalesce(delay_until - {now}, 0), 0), envelope from {t}
where connection = ?1 and ended_at is null and seq > ?2 and locked_until <= {now}
  and not exists (select 1 from {c} where name = 'off')
order by seq limit ?3`
	takeSQLite = `update {t} set status = 1, attempts = attempts + 1, lost = case when status = 1 then lost + 1 else 0 end,
  claimed_by = ?2, locked_until = {now} + ?3 where seq in (select value from json_each(?1))`

	// What is still the dispatcher's own. It names no column of the index of what is pending, lest a planner that knows
	// nothing of the table yet goes through all of that.
	own = ` where {own} and status = 1 and claimed_by = $2`

	// The job, or the letter, has the bytes from now on.
	mark     = `update {t} set status = 2, ended_at = {now}, claimed_by = null, envelope = {none}` + own
	giveBack = `update {t} set status = 0, attempts = attempts - 1, lost = 0, locked_until = {now} + {span $3}` + own
	bury     = `update {t} set status = 3, ended_at = {now}, envelope = {none}` + own

	refuse  = `update {t} set status = 0, lost = 0, last_error = $3, locked_until = {now} + {span $4}` + own
	condemn = `update {t} set last_error = $3` + own

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
	count  = `select count(*) from (select 1 from {t} o where o.connection = $1 and o.ended_at is null limit $2) counted`
	oldest = `select {age o.created_at} from {t} o where o.connection = $1 and o.ended_at is null order by o.seq limit 1`

	ready = `select 1 from {t} where connection = $1 and ended_at is null and seq > $2 and locked_until <= {now} limit 1`

	readOff  = `select value from {c} where name = 'off'`
	setOff   = `insert into {c} (name, value) values ('off', $1) on conflict (name) do update set value = excluded.value`
	clearOff = `delete from {c} where name = 'off'`

	// Claims and marks go by the indexes whatever the statistics of a table say that was empty a minute ago. Neither needs
	// to wait for the disk: if the server loses one, its rows are dispatched again and the target knows their ids.
	quickPostgres = `select 1 from (select set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
  set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true),
  set_config('synchronous_commit', 'off', true)) settings`

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
		"{now}", "now()", "{none}", `'\x'::bytea`, "{own}", "id = any($1::uuid[])", "{span $3}", "$3 * interval '1 millisecond'", "{span $4}", "$4 * interval '1 millisecond'",
		"{ms created_at}", "(extract(epoch from o.created_at) * 1000)::bigint", "{ms run_at}", "(extract(epoch from o.run_at) * 1000)::bigint",
		"{age o.created_at}", "(extract(epoch from now() - o.created_at) * 1000)::bigint",
	}
	s := statements{quick: quickPostgres, insert: insertPostgres, claim: claimPostgres, purge: purgePostgres}
	if h.Dialect == guest.SQLite {
		texts = []string{
			"{now}", guest.NowSQLite, "{none}", "x''", "{own}", "seq in (select value from json_each($1))", "{span $3}", "$3", "{span $4}", "$4",
			"{age o.created_at}", guest.NowSQLite + " - o.created_at",
		}
		s = statements{insert: insertSQLite, claim: readySQLite, take: takeSQLite, purge: purgeSQLite}
	}
	replace := strings.NewReplacer(texts...)
	text := func(template string) string {
		template = replace.Replace(template)
		if h.Dialect == guest.SQLite {
			template = strings.ReplaceAll(template, "$", "?")
		}
		return h.Text(template)
	}
	s.insert, s.claim, s.take, s.purge = text(s.insert), text(s.claim), text(s.take), text(s.purge)
	s.mark, s.giveBack, s.bury = text(mark), text(giveBack), text(bury)
	s.refuse, s.condemn = text(refuse), text(condemn)
	s.lanes, s.count, s.oldest, s.ready, s.readOff, s.setOff, s.clearOff = text(lanes), text(count), text(oldest), text(ready), text(readOff), text(setOff), text(clearOff)
	return s
}
