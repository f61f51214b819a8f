package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// takeOrphans claims jobs that nobody can run. A search that takes long goes on with the next call.
func (c *claim) takeOrphans(ctx context.Context) error {
	kinds, err := c.orphanKinds(ctx)
	if err != nil {
		return fmt.Errorf("find unknown kinds: %w", err)
	}
	c.kinds = kinds
	if len(kinds) == 0 {
		return c.readNow(ctx)
	}
	state := c.store.claims
	lanes := make([]*lane, 0, len(c.queues))
	for i, queue := range c.queues {
		start, ok := state.orphans[queue]
		if !ok {
			start = frontStart
		}
		lanes = append(lanes, &lane{queue: i, cursor: newCursor(queue), start: start, bound: bandsEnd, window: mostWindow / 4})
	}
	for len(lanes) > 0 && len(c.jobs) < c.limit {
		filled, _, err := c.exec(ctx, c.store.sql.claimOrphan, lanes, c.limit-len(c.jobs), microseconds(c.request.Orphans.Ready))
		if err != nil {
			return err
		}
		for !filled && len(lanes) > 0 {
			l := lanes[0]
			if l.open {
				l.start = l.hi + 1
				state.orphans[l.cursor.queue] = l.start
				break
			}
			delete(state.orphans, l.cursor.queue)
			lanes = lanes[1:]
		}
		if filled || len(lanes) > 0 && time.Since(c.began) > claimTime {
			c.more = true
			break
		}
	}
	c.sort()
	return nil
}

func (c *claim) orphanKinds(ctx context.Context) (kinds []int32, err error) {
	err = c.store.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		kinds = nil
		rows, err := conn.Query(ctx, c.store.sql.selectOrphanKinds, microseconds(c.request.Orphans.Unseen), c.kinds)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var kind int32
			if err := rows.Scan(&kind); err != nil {
				return err
			}
			kinds = append(kinds, kind)
		}
		return rows.Err()
	})
	return kinds, err
}
