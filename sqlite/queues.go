package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawljobs/pawl"
)

// Queues counts the jobs of every queue that has any, in order of priority.
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

// The counts of each state, from its own index.
const (
	waitingByQueue   = `select queue, count(*) from pawl_job where session is null and run_at is null group by queue`
	scheduledByQueue = `select queue, count(*) from pawl_job where run_at is not null group by queue`
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
			*field(of(c.queue)) = c.n
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
		if view := views[q.Queue]; view != nil {
			view.Paused = true
		}
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

// laneHead is the first job of a kind's lane in a queue's order.
type laneHead struct {
	queue, kind   string
	lane, readyAt int64
}

func scanLaneHead(rows *sql.Rows) (h laneHead, err error) {
	return h, rows.Scan(&h.queue, &h.kind, &h.lane, &h.readyAt)
}

// oldestReady finds the job of each queue that has been ready for longest by the heads of its kinds: in each
// lane jobs stand in the order in which they became ready, those at the front and those behind them each for
// themselves. That takes a few steps for each kind however many jobs wait.
func oldestReady(ctx context.Context, x execer, views map[string]*pawl.QueueView, at int64) error {
	last := laneHead{lane: -1}
	for {
		front, found, err := selectOne(ctx, x, scanLaneHead, `
			select queue, kind, lane, ready_at from pawl_job
			where session is null and run_at is null and (queue, kind, lane) > (?, ?, ?)
			order by queue, kind, lane, seq limit 1`,
			last.queue, last.kind, last.lane)
		if err != nil || !found {
			return err
		}
		behind, found, err := selectOne(ctx, x, scanLaneHead, `
			select queue, kind, lane, ready_at from pawl_job
			where session is null and run_at is null and queue = ? and kind = ? and lane = ? and seq >= 0
			order by seq limit 1`,
			front.queue, front.kind, front.lane)
		if err != nil {
			return err
		}
		oldest := front.readyAt
		if found {
			oldest = min(oldest, behind.readyAt)
		}
		view := views[front.queue]
		if view == nil {
			return fmt.Errorf("queue %s changed within a read", front.queue)
		}
		view.OldestReady = max(view.OldestReady, time.Duration(at-oldest)*time.Millisecond)
		last = front
	}
}
