package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/page"
)

const (
	// A letter is still needed: the outcome of its redrive is to be written, or an operation has it before it.
	needed = `(l.status = 1 and l.redrive_outcome = 'pending' or exists (select from {s}.operation_item i
  join {s}.operation o on o.id = i.operation where i.letter = l.id and i.state in (0, 3) and o.state not in ('stopped', 'finished')))`

	selectNeeded = `select l.id from {s}.letter l where l.id = any($1::uuid[]) and ` + needed

	// Those that somebody else works on are left to the next time.
	selectExpired = `select l.id from {s}.letter l where l.status in (2, 3) and l.status_at < $1 and not ` + needed + `
order by l.status_at limit $2 for update skip locked`
)

// PruneLetters removes letters by status and age, a batch at a time. It looks for them without locks, and looks again at each
// before it goes.
func (s *Store) PruneLetters(ctx context.Context, filter pawl.LetterFilter, by pawl.By) (pawl.Pruned, error) {
	if err := desk.CheckPrune(filter, by); err != nil {
		return pawl.Pruned{}, err
	}
	filter.OldestFirst = true
	list, _, err := newLetterList(filter, pawl.Page{})
	if err != nil {
		return pawl.Pruned{}, err
	}
	p := pruning{store: s, letterList: list, filter: filter, who: by}
	for more := true; more; {
		var picked []page.Cursor
		err := s.view(ctx, func(ctx context.Context, q querier) (err error) {
			picking := p.picking(deskBatch)
			picked, err = selectRows(ctx, q, scanPlace, s.schema.text(picking.text), picking.args...)
			return err
		})
		if err == nil {
			more, err = len(picked) == deskBatch, p.prune(ctx, picked)
		}
		if err != nil {
			return p.done, fmt.Errorf("prune letters after %d: %w", p.done.Removed, err)
		}
	}
	return p.done, nil
}

// pruning is how far it has come.
type pruning struct {
	letterList
	store  *Store
	filter pawl.LetterFilter
	who    pawl.By
	audit  int64 // the line in the trail; 0 before the first batch
	done   pawl.Pruned
}

// picking is the query of the next letters, the oldest first.
func (p *pruning) picking(n int) query {
	c := p.all()
	return query{numbered("select id, dead_at from {s}.letter" + c.where() + p.order + " limit ?"), append(c.args, n)}
}

func scanPlace(rows pgx.Rows) (c page.Cursor, err error) {
	var at time.Time
	err = rows.Scan((*idColumn)(&c.ID), (*timeColumn)(&at))
	c.At = at.UnixMicro()
	return c, err
}

// prune removes a batch, and says in the trail how many have gone so far.
func (p *pruning) prune(ctx context.Context, picked []page.Cursor) error {
	var next pruning
	err := p.store.write(ctx, func(ctx context.Context, tx pgx.Tx) error {
		next = *p
		return next.step(ctx, tx, picked)
	})
	if err == nil {
		*p = next
	}
	return err
}

func (p *pruning) step(ctx context.Context, tx pgx.Tx, picked []page.Cursor) error {
	ids := column(picked, func(c *page.Cursor) pawl.ID { return c.ID })
	if len(picked) > 0 {
		p.times.Behind(picked[len(picked)-1])
	}
	fates, err := p.store.lockFates(ctx, tx, ids)
	if err != nil {
		return err
	}
	needed, err := selectRows(ctx, tx, scanID, p.store.sql.desk.selectNeeded, idList(ids))
	if err != nil {
		return err
	}
	for _, id := range needed {
		if desk.Picks(p.filter, fates[pawl.ID(id)].Fate) {
			p.done.Kept++
		}
		delete(fates, pawl.ID(id))
	}
	var going []pawl.ID
	for id, fate := range fates {
		if desk.Picks(p.filter, fate.Fate) {
			going = append(going, id)
		}
	}
	if err := p.store.removeLetters(ctx, tx, going); err != nil {
		return err
	}
	p.done.Removed += len(going)
	entry := desk.PruneEntry(p.filter, p.done)
	if p.audit == 0 {
		first, err := p.store.writeAudit(ctx, tx, audited{p.who, entry})
		p.audit = first.ID
		return err
	}
	_, err = tx.Exec(ctx, p.store.sql.desk.updateAudit, p.audit, entry.Outcome)
	return err
}

// expire prunes letters that were closed long ago by the database's clock, where the store was told to.
func (s *Store) expire(ctx context.Context, limit int) (int, error) {
	gone := 0
	err := s.write(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var now time.Time
		if err := tx.QueryRow(ctx, `select now()`).Scan(&now); err != nil {
			return err
		}
		filter := desk.Expired(now, s.config.Retention)
		ids, err := selectRows(ctx, tx, scanExpired, s.sql.desk.selectExpired, filter.StatusBefore, limit)
		if gone = len(ids); err != nil || gone == 0 {
			return err
		}
		if err := s.removeLetters(ctx, tx, ids); err != nil {
			return err
		}
		_, err = s.writeAudit(ctx, tx, audited{desk.Retention(), desk.PruneEntry(filter, pawl.Pruned{Removed: gone})})
		return err
	})
	return gone, err
}

func scanExpired(rows pgx.Rows) (id pawl.ID, err error) { return id, rows.Scan((*idColumn)(&id)) }
