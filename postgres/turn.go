package postgres

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

const (
	// One gives turns at a time, over all hosts. What he commits need not wait for the disk: if it is lost, so is that the
	// arrivals were taken.
	lockTurns = `select pg_advisory_xact_lock($1)`

	// Who finds somebody else at it leaves the rest to him: he looks once more when he has let go of the lock. The first row
	// says that nobody else is.
	takeArrivals = `with me as materialized (
  select pg_try_advisory_xact_lock($2) as mine
), taken as (
  delete from {s}.arrival where (select mine from me) and n in (select n from {s}.arrival order by n limit $1)
  returning n, job_id, okey, lkey, kind, keys
)
select 0, null, null, null, null, false from me where mine union all select n, job_id, okey, lkey, kind, keys from taken`
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

	// A job that is neither ready nor reserved leaves its limits, and stands in their lines, at the end, once it is due.
	leaveLimits = `update {s}.turn t set place = case when t.okey is not null and t.stage = 0 then t.place else u.place end,
  pending = j.run_at = 'infinity', stage = case when t.okey is not null and t.stage = 0 then 0 else ` + behindOrder + ` end
from (select id, nextval('{l}.job_seq') as place from (select id from unnest($1::uuid[]) with ordinality v (id, n) order by n) v) u
join {s}.job j on j.id = u.id
where t.job_id = u.id and j.run_at is not null` + returnStand

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
    select t.job_id from {s}.turn t where t.kind = g.kind and t.stage = 2 and t.pending order by t.place limit g.n) f
)
update {s}.turn t set stage = 3, pending = f.rated from first f where t.job_id = f.job_id` + returnStand

	// passKinds and letThrough in one.
	passKindsThrough = `with free as materialized (
  select g.kind, g.most - (select count(*) from (select 1 from {s}.turn h where h.kind = g.kind and h.stage = 3 limit g.most) h) as n
  from unnest($1::int[], $2::int[]) g (kind, most)
), first as materialized (
  select f.job_id from free g cross join lateral (
    select t.job_id from {s}.turn t where t.kind = g.kind and t.stage = 2 and t.pending order by t.place limit g.n) f
), passed as (
  update {s}.turn t set stage = 3, pending = false from first f where t.job_id = f.job_id returning t.job_id, t.place
), placed as materialized (
  select job_id, nextval('{l}.job_seq') as seq from (select job_id from passed order by place) p
)
update {s}.job j set run_at = null, ready_at = now(), seq = p.seq from placed p where j.id = p.job_id and j.run_at is not null`

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

	// Whether turns are to be given, and the time until the next token.
	anyArrival = `select exists (select 1 from {s}.arrival), (select least(next_at - now(), interval '10000 days') from {s}.rate where next_at is not null order by next_at limit 1)`
)

const (
	arrivalsAtOnce = 2000
	turnsAtOnce    = 1000 // that are given at one gate at a time
)

// Gates, in the order in which they are passed.
const (
	gateOrder = iota
	gateKey
	gateKind
	gatesPassed
)

// lineKey stands for a key in a line: half of the SHA-256 of its parts.
func lineKey(parts ...string) (key pawl.ID) {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	copy(key[:], h.Sum(nil))
	return key
}

// lines are those that a job stands in; zeros where it stands in none.
type lines struct {
	order, key pawl.ID
	kind       int32
}

// linesOf are the lines that a job stands in.
func linesOf(job *pawl.NewJob, kind int32) (l lines) {
	if job.OrderingKey != "" {
		l.order = lineKey(job.OrderingKey)
	}
	if job.Limited {
		l.kind = kind
		if job.LimitKey != "" {
			l.key = lineKey(job.Kind, job.LimitKey)
		}
	}
	return l
}

// turnGiver lets the callers of a process share their work.
type turnGiver struct {
	turn   chan struct{} // holds a token while nobody gives turns
	notify chan struct{}
	asked  atomic.Int64 // calls so far
	served atomic.Int64 // of them; written by whoever holds the token
}

func newTurnGiver() *turnGiver {
	g := &turnGiver{turn: make(chan struct{}, 1), notify: make(chan struct{}, 1)}
	g.turn <- struct{}{}
	return g
}

// ask has turns given soon for what was committed by now.
func (g *turnGiver) ask() {
	g.asked.Add(1)
	poke(g.notify)
}

// runTurns gives turns until the store is closed.
func (s *Store) runTurns() {
	for {
		select {
		case <-s.turns.notify:
			s.awaitTurns(s.background)
		case <-s.background.Done():
			return
		}
	}
}

// giveTurns gives turns for what was committed by now. Where that fails, the sweeps of any host go on with it.
func (s *Store) giveTurns(ctx context.Context) {
	s.turns.asked.Add(1)
	s.awaitTurns(ctx)
}

// awaitTurns returns when turns have been given for all that was asked by now.
func (s *Store) awaitTurns(ctx context.Context) {
	g := s.turns
	asked := g.asked.Load()
	if g.served.Load() >= asked {
		return
	}
	select {
	case <-g.turn:
	case <-ctx.Done():
		return
	case <-s.background.Done():
		return
	}
	defer func() { g.turn <- struct{}{} }()
	if g.served.Load() >= asked {
		return
	}
	serves := g.asked.Load()
	if err := s.giveAll(context.WithoutCancel(ctx), nil); err != nil && s.background.Err() == nil {
		s.config.Logger.Warn("turns could not be given; a sweep does it", "error", err)
	}
	g.served.Store(serves)
}

// giveAll gives turns until nothing is left to be looked at. started are jobs whose start is to be counted.
func (s *Store) giveAll(ctx context.Context, started idList) error {
	for more := true; more; {
		var t giving
		err := s.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
			t = giving{store: s, conn: conn, limits: map[int32]pawl.Limit{}, dirty: map[lines]bool{}}
			return t.run(ctx, started) // where it fails, the pool closes the connection, and so the transaction
		})
		if err != nil {
			return fmt.Errorf("give turns: %w", err)
		}
		if started, more = nil, t.more; t.made > 0 {
			s.waker.signal()
		}
	}
	return nil
}

// giving is one transaction that gives turns.
type giving struct {
	store  *Store
	conn   *pgxpool.Conn
	now    time.Time
	limits map[int32]pawl.Limit // that are in force
	rates  map[int32]rateRow
	jobs   idList         // to look at, in the order of what has happened to them
	mine   bool           // nobody else gives turns
	keys   bool           // some may have keys
	dirty  map[lines]bool // lines to look at
	ready  []stand        // those who are through
	again  map[lines]bool // lines that were longer than is let through at a time
	made   int            // jobs that became ready
	more   bool           // there is more to look at
}

// stand is where a job stands.
type stand struct {
	lines
	id      pawl.ID
	place   int64
	stage   int16
	pending bool
}

func scanStand(rows pgx.Rows) (s stand, err error) {
	var kind *int32
	err = rows.Scan((*idColumn)(&s.id), &s.place, (*idColumn)(&s.order), (*idColumn)(&s.key), &kind, &s.stage, &s.pending)
	if kind != nil {
		s.kind = *kind
	}
	return s, err
}

func (t *giving) run(ctx context.Context, started idList) error {
	if err := t.begin(ctx, len(started) > 0); err != nil {
		return fmt.Errorf("take arrivals: %w", err)
	}
	if !t.mine {
		_, err := t.conn.Exec(ctx, "rollback")
		return err
	}
	if kinds, most, ok := t.isSimple(started); ok {
		batch := &pgx.Batch{}
		t.arrive(batch)
		batch.Queue(t.store.sql.passKindsThrough, kinds, most).Exec(func(tag pgconn.CommandTag) error {
			t.made = int(tag.RowsAffected())
			return nil
		})
		return t.end(ctx, batch)
	}
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"count starts", func(ctx context.Context) error { return t.countStarts(ctx, started) }},
		{"look at jobs", t.arriveNow},
		{"by ordering key", t.passOrders},
		{"by limit key", t.passKeys},
		{"by kind", t.passKinds},
		{"make jobs ready", t.makeReady},
		{"note what is left", t.noteAgain},
	} {
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return t.end(ctx, &pgx.Batch{})
}

// end commits, after which whoever left word while this one held the lock relies on it to look once more.
func (t *giving) end(ctx context.Context, batch *pgx.Batch) error {
	batch.Queue("commit")
	var token *time.Duration
	batch.Queue(t.store.sql.anyArrival).QueryRow(func(row pgx.Row) error { return row.Scan(&t.more, &token) })
	return t.conn.SendBatch(ctx, batch).Close()
}

// begin takes what there is to look at, unless somebody else gives turns; then it waits for him if it must.
func (t *giving) begin(ctx context.Context, must bool) error {
	s := t.store
	batch := &pgx.Batch{}
	batch.Queue("begin")
	batch.Queue("set local synchronous_commit = off")
	if must {
		batch.Queue(lockTurns, s.schema.lock("turns"))
	}
	type arrival struct {
		n   int64
		job pawl.ID
	}
	var arrived []arrival
	batch.Queue(s.sql.takeArrivals, arrivalsAtOnce, s.schema.lock("turns")).Query(func(rows pgx.Rows) error {
		var a arrival
		var l lines
		var kind *int32
		var keys bool
		_, err := pgx.ForEachRow(rows, []any{&a.n, (*idColumn)(&a.job), (*idColumn)(&l.order), (*idColumn)(&l.key), &kind, &keys}, func() error {
			if l.kind = 0; kind != nil {
				l.kind = *kind
			}
			t.look(l)
			arrived = append(arrived, a)
			t.mine, t.keys = true, t.keys || keys
			return nil
		})
		return err
	})
	batch.Queue(s.sql.selectLimits).Query(func(rows pgx.Rows) error {
		found, err := readLimitRows(rows)
		for _, row := range found {
			t.limits[row.kind] = row.limit // what was set comes after what is stated
		}
		return err
	})
	batch.Queue(s.sql.selectRates).Query(t.readRates)
	if err := t.conn.SendBatch(ctx, batch).Close(); err != nil {
		return err
	}
	slices.SortFunc(arrived, func(a, b arrival) int { return cmp.Compare(a.n, b.n) })
	seen := map[pawl.ID]bool{{}: true}
	for _, a := range arrived {
		if !seen[a.job] {
			t.jobs = append(t.jobs, a.job)
		}
		seen[a.job] = true
	}
	return nil
}

// isSimple reports whether only the gates of kinds are to be looked at that let few through at a time, by their number
// alone: then all is known that is to be done.
func (t *giving) isSimple(started idList) (kinds, most []int32, ok bool) {
	if t.keys || len(started) > 0 {
		return nil, nil, false
	}
	_, kinds = t.gates(func(l lines) bool { return l.key == (pawl.ID{}) && l.kind != 0 })
	slices.Sort(kinds)
	for _, kind := range kinds {
		limit := t.limits[kind]
		if limit.Concurrency == 0 || limit.Concurrency >= turnsAtOnce || limit.Starts > 0 {
			return nil, nil, false
		}
		most = append(most, int32(limit.Concurrency))
	}
	return kinds, most, len(kinds) == len(t.dirty)
}

// look has lines looked at.
func (t *giving) look(l lines) {
	if l.order != (pawl.ID{}) {
		t.dirty[lines{order: l.order}] = true
	}
	if l.key != (pawl.ID{}) {
		t.dirty[lines{key: l.key, kind: l.kind}] = true
	}
	if l.kind != 0 {
		t.dirty[lines{kind: l.kind}] = true
	}
}

// arrive sees what has become of jobs: those that have ended leave their lines, those that went back, or are due, leave
// their limits and stand in line for them anew.
func (t *giving) arrive(batch *pgx.Batch) {
	if len(t.jobs) == 0 {
		return
	}
	batch.Queue(t.store.sql.leaveLines, t.jobs).Query(func(rows pgx.Rows) error {
		var l lines
		var kind *int32
		_, err := pgx.ForEachRow(rows, []any{(*idColumn)(&l.order), (*idColumn)(&l.key), &kind}, func() error {
			if l.kind = 0; kind != nil {
				l.kind = *kind
			}
			t.look(l)
			return nil
		})
		return err
	})
	batch.Queue(t.store.sql.leaveLimits, t.jobs).Query(t.readStands)
}

func (t *giving) arriveNow(ctx context.Context) error {
	batch := &pgx.Batch{}
	t.arrive(batch)
	return t.conn.SendBatch(ctx, batch).Close()
}

// readStands has the gates that jobs have come to looked at, and notes who is through.
func (t *giving) readStands(rows pgx.Rows) error {
	_, err := t.stands(rows)
	return err
}

func (t *giving) stands(rows pgx.Rows) ([]stand, error) {
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (stand, error) { return scanStand(rows) })
	for _, s := range all {
		t.look(lines{key: s.key, kind: s.kind})
		if s.stage == gatesPassed && (s.pending || s.kind != 0) {
			t.ready = append(t.ready, s)
		}
	}
	return all, err
}

// gates are the lines of one sort that are to be looked at, in a fixed order.
func (t *giving) gates(is func(lines) bool) (ids idList, kinds []int32) {
	for l := range t.dirty {
		if is(l) {
			id := l.order
			if l.key != (pawl.ID{}) {
				id = l.key
			}
			ids, kinds = append(ids, id), append(kinds, l.kind)
		}
	}
	return ids, kinds
}

func (t *giving) passOrders(ctx context.Context) error {
	orders, _ := t.gates(func(l lines) bool { return l.order != (pawl.ID{}) })
	if len(orders) == 0 {
		return nil
	}
	rows, err := t.conn.Query(ctx, t.store.sql.passOrders, orders)
	if err != nil {
		return err
	}
	return t.readStands(rows)
}

func (t *giving) passKeys(ctx context.Context) error {
	keys, kinds := t.gates(func(l lines) bool { return l.key != (pawl.ID{}) })
	if len(keys) == 0 {
		return nil
	}
	most := make([]int32, len(keys))
	for i, kind := range kinds {
		most[i] = int32(t.limits[kind].PerKey)
	}
	rows, err := t.conn.Query(ctx, t.store.sql.passKeys, keys, most, turnsAtOnce)
	if err != nil {
		return err
	}
	passed, err := t.stands(rows)
	t.noteFull(passed, func(s stand) lines { return lines{key: s.key, kind: s.kind} })
	return err
}

// noteFull notes the gates at which as many passed as do at a time.
func (t *giving) noteFull(passed []stand, gate func(stand) lines) {
	count := map[lines]int{}
	for _, s := range passed {
		if count[gate(s)]++; count[gate(s)] == turnsAtOnce {
			if t.again == nil {
				t.again = map[lines]bool{}
			}
			t.again[gate(s)] = true
		}
	}
}

func (t *giving) passKinds(ctx context.Context) error {
	_, kinds := t.gates(func(l lines) bool { return l.key == (pawl.ID{}) && l.kind != 0 })
	if len(kinds) == 0 {
		return nil
	}
	slices.Sort(kinds)
	tokens, err := t.tokens(ctx, kinds)
	if err != nil {
		return fmt.Errorf("count tokens: %w", err)
	}
	most := make([]int32, len(kinds))
	for i, kind := range kinds {
		most[i] = int32(t.limits[kind].Concurrency)
	}
	rows, err := t.conn.Query(ctx, t.store.sql.passKinds, kinds, most, turnsAtOnce, tokens)
	if err != nil {
		return err
	}
	passed, err := t.stands(rows)
	if err != nil {
		return err
	}
	t.noteFull(passed, func(s stand) lines { return lines{kind: s.kind} })
	return t.noteNext(ctx, kinds)
}

// makeReady puts those who are through at the ends of their queues.
func (t *giving) makeReady(ctx context.Context) error {
	if len(t.ready) == 0 {
		return nil
	}
	slices.SortFunc(t.ready, func(a, b stand) int {
		if a.place < b.place {
			return -1
		}
		return 1
	})
	ids := make(idList, len(t.ready))
	for i, s := range t.ready {
		ids[i] = s.id
	}
	t.made = len(ids)
	_, err := t.conn.Exec(ctx, t.store.sql.letThrough, ids)
	return err
}

// noteAgain leaves what is left for the next transaction.
func (t *giving) noteAgain(ctx context.Context) error {
	if len(t.again) == 0 {
		return nil
	}
	var keys idList
	var kinds []int32
	for l := range t.again {
		keys, kinds = append(keys, l.key), append(kinds, l.kind)
	}
	_, err := t.conn.Exec(ctx, t.store.sql.lookAgain, keys, kinds)
	return err
}

// rateRow is the bucket of a kind.
type rateRow struct {
	desk.Bucket
	next pgtype.Timestamptz
}

// readRates reads the buckets, and has the kinds looked at for which there is a token now.
func (t *giving) readRates(rows pgx.Rows) error {
	t.rates = map[int32]rateRow{}
	var kind int32
	var r rateRow
	_, err := pgx.ForEachRow(rows, []any{&kind, &r.Tokens, &r.CountedAt, &r.next, &t.now}, func() error {
		t.rates[kind] = r
		if r.next.Valid && !r.next.Time.After(t.now) {
			t.look(lines{kind: kind})
		}
		return nil
	})
	return err
}

// rated are those of some kinds that have a rate, with their bursts.
func (t *giving) rated(kinds []int32) (rated, bursts []int32) {
	for _, kind := range kinds {
		if _, burst := t.limits[kind].Rate(); burst > 0 {
			rated, bursts = append(rated, kind), append(bursts, int32(burst))
		}
	}
	return rated, bursts
}

// piles are how many of each kind are through and have not started, and whether others wait.
func (t *giving) piles(ctx context.Context, kinds, bursts []int32) (piles map[int32]int, waiting map[int32]bool, err error) {
	piles, waiting = map[int32]int{}, map[int32]bool{}
	if t.now.IsZero() {
		if err := t.conn.QueryRow(ctx, `select now()`).Scan(&t.now); err != nil {
			return nil, nil, err
		}
	}
	rows, err := t.conn.Query(ctx, t.store.sql.countPiles, kinds, bursts)
	if err != nil {
		return nil, nil, err
	}
	var kind int32
	var pile int
	var waits bool
	_, err = pgx.ForEachRow(rows, []any{&kind, &pile, &waits}, func() error {
		piles[kind], waiting[kind] = pile, waits
		return nil
	})
	return piles, waiting, err
}

// tokens are how many of each kind may be let through by its rate; -1 where it has none.
func (t *giving) tokens(ctx context.Context, kinds []int32) ([]int32, error) {
	free := make([]int32, len(kinds))
	rated, bursts := t.rated(kinds)
	if len(rated) == 0 {
		for i := range free {
			free[i] = -1
		}
		return free, nil
	}
	piles, _, err := t.piles(ctx, rated, bursts)
	for i, kind := range kinds {
		if free[i] = -1; slices.Contains(rated, kind) {
			n, _ := t.rates[kind].Free(t.limits[kind], t.now, piles[kind])
			free[i] = int32(max(n, 0))
		}
	}
	return free, err
}

// noteNext notes when the next job of each kind is to be let through.
func (t *giving) noteNext(ctx context.Context, kinds []int32) error {
	rated, bursts := t.rated(kinds)
	if len(rated) == 0 {
		return nil
	}
	piles, waiting, err := t.piles(ctx, rated, bursts)
	if err != nil {
		return err
	}
	for _, kind := range rated {
		rate, next := t.rates[kind], pgtype.Timestamptz{}
		if _, wait := rate.Free(t.limits[kind], t.now, piles[kind]); waiting[kind] && wait > 0 {
			next = pgtype.Timestamptz{Time: t.now.Add(wait + time.Microsecond), Valid: true}
		}
		if next == rate.next || !next.Valid && !rate.next.Valid {
			continue
		}
		if rate.CountedAt.IsZero() {
			rate.Bucket = rate.At(t.limits[kind], t.now)
		}
		if _, err := t.conn.Exec(ctx, t.store.sql.writeRate, kind, rate.Tokens, rate.CountedAt, next); err != nil {
			return err
		}
	}
	return nil
}

// countStarts takes the tokens of jobs that were claimed, and has their kinds looked at.
func (t *giving) countStarts(ctx context.Context, started idList) error {
	if len(started) == 0 {
		return nil
	}
	rows, err := t.conn.Query(ctx, t.store.sql.countStarts, started)
	if err != nil {
		return err
	}
	starts := map[int32]int{}
	var kind int32
	if _, err = pgx.ForEachRow(rows, []any{&kind}, func() error { starts[kind]++; return nil }); err != nil {
		return err
	}
	if _, _, err := t.piles(ctx, nil, nil); err != nil { // reads the clock
		return err
	}
	for kind, n := range starts {
		limit, rate := t.limits[kind], t.rates[kind]
		if limit.Starts == 0 {
			continue
		}
		rate.Bucket = rate.Take(limit, t.now, n)
		t.rates[kind] = rate
		t.look(lines{kind: kind})
		if _, err := t.conn.Exec(ctx, t.store.sql.writeRate, kind, rate.Tokens, rate.CountedAt, rate.next); err != nil {
			return err
		}
	}
	return nil
}

// limitRow is what a kind states, or what was set in its place.
type limitRow struct {
	kind   int32
	name   string
	source int16
	limit  pawl.Limit
}

func readLimitRows(rows pgx.Rows) ([]limitRow, error) {
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r limitRow, err error) {
		var value string
		err = row.Scan(&r.kind, &r.name, &r.source, &value)
		return r, errors.Join(err, json.Unmarshal([]byte(value), &r.limit))
	})
}
