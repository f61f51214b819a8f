package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/page"
)

const (
	// A letter is still needed: the outcome of its redrive is to be written, or an operation has it before it.
	needed = `(l.status = 1 and l.redrive_outcome = 'pending' or exists (select 1 from pawl_operation_item i
join pawl_operation o on o.id = i.operation where i.letter = l.id and i.state in (0, 3) and o.state not in ('stopped', 'finished')))`

	selectNeeded  = `select ` + needed + ` from pawl_letter l where l.id = ?`
	selectExpired = `select l.dead_at, l.id from pawl_letter l indexed by pawl_letter_closed
where l.status in (2, 3) and l.status_at < ?1 and l.dead_at < ?1 and not ` + needed + ` order by l.status_at limit ?2`
)

// PruneLetters removes letters by status and age. It looks for them without the file's lock, a batch at a time, and looks
// again at each before it goes.
func (s *Store) PruneLetters(ctx context.Context, filter pawl.LetterFilter, by pawl.By) (pawl.Pruned, error) {
	if err := desk.CheckPrune(filter, by); err != nil {
		return pawl.Pruned{}, err
	}
	filter.OldestFirst = false
	q, err := newLetterQuery(filter)
	if err != nil {
		return pawl.Pruned{}, err
	}
	p := pruning{letterQuery: q, filter: filter, who: by}
	for more := true; more; {
		var picked []page.Cursor
		err := s.view(ctx, func(x execer) (err error) {
			picked, err = p.pick(ctx, x, batch)
			return err
		})
		if err == nil {
			more, err = len(picked) == batch, s.prune(ctx, &p, picked)
		}
		if err != nil {
			return p.done, fmt.Errorf("prune letters after %d: %w", p.done.Removed, err)
		}
	}
	return p.done, nil
}

// pruning is how far it has come.
type pruning struct {
	letterQuery
	filter pawl.LetterFilter
	who    pawl.By
	audit  int64 // the line in the trail; 0 before the first batch
	done   pawl.Pruned
	silent bool // nothing is said of nothing
}

// pick finds the next letters, the oldest first.
func (p *pruning) pick(ctx context.Context, x execer, n int) ([]page.Cursor, error) {
	query, args := p.picking(n)
	return selectRows(ctx, x, scanPlace, query, args...)
}

func (p *pruning) picking(n int) (query string, args []any) {
	w := p.within(p.times).and(p.rest())
	return p.by("dead_at, id") + w.sql() + oldestFirst + " limit ?", append(w.args, n)
}

func scanPlace(rows *sql.Rows) (c page.Cursor, err error) {
	return c, rows.Scan(&c.At, (*idColumn)(&c.ID))
}

// prune removes a batch, and says in the trail how many have gone so far.
func (s *Store) prune(ctx context.Context, p *pruning, picked []page.Cursor) error {
	var next pruning
	err := s.write(ctx, func(ctx context.Context, w *writer) (err error) {
		next = *p
		return next.step(ctx, w, picked, now())
	})
	if err == nil {
		*p = next
	}
	return err
}

func (p *pruning) step(ctx context.Context, x execer, picked []page.Cursor, at int64) (err error) {
	for _, letter := range picked {
		p.times.Behind(letter)
		if err := p.remove(ctx, x, letter.ID); err != nil {
			return err
		}
	}
	if p.silent && p.done.Removed == 0 {
		return nil
	}
	entry := desk.PruneEntry(p.filter, p.done)
	if p.audit == 0 {
		p.audit, err = writeAudit(ctx, x, at, p.who, entry)
		return err
	}
	_, err = x.ExecContext(ctx, `update pawl_audit set outcome = ? where id = ?`, entry.Outcome, p.audit)
	return err
}

// remove removes a letter, if it is still to go and is not needed.
func (p *pruning) remove(ctx context.Context, x execer, id pawl.ID) error {
	fate, found, err := readFate(ctx, x, id)
	if err != nil || !found || !desk.Picks(p.filter, fate) {
		return err
	}
	needed, _, err := selectOne(ctx, x, scanValue[bool], selectNeeded, id[:])
	if err != nil {
		return err
	}
	if needed {
		p.done.Kept++
		return nil
	}
	p.done.Removed++
	return removeLetter(ctx, x, id)
}

// expire prunes letters that were closed long ago, where the store was told to.
func (s *Store) expire(ctx context.Context, request pawl.SweepRequest, report *pawl.SweepReport) error {
	if s.config.Retention <= 0 {
		return nil
	}
	filter := desk.Expired(time.UnixMilli(now()), s.config.Retention)
	var picked []page.Cursor
	err := s.view(ctx, func(x execer) (err error) {
		picked, err = selectRows(ctx, x, scanPlace, selectExpired, filter.StatusBefore.UnixMilli(), request.Limit)
		return err
	})
	if err != nil || len(picked) == 0 {
		return err
	}
	p := pruning{filter: filter, who: desk.Retention(), silent: true}
	if err := s.prune(ctx, &p, picked); err != nil {
		return err
	}
	report.Purged += p.done.Removed
	report.More = report.More || len(picked) == request.Limit
	return nil
}
