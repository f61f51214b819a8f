package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
)

const (
	selectUnbeaten = `select beat_at from pawl_session where id = ?1 and beat = ?2 and ended_at is null`

	// The suspects alone are charged if there are any among what the session held; one that has reached the limit of
	// crashes is not run any more, and shields nobody.
	noteDead = `update pawl_session set recover = 1 + exists (select 1 from pawl_job where session = ?1 and crashes >= ?2 and crashes < ?3) where id = ?1`

	selectDead     = `select id, name, beat_at, recover = 2 from pawl_session indexed by pawl_session_dead where recover > 0 order by id limit 1`
	noteRecovered  = `update pawl_session set recover = 0 where id = ?1`
	selectDeadJobs = `select seq from pawl_job where session = ?1 order by token limit ?2`

	unmarked = `(once <> 0 and started = 0)`
	charged  = `(not ` + unmarked + ` and (not ?2 or crashes >= ?3))`

	recordCrashes = `insert into pawl_attempt (job_id, n, record)
select j.id, coalesce((select max(n) from pawl_attempt a where a.job_id = j.id), 0) + 1, json_object(
  'attempt', j.attempt, 'ending', 'crashed', 'started_at', ?2, 'duration_ns', 0, 'host', ?3)
from json_each(?1) t join pawl_job j on j.seq = t.value where not ` + unmarked
	trimCrashed = `delete from pawl_attempt where job_id in (select j.id from json_each(?1) t join pawl_job j on j.seq = t.value)
and n <= (select max(n) from pawl_attempt b where b.job_id = pawl_attempt.job_id) - ?2`
	recoverJobs = `update pawl_job set seq = iif(seq > 0, seq - 4611686018427387904, seq), session = null, token = null, room = zeroblob(10),
attempt = attempt - ` + unmarked + `, crashes = crashes + ` + charged + `,
lane = starts_off + 2 * (crashes + ` + charged + ` >= ?3), cancel = 0, progress = null, ready_at = ?4 where seq in (select value from json_each(?1))`

	selectDue = `select seq from pawl_job where run_at is not null and run_at <= ?1 order by run_at, seq limit ?2`
	// Those of them that stand in line, where they were moved to.
	selectDueLined = `select seq, id from pawl_job where seq > ?1 and seq <= ?2 and turn <> 0 order by seq`
	makeReady      = `update pawl_job set seq = ?2 + t.key + 1, run_at = iif(turn <> 0, ` + parked + `, null) from json_each(?1) t where pawl_job.seq = t.value`
	selectNext     = `select run_at from pawl_job where run_at is not null and run_at < ` + parked + ` order by run_at limit 1`
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
		{"recover jobs", s.recoverJobs},
		{"make due jobs ready", s.makeDue},
		{"run schedules", s.runSchedules},
		{"purge", s.purge},
		{"strip history", s.stripHistory},
		{"prune letters", s.expire},
		{"retire sinks", s.retireSinks},
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
	var ended []pawl.SessionID
	err := s.write(ctx, func(ctx context.Context, w *writer) error {
		ended = nil
		for _, seen := range request.Dead {
			dead, err := endUnbeaten(ctx, w, seen, now())
			if err != nil {
				return err
			}
			if dead {
				ended = append(ended, seen.ID)
			}
		}
		return nil
	})
	if err == nil {
		report.Ended = ended
	}
	return err
}

func endUnbeaten(ctx context.Context, x execer, seen pawl.SeenSession, at int64) (bool, error) {
	beatAt, unbeaten, err := selectOne(ctx, x, scanValue[int64], selectUnbeaten, int64(seen.ID), seen.Beat)
	if err != nil || !unbeaten {
		return false, err
	}
	if _, err := x.ExecContext(ctx, noteDead, int64(seen.ID), pawl.CrashSuspect, pawl.CrashLimit); err != nil {
		return false, err
	}
	return finishSession(ctx, x, seen.ID, at, beatAt)
}

// deadSession is an ended session that still holds jobs.
type deadSession struct {
	id       int64
	name     string
	beatAt   time.Time
	suspects bool
}

func scanDead(rows *sql.Rows) (s deadSession, err error) {
	return s, rows.Scan(&s.id, &s.name, (*timeColumn)(&s.beatAt), &s.suspects)
}

// recoverJobs puts back jobs of ended sessions, whoever ended them.
func (s *Store) recoverJobs(ctx context.Context, request pawl.SweepRequest, report *pawl.SweepReport) error {
	recovered := 0
	err := s.write(ctx, func(ctx context.Context, w *writer) error {
		recovered = 0
		for recovered < request.Limit {
			session, found, err := selectOne(ctx, w, scanDead, selectDead)
			if err != nil || !found {
				return err
			}
			n, err := recoverFrom(ctx, w, session, s.config.History >= 0, request.Limit-recovered, now())
			if err != nil {
				return fmt.Errorf("session %d: %w", session.id, err)
			}
			recovered += n
		}
		return nil
	})
	if err == nil {
		report.Recovered = recovered
		report.More = report.More || recovered == request.Limit
	}
	return err
}

// recoverFrom puts jobs at the front of their queues. Each is charged with the crash, unless suspects were among them:
// then these alone are. What must not run twice and was not started goes back as if it had not been claimed. What was to
// be cancelled is removed.
func recoverFrom(ctx context.Context, w *writer, session deadSession, keep bool, limit int, at int64) (int, error) {
	if _, err := removeCancelled(ctx, w, keep, at, selectCancelledHeld, session.id); err != nil {
		return 0, err
	}
	seqs, err := selectRows(ctx, w, scanValue[int64], selectDeadJobs, session.id, limit)
	if err != nil {
		return 0, err
	}
	if len(seqs) < limit { // these are the last
		if _, err := w.ExecContext(ctx, noteRecovered, session.id); err != nil {
			return 0, err
		}
	}
	if len(seqs) == 0 {
		return 0, nil
	}
	list := listOf(seqs)
	startedAt := session.beatAt.Format(time.RFC3339Nano) // when it was last heard of
	if _, err := w.ExecContext(ctx, recordCrashes, list, startedAt, session.name); err != nil {
		return 0, fmt.Errorf("record crashes: %w", err)
	}
	if _, err := w.ExecContext(ctx, trimCrashed, list, pawl.HistoryLimit); err != nil {
		return 0, fmt.Errorf("trim records of attempts: %w", err)
	}
	if _, err := w.ExecContext(ctx, recoverJobs, list, session.suspects, pawl.CrashSuspect, at); err != nil {
		return 0, fmt.Errorf("put back jobs: %w", err)
	}
	w.ready = true
	return len(seqs), nil
}

// makeDue moves scheduled jobs whose time has come to the end of their queues.
func (s *Store) makeDue(ctx context.Context, request pawl.SweepRequest, report *pawl.SweepReport) error {
	due, next := 0, time.Duration(-1)
	err := s.write(ctx, func(ctx context.Context, w *writer) error {
		at := now()
		due, next = 0, -1
		seqs, err := selectRows(ctx, w, scanValue[int64], selectDue, at, request.Limit)
		if err != nil {
			return err
		}
		t := newTurns(w, at)
		if due = len(seqs); due > 0 {
			last, _, err := selectOne(ctx, w, scanValue[int64], takeSeq, due)
			if err != nil {
				return err
			}
			if _, err := w.ExecContext(ctx, makeReady, listOf(seqs), last-int64(due)); err != nil {
				return err
			}
			w.ready = true
			if err := t.due(ctx, last-int64(due), last); err != nil {
				return err
			}
		}
		if next, err = t.sweep(ctx, request.Limit); err != nil {
			return err
		}
		runAt, scheduled, err := selectOne(ctx, w, scanValue[int64], selectNext)
		if wait := longMillis(runAt - at); scheduled && (next < 0 || wait < next) {
			next = wait
		}
		return err
	})
	if err == nil {
		report.Due, report.NextDue = due, next
		report.More = report.More || due == request.Limit
	}
	return err
}

func listOf(numbers []int64) string {
	list := intList{make([]byte, 0, 12*len(numbers)+2)}
	for _, n := range numbers {
		list.add(n)
	}
	return list.json()
}
