package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/pawljobs/pawl"
)

const (
	selectUnlined = `select seq, id, envelope from pawl_job
where queue = ?1 and kind = ?2 and lane = ?3 and session is null and run_at is null and turn & 2 = 0 order by seq limit ?4`
	parkUnlined = `update pawl_job set run_at = ` + parked + `, turn = 3 where seq = ?1`

	// A job that has an ordering key has a row already, and is through.
	insertLine = `insert into pawl_turn (job_id, place, okey, lkey, kind, stage, pending) values (?1, ?2, null, ?3, ?4, ?5, 1)
on conflict (job_id) do update set place = excluded.place, lkey = excluded.lkey, kind = excluded.kind, stage = excluded.stage, pending = 1`
)

// lineUp puts the ready jobs of a kind that has got its limit after their enqueue into line. It reports whether there were
// any.
func (c *claim) lineUp(ctx context.Context, queue string, f front) (found bool, err error) {
	type job struct {
		seq      int64
		id       pawl.ID
		envelope []byte
	}
	jobs, err := selectRows(ctx, c.x, func(rows *sql.Rows) (j job, err error) {
		return j, rows.Scan(&j.seq, (*looseID)(&j.id), &j.envelope)
	}, selectUnlined, queue, f.kind, f.lane, atOnce)
	if err != nil || len(jobs) == 0 {
		return false, err
	}
	t := newTurns(c.x, c.at)
	for _, j := range jobs {
		if j.id.IsZero() {
			continue // a damaged row, which the claim puts aside
		}
		found = true
		line := pawl.NewJob{Kind: f.kind, Limited: true}
		if e, err := pawl.DecodeEnvelope(j.envelope); err == nil {
			line.LimitKey = e.LimitKey
		}
		l, _ := linesOf(&line)
		t.look(l)
		if _, err := c.x.ExecContext(ctx, parkUnlined, j.seq); err != nil {
			return false, err
		}
		if _, err := c.x.ExecContext(ctx, insertLine, j.id[:], j.seq, keyValue(l.key.String), f.kind, l.firstGate()); err != nil {
			return false, err
		}
	}
	c.more = c.more || len(jobs) == atOnce
	_, err = t.give(ctx)
	return found, err
}

// lineUpAll does so for all fronts whose kinds are held to a limit, and finds the fronts anew where something has moved.
func (c *claim) lineUpAll(ctx context.Context, queue string, fronts []front) ([]front, error) {
	moved := false
	for _, f := range fronts {
		if _, limited := c.limits[f.kind]; !limited || c.request.Orphans != nil {
			continue
		}
		found, err := c.lineUp(ctx, queue, f)
		if err != nil {
			return nil, fmt.Errorf("put jobs of kind %s into line: %w", f.kind, err)
		}
		moved = moved || found
	}
	if !moved {
		return fronts, nil
	}
	return c.findFronts(ctx, queue)
}
