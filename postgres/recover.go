package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawljobs/pawl"
)

// Who holds a job is in no index, so that claims are cheap. What an ended session held is found by walking the index of
// ready jobs from its start, a stretch at a time; reserved jobs are at the front of their queues, so they come first. Then
// comes what is due in the schedule: jobs may have been claimed where they stood there. They were due then; by a clock that was
// set back since, they may not be now, so it is looked an hour ahead.
const (
	selectEnded = `select id, name, beat_at, suspects, closed, coalesce(scan_queue, 0), coalesce(scan_seq, 0), scan_at from {s}.session
where ended_at is not null and not scanned order by id limit 1 for update skip locked`

	selectReserved = `with stretch as materialized (
  select queue, seq, null::timestamptz as run_at, id, holder from {s}.job where run_at is null and (queue, seq) > ($2, $3) order by queue, seq limit $4
)
(select queue, seq, run_at, id, true from stretch where holder = $1 order by queue, seq limit $5)
union all
(select queue, seq, run_at, null, false from stretch order by queue desc, seq desc limit 1)
union all
select count(*)::int, 0, null, null, null from stretch`

	selectStanding = `with stretch as materialized (
  select queue, seq, run_at, id, holder from {s}.job where run_at <= now() + interval '1 hour' and (run_at, seq) > ($2, $3)
  order by run_at, seq limit $4
)
(select queue, seq, run_at, id, true from stretch where holder = $1 order by run_at, seq limit $5)
union all
(select queue, seq, run_at, null, false from stretch order by run_at desc, seq desc limit 1)
union all
select count(*)::int, 0, null, null, null from stretch`

	// Each is charged with the crash, unless suspects were among them: then these alone are. What must not run twice
	// and was not started goes back as if it had not been claimed, and so does everything of a session that was closed.
	recoverJobs = `update {s}.job j set holder = null, claim = null, progress = null, run_at = null, ready_at = now(),
  seq = case when j.seq >= 0 then j.seq - 4611686018427387904 else j.seq end,
  attempt = j.attempt - ($4 or j.flags & 1 <> 0 and j.started is null)::int,
  crashes = j.crashes + (not $4 and not (j.flags & 1 <> 0 and j.started is null) and (not $3 or j.crashes >= 2))::int,
  flags = (j.flags & ~8) | 4 * (not $4 and not (j.flags & 1 <> 0 and j.started is null))::int
from unnest($1::uuid[]) t (id) where j.id = t.id and j.holder = $2 and j.flags & 8 = 0
returning j.id, j.attempt, not $4 and not (j.flags & 1 <> 0 and j.started is null)`

	moveScan = `update {s}.session set scanned = $2, scan_queue = $3, scan_seq = $4, scan_at = $5 where id = $1`

	scanStretch = 10_000
	lastQueue   = math.MaxInt32
)

// recover puts back jobs of ended sessions, whoever ended them.
func (s *Store) recover(ctx context.Context, limit int, report *pawl.SweepReport) error {
	recovered, more, err := s.recoverFor(ctx, claimTime, limit)
	report.Recovered = recovered
	report.More = report.More || more
	return err
}

// recoverFor recovers up to limit jobs, for as long as the time allows. more says that it did not come to an end.
func (s *Store) recoverFor(ctx context.Context, allowed time.Duration, limit int) (recovered int, more bool, err error) {
	began := time.Now()
	slots := s.slotsOrNone(ctx)
	for recovered < limit {
		var n int
		found := false
		err := s.write(ctx, func(ctx context.Context, tx pgx.Tx) error {
			var lost stranded
			err := lost.read(tx.QueryRow(ctx, s.sql.selectEnded))
			if found = err == nil; errors.Is(err, pgx.ErrNoRows) {
				return nil
			}
			if err == nil {
				n, err = s.recoverFrom(ctx, tx, lost, limit-recovered, slots)
			}
			return err
		})
		if missing(err, "done_") {
			s.forgetSlots()
		}
		if err != nil || !found {
			return recovered, false, err
		}
		recovered += n
		if n > 0 {
			s.claims.fronts.Add(1)
			s.waker.announce()
		}
		s.giveIfAny(ctx) // what was to be cancelled is gone
		if time.Since(began) > allowed {
			break
		}
	}
	return recovered, true, nil
}

// stranded is an ended session that may still hold jobs.
type stranded struct {
	id       int64
	name     string
	beatAt   time.Time
	suspects bool
	closed   bool
	place    walkPlace // how far it was searched
}

// walkPlace is a place among the ready jobs, or, with a time, in the schedule.
type walkPlace struct {
	queue int32
	seq   int64
	runAt pgtype.Timestamptz
}

func (p *walkPlace) targets() []any { return []any{&p.queue, &p.seq, &p.runAt} }

func (l *stranded) read(row pgx.Row) error {
	err := row.Scan(append([]any{&l.id, &l.name, &l.beatAt, &l.suspects, &l.closed}, l.place.targets()...)...)
	if l.place.queue == 0 {
		l.place.seq = frontStart
	}
	return err
}

// recoverFrom walks one stretch and puts the session's jobs in it to the front of their queues.
func (s *Store) recoverFrom(ctx context.Context, tx pgx.Tx, lost stranded, limit int, slots slotSet) (int, error) {
	text, from := s.sql.selectReserved, any(lost.place.queue)
	if lost.place.runAt.Valid {
		text, from = s.sql.selectStanding, lost.place.runAt
	}
	limit = min(limit, scanStretch)
	rows, err := tx.Query(ctx, text, lost.id, from, lost.place.seq, scanStretch, limit)
	if err != nil {
		return 0, err
	}
	var ids idList
	var walked int32
	var at, last, end walkPlace
	var id idColumn
	var held *bool
	_, err = pgx.ForEachRow(rows, append(at.targets(), &id, &held), func() error {
		switch {
		case held == nil:
			walked = at.queue
		case *held:
			ids = append(ids, pawl.ID(id))
			last = at
		default:
			end = at
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	through := false
	switch {
	case len(ids) == limit:
		end = last
	case walked == scanStretch:
	case !lost.place.runAt.Valid:
		end = walkPlace{queue: lastQueue, runAt: dueStart.runAt, seq: dueStart.seq}
	default:
		end, through = lost.place, true
	}
	if err := s.putBackLost(ctx, tx, lost, ids); err != nil {
		return 0, err
	}
	removed, err := s.removeCancelled(ctx, tx, lost.id, ids, nil, nil, slots)
	if err != nil {
		return 0, fmt.Errorf("remove cancelled jobs: %w", err)
	}
	_, err = tx.Exec(ctx, s.sql.moveScan, lost.id, through, end.queue, end.seq, end.runAt)
	return len(ids) - len(removed), err
}

// putBackLost puts the jobs back, with a record of the crash.
func (s *Store) putBackLost(ctx context.Context, tx pgx.Tx, lost stranded, ids idList) error {
	if len(ids) == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, s.sql.recoverJobs, ids, lost.id, lost.suspects, lost.closed)
	if err != nil {
		return err
	}
	records := recordList{}
	var id idColumn
	var attempt int
	var ran bool
	_, err = pgx.ForEachRow(rows, []any{&id, &attempt, &ran}, func() error {
		if !ran {
			return nil
		}
		return records.add(pawl.ID(id), pawl.AttemptRecord{
			Attempt: attempt, Ending: pawl.EndCrashed, StartedAt: lost.beatAt.UTC(), Host: lost.name, // when it was last heard of
		})
	})
	if err != nil {
		return err
	}
	return records.insert(ctx, s, tx)
}
