package postgres

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawljobs/pawl"
)

const (
	// The jobs that were stored now, and their lines. A row that is there already is of an earlier life of the job.
	insertLined = `with new as (
  {insert} returning id, seq, run_at
)
, turned as (
  insert into {s}.turn (job_id, place, okey, lkey, kind, stage, pending)
  select n.id, n.seq, l.okey, l.lkey, l.kind, case when l.okey is not null then 0 when l.lkey is not null then 1 else 2 end, n.run_at = 'infinity'
  from new n join (select distinct on (id) id, nullif(okey, '00000000-0000-0000-0000-000000000000') as okey, nullif(lkey, '00000000-0000-0000-0000-000000000000') as lkey,
    nullif(kind, 0) as kind from unnest($1::uuid[], $12::uuid[], $13::uuid[], $14::int[]) t (id, okey, lkey, kind)) l on l.id = n.id
  where l.okey is not null or l.kind is not null
  on conflict (job_id) do update set place = excluded.place, okey = excluded.okey, lkey = excluded.lkey, kind = excluded.kind,
    stage = excluded.stage, pending = excluded.pending
)
select id from new`

	insertArrivals = `insert into {s}.arrival (alone, okey, lkey, kind) select $4::bool, nullif(okey, '00000000-0000-0000-0000-000000000000'),
  nullif(lkey, '00000000-0000-0000-0000-000000000000'), nullif(kind, 0) from unnest($1::uuid[], $2::uuid[], $3::int[]) t (okey, lkey, kind)`

	// What was stored and taken back, since its id had been accepted before.
	arriveTakenBack = `insert into {s}.arrival (job_id) select t.job_id from unnest($1::uuid[]) u (id) join {s}.turn t on t.job_id = u.id
where not exists (select 1 from {s}.job j where j.id = u.id)`

	parkUnlined = `with parked as (
  update {s}.job j set holder = null, claim = null, attempt = j.attempt - 1, run_at = 'infinity', flags = j.flags | t.bits
  from unnest($1::uuid[], $2::bigint[], $6::smallint[]) t (id, claim, bits) where j.id = t.id and j.claim = t.claim and j.holder = $3 returning j.id, j.seq
)
insert into {s}.turn (job_id, place, okey, lkey, kind, stage, pending)
select p.id, p.seq, null, l.lkey, l.kind, case when l.lkey is not null then 1 else 2 end, true
from parked p join (select id, nullif(lkey, '00000000-0000-0000-0000-000000000000') as lkey, kind from unnest($1::uuid[], $4::uuid[], $5::int[]) t (id, lkey, kind)) l
  on l.id = p.id order by p.seq
on conflict (job_id) do update set place = excluded.place, lkey = excluded.lkey, kind = excluded.kind, stage = excluded.stage, pending = true`
)

// lineUp adds what puts the jobs at these indices into line to the steps that store them.
func (in *insertion) lineUp(steps []step, rows []int) []step {
	var orders, keys idList
	var kinds []int32
	seen := map[lines]bool{{}: true}
	for _, i := range rows {
		if l := linesOf(&in.jobs[i], in.kinds[i]); !seen[l] {
			seen[l] = true
			orders, keys, kinds = append(orders, l.order), append(keys, l.key), append(kinds, l.kind)
		}
	}
	if !in.hopeful {
		ids := make(idList, len(rows))
		for n, i := range rows {
			ids[n] = in.jobs[i].ID
		}
		steps = append(steps, step{SQL: in.store.sql.arriveTakenBack, Args: []any{ids}})
	}
	return append(steps, step{SQL: in.store.sql.insertArrivals, Args: []any{orders, keys, kinds, in.alone}})
}

// lineArgs are those of insertLined behind those of insertFull.
func (in *insertion) lineArgs(rows []int) []any {
	orders, keys, kinds := make(idList, len(rows)), make(idList, len(rows)), make([]int32, len(rows))
	for n, i := range rows {
		l := linesOf(&in.jobs[i], in.kinds[i])
		orders[n], keys[n], kinds[n] = l.order, l.key, l.kind
	}
	return []any{orders, keys, kinds}
}

// obeyLimits counts the starts of what was claimed, and puts jobs into line whose kind has got its limit after their enqueue;
// they were claimed in vain, once.
func (c *claim) obeyLimits(ctx context.Context) error {
	if len(c.jobs) == 0 || c.request.Orphans != nil {
		return nil
	}
	limits, err := c.store.limitsInForce(ctx)
	if err != nil || len(limits) == 0 {
		return err
	}
	numbers := map[string]int32{}
	for _, kind := range c.kinds {
		if text, err := c.store.text(ctx, kind); err == nil {
			numbers[text] = kind
		}
	}
	var started idList
	var unlined []int
	for i := range c.jobs {
		job := &c.jobs[i]
		kind := numbers[job.Kind]
		limit, limited := limits[kind]
		switch {
		case !limited:
		case c.marks[job.ID]&flagLinedKind == 0:
			unlined = append(unlined, i)
		case limit.Starts > 0:
			started = append(started, job.ID)
		}
	}
	if len(started) > 0 {
		_, more, err := c.store.giveSlowly(ctx, started, c.store.turns.lookFrom())
		if err != nil {
			return fmt.Errorf("count starts: %w", err)
		}
		if more {
			c.store.turns.ask()
		}
	}
	if len(unlined) == 0 {
		return nil
	}
	return c.putInLine(ctx, unlined, numbers)
}

func (c *claim) putInLine(ctx context.Context, unlined []int, numbers map[string]int32) error {
	slices.SortFunc(unlined, func(a, b int) int { return bytes.Compare(c.jobs[a].ID[:], c.jobs[b].ID[:]) })
	ids, keys := make(idList, len(unlined)), make(idList, len(unlined))
	claims, kinds, bits := make([]int64, len(unlined)), make([]int32, len(unlined)), make([]int16, len(unlined))
	gone := map[pawl.ID]bool{}
	seen := map[lines]bool{}
	var lookKeys idList
	var lookKinds []int32
	for n, i := range unlined {
		job := &c.jobs[i]
		line := pawl.NewJob{Kind: job.Kind, Limited: true}
		if e, err := pawl.DecodeEnvelope(job.Envelope); err == nil {
			line.LimitKey = e.LimitKey
		}
		l := linesOf(&line, numbers[job.Kind])
		ids[n], claims[n], keys[n], kinds[n] = job.ID, int64(job.Token), l.key, l.kind
		if bits[n] = flagLined | flagLinedKind; line.LimitKey != "" {
			bits[n] |= flagLinedKeys
		}
		if gone[job.ID] = true; !seen[l] {
			seen[l] = true
			lookKeys, lookKinds = append(lookKeys, l.key), append(lookKinds, l.kind)
		}
	}
	err := c.store.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		batch := &pgx.Batch{}
		batch.Queue(c.store.sql.parkUnlined, ids, claims, int64(c.request.Session), keys, kinds, bits)
		batch.Queue(c.store.sql.lookAgain, lookKeys, lookKinds)
		return conn.SendBatch(ctx, batch).Close()
	})
	if err != nil {
		return fmt.Errorf("put jobs into line: %w", err)
	}
	c.jobs = slices.DeleteFunc(c.jobs, func(j pawl.ClaimedJob) bool { return gone[j.ID] })
	c.more = true
	c.store.giveTurns(ctx)
	return nil
}

// giveIfAny gives turns where something has happened to jobs that stand in line, and counts batches.
func (s *Store) giveIfAny(ctx context.Context) {
	s.countIfAny(ctx)
	if any, _, err := s.anyArrival(ctx); err == nil && any {
		s.giveAllTurns(ctx)
	}
}
