package postgres

import (
	"context"
	"fmt"
	"slices"

	"github.com/pawljobs/pawl"
)

// gates are the lines of one sort that are to be looked at, in any order: one gives turns at a time.
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
