package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawljobs/pawl"
)

const (
	// Those that have not beaten since they were seen. The suspects alone are charged if there are any among what a
	// session held.
	endSession = `update {s}.session s set ended_at = now(), busy = 0, suspects = exists (
  select 1 from {s}.job j where j.run_at is null and j.crashes >= 2 and j.holder = s.id)
from unnest($1::bigint[], $2::bigint[]) t (id, beat) where s.id = t.id and s.beat = t.beat and s.ended_at is null
returning s.id`

	makeDue = `with due as materialized (
  select tid, nextval('{l}.job_seq') as seq from (
    select ctid as tid from {s}.job where run_at <= now() order by run_at, seq limit $1 for update skip locked) d
)
update {s}.job j set run_at = null, seq = due.seq from due where j.ctid = due.tid`
	selectNextDue = `select run_at - now() from {s}.job where run_at is not null order by run_at limit 1`

	purgeKeys     = `delete from {s}.key where hash in (select hash from {s}.key where purge_at < now() order by purge_at limit $1 for update skip locked)`
	purgeSessions = `delete from {s}.session where id in (
  select id from {s}.session where ended_at < now() - interval '8 days' and scanned order by id limit $1 for update skip locked)`
)

// Sweep does a small batch of each duty, in a transaction of its own.
func (s *Store) Sweep(ctx context.Context, request pawl.SweepRequest) (pawl.SweepReport, error) {
	if request.Limit <= 0 {
		request.Limit = 500
	}
	var report pawl.SweepReport
	for _, duty := range []struct {
		name string
		do   func(context.Context, pawl.SweepRequest, *pawl.SweepReport) error
	}{
		{"end dead sessions", s.endDead},
		{"recover jobs", s.recover},
		{"make due jobs ready", s.makeDue},
		{"purge", s.purge},
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

// makeDue moves scheduled jobs whose time has come to the end of their queues.
func (s *Store) makeDue(ctx context.Context, request pawl.SweepRequest, report *pawl.SweepReport) error {
	err := s.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		report.Due, report.NextDue = 0, -1
		batch := &pgx.Batch{}
		batch.Queue(s.sql.makeDue, request.Limit)
		batch.Queue(s.sql.selectNextDue)
		results := conn.SendBatch(ctx, batch)
		tag, err := results.Exec()
		if err != nil {
			return errors.Join(err, ignoreSame(err, results.Close()))
		}
		report.Due = int(tag.RowsAffected())
		var next time.Duration
		if err = results.QueryRow().Scan(&next); err == nil {
			report.NextDue = max(0, next)
		} else if errors.Is(err, pgx.ErrNoRows) {
			err = nil
		}
		return errors.Join(err, results.Close())
	})
	if err != nil {
		return err
	}
	report.More = report.More || report.Due == request.Limit
	if report.Due > 0 {
		s.waker.announce()
	}
	return nil
}

// purge removes what is over age, and makes the tables that will be needed.
func (s *Store) purge(ctx context.Context, request pawl.SweepRequest, report *pawl.SweepReport) error {
	if err := s.keepSlots(ctx); err != nil {
		return err
	}
	purged, err := s.retireSlots(ctx)
	if err != nil {
		return err
	}
	err = s.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		for _, statement := range []string{s.sql.purgeKeys, s.sql.purgeSessions} {
			tag, err := conn.Exec(ctx, statement, request.Limit)
			if err != nil {
				return err
			}
			purged += int(tag.RowsAffected())
			report.More = report.More || int(tag.RowsAffected()) == request.Limit
		}
		return nil
	})
	report.Purged = purged
	return err
}
