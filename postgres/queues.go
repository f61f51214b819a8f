package postgres

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
)

const (
	// Each queue by one descent of the index.
	selectQueues = `with recursive queue (id) as (
  (select queue from {s}.job where run_at is null order by queue limit 1)
  union all
  select (select j.queue from {s}.job j where j.run_at is null and j.queue > q.id order by j.queue limit 1) from queue q where q.id is not null
)
select q.id, n.text from queue q join {s}.name n on n.id = q.id where q.id is not null`

	// The head of a queue, row by row: how many jobs it has, how many of them are reserved, and since when the others
	// have been ready.
	countHead = `select count(*), count(holder),
  coalesce((extract(epoch from now() - min(coalesce(ready_at, enqueued_at)) filter (where holder is null)) * 1000000)::bigint, 0)
from (select holder, ready_at, enqueued_at from {s}.job where queue = $1 and run_at is null order by seq limit $2) head`

	// What an index counts without its rows, as far as $2; with the places of the first, of the last that was counted and
	// of the very last.
	countPlaces = `select count(*), coalesce(min(seq), 0), coalesce(max(seq), 0),
  coalesce((select seq from {s}.job where queue = $1 and run_at is null order by seq desc limit 1), 0)
from (select seq from {s}.job where queue = $1 and run_at is null and seq >= 0 order by seq limit $2) p`
	countFront = `select count(*) from (select 1 from {s}.job where queue = $1 and run_at is null and seq < 0 limit $2) f`

	// The kinds at the heads of all queues.
	selectHeads = `with recursive queue (id) as (
  (select queue from {s}.job where run_at is null order by queue limit 1)
  union all
  select (select j.queue from {s}.job j where j.run_at is null and j.queue > q.id order by j.queue limit 1) from queue q where q.id is not null
)
select qn.text, kn.text, h.starts_off, h.age from queue q
cross join lateral (
  select kind, flags & 2 <> 0 as starts_off,
    greatest(0, extract(epoch from now() - min(coalesce(ready_at, enqueued_at))) * 1000000)::bigint as age
  from (select kind, flags, holder, ready_at, enqueued_at from {s}.job where queue = q.id and run_at is null order by seq limit $1) j
  where holder is null group by 1, 2) h
join {s}.name qn on qn.id = q.id join {s}.name kn on kn.id = h.kind where q.id is not null`

	countParked = `select n.text, c.n from (
  select queue, count(*) as n from (select queue from {s}.job where run_at = 'infinity' limit $1) s group by queue) c
join {s}.name n on n.id = c.queue`

	// Of what is due in the schedule, as far as $1, what was claimed where it stands.
	countStanding = `select n.text, c.n from (
  select queue, count(*) as n from (select queue, holder from {s}.job where run_at <= now() order by run_at limit $1) s
  where holder is not null group by queue) c
join {s}.name n on n.id = c.queue`

	countScheduled = `select n.text, c.n from (
  select queue, count(*) as n from (select queue from {s}.job where run_at < 'infinity' order by run_at limit $1) s group by queue) c
join {s}.name n on n.id = c.queue`
)

// countBounds are in rows.
type countBounds struct {
	head int // of a queue that are looked at one by one
	most int // of a queue, or scheduled, that are counted
}

// Queues counts the jobs of every queue that has any or is paused, in order of priority. Reserved jobs are told among the first 50,000
// of each queue; behind these, all count as waiting. Up to a million waiting jobs of a queue are counted, more are
// estimated by their places in it; of scheduled jobs, the million that is due first is counted.
func (s *Store) Queues(ctx context.Context) (queues []pawl.QueueView, err error) {
	err = s.view(ctx, func(ctx context.Context, q querier) error {
		queues, err = s.readQueues(ctx, q, countBounds{head: 50_000, most: 1_000_000})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("count queues: %w", err)
	}
	return queues, nil
}

// headsDeep is how many jobs of a queue are looked at for its kinds.
const headsDeep = 20_000

// QueueHeads says which kinds wait among the first jobs of each queue, and for how long.
func (s *Store) QueueHeads(ctx context.Context) (heads []pawl.QueueHead, err error) {
	err = s.view(ctx, func(ctx context.Context, q querier) error {
		heads, err = selectRows(ctx, q, func(rows pgx.Rows) (h pawl.QueueHead, err error) {
			var age int64
			err = rows.Scan(&h.Queue, &h.Kind, &h.StartsOff, &age)
			h.OldestReady = time.Duration(age) * time.Microsecond
			return h, err
		}, s.sql.desk.selectHeads, headsDeep)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list heads of queues: %w", err)
	}
	slices.SortFunc(heads, func(a, b pawl.QueueHead) int {
		return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Kind, b.Kind), cmp.Compare(b.OldestReady, a.OldestReady))
	})
	return heads, nil
}

// BusyQueues names the queues that have ready or reserved jobs, in order of priority.
func (s *Store) BusyQueues(ctx context.Context) (names []string, err error) {
	err = s.view(ctx, func(ctx context.Context, q querier) error {
		queues, err := selectRows(ctx, q, scanQueue, s.sql.desk.selectQueues)
		names = make([]string, len(queues))
		for i, queue := range queues {
			names[i] = queue.name
		}
		slices.Sort(names)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	return names, nil
}

func (s *Store) readQueues(ctx context.Context, q querier, b countBounds) ([]pawl.QueueView, error) {
	views := map[string]pawl.QueueView{}
	queues, err := selectRows(ctx, q, scanQueue, s.sql.desk.selectQueues)
	if err != nil {
		return nil, err
	}
	for _, queue := range queues {
		if views[queue.name], err = s.countQueue(ctx, q, queue.number, b); err != nil {
			return nil, fmt.Errorf("queue %s: %w", queue.name, err)
		}
	}
	scheduled, err := selectRows(ctx, q, scanQueueCount, s.sql.desk.countScheduled, b.most)
	if err != nil {
		return nil, err
	}
	for _, c := range scheduled {
		view := views[c.name]
		view.Scheduled = c.n
		views[c.name] = view
	}
	standing, err := selectRows(ctx, q, scanQueueCount, s.sql.desk.countStanding, b.head)
	if err != nil {
		return nil, err
	}
	for _, c := range standing {
		view := views[c.name]
		view.Reserved, view.Scheduled = view.Reserved+c.n, max(view.Scheduled-c.n, 0)
		views[c.name] = view
	}
	parked, err := selectRows(ctx, q, scanQueueCount, s.sql.desk.countParked, b.most)
	if err != nil {
		return nil, err
	}
	for _, c := range parked {
		view := views[c.name]
		view.Waiting += c.n
		views[c.name] = view
	}
	switches, err := s.readSwitches(ctx, q)
	if err != nil {
		return nil, err
	}
	for _, pause := range switches.Queues {
		view := views[pause.Queue]
		view.Paused = true
		views[pause.Queue] = view
	}
	out := make([]pawl.QueueView, 0, len(views))
	for _, name := range slices.Sorted(maps.Keys(views)) {
		view := views[name]
		view.Name = name
		out = append(out, view)
	}
	return out, nil
}

// countQueue counts what is waiting and reserved.
func (s *Store) countQueue(ctx context.Context, q querier, number int32, b countBounds) (v pawl.QueueView, err error) {
	var all int
	var oldest int64
	err = q.QueryRow(ctx, s.sql.desk.countHead, number, b.head).Scan(&all, &v.Reserved, &oldest)
	if err == nil && all == b.head {
		all, err = s.countFar(ctx, q, number, b.most)
	}
	v.Waiting, v.OldestReady = max(all-v.Reserved, 0), max(0, time.Duration(oldest)*time.Microsecond)
	return v, err
}

// countFar counts a long queue. Behind the last job that is counted, the others are taken to stand as close to each
// other as those before it.
func (s *Store) countFar(ctx context.Context, q querier, number int32, most int) (int, error) {
	var front, counted int
	var first, reached, last int64
	if err := q.QueryRow(ctx, s.sql.desk.countFront, number, most).Scan(&front); err != nil {
		return 0, err
	}
	if err := q.QueryRow(ctx, s.sql.desk.countPlaces, number, most).Scan(&counted, &first, &reached, &last); err != nil {
		return 0, err
	}
	if counted == most && last > reached {
		counted += int(float64(counted) * float64(last-reached) / float64(reached-first+1))
	}
	return front + counted, nil
}

type queueName struct {
	number int32
	name   string
}

func scanQueue(rows pgx.Rows) (n queueName, err error) { return n, rows.Scan(&n.number, &n.name) }

type queueCount struct {
	name string
	n    int
}

func scanQueueCount(rows pgx.Rows) (c queueCount, err error) { return c, rows.Scan(&c.name, &c.n) }
