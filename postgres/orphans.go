package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// orphanSearch is how far this handle's search for orphans has come.
type orphanSearch struct {
	kinds string          // that it is about, by number
	at    map[int32]int64 // by queue, where it goes on; bandsEnd: it is through
	found bool            // some job of the kinds, whether it is to be taken already or not
	rests time.Time       // there was none, so it is not begun again before that
}

// orphansRest is how long a search that found no job at all is not repeated, at most: a job of an unknown kind that comes
// in meanwhile is no orphan for as long as it has not been ready for long.
const orphansRest = 10 * time.Minute

// takeOrphans claims jobs that nobody can run. They are not in any index, so the queues are walked. A walk that takes
// long goes on with the next call.
func (c *claim) takeOrphans(ctx context.Context) error {
	kinds, err := c.orphanKinds(ctx)
	if err != nil {
		return fmt.Errorf("find unknown kinds: %w", err)
	}
	c.kinds = kinds
	search := &c.store.claims.orphans
	if key := fmt.Sprint(kinds); search.kinds != key {
		*search = orphanSearch{kinds: key, at: map[int32]int64{}}
	}
	if len(kinds) == 0 || time.Now().Before(search.rests) {
		return c.readNow(ctx)
	}
	ready := c.request.Orphans.Ready
	for i, queue := range c.queues {
		through, err := c.walk(ctx, search, i, queue, microseconds(ready))
		if err != nil {
			return err
		}
		if !through {
			c.more = true
			c.sort()
			return nil
		}
	}
	if !search.found {
		search.rests = time.Now().Add(min(orphansRest, ready/10))
	}
	search.at, search.found = map[int32]int64{}, false
	c.sort()
	return nil
}

// walk goes along one queue. It reports whether it came to the end before there was enough, or too much time had passed.
func (c *claim) walk(ctx context.Context, search *orphanSearch, i int, queue int32, ready int64) (through bool, err error) {
	start, begun := search.at[queue]
	if !begun {
		start = frontStart
	}
	for start != bandsEnd {
		if len(c.jobs) == c.limit || time.Since(c.began) > claimTime {
			return false, nil
		}
		l := &lane{queue: i, cursor: newCursor(queue), start: start, bound: bandsEnd, window: mostWindow / 4}
		filled, head, err := c.exec(ctx, c.store.sql.claimOrphan, []*lane{l}, c.limit-len(c.jobs), ready)
		if err != nil {
			return false, err
		}
		search.found = search.found || l.present || !head.alive // a session that is too young sees nothing
		switch {
		case filled:
			start = l.last + 1
		case l.open:
			start = l.hi + 1
		default:
			start = bandsEnd
		}
		search.at[queue] = start
	}
	return true, nil
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
