package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

const (
	purgeAttempts = `delete from pawl_attempt where job_id in (select id from pawl_done where finished_at < ?1 order by finished_at limit ?2)`
	purgeDone     = `delete from pawl_done where rowid in (select rowid from pawl_done where finished_at < ?1 order by finished_at limit ?2)`

	purgePeriods  = `delete from pawl_key where (key, job_id) in (select key, job_id from pawl_key where until > 0 and until <= ?1 limit ?2)`
	purgeVerdicts = `delete from pawl_verdict where job_id in (
  select job_id from pawl_verdict v where not exists (select 1 from pawl_job where id = v.job_id) limit ?1)`

	selectOldSessions = `select id from pawl_session indexed by pawl_session_ended where ended_at < ?1 and recover = 0 limit ?2`
	deleteSession     = `delete from pawl_session where id = ?1`

	selectStrip = `select finished_at from pawl_done where finished_at >= ?1 and finished_at < ?2 order by finished_at limit 1 offset ?3`
	stripDone   = `update pawl_done set envelope = null where finished_at >= ?1 and finished_at < ?2 and envelope is not null`
)

// sessionsKept is how long ended sessions are kept to be looked at.
const sessionsKept = 8 * 24 * time.Hour

// purge removes what is over age.
func (s *Store) purge(ctx context.Context, request pawl.SweepRequest, report *pawl.SweepReport) error {
	purged, more := 0, false
	err := s.write(ctx, func(ctx context.Context, w *writer) error {
		purged, more = 0, false
		w.batches = true // some may have been opened empty by transactions of callers
		at := now()
		doneBefore := at - max(s.config.History, remembered).Milliseconds()
		for _, step := range []struct {
			statement string
			args      []any
			counts    bool
		}{
			{purgeAttempts, []any{doneBefore, request.Limit}, false},
			{purgeDone, []any{doneBefore, request.Limit}, true},
			{purgePeriods, []any{at, request.Limit}, true},
			{purgeVerdicts, []any{request.Limit}, true},
			{purgeBatches, []any{at - desk.BatchKept.Milliseconds(), request.Limit}, true},
		} {
			n, err := change(ctx, w, step.statement, step.args...)
			if err != nil {
				return fmt.Errorf("%.40s…: %w", step.statement, err)
			}
			if step.counts {
				purged += int(n)
				more = more || int(n) == request.Limit
			}
		}
		n, err := purgeSessions(ctx, w, at-sessionsKept.Milliseconds(), request.Limit)
		purged, more = purged+n, more || n == request.Limit
		return err
	})
	if err == nil {
		report.Purged = purged
		report.More = report.More || more
	}
	return err
}

func purgeSessions(ctx context.Context, x execer, before int64, limit int) (int, error) {
	old, err := selectRows(ctx, x, scanValue[int64], selectOldSessions, before, limit)
	if err != nil {
		return 0, fmt.Errorf("find old sessions: %w", err)
	}
	for _, session := range old {
		if _, err := x.ExecContext(ctx, deleteSession, session); err != nil {
			return 0, fmt.Errorf("remove session %d: %w", session, err)
		}
	}
	return len(old), nil
}

// stripHistory lets go of finished jobs' envelopes where history is kept for a shorter time than ids. It goes along the
// times at which they finished and remembers how far it has come.
func (s *Store) stripHistory(ctx context.Context, request pawl.SweepRequest, report *pawl.SweepReport) error {
	if s.config.History < 0 || s.config.History >= remembered {
		return nil
	}
	stripped, reached, more := int64(0), int64(0), false
	err := s.write(ctx, func(ctx context.Context, w *writer) error {
		from, to := s.stripped.Load(), now()-s.config.History.Milliseconds()
		next, found, err := selectOne(ctx, w, scanValue[int64], selectStrip, from, to, request.Limit)
		if err != nil {
			return err
		}
		reached, more = to, found
		if found {
			reached = max(next, from+1)
		}
		stripped, err = change(ctx, w, stripDone, from, reached)
		return err
	})
	if err == nil {
		s.stripped.Store(reached)
		report.Purged += int(stripped)
		report.More = report.More || more
	}
	return err
}
