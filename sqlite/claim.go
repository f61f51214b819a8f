package sqlite

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
)

const (
	takeTokens = `update pawl_counter set value = value + ?1 where name = 'token' returning value`

	// One reservation for each candidate, the tokens in the order of the queue.
	takeHead = `update pawl_job set session = ?1, token = ?2 + c.n, room = zeroblob(?5), attempt = attempt + 1
from (select seq, row_number() over (order by seq) as n from (`
	takeTail = `)) c where pawl_job.seq = c.seq`

	takeLane    = `select seq from pawl_job where queue = ?3 and kind = ? and lane = ? and session is null and run_at is null`
	takeOne     = `select seq from pawl_job where seq = ?`
	takeListed  = `select value as seq from json_each(?3)`
	takeInOrder = ` order by seq limit ?4`

	// A bounded look at the front: in order of the queue, jobs are about in the order in which they became ready.
	selectOld = `select seq from (select seq, ready_at from pawl_job
  where queue = ?1 and kind = ?2 and lane = ?3 and session is null and run_at is null order by seq limit ?4)
where ready_at <= ?5`

	selectKnownKinds = `select kind from pawl_kind where seen_at > ?1
union select k.value from pawl_session s join json_each(iif(json_valid(s.info), s.info, '{}'), '$.Kinds') k where s.ended_at is null and k.type = 'text'`
)

// Lanes of a kind; see the schema.
const (
	laneSwitched = 1 // runs only while the kind is switched on
	laneSuspect  = 2
)

// claimLimit bounds one claim: it is one transaction, and draws as many tokens as it may take jobs.
const claimLimit = 10_000

// Claim reserves ready jobs for the session.
func (s *Store) Claim(ctx context.Context, request pawl.ClaimRequest) (pawl.Claimed, error) {
	if request.Max < 1 {
		return pawl.Claimed{}, &pawl.FieldError{Field: "max", Value: request.Max, Rule: "must be at least 1"}
	}
	request.Max = min(request.Max, claimLimit)
	var c claim
	live := false
	err := s.write(ctx, func(ctx context.Context, w *writer) (err error) {
		c = claim{x: w, connection: s.config.Connection, request: request, at: now(), suspect: request.Suspect}
		c.openedAt, live, err = readSession(ctx, w, request.Session)
		if err != nil || !live {
			return err
		}
		return c.run(ctx)
	})
	if err == nil && !live {
		err = sessionLost(request.Session)
	}
	if err != nil {
		return pawl.Claimed{}, fmt.Errorf("claim: %w", err)
	}
	for _, d := range c.damage {
		s.config.Logger.Warn(d.what, "job", d.job, "error", d.err)
	}
	return pawl.Claimed{Now: time.UnixMilli(c.at).UTC(), Jobs: c.jobs, More: c.more || len(c.queues) == request.Max}, nil
}

// claim is one claim under way.
type claim struct {
	x          execer
	connection string
	request    pawl.ClaimRequest
	at         int64
	openedAt   int64
	rules      rules
	limits     map[string]pawl.Limit // that are in force
	suspect    bool                  // one may still be taken
	drawn      bool                  // the tokens are
	base       int64                 // tokens after it, up to Max of them, are this claim's
	more       bool                  // there is more to be taken from a queue
	kindList   string                // of the request, as JSON
	queues     []string              // of the jobs taken, in the order of their tokens
	kinds      []string              // of the jobs taken, and perhaps more
	jobs       []pawl.ClaimedJob
	damage     []damage // found in rows on the way
}

func (c *claim) run(ctx context.Context) error {
	var err error
	if c.rules, err = c.readRules(ctx); err != nil {
		return fmt.Errorf("read rules: %w", err)
	}
	if c.limits, err = readLimits(ctx, c.x); err != nil {
		return fmt.Errorf("read limits: %w", err)
	}
	for _, queue := range c.request.Queues {
		if c.left() == 0 || c.more {
			break
		}
		if c.rules.paused[queue] {
			continue
		}
		if err := c.drain(ctx, queue); err != nil {
			return fmt.Errorf("queue %s: %w", queue, err)
		}
	}
	if len(c.queues) == 0 {
		return nil
	}
	if len(c.limits) > 0 {
		if err := c.countStarts(ctx); err != nil {
			return fmt.Errorf("count starts: %w", err)
		}
	}
	if err := c.read(ctx); err != nil {
		return fmt.Errorf("read jobs: %w", err)
	}
	if err := c.putAside(ctx); err != nil {
		return fmt.Errorf("put aside damaged rows: %w", err)
	}
	return c.addPast(ctx)
}

// drain takes from one queue.
func (c *claim) drain(ctx context.Context, queue string) error {
	fronts, err := c.findFronts(ctx, queue)
	if err != nil {
		return fmt.Errorf("find kinds: %w", err)
	}
	if len(c.limits) > 0 {
		if fronts, err = c.lineUpAll(ctx, queue, fronts); err != nil {
			return err
		}
	}
	fronts = slices.DeleteFunc(fronts, func(f front) bool { return !c.rules.allow(f) })
	if c.request.Orphans != nil {
		return c.takeOrphans(ctx, queue, fronts)
	}
	fronts, suspect := c.pickSuspect(fronts)
	fronts = first(fronts, c.left())
	if suspect != nil {
		c.suspect = false // if it is not taken here, nothing more is taken at all
		c.kinds = append(c.kinds, suspect.kind)
	}
	for _, f := range fronts {
		c.kinds = append(c.kinds, f.kind)
	}
	switch {
	case len(fronts) == 0 && suspect == nil:
		return nil
	case len(fronts) > mergedFronts:
		return c.takeOfMany(ctx, queue, fronts, suspect)
	}
	return c.takeMerged(ctx, queue, fronts, suspect)
}

// left is how many jobs may still be taken.
func (c *claim) left() int { return c.request.Max - len(c.queues) }

// mergedFronts is how many fronts are merged row by row in one statement, which has a text for each number of them.
const mergedFronts = 16

// takeMerged takes from few fronts, reading no more rows than are taken.
func (c *claim) takeMerged(ctx context.Context, queue string, fronts []front, suspect *front) error {
	terms := make([]string, 0, len(fronts)+1)
	args := []any{int64(c.request.Session), nil, queue, c.left(), nil}
	for _, f := range fronts {
		terms = append(terms, takeLane)
		args = append(args, f.kind, f.lane)
	}
	if suspect != nil {
		terms = append(terms, takeOne)
		args = append(args, suspect.head)
	}
	return c.take(ctx, queue, numbered(merged(terms)), args)
}

// merged is a statement for the union of ordered terms, in order.
func merged(terms []string) string { return strings.Join(terms, " union all ") + takeInOrder }

// numbered gives the bare parameters numbers from 6 on.
func numbered(text string) string {
	var b strings.Builder
	next := 6
	for i := 0; i < len(text); i++ {
		b.WriteByte(text[i])
		if text[i] == '?' && (i+1 == len(text) || text[i+1] < '0' || text[i+1] > '9') {
			b.WriteString(strconv.Itoa(next))
			next++
		}
	}
	return b.String()
}

// take reserves the candidates.
func (c *claim) take(ctx context.Context, queue, candidates string, args []any) error {
	if !c.drawn {
		last, _, err := selectOne(ctx, c.x, scanValue[int64], takeTokens, c.request.Max)
		if err != nil {
			return fmt.Errorf("draw tokens: %w", err)
		}
		c.base, c.drawn = last-int64(c.request.Max), true
	}
	args[1] = c.base + int64(len(c.queues))
	args[4] = max(0, roomBytes-storedBytes(int64(c.request.Session))-storedBytes(c.base))
	n, err := change(ctx, c.x, takeHead+candidates+takeTail, args...)
	if err != nil {
		return fmt.Errorf("reserve jobs: %w", err)
	}
	c.queues = append(c.queues, slices.Repeat([]string{queue}, int(n))...)
	return nil
}

// roomBytes is the size of the column room in a job that is not reserved.
const roomBytes = 10

// storedBytes is how many bytes SQLite takes for an integer (file format, section 2.1).
func storedBytes(n int64) int {
	for i, most := range []int64{1, 1<<7 - 1, 1<<15 - 1, 1<<23 - 1, 1<<31 - 1, 1<<47 - 1} {
		if n <= most {
			return []int{0, 1, 2, 3, 4, 6}[i]
		}
	}
	return 8
}
