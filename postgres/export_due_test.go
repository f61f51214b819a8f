package postgres

import (
	"context"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
)

// Standing is a store whose claims take what is due where it stands in the schedule. Its sweeps only set that aside, into
// the distant past, unless it has to stand in line first or is suspected.
type Standing struct{ *Store }

// Stand makes a handle one that stands.
func Stand(s *Store) Standing {
	aside := strings.NewReplacer(
		"where run_at <= now() and", "where run_at <= now() and run_at > now() - interval '50 years' and",
		"'infinity'::timestamptz end", "'infinity'::timestamptz when j.crashes < 2 then j.run_at - interval '100 years' end",
		"where run_at < 'infinity' and", "where run_at < 'infinity' and run_at > now() - interval '50 years' and",
	)
	s.sql.makeDue, s.sql.selectNextDue = aside.Replace(s.sql.makeDue), aside.Replace(s.sql.selectNextDue)
	s.sql.claimDue = strings.Replace(s.sql.claimDue, "where run_at <= now() and", "where run_at <= now() - interval '50 years' and", 1)
	return Standing{s}
}

// Aside is the view of a job, waiting where it was set aside.
func Aside(view pawl.JobView) pawl.JobView {
	if view.State == pawl.JobScheduled && time.Since(view.RunAt) > 50*365*24*time.Hour {
		view.State, view.RunAt = pawl.JobWaiting, time.Time{}
	}
	return view
}

// Backlog has the next claims of a handle look at all that is due.
func Backlog(s *Store) {
	s.due.mu.Lock()
	defer s.due.mu.Unlock()
	s.due.backlog, s.due.at = true, dueStart
}

// Claim is one in a backlog.
func (s Standing) Claim(ctx context.Context, request pawl.ClaimRequest) (pawl.Claimed, error) {
	Backlog(s.Store)
	return s.Store.Claim(ctx, request)
}

// LeavesDue is whether a sweep leaves a backlog to claims that have taken so many jobs where they stood in a while.
func LeavesDue(jobs int, took time.Duration) bool {
	now := time.Now()
	c := &dueCursor{backlog: true, since: now.Add(-took)}
	c.took(jobs, jobs, false, dueStart)
	return c.leave(now)
}
