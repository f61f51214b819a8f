package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"

	"github.com/pawljobs/pawl"
)

// Queues counts the jobs of every queue that has any or is paused, in order of priority.
func (s *Store) Queues(ctx context.Context) (queues []pawl.QueueView, err error) {
	err = s.view(ctx, func(x execer) error {
		queues, err = readQueues(ctx, x, now())
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("count queues: %w", err)
	}
	return queues, nil
}

// busyQueues takes a step of the index for each queue with waiting jobs; those that are reserved are few.
const busyQueues = `with recursive waiting (queue) as (
  select min(queue) from pawl_job where session is null and run_at is null
  union all
  select (select min(queue) from pawl_job where session is null and run_at is null and queue > w.queue) from waiting w where w.queue is not null
)
select queue from waiting where queue is not null
union
select queue from pawl_job where session is not null
order by queue`

// BusyQueues names the queues in which jobs wait or are reserved, in order of priority.
func (s *Store) BusyQueues(ctx context.Context) (names []string, err error) {
	err = s.view(ctx, func(x execer) error {
		names, err = selectRows(ctx, x, scanValue[string], busyQueues)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list queues: %w", err)
	}
	return names, nil
}

// The counts of each state, from its own index.
const (
	waitingByQueue   = `select queue, count(*) from pawl_job where session is null and run_at is null group by queue`
	parkedByQueue    = `select queue, count(*) from pawl_job where run_at is not null and run_at = ` + parked + ` group by queue`
	scheduledByQueue = `select queue, count(*) from pawl_job where run_at is not null and run_at < ` + parked + ` group by queue`
	reservedByQueue  = `select queue, count(*) from pawl_job where session is not null group by queue`
)

func readQueues(ctx context.Context, x execer, at int64) ([]pawl.QueueView, error) {
	views := map[string]*pawl.QueueView{}
	of := func(name string) *pawl.QueueView {
		if views[name] == nil {
			views[name] = &pawl.QueueView{Name: name}
		}
		return views[name]
	}
	for query, field := range map[string]func(*pawl.QueueView) *int{
		waitingByQueue:   func(v *pawl.QueueView) *int { return &v.Waiting },
		parkedByQueue:    func(v *pawl.QueueView) *int { return &v.Waiting },
		scheduledByQueue: func(v *pawl.QueueView) *int { return &v.Scheduled },
		reservedByQueue:  func(v *pawl.QueueView) *int { return &v.Reserved },
	} {
		counts, err := selectRows(ctx, x, func(rows *sql.Rows) (c queueCount, err error) {
			return c, rows.Scan(&c.queue, &c.n)
		}, query)
		if err != nil {
			return nil, err
		}
		for _, c := range counts {
			*field(of(c.queue)) += c.n
		}
	}
	if err := oldestReady(ctx, x, views, at); err != nil {
		return nil, err
	}
	switches, err := readSwitches(ctx, x, at)
	if err != nil {
		return nil, err
	}
	for _, q := range switches.Queues {
		of(q.Queue).Paused = true
	}
	out := make([]pawl.QueueView, 0, len(views))
	for _, name := range slices.Sorted(maps.Keys(views)) {
		out = append(out, *views[name])
	}
	return out, nil
}

type queueCount struct {
	queue string
	n     int
}

const (
	// Those at the front are few and in no order of time; those behind them stand as they became ready.
	oldestOfLane = `select min(ready_at) from (
  select min(ready_at) as ready_at from pawl_job
  where session is null and run_at is null and queue = ?1 and kind = ?2 and lane = ?3 and seq < 0
  union all
  select ready_at from (select ready_at from pawl_job
    where session is null and run_at is null and queue = ?1 and kind = ?2 and lane = ?3 and seq >= 0 order by seq limit 1))`
)

// oldestReady finds the job of each queue that has been ready for longest by the heads of its lanes: a few steps for
// each, however many jobs wait.
func oldestReady(ctx context.Context, x execer, views map[string]*pawl.QueueView, at int64) error {
	for queue, view := range views {
		heads, err := queueHeads(ctx, x, queue, at)
		if err != nil {
			return err
		}
		for _, head := range heads {
			view.OldestReady = max(view.OldestReady, head.OldestReady)
		}
	}
	return nil
}

// QueueHeads says which kinds wait in each queue, and for how long.
func (s *Store) QueueHeads(ctx context.Context) (heads []pawl.QueueHead, err error) {
	err = s.view(ctx, func(x execer) error {
		names, err := selectRows(ctx, x, scanValue[string], busyQueues)
		for _, queue := range names {
			var some []pawl.QueueHead
			if err == nil {
				some, err = queueHeads(ctx, x, queue, now())
			}
			heads = append(heads, some...)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list heads of queues: %w", err)
	}
	return heads, nil
}

// queueHeads finds the oldest ready job of each kind: those that start off apart from the others, suspects among them.
func queueHeads(ctx context.Context, x execer, queue string, at int64) ([]pawl.QueueHead, error) {
	fronts, err := selectRows(ctx, x, scanFront, selectFronts, queue, -1)
	var heads []pawl.QueueHead
	for _, f := range fronts {
		var oldest int64
		if err == nil {
			oldest, _, err = selectOne(ctx, x, scanValue[int64], oldestOfLane, queue, f.kind, f.lane)
		}
		head := pawl.QueueHead{Queue: queue, Kind: f.kind, StartsOff: f.lane&laneSwitched != 0, OldestReady: longMillis(at - oldest)}
		same := slices.IndexFunc(heads, func(h pawl.QueueHead) bool { return h.Kind == head.Kind && h.StartsOff == head.StartsOff })
		if same >= 0 {
			heads[same].OldestReady = max(heads[same].OldestReady, head.OldestReady)
			continue
		}
		heads = append(heads, head)
	}
	return heads, err
}
