package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/page"
)

const selectMembers = `select ` + liveColumns + ` from (
  select * from {s}.job where batch = $1 and id > $2 order by id limit $3) j` + withNames + ` order by j.id`

// Batch tells how a batch stands.
func (s *Store) Batch(ctx context.Context, id pawl.ID) (batch pawl.Batch, err error) {
	err = s.view(ctx, func(ctx context.Context, q querier) error {
		batch, err = s.readBatch(ctx, q, id)
		return err
	})
	if err != nil {
		return pawl.Batch{}, fmt.Errorf("batch %s: %w", id, err)
	}
	return batch, nil
}

func (s *Store) readBatch(ctx context.Context, q querier, id pawl.ID) (pawl.Batch, error) {
	row, found, err := selectOne(ctx, q, scanBatch, s.sql.selectBatch, idValue(id))
	if err == nil && !found {
		err = pawl.ErrNotFound
	}
	return row.Batch, err
}

// Batches lists the one that was opened last first.
func (s *Store) Batches(ctx context.Context, filter pawl.BatchFilter, p pawl.Page) (out pawl.BatchPage, err error) {
	if err := desk.CheckBatches(filter); err != nil {
		return out, err
	}
	limit, err := page.Limit(p)
	if err != nil {
		return out, err
	}
	after, more, err := page.Decode(page.Batches, p.After)
	if err != nil {
		return out, err
	}
	err = s.view(ctx, func(ctx context.Context, q querier) error {
		c, possible, err := s.batchConditions(ctx, q, filter)
		if err != nil || !possible {
			return err
		}
		if more {
			c.add("(created_at, id) < (?, ?)", time.UnixMicro(after.At), idBound(after.ID))
		}
		list := batchQuery(c, limit)
		rows, err := selectRows(ctx, q, scanBatch, s.schema.text(list.text), list.args...)
		found := column(rows, func(r *desk.BatchRow) pawl.Batch { return r.Batch })
		out.Batches, out.Next = page.Cut(found, limit, page.Batches, func(b pawl.Batch) page.Cursor {
			return page.Cursor{At: b.CreatedAt.UnixMicro(), ID: b.BatchEnd.Batch}
		})
		return err
	})
	if err != nil {
		return pawl.BatchPage{}, fmt.Errorf("list batches: %w", err)
	}
	return out, nil
}

// batchConditions are those of a filter; false where no batch can meet them.
func (s *Store) batchConditions(ctx context.Context, q querier, f pawl.BatchFilter) (c conditions, possible bool, err error) {
	for _, name := range []struct{ column, text string }{{"kind", f.Kind}, {"queue", f.Queue}} {
		if name.text == "" {
			continue
		}
		number, found, err := s.numberOf(ctx, q, name.text)
		if err != nil || !found {
			return c, false, err
		}
		c.add(name.column+" = ?", number)
	}
	switch f.State {
	case pawl.BatchIsOpen:
		c.add("ended_at is null")
	case pawl.BatchHasEnded:
		c.add("ended_at is not null")
	}
	if !f.Since.IsZero() {
		c.add("created_at >= ?", ceilMicro(f.Since))
	}
	return c, true, nil
}

// batchQuery picks the batches of a page first, so that the notes on no others are added up.
func batchQuery(c conditions, limit int) query {
	picked := "(select * from {s}.batch" + c.where() + " order by created_at desc, id desc limit ?)"
	text := strings.Replace(selectBatches, "{s}.batch b", picked+" b", 1) + " order by b.created_at desc, b.id desc"
	return query{numbered(text), append(c.args, limit+1)}
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
	err = s.view(ctx, func(ctx context.Context, q querier) error {
		if _, err := s.readBatch(ctx, q, id); err != nil {
			return err
		}
		rows, err := selectRows(ctx, q, scanJob, s.sql.selectMembers, idValue(id), idBound(after.ID), limit+1)
		if err != nil {
			return err
		}
		views, err := s.hold(ctx, q, rows)
		out.Jobs, out.Next = page.Cut(views, limit, page.Members, func(j pawl.JobView) page.Cursor { return page.Cursor{ID: j.ID} })
		return err
	})
	if err != nil {
		return pawl.JobPage{}, fmt.Errorf("list members of batch %s: %w", id, err)
	}
	return out, nil
}
