package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/pawljobs/pawl"
)

// claimer is the state of this handle's claims. One runs at a time.
type claimer struct {
	turn        chan struct{}
	cursors     map[cursorKey]*cursor
	orphans     orphanSearch
	suspect     time.Time    // since when suspects wait without a place among the claimed
	timer       *time.Timer  // of the next recheck, for idle hosts
	tokens      int64        // the last token that was used
	tokensEnd   int64        // the last that may be
	got         int          // jobs of the last claim
	hosts       int          // at work on this store, as the last claim saw them; at least 1
	nextRecheck time.Time    // beside other work
	fronts      atomic.Int64 // grows when this process puts jobs to the front
}

type cursorKey struct {
	queue int32
	kinds string
}

func newClaimer() *claimer {
	c := &claimer{turn: make(chan struct{}, 1), cursors: map[cursorKey]*cursor{}, hosts: 1}
	c.turn <- struct{}{}
	return c
}

const (
	mostCursors  = 4096
	claimTime    = 50 * time.Millisecond // after which a claim answers with what it has
	suspectWaits = time.Second           // behind a full queue, before it takes another's place
	claimAtOnce  = 512                   // jobs in one claim
	fewQueues    = 8                     // that are cheap to look at, also in vain
)

// Claim reserves ready jobs for the session.
func (s *Store) Claim(ctx context.Context, request pawl.ClaimRequest) (pawl.Claimed, error) {
	if request.Max < 1 {
		return pawl.Claimed{}, &pawl.FieldError{Field: "max", Value: request.Max, Rule: "must be at least 1"}
	}
	s.awaitTurns(ctx)
	began := s.turns.untaken.begin()
	claimed, err := s.claim(ctx, request)
	s.tellUntaken(began, claimed, err == nil && !claimed.More && len(claimed.Jobs) < request.Max)
	return claimed, err
}

func (s *Store) claim(ctx context.Context, request pawl.ClaimRequest) (pawl.Claimed, error) {
	c, err := s.newClaim(ctx, request)
	if err == nil {
		err = c.run(ctx)
	}
	if err == nil && len(c.past) > 0 {
		err = c.addPast(ctx)
	}
	if err == nil {
		err = c.obeyLimits(ctx)
	}
	if err == nil && c.arrivals {
		s.giveTurns(ctx)
		c.more = true
	}
	if err != nil {
		if !errors.Is(err, pawl.ErrSessionLost) {
			s.held.lostTrack(request.Session)
		}
		return pawl.Claimed{}, fmt.Errorf("claim: %w", err)
	}
	if c.limited && len(c.jobs) < c.limit && !c.more {
		s.turns.claimedTurns() // nothing is left for others
	}
	s.held.add(request.Session, c.jobs, c.marks)
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
	suspects bool              // some wait
	arrivals bool              // turns are to be given
	marks    map[pawl.ID]int16 // of the jobs: see marksKept
	limited  bool              // some stand in line with their kind
}

// place is where a claimed job stood.
type place struct {
	queue int // index among the queues of the request
	seq   int64
	kind  int32
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
	c.store.claims.got = len(c.jobs)
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
	if c.store.due.first() {
		if err := c.takeDue(ctx); err != nil {
			return err
		}
		if c.done() {
			return nil
		}
	}
	if err := c.takeMain(ctx); err != nil {
		return err
	}
	if !c.done() {
		if err := c.takeDue(ctx); err != nil {
			return err
		}
	}
	if !c.suspects {
		state.suspect = time.Time{}
	}
	if !c.suspects || !c.request.Suspect {
		return nil
	}
	if len(c.jobs) < c.limit {
		return c.takeSuspect(ctx)
	}
	if state.suspect.IsZero() {
		state.suspect = time.Now()
	}
	return nil
}

// takeMain looks from the heads of the queues on, while it is busy only now and then at their fronts and behind their
// heads, and everywhere before it says that there is no more.
func (c *claim) takeMain(ctx context.Context) error {
	events := c.store.claims.fronts.Load()
	fronts, skipped := map[int]int64{}, map[int]int64{}
	now := time.Now()
	likely := 0 // queues up to the last one that gave something the last time
	for i, queue := range c.queues {
		cursor := c.cursor(queue)
		if cursor.gave {
			cursor.gave, likely = false, i+1
		}
		cursor.confirmed = cursor.low >= cursor.head && cursor.recheck == nil
		if !cursor.busy || now.After(cursor.nextFront) || cursor.fronts != events {
			fronts[i] = frontStart
		} else {
			skipped[i] = frontStart
		}
		cursor.fronts = events
	}
	if len(c.queues) <= fewQueues {
		likely = 0 // all of them with one statement
	}
	steps := []func() error{
		func() error { return c.along(ctx, fronts, c.mainLanes(0, likely)) },
		func() error { return c.along(ctx, fronts, c.mainLanes(likely, len(c.queues))) },
		func() error { return c.along(ctx, skipped, c.frontLanes) },
	}
	for _, step := range steps {
		if c.done() {
			break
		}
		if err := step(); err != nil {
			return err
		}
	}
	for _, queue := range c.queues {
		c.cursor(queue).busy = c.done()
	}
	if c.done() {
		return nil
	}
	return c.confirm(ctx)
}

// done reports that this claim is to answer with what it has.
func (c *claim) done() bool { return c.more || len(c.jobs) >= c.limit }

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
			if l.kind == laneFront {
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
	began := time.Now()
	filled, head, err := c.exec(ctx, c.store.sql.claim, lanes, c.limit-len(c.jobs))
	if err != nil {
		return false, err
	}
	last := len(lanes)
	if filled {
		for last = len(lanes) - 1; last > 0 && lanes[last].taken == 0; last-- {
		}
	}
	c.store.claims.hosts = max(1, head.hosts)
	again = rewound(lanes, head.rules)
	now := time.Now()
	for i, l := range lanes {
		if again || i > last {
			break // searched by other rules, or not at all
		}
		l.note(filled && i == last, now, now.Sub(began))
		l.cursor.observe(now, head.xmin, head.xmax)
		if l.block > 0 {
			c.more = l.taken > 0 // in the other blocks
			return !c.more, nil
		}
		if l.open && !(filled && i == last) {
			return true, nil // what is behind it was not looked at
		}
	}
	return again, nil
}

// rewound starts the search anew where the switches are not as they were. It reports whether they are not.
func rewound(lanes []*lane, rules string) (changed bool) {
	for _, l := range lanes {
		if l.cursor.rules != rules && l.cursor.rules != "" {
			l.cursor.rewind()
			changed = true
		}
		l.cursor.rules = rules
	}
	return changed
}

// confirm looks behind the heads where that was not done yet: only then is it known that there is no more. A host that
// has got something is told to come again for that. Where such looks take long, they are paced, and the host is woken
// for the next.
func (c *claim) confirm(ctx context.Context) error {
	var later time.Duration
	for {
		var lanes []*lane
		now := time.Now()
		for i, queue := range c.queues {
			cursor := c.cursor(queue)
			if cursor.confirmed {
				continue
			}
			if len(c.jobs) > 0 {
				c.more = true
				return nil
			}
			wanted, in := cursor.recheckIn(now, true, 1)
			switch {
			case wanted && in <= 0:
				lanes = append(lanes, cursor.recheckLane(i, c.limit))
			case wanted && (later == 0 || in < later):
				later = in
			}
		}
		if len(lanes) == 0 {
			break
		}
		if _, err := c.step(ctx, lanes); err != nil {
			return err
		}
	}
	if later > 0 {
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

// sessionLost is the error of a session that has ended.
func sessionLost(session pawl.SessionID) error {
	return fmt.Errorf("session %d: %w", session, pawl.ErrSessionLost)
}
