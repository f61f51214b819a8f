package postgres

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

const (
	sweepAtOnce = 500 // rows for each duty

	// Those that have not beaten since they were seen. The suspects alone are charged if there are any among what a
	// session held; one that has reached the limit of crashes is not run any more, and shields nobody.
	endSession = `update {s}.session s set ended_at = now(), busy = 0, suspects = exists (
  select 1 from {s}.job j where j.run_at is null and j.crashes >= 2 and j.crashes < 3 and j.holder = s.id)
from unnest($1::bigint[], $2::bigint[]) t (id, beat) where s.id = t.id and s.beat = t.beat and s.ended_at is null
returning s.id`

	anyEnded      = `select exists (select 1 from {s}.session where ended_at is not null and not scanned)`
	purgeKeys     = `delete from {s}.key where hash in (select hash from {s}.key where purge_at < now() order by purge_at limit $1 for update skip locked)`
	purgeSessions = `delete from {s}.session where id in (
  select id from {s}.session where ended_at < now() - interval '8 days' and scanned order by id limit $1 for update skip locked)`
)

// Sweep does a small batch of each duty. What is seldom to be done is looked for together, in one round trip.
func (s *Store) Sweep(ctx context.Context, request pawl.SweepRequest) (pawl.SweepReport, error) {
	if request.Limit < 0 {
		request.Limit = 0
	}
	var report pawl.SweepReport
	for _, duty := range []struct {
		name string
		do   func(context.Context, pawl.SweepRequest, *pawl.SweepReport) error
	}{
		{"end dead sessions", s.endDead},
		{"make due jobs ready, purge", s.sweep},
	} {
		if err := duty.do(ctx, request, &report); err != nil {
			return report, fmt.Errorf("sweep: %s: %w", duty.name, err)
		}
	}
	return report, nil
}

// endDead ends the sessions that have not beaten since they were seen.
func (s *Store) endDead(ctx context.Context, request pawl.SweepRequest, report *pawl.SweepReport) error {
	if len(request.Dead) == 0 {
		return nil
	}
	ids, beats := make([]int64, len(request.Dead)), make([]int64, len(request.Dead))
	for i, seen := range request.Dead {
		ids[i], beats[i] = int64(seen.ID), seen.Beat
	}
	var ended []pawl.SessionID
	err := s.write(ctx, func(ctx context.Context, tx pgx.Tx) error {
		ended = nil
		rows, err := tx.Query(ctx, s.sql.endSession, ids, beats)
		if err != nil {
			return err
		}
		var gone []int64
		if gone, err = pgx.CollectRows(rows, pgx.RowTo[int64]); err != nil || len(gone) == 0 {
			return err
		}
		for _, id := range gone {
			ended = append(ended, pawl.SessionID(id))
		}
		_, err = tx.Exec(ctx, s.sql.seeKindsOf, gone)
		return err
	})
	if err == nil {
		report.Ended = ended
	}
	return err
}

// sweep makes due jobs ready and purges what is over age, and does what it found to be done besides.
func (s *Store) sweep(ctx context.Context, request pawl.SweepRequest, report *pawl.SweepReport) error {
	limit, atOnce := int64(cmp.Or(request.Limit, sweepAtOnce)), int64(cmp.Or(request.Limit, dueAtOnce))
	var found sweeping
	err := s.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		found = sweeping{store: s, limit: limit, dueLimit: atOnce, next: -1}
		return found.run(ctx, conn)
	})
	if err != nil {
		return err
	}
	report.Due, report.NextDue, report.Purged = int(found.due), found.next, int(found.keys+found.sessions+found.batches)
	switch {
	case found.due < atOnce:
	case request.Limit > 0:
		report.More = true
	default:
		report.NextDue = dueAgain // so that claims get at it meanwhile
	}
	report.More = report.More || found.keys == limit || found.sessions == limit || found.batches == limit
	if found.due > 0 {
		s.waker.announce()
	}
	if err := s.runSchedules(ctx, &found, report); err != nil {
		return err
	}
	if found.tallies {
		s.countBatches(ctx)
	}
	if err := s.sweepTurns(ctx, found, report); err != nil {
		return err
	}
	if found.stranded {
		if err := s.recover(ctx, int(limit), report); err != nil {
			return fmt.Errorf("recover jobs: %w", err)
		}
	}
	if found.sinks {
		if err := s.retireSinks(ctx, request.Session); err != nil {
			return fmt.Errorf("retire sinks: %w", err)
		}
	}
	if !ahead(found.slots, found.now) {
		if err := s.sweepSlots(ctx); err != nil {
			return fmt.Errorf("make tables of finished jobs: %w", err)
		}
	}
	if s.config.Retention > 0 {
		pruned, err := s.expire(ctx, int(limit))
		report.Purged, report.More = report.Purged+pruned, report.More || pruned == int(limit)
		if err != nil {
			return fmt.Errorf("prune letters: %w", err)
		}
	}
	if slices.ContainsFunc(found.slots, slot.isDue) {
		purged, err := s.retireSlots(ctx)
		report.Purged += purged
		if err != nil {
			return fmt.Errorf("retire tables of finished jobs: %w", err)
		}
	}
	return nil
}

// sweepTurns gives turns where something has happened since the last time, or there is a token now.
func (s *Store) sweepTurns(ctx context.Context, found sweeping, report *pawl.SweepReport) error {
	token := found.token
	if found.arrivals || token != nil && *token <= 0 {
		s.giveAllTurns(ctx)
		any, next, err := s.anyArrival(ctx)
		if err != nil {
			return fmt.Errorf("give turns: %w", err)
		}
		token = next
		report.More = report.More || any
	}
	if token != nil && (report.NextDue < 0 || *token < report.NextDue) {
		report.NextDue = max(0, *token)
	}
	return nil
}

// sweeping is the part of a sweep that is done each time, and what it finds.
type sweeping struct {
	store           *Store
	limit, dueLimit int64

	due, keys, sessions, batches int64
	next                         time.Duration  // until the next job is due; negative: there is none
	arrivals                     bool           // turns are to be given
	tallies                      bool           // batches are to be counted
	token                        *time.Duration // until the next token of a rate
	stranded                     bool           // an ended session may still hold jobs
	sinks                        bool           // it was not noted lately who has them
	tick                         time.Duration  // until the next tick of a schedule is due; negative: there is none
	check                        bool           // jobs of schedules are to be looked after
	slots                        []slot
	now                          time.Time
}

func (w *sweeping) run(ctx context.Context, conn *pgxpool.Conn) error {
	s := w.store
	batch := &pgx.Batch{}
	count := func(n *int64) func(pgconn.CommandTag) error {
		return func(tag pgconn.CommandTag) error {
			*n = tag.RowsAffected()
			return nil
		}
	}
	s.due.queue(batch, w)
	s.queueAnyArrival(batch, 0, &w.arrivals, &w.token)
	batch.Queue(s.sql.anyTally, true).QueryRow(func(row pgx.Row) error { return row.Scan(&w.tallies) })
	w.queueSchedules(batch)
	batch.Queue(s.sql.purgeKeys, w.limit).Exec(count(&w.keys))
	batch.Queue(s.sql.purgeSessions, w.limit).Exec(count(&w.sessions))
	batch.Queue(s.sql.purgeBatches, w.limit, desk.BatchKept).Exec(count(&w.batches))
	batch.Queue(s.sql.desk.anyStaleSink, desk.SinkNoted).QueryRow(func(row pgx.Row) error { return row.Scan(&w.sinks) })
	batch.Queue(s.sql.anyEnded).QueryRow(func(row pgx.Row) error { return row.Scan(&w.stranded) })
	began := time.Now()
	batch.Queue(s.sql.selectSlots, s.slotAge(), slotsLinger).Query(func(rows pgx.Rows) (err error) {
		w.slots, w.now, err = s.takeSlots(rows, began)
		return err
	})
	return conn.SendBatch(ctx, batch).Close()
}
