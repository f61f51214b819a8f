package postgres

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawljobs/pawl"
)

// untaken are the jobs that settles of this process have let through, and that none of its claims is known to have got. While a
// claim is under way it may get them, so its end is awaited before hosts are told to claim: in vain, they would cost as much as
// all else.
type untaken struct {
	watch   chan struct{} // there are such jobs
	swapped chan struct{} // others have taken some

	mu     sync.Mutex
	claims int // under way
	news   bool
	jobs   map[pawl.ID]time.Time // since when
}

func newUntaken() *untaken {
	return &untaken{watch: make(chan struct{}, 1), swapped: make(chan struct{}, 1), jobs: map[pawl.ID]time.Time{}}
}

// begin notes that a claim is under way from now on.
func (u *untaken) begin() time.Time {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.claims++
	return time.Now()
}

// end notes what a claim has got that began then; all says that it has left nothing. It reports whether hosts are to be told, and
// whether other processes have taken some: what these let through in their turn is then left for this one's workers.
func (u *untaken) end(began time.Time, jobs []pawl.ClaimedJob, all bool) (tell, swapped bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.claims--
	for i := range jobs {
		delete(u.jobs, jobs[i].ID)
	}
	if all {
		for id, since := range u.jobs {
			if since.Before(began) {
				delete(u.jobs, id)
				swapped = true
			}
		}
	}
	return u.tell(), swapped
}

// add notes jobs that were let through, save those that are held by now, and reports whether hosts are to be told.
func (u *untaken) add(ids idList, held map[pawl.ID]bool) (tell bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	for _, id := range ids {
		if !held[pawl.ID(id)] {
			u.jobs[pawl.ID(id)], u.news = now, true
		}
	}
	if u.news {
		poke(u.watch)
	}
	return u.tell()
}

// tell reports that there are jobs that hosts were not told of. Callers hold mu.
func (u *untaken) tell() bool {
	if u.claims > 0 {
		return false
	}
	tell := u.news && len(u.jobs) > 0
	u.news = false
	return tell
}

// stale takes out the jobs that are there for long, and reports whether others are left.
func (u *untaken) stale() (ids idList, left bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for id, since := range u.jobs {
		if time.Since(since) >= tellTurnsAfter {
			ids = append(ids, id)
			delete(u.jobs, id)
		}
	}
	return ids, len(u.jobs) > 0
}

// tellPassed tells this process's hosts of jobs that a settle has let through.
func (s *Store) tellPassed(ids idList) {
	if len(ids) > 0 && s.turns.untaken.add(ids, s.held.linedJobs()) {
		s.waker.signal()
	}
}

// swappedAfter is when to look for what others have left. They have the jobs that this process let through, and may have no
// worker free now for those that they did.
const swappedAfter = time.Millisecond

// tellUntaken has hosts claim once more after a claim if there is something for them.
func (s *Store) tellUntaken(began time.Time, claimed pawl.Claimed, all bool) {
	switch tell, swapped := s.turns.untaken.end(began, claimed.Jobs, all); {
	case tell:
		s.waker.signal()
	case swapped:
		poke(s.turns.untaken.swapped)
	}
}

// watchSwapped tells this process's hosts of what others have left, until the store is closed.
func (s *Store) watchSwapped() {
	for {
		select {
		case <-s.turns.untaken.swapped:
		case <-s.background.Done():
			return
		}
		if wait(s.background, swappedAfter) {
			s.waker.signal()
		}
	}
}

const anyWaits = `select exists (select 1 from unnest($1::uuid[]) u (id) cross join lateral (
  select 1 from {s}.job j where j.id = u.id and j.holder is null and j.run_at is null limit 1) j)`

// watchUntaken tells the hosts of others of the jobs that were let through and that nobody takes, until the store is closed.
func (s *Store) watchUntaken() {
	for {
		select {
		case <-s.turns.untaken.watch:
		case <-s.background.Done():
			return
		}
		wait(s.background, tellTurnsAfter)
		ids, left := s.turns.untaken.stale()
		if left {
			poke(s.turns.untaken.watch)
		}
		if len(ids) == 0 {
			continue
		}
		waits := true // where the store does not say
		_ = s.run(s.background, func(ctx context.Context, conn *pgxpool.Conn) error {
			return conn.QueryRow(ctx, s.sql.anyWaits, ids).Scan(&waits)
		})
		if waits {
			poke(s.waker.unsent)
		}
	}
}
