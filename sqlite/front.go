package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"maps"
	"math"
	"slices"
)

const (
	// The kinds and lanes that have ready jobs in a queue, and the first job of each: two seeks of the index and one
	// of the table for each.
	selectFronts = `with recursive f (seq, kind, lane) as (
  select * from (select seq, kind, lane from pawl_job where queue = ?1 and session is null and run_at is null order by kind, lane, seq limit 1)
  union all
  select j.seq, j.kind, j.lane from f cross join pawl_job j where j.seq = coalesce(
    (select n.seq from pawl_job n where n.queue = ?1 and n.kind = f.kind and n.lane > f.lane and n.session is null and n.run_at is null
      order by n.lane, n.seq limit 1),
    (select n.seq from pawl_job n where n.queue = ?1 and n.kind > f.kind and n.session is null and n.run_at is null
      order by n.kind, n.lane, n.seq limit 1))
)
select kind, lane, seq from f limit ?2`

	// The same for a list of kinds.
	selectFrontsOf = `select k.value, l.column1, (select j.seq from pawl_job j
  where j.queue = ?1 and j.kind = k.value and j.lane = l.column1 and j.session is null and j.run_at is null order by j.seq limit 1)
from json_each(?2) k cross join (values (0), (1), (2), (3)) l
where exists (select 1 from pawl_job j
  where j.queue = ?1 and j.kind = k.value and j.lane = l.column1 and j.session is null and j.run_at is null)`

	// The first jobs of each front of a list, up to a place in the queue.
	selectFirst = `select (select json_group_array(seq) from (select j.seq from pawl_job j
  where j.queue = ?1 and j.kind = f.value ->> 0 and j.lane = f.value ->> 1 and j.session is null and j.run_at is null and j.seq <= ?4
  order by j.seq limit ?3))
from json_each(?2) f`
)

// front is a kind and a lane that have ready jobs in a queue.
type front struct {
	kind string
	lane int
	head int64 // seq of the first one
}

func scanFront(rows *sql.Rows) (f front, err error) { return f, rows.Scan(&f.kind, &f.lane, &f.head) }

// findFronts finds those of the wanted kinds, and perhaps others: by way of the kinds that are wanted or of those that
// have jobs, whichever are fewer, since both can be thousands.
func (c *claim) findFronts(ctx context.Context, queue string) ([]front, error) {
	if c.rules.others {
		return selectRows(ctx, c.x, scanFront, selectFronts, queue, -1)
	}
	if wanted := 4 * len(c.rules.kinds); wanted > 4*mergedFronts {
		fronts, err := selectRows(ctx, c.x, scanFront, selectFronts, queue, wanted)
		if err != nil || len(fronts) < wanted {
			return fronts, err
		}
	}
	if c.kindList == "" {
		list, err := json.Marshal(slices.Sorted(maps.Keys(c.rules.kinds)))
		if err != nil {
			return nil, err
		}
		c.kindList = string(list)
	}
	return selectRows(ctx, c.x, scanFront, selectFrontsOf, queue, c.kindList)
}

// first keeps the n fronts that begin first: the first n jobs are among theirs.
func first(fronts []front, n int) []front {
	slices.SortFunc(fronts, func(a, b front) int { return cmp.Compare(a.head, b.head) })
	return fronts[:min(n, len(fronts))]
}

// pickSuspect takes the lanes of suspects out, and finds the first of them if one may be taken.
func (c *claim) pickSuspect(fronts []front) (rest []front, suspect *front) {
	for _, f := range fronts {
		switch {
		case f.lane&laneSuspect == 0:
			rest = append(rest, f)
		case c.suspect && (suspect == nil || f.head < suspect.head):
			suspect = &f
		}
	}
	return rest, suspect
}

// takeOfMany takes from fronts that are in order. It looks at a few jobs of each, and takes no job that another one might
// come before which it has not seen; so it may leave some for the next claim.
func (c *claim) takeOfMany(ctx context.Context, queue string, fronts []front, suspect *front) error {
	left, until := c.left(), int64(math.MaxInt64)
	if len(fronts) == left {
		until = fronts[left-1].head // their heads are as many as may be taken
	}
	if suspect != nil {
		until = max(until, suspect.head)
	}
	few := 16 + 4*left/len(fronts)
	seqs, seen, err := c.lookAt(ctx, queue, fronts, few, until)
	if err != nil {
		return err
	}
	if suspect != nil {
		seqs = append(seqs, suspect.head)
	}
	seqs = slices.DeleteFunc(seqs, func(seq int64) bool { return seq > seen })
	slices.Sort(seqs)
	c.more = len(seqs) < left && seen < until
	var list intList
	for _, seq := range seqs[:min(left, len(seqs))] {
		list.add(seq)
	}
	return c.take(ctx, queue, takeListed, []any{int64(c.request.Session), nil, list.json(), nil, nil})
}

// lookAt returns the first few jobs of each front, none of them behind until. All jobs up to seen are among them.
func (c *claim) lookAt(ctx context.Context, queue string, fronts []front, few int, until int64) (seqs []int64, seen int64, err error) {
	names := make([][2]any, len(fronts))
	for i, f := range fronts {
		names[i] = [2]any{f.kind, f.lane}
	}
	list, err := json.Marshal(names)
	if err != nil {
		return nil, 0, err
	}
	lists, err := selectRows(ctx, c.x, func(rows *sql.Rows) (some []int64, err error) {
		return some, rows.Scan(jsonColumn{&some})
	}, selectFirst, queue, string(list), few, until)
	seen = until
	for _, some := range lists {
		seqs = append(seqs, some...)
		if len(some) == few {
			seen = min(seen, some[few-1])
		}
	}
	return seqs, seen, err
}
