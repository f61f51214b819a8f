package postgres

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// turnGiver lets the callers of a process share their work.
type turnGiver struct {
	allowed bool          // this principal has the rights; else hosts are left word
	turn    chan struct{} // holds a token while nobody gives turns
	notify  chan struct{}
	asked   atomic.Int64  // calls so far
	served  atomic.Int64  // of them; written by whoever holds the token
	untold  atomic.Int64  // since when there may be ready jobs that only this process has been told of, in Unix nanoseconds; 0: there are none
	telling chan struct{} // is poked when there are
	untaken *untaken

	arrivals arrivalMarks
	missing  chan struct{} // is poked when a look did not begin with the first arrival
}

func newTurnGiver() *turnGiver {
	g := &turnGiver{turn: make(chan struct{}, 1), notify: make(chan struct{}, 1), missing: make(chan struct{}, 1), telling: make(chan struct{}, 1), untaken: newUntaken()}
	g.turn <- struct{}{}
	return g
}

// ask has turns given soon for what was committed by now.
func (g *turnGiver) ask() {
	g.asked.Add(1)
	poke(g.notify)
}

const mayGiveTurns = `select has_table_privilege('{l}.arrival', 'DELETE')`

// askForTurns finds out whether this principal may give turns.
func (s *Store) askForTurns(ctx context.Context) error {
	return s.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		return conn.QueryRow(ctx, s.schema.text(mayGiveTurns), pgx.QueryExecModeExec).Scan(&s.turns.allowed)
	})
}

// runTurns gives turns until the store is closed.
func (s *Store) runTurns() {
	g := s.turns
	var whole <-chan time.Time
	for {
		select {
		case <-g.notify:
			s.insist(s.background)
		case <-g.missing:
			if whole == nil {
				whole = time.After(g.arrivals.wholeIn(time.Now()))
			}
		case <-whole:
			whole = nil
			g.ask()
		case <-s.background.Done():
			return
		}
	}
}

// insist gives turns for what was committed by now. Where somebody else is at it, who may have looked before, it tries again
// for a while, without a connection.
func (s *Store) insist(ctx context.Context) {
	for pause := time.Millisecond; !s.awaitTurns(ctx) && pause < 2*time.Second; pause *= 2 {
		wait(ctx, pause)
	}
}

// giveTurns gives turns for what was committed by now, unless somebody else is at it, who then looks once more. Where that
// fails, the sweeps of any host go on with it.
func (s *Store) giveTurns(ctx context.Context) {
	if !s.turns.allowed {
		return
	}
	s.turns.asked.Add(1)
	s.awaitTurns(ctx)
}

// awaitTurns returns when turns have been given for all that was asked by now, or false: they are being given by another
// process.
func (s *Store) awaitTurns(ctx context.Context) (given bool) {
	g := s.turns
	asked := g.asked.Load()
	if g.served.Load() >= asked {
		return true
	}
	select {
	case <-g.turn:
	case <-ctx.Done():
		return true
	case <-s.background.Done():
		return true
	}
	defer func() { g.turn <- struct{}{} }()
	if g.served.Load() >= asked {
		return true
	}
	serves := g.asked.Load()
	given, more, err := s.giveOnce(context.WithoutCancel(ctx))
	if err != nil && s.background.Err() == nil {
		s.config.Logger.Warn("turns could not be given; a sweep does it", "error", err)
	}
	if given || err != nil {
		g.served.Store(serves)
	}
	if more {
		g.ask()
	}
	return given || err != nil
}

// tellTurnsAfter is how long this process's own hosts, whose workers the ended jobs have left, may take to claim those whose
// turn it is.
const tellTurnsAfter = 100 * time.Millisecond

// tellTurns wakes this process's hosts, and later those of others, if these do not claim what has become ready.
func (s *Store) tellTurns() {
	s.waker.signal()
	if s.turns.untold.CompareAndSwap(0, time.Now().UnixNano()) {
		poke(s.turns.telling)
	}
}

// tellOthers wakes the hosts of others, until the store is closed.
func (s *Store) tellOthers() {
	g := s.turns
	for {
		select {
		case <-g.telling:
		case <-s.background.Done():
			return
		}
		for since := g.untold.Load(); since != 0; since = g.untold.Load() {
			if left := tellTurnsAfter - time.Since(time.Unix(0, since)); left > 0 {
				if !wait(s.background, left) {
					return
				}
			} else if g.untold.CompareAndSwap(since, 0) {
				poke(s.waker.unsent)
			}
		}
	}
}

// lookFrom is the arrival with which a look begins. Where it may miss one, a look at all of them follows.
func (g *turnGiver) lookFrom() int64 {
	from := g.arrivals.from(time.Now())
	if from > 0 {
		poke(g.missing)
	}
	return from
}

// claimedTurns notes that a claim has found no more jobs than it got.
func (g *turnGiver) claimedTurns() { g.untold.Store(0) }

// giveOnce gives turns once, unless somebody else does. more says that there is more to look at.
func (s *Store) giveOnce(ctx context.Context) (given, more bool, err error) {
	from := s.turns.lookFrom()
	var q quickTurns
	err = s.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		batch := &pgx.Batch{}
		q = quickTurns{from: from}
		q.queue(s, batch)
		return conn.SendBatch(ctx, batch).Close() // where it fails, the pool closes the connection, and so the transaction
	})
	if err != nil {
		return false, false, fmt.Errorf("give turns by kind: %w", err)
	}
	if q.shows() {
		s.tellTurns()
	}
	if !q.rest { // else there may be some before the last that was taken
		s.turns.arrivals.took(time.Now(), q.last)
	}
	if !q.mine || !q.rest {
		return q.mine, q.more && q.mine, nil // else it is for whoever was giving turns
	}
	return s.giveSlowly(ctx, nil, from)
}

// giveSlowly gives turns at all gates. started are jobs whose start is to be counted: then it waits for others who give turns.
func (s *Store) giveSlowly(ctx context.Context, started idList, from int64) (given, more bool, err error) {
	var t giving
	err = s.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		t = newGiving(s, conn, from)
		return t.run(ctx, started)
	})
	if err != nil {
		return false, false, fmt.Errorf("give turns: %w", err)
	}
	if t.made > 0 {
		s.tellTurns()
	}
	return t.mine, t.more, nil
}

// quickTurns is a transaction that gives turns at the gates of kinds alone. It is sent as a whole, so the lock is held for
// no longer than the server takes for it.
type quickTurns struct {
	mine  bool  // nobody else was giving turns
	taken int   // words that had been left
	made  int   // jobs that became ready
	rest  bool  // there was word that it cannot deal with
	more  bool  // there is word now
	from  int64 // the first arrival that is looked at
	last  int64 // that was taken
}

func (q *quickTurns) queue(s *Store, batch *pgx.Batch) {
	batch.Queue("begin")
	batch.Queue(seizeTurns, s.schema.lock("turns"))
	batch.Queue(s.sql.giveQuickly, turnsAtOnce-1, arrivalsAtOnce, q.from).QueryRow(func(row pgx.Row) error {
		return row.Scan(&q.mine, &q.taken, &q.made, &q.rest, &q.last)
	})
	batch.Queue("commit")
	s.queueAnyArrival(batch, q.from, &q.more, new(*time.Duration))
}

// shows reports that claims may find jobs: some were made ready, or somebody else has dealt with what was left here.
func (q *quickTurns) shows() bool { return q.mine && (q.made > 0 || q.taken == 0) }
