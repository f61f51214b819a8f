package sqlite

import (
	"context"
	"fmt"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/page"
)

const selectMembers = `select ` + liveColumns + ` from pawl_job where batch = ? and id > ? order by id limit ?`

// Batch tells how a batch stands.
func (s *Store) Batch(ctx context.Context, id pawl.ID) (batch pawl.Batch, err error) {
	err = s.view(ctx, func(x execer) error {
		batch, err = readBatch(ctx, x, id)
		return err
	})
	if err != nil {
		return pawl.Batch{}, fmt.Errorf("batch %s: %w", id, err)
	}
	return batch, nil
}

func readBatch(ctx context.Context, x execer, id pawl.ID) (pawl.Batch, error) {
	row, found, err := selectOne(ctx, x, scanBatch, selectBatch, id[:])
	if err == nil && !found {
		err = pawl.ErrNotFound
	}
	return row.Batch, err
}

// Batches lists the one that was opened last first.
func (s *Store) Batches(ctx context.Context, filter pawl.BatchFilter, p pawl.Page) (out pawl.BatchPage, err error) {
	query, args, limit, err := batchQuery(filter, p)
	if err != nil {
		return out, err
	}
	err = s.view(ctx, func(x execer) error {
		rows, err := selectRows(ctx, x, scanBatch, query, args...)
		found := make([]pawl.Batch, len(rows))
		for i, row := range rows {
			found[i] = row.Batch
		}
		out.Batches, out.Next = page.Cut(found, limit, page.Batches, func(b pawl.Batch) page.Cursor {
			return page.Cursor{At: b.CreatedAt.UnixMilli(), ID: b.BatchEnd.Batch}
		})
		return err
	})
	if err != nil {
		return pawl.BatchPage{}, fmt.Errorf("list batches: %w", err)
	}
	return out, nil
}

func batchQuery(f pawl.BatchFilter, p pawl.Page) (query string, args []any, limit int, err error) {
	if limit, err = page.Limit(p); err != nil {
		return "", nil, 0, err
	}
	var w where
	w.check(desk.CheckBatches(f))
	w.text("b.kind = ?", f.Kind)
	w.text("b.queue = ?", f.Queue)
	w.bound("b.created_at >= ?", f.Since)
	switch f.State {
	case pawl.BatchIsOpen:
		w.add("b.ended_at is null")
	case pawl.BatchHasEnded:
		w.add("b.ended_at is not null")
	}
	after, more, err := page.Decode(page.Batches, p.After)
	w.check(err)
	if more {
		w.add("(b.created_at, b.id) < (?, ?)", after.At, after.ID[:])
	}
	return selectBatches + w.sql() + " order by b.created_at desc, b.id desc limit ?", append(w.args, limit+1), limit, w.err
}

// BatchMembers lists those that have not ended, by their ids.
func (s *Store) BatchMembers(ctx context.Context, id pawl.ID, p pawl.Page) (out pawl.JobPage, err error) {
	limit, err := page.Limit(p)
	if err != nil {
		return out, err
	}
	after, _, err := page.Decode(page.Members, p.After)
	if err != nil {
		return out, err
	}
	err = s.view(ctx, func(x execer) error {
		if _, err := readBatch(ctx, x, id); err != nil {
			return err
		}
		rows, err := selectRows(ctx, x, scanJob, selectMembers, id[:], after.ID[:], limit+1)
		if err != nil {
			return err
		}
		views, err := hold(ctx, x, rows)
		out.Jobs, out.Next = page.Cut(views, limit, page.Members, func(j pawl.JobView) page.Cursor { return page.Cursor{ID: j.ID} })
		return err
	})
	if err != nil {
		return pawl.JobPage{}, fmt.Errorf("list members of batch %s: %w", id, err)
	}
	return out, nil
}
