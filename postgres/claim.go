package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawljobs/pawl"
)

// claimer is the state of this handle's claims. One runs at a time.
type claimer struct {
	turn    chan struct{}
	cursors map[cursorKey]*cursor
	orphans map[int32]int64 // by queue, how far the search for orphans has come
	suspect time.Time       // since when suspects wait without a place among the claimed
	timer   *time.Timer     // of the next recheck, for idle hosts
	fronts  atomic.Int64    // grows when this process puts jobs to the front
}

type cursorKey struct {
	queue int32
	kinds string
}

func newClaimer() *claimer {
	c := &claimer{turn: make(chan struct{}, 1), cursors: map[cursorKey]*cursor{}, orphans: map[int32]int64{}}
	c.turn <- struct{}{}
	return c
}

const (
	mostCursors  = 4096
	claimTime    = 50 * time.Millisecond // after which a claim answers with what it has
	suspectWaits = time.Second           // behind a full queue, before it takes another's place
	claimAtOnce  = 5000                  // jobs in one claim
)

// Claim reserves ready jobs for the session.
func (s *Store) Claim(ctx context.Context, request pawl.ClaimRequest) (pawl.Claimed, error) {
	if request.Max < 1 {
		return pawl.Claimed{}, &pawl.FieldError{Field: "max", Value: request.Max, Rule: "must be at least 1"}
	}
	c, err := s.newClaim(ctx, request)
	if err == nil {
		err = c.run(ctx)
	}
	if err == nil && len(c.past) > 0 {
		err = c.addPast(ctx)
	}
	if err != nil {
		if !errors.Is(err, pawl.ErrSessionLost) {
			s.held.lostTrack(request.Session)
		}
		return pawl.Claimed{}, fmt.Errorf("claim: %w", err)
	}
	s.held.add(request.Session, c.jobs)
	return pawl.Claimed{Now: c.now, Jobs: c.jobs, More: c.more}, nil
}

// claim is one claim under way.
type claim struct {
	store   *Store
	request pawl.ClaimRequest
	limit   int
	queues  []int32
	kinds   []int32
	key     string
	began   time.Time

	jobs     []pawl.ClaimedJob
	places   []place   // of the jobs
	past     []pawl.ID // of those that have rows in other tables
	now      time.Time
	more     bool
	suspects bool // some wait
}

// place is where a claimed job stood.
type place struct {
	queue int // index among the queues of the request
	seq   int64
	kind  int32
}

// lane is a part of a queue that one statement looks at; see claimTemplate.
type lane struct {
	queue  int // index among the queues of the request
	cursor *cursor
	start  int64
	bound  int64
	window int64

	// as it was found
	found  bool
	lo, hi int64
	open   bool
	last   int64 // of the jobs taken from it
	taken  int
}

func (s *Store) newClaim(ctx context.Context, request pawl.ClaimRequest) (*claim, error) {
	if err := s.number(ctx, request.Kinds, request.Queues); err != nil {
		return nil, err
	}
	c := &claim{store: s, request: request, limit: min(request.Max, claimAtOnce), began: time.Now()}
	c.queues, c.kinds = s.names.of(request.Queues), s.names.of(request.Kinds)
	slices.Sort(c.kinds)
	b := make([]byte, 0, 4*len(c.kinds))
	for _, kind := range c.kinds {
		b = append(b, byte(kind>>24), byte(kind>>16), byte(kind>>8), byte(kind))
	}
	c.key = string(b)
	return c, nil
}

// run waits for its turn and claims.
func (c *claim) run(ctx context.Context) error {
	turn := c.store.claims.turn
	select {
	case <-turn:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.store.background.Done():
		return pawl.ErrClosed
	}
	defer func() { turn <- struct{}{} }()
	if c.request.Orphans != nil {
		return c.takeOrphans(ctx)
	}
	if err := c.take(ctx); err != nil {
		return err
	}
	if len(c.jobs) == c.limit {
		c.more = true
	}
	c.sort()
	return nil
}

// take claims along the lanes until it has enough, or there is no more.
func (c *claim) take(ctx context.Context) error {
	state := c.store.claims
	if c.request.Suspect && !state.suspect.IsZero() && time.Since(state.suspect) > suspectWaits {
		if err := c.takeSuspect(ctx); err != nil {
			return err
		}
	}
	if err := c.recheck(ctx, false); err != nil {
		return err
	}
	if err := c.takeMain(ctx); err != nil {
		return err
	}
	if !c.suspects {
		state.suspect = time.Time{}
	}
	if c.suspects && c.request.Suspect {
		if len(c.jobs) < c.limit {
			return c.takeSuspect(ctx)
		}
		if state.suspect.IsZero() {
			state.suspect = time.Now()
		}
	}
	if len(c.jobs) == 0 && !c.more {
		return c.recheck(ctx, true)
	}
	return nil
}

// takeMain looks from the heads of the queues on, and at their fronts: now and then before that, and always before it
// says that there is no more.
func (c *claim) takeMain(ctx context.Context) error {
	state := c.store.claims
	events := state.fronts.Load()
	fronts, skipped := map[int]int64{}, map[int]int64{}
	for i, queue := range c.queues {
		cursor := c.cursor(queue)
		if time.Now().After(cursor.nextFront) || cursor.fronts != events {
			fronts[i] = frontStart
		} else {
			skipped[i] = frontStart
		}
		cursor.fronts = events
	}
	if err := c.along(ctx, fronts, c.mainLanes); err != nil {
		return err
	}
	if len(c.jobs) < c.limit && len(skipped) > 0 && !c.more {
		return c.along(ctx, skipped, c.frontLanes)
	}
	return nil
}

// along claims along lanes, step by step, until it has enough or there is no more. fronts is where the front of each
// queue is looked at.
func (c *claim) along(ctx context.Context, fronts map[int]int64, next func(fronts map[int]int64) []*lane) error {
	for len(c.jobs) < c.limit {
		lanes := next(fronts)
		if len(lanes) == 0 {
			return nil
		}
		again, err := c.step(ctx, lanes)
		if err != nil || !again {
			return err
		}
		for _, l := range lanes {
			if l.bound == mainStart { // a front
				fronts[l.queue] = l.hi + 1
				if !l.found || !l.open {
					delete(fronts, l.queue)
				}
			}
		}
		if time.Since(c.began) > claimTime {
			c.more = true
			return nil
		}
	}
	return nil
}

// frontLanes are the fronts alone.
func (c *claim) frontLanes(fronts map[int]int64) []*lane {
	lanes := make([]*lane, 0, len(fronts))
	for i, queue := range c.queues {
		if start, ok := fronts[i]; ok {
			cursor := c.cursor(queue)
			lanes = append(lanes, &lane{queue: i, cursor: cursor, start: start, bound: mainStart, window: cursor.look(c.limit)})
		}
	}
	return lanes
}

// mainLanes are, for each queue in order, its front if that is to be looked at, and what comes after its head.
func (c *claim) mainLanes(fronts map[int]int64) []*lane {
	lanes := make([]*lane, 0, 2*len(c.queues))
	for i, queue := range c.queues {
		cursor := c.cursor(queue)
		if start, ok := fronts[i]; ok {
			lanes = append(lanes, &lane{queue: i, cursor: cursor, start: start, bound: mainStart, window: cursor.look(c.limit)})
		}
		lanes = append(lanes, &lane{queue: i, cursor: cursor, start: cursor.head, bound: bandsEnd, window: cursor.look(c.limit)})
	}
	return lanes
}

func (c *claim) cursor(queue int32) *cursor {
	cursors := c.store.claims.cursors
	key := cursorKey{queue, c.key}
	if cursors[key] == nil {
		if len(cursors) >= mostCursors {
			clear(cursors)
		}
		cursors[key] = newCursor(queue)
	}
	return cursors[key]
}

// step claims along lanes with one statement, and moves their cursors. It reports whether to look on.
func (c *claim) step(ctx context.Context, lanes []*lane) (again bool, err error) {
	filled, head, err := c.exec(ctx, c.store.sql.claim, lanes, c.limit-len(c.jobs))
	if err != nil {
		return false, err
	}
	last := len(lanes)
	if filled {
		for last = len(lanes) - 1; last > 0 && lanes[last].taken == 0; last-- {
		}
	}
	now := time.Now()
	for i, l := range lanes {
		if l.cursor.rules != head.rules {
			if l.cursor.rules != "" {
				l.cursor.rewind()
				again = true
			}
			l.cursor.rules = head.rules
			continue
		}
		if i <= last && l.bound == bandsEnd {
			l.move(i == last)
			l.cursor.observe(now, head.xmin, head.xmax)
		}
		if l.bound == mainStart && !l.open {
			l.cursor.nextFront = now.Add(frontEvery)
		}
		if l.open {
			again = true
			if !filled {
				break // what is behind it was not looked at
			}
		}
	}
	return again, nil
}

// move puts the head behind what was looked at.
func (l *lane) move(filled bool) {
	switch {
	case filled:
		l.cursor.advance(l.last + 1)
	case l.found:
		l.cursor.advance(l.hi + 1)
	}
	l.cursor.looked(l.open, filled)
}

// recheck looks behind the heads of the queues where it is time to. Where it is not, and the host has nothing else to
// do, it is woken when it is.
func (c *claim) recheck(ctx context.Context, idle bool) error {
	var lanes []*lane
	var later time.Duration
	now := time.Now()
	for i, queue := range c.queues {
		cursor := c.cursor(queue)
		wanted, in := cursor.recheckIn(now, idle)
		if wanted && in > 0 && (later == 0 || in < later) {
			later = in
		}
		if wanted && in <= 0 {
			cursor.startRecheck()
			r := cursor.recheck
			lanes = append(lanes, &lane{queue: i, cursor: cursor, start: r.at, bound: r.end, window: cursor.look(c.limit)})
		}
	}
	for len(lanes) > 0 && len(c.jobs) < c.limit {
		began := time.Now()
		filled, _, err := c.exec(ctx, c.store.sql.claim, lanes, c.limit-len(c.jobs))
		if err != nil {
			return err
		}
		lanes = rechecked(lanes, filled, time.Since(began))
		if time.Since(c.began) > claimTime && len(lanes) > 0 {
			later = time.Since(began) * recheckShare
			break
		}
	}
	if idle && later > 0 && len(c.jobs) == 0 {
		c.store.claims.wakeIn(later, c.store.waker)
	}
	return nil
}

// wakeIn wakes this process's hosts once.
func (s *claimer) wakeIn(d time.Duration, waker *waker) {
	if s.timer != nil {
		s.timer.Stop()
	}
	s.timer = time.AfterFunc(d, waker.signal)
}

// rechecked notes how far a recheck has come, and returns the lanes that are left.
func rechecked(lanes []*lane, filled bool, took time.Duration) []*lane {
	for i, l := range lanes {
		r := l.cursor.recheck
		if l.found {
			r.at = l.hi + 1
		}
		if filled && l.taken > 0 {
			r.at = l.last + 1
		}
		if filled && !takenBehind(lanes[i+1:]) {
			l.cursor.rechecked(took, false)
			return nil // the rest next time
		}
		l.cursor.rechecked(took, !l.open)
		if l.open {
			l.start = r.at
			l.cursor.looked(true, false)
			l.window = l.cursor.window
			return lanes[i:]
		}
	}
	return nil
}

func takenBehind(lanes []*lane) bool {
	return slices.ContainsFunc(lanes, func(l *lane) bool { return l.taken > 0 })
}

// takeSuspect claims one job that is suspected of crashing its hosts.
func (c *claim) takeSuspect(ctx context.Context) error {
	lanes := make([]*lane, len(c.queues))
	for i, queue := range c.queues {
		lanes[i] = &lane{queue: i, cursor: c.cursor(queue), start: frontStart, bound: bandsEnd, window: 1 << 62}
	}
	_, _, err := c.exec(ctx, c.store.sql.claimSuspect, lanes, 1)
	if err == nil {
		c.request.Suspect = false
		c.store.claims.suspect = time.Time{}
	}
	return err
}

// takeOrphans claims jobs that nobody can run. A search that takes long goes on with the next call.
func (c *claim) takeOrphans(ctx context.Context) error {
	kinds, err := c.orphanKinds(ctx)
	if err != nil {
		return fmt.Errorf("find unknown kinds: %w", err)
	}
	c.kinds = kinds
	if len(kinds) == 0 {
		return c.readNow(ctx)
	}
	state := c.store.claims
	lanes := make([]*lane, 0, len(c.queues))
	for i, queue := range c.queues {
		start, ok := state.orphans[queue]
		if !ok {
			start = frontStart
		}
		lanes = append(lanes, &lane{queue: i, cursor: newCursor(queue), start: start, bound: bandsEnd, window: mostWindow / 4})
	}
	for len(lanes) > 0 && len(c.jobs) < c.limit {
		filled, _, err := c.exec(ctx, c.store.sql.claimOrphan, lanes, c.limit-len(c.jobs), microseconds(c.request.Orphans.Ready))
		if err != nil {
			return err
		}
		for !filled && len(lanes) > 0 {
			l := lanes[0]
			if l.open {
				l.start = l.hi + 1
				state.orphans[l.cursor.queue] = l.start
				break
			}
			delete(state.orphans, l.cursor.queue)
			lanes = lanes[1:]
		}
		if filled || len(lanes) > 0 && time.Since(c.began) > claimTime {
			c.more = true
			break
		}
	}
	c.sort()
	return nil
}

func (c *claim) orphanKinds(ctx context.Context) (kinds []int32, err error) {
	err = c.store.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		kinds = nil
		rows, err := conn.Query(ctx, c.store.sql.selectOrphanKinds, microseconds(c.request.Orphans.Unseen), c.kinds)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var kind int32
			if err := rows.Scan(&kind); err != nil {
				return err
			}
			kinds = append(kinds, kind)
		}
		return rows.Err()
	})
	return kinds, err
}

// sort puts the jobs into the order of the queues, which statements do not keep.
func (c *claim) sort() {
	order := make([]int, len(c.jobs))
	sorted := true
	for i := range order {
		order[i] = i
		sorted = sorted && (i == 0 || !c.places[i].before(c.places[i-1]))
	}
	if sorted {
		return
	}
	slices.SortFunc(order, func(a, b int) int {
		if c.places[a].before(c.places[b]) {
			return -1
		}
		return 1
	})
	jobs := make([]pawl.ClaimedJob, len(order))
	for i, from := range order {
		jobs[i] = c.jobs[from]
	}
	c.jobs = jobs
}

func (p place) before(other place) bool {
	if p.queue != other.queue {
		return p.queue < other.queue
	}
	return p.seq < other.seq
}

// sessionLost is the error of a session that has ended.
func sessionLost(session pawl.SessionID) error {
	return fmt.Errorf("session %d: %w", session, pawl.ErrSessionLost)
}
