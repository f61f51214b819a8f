package sqlite

import (
	"context"
	"fmt"
	"slices"
)

// rules say what a claim may take.
type rules struct {
	kinds  map[string]bool // of the request; with unknown, the kinds that are known
	others bool            // what is not in kinds is wanted
	on     map[string]bool // kinds whose switch is set
	paused map[string]bool
}

// allow reports whether jobs of a kind and lane may be taken. A kind that starts off runs only while it is switched on,
// any other one unless it is switched off.
func (r rules) allow(f front) bool {
	if r.kinds[f.kind] == r.others {
		return false
	}
	on, set := r.on[f.kind]
	if f.lane&laneSwitched != 0 {
		return on
	}
	return on || !set
}

// readRules reads the switches, and for orphans the kinds that somebody knows.
func (c *claim) readRules(ctx context.Context) (rules, error) {
	switches, err := readSwitches(ctx, c.x, c.at)
	if err != nil {
		return rules{}, err
	}
	r := rules{kinds: make(map[string]bool, len(c.request.Kinds)), on: map[string]bool{}, paused: map[string]bool{}}
	for _, kind := range c.request.Kinds {
		r.kinds[kind] = true
	}
	for _, k := range switches.Kinds {
		r.on[k.Kind] = k.On
	}
	for _, q := range switches.Queues {
		r.paused[q.Queue] = q.Paused
	}
	if c.request.Orphans == nil {
		return r, nil
	}
	r.others = true
	if unseen := c.request.Orphans.Unseen; unseen > 0 {
		known, err := selectRows(ctx, c.x, scanValue[string], selectKnownKinds, c.at-wholeMillis(unseen))
		if err != nil {
			return rules{}, fmt.Errorf("look up known kinds: %w", err)
		}
		for _, kind := range known {
			r.kinds[kind] = true
		}
	}
	return r, nil
}

// takeOrphans takes jobs that have been ready for long enough, while the session has been open all that time.
func (c *claim) takeOrphans(ctx context.Context, queue string, fronts []front) error {
	before := c.at - wholeMillis(c.request.Orphans.Ready)
	if c.openedAt > before {
		return nil
	}
	left := c.left()
	fronts = first(fronts, max(left, 100)) // the others began to wait later
	var seqs []int64
	for _, f := range fronts {
		c.kinds = append(c.kinds, f.kind)
		old, err := selectRows(ctx, c.x, scanValue[int64], selectOld, queue, f.kind, f.lane, max(4*left, 100), before)
		if err != nil {
			return fmt.Errorf("find orphans: %w", err)
		}
		seqs = append(seqs, old...)
	}
	if len(seqs) == 0 {
		return nil
	}
	slices.Sort(seqs)
	var list intList
	for _, seq := range seqs[:min(left, len(seqs))] {
		list.add(seq)
	}
	return c.take(ctx, queue, takeListed, []any{int64(c.request.Session), nil, list.json(), nil, nil})
}
