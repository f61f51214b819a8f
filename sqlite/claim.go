package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
)

const (
	takeTokens = `update pawl_counter set value = value + ?1 where name = 'token' returning value`

	// The kinds and lanes that have ready jobs in a queue, found by one seek of the index for each.
	selectFronts = `with recursive k (kind) as (
  select * from (select kind from pawl_job where queue = ?1 and session is null and run_at is null order by kind limit 1)
  union all
  select (select j.kind from pawl_job j where j.queue = ?1 and j.session is null and j.run_at is null and j.kind > k.kind
    order by j.kind limit 1) from k where k.kind is not null
)
select k.kind, l.column1 from k cross join (values (0), (1), (2), (3)) l
where exists (select 1 from pawl_job j
  where j.queue = ?1 and j.kind = k.kind and j.lane = l.column1 and j.session is null and j.run_at is null)`

	// One reservation for each candidate, the tokens in the order of the queue.
	takeHead = `update pawl_job set session = ?1, token = ?2 + c.n, room = zeroblob(?5), attempt = attempt + 1
from (select seq, row_number() over (order by seq) as n from (`
	takeTail = `)) c where pawl_job.seq = c.seq`

	takeLane    = `select seq from pawl_job where queue = ?3 and kind = ? and lane = ? and session is null and run_at is null`
	takeOne     = `select seq from pawl_job where seq = ?`
	takeListed  = `select value as seq from json_each(?3)`
	takeInOrder = ` order by seq limit ?4`

	selectFront = `select seq from pawl_job where queue = ?1 and kind = ?2 and lane = ?3 and session is null and run_at is null
order by seq limit 1`

	// A bounded look at the front: in order of the queue, jobs are about in the order in which they became ready.
	selectOld = `select seq from (select seq, ready_at from pawl_job
  where queue = ?1 and kind = ?2 and lane = ?3 and session is null and run_at is null order by seq limit ?4)
where ready_at <= ?5`

	selectKnownKinds = `select kind from pawl_kind where seen_at > ?1
union select k.value from pawl_session s join json_each(s.info, '$.Kinds') k where s.ended_at is null and k.type = 'text'`
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
	return pawl.Claimed{Now: time.UnixMilli(c.at).UTC(), Jobs: c.jobs, More: len(c.queues) == request.Max}, nil
}

// claim is one claim under way.
type claim struct {
	x          execer
	connection string
	request    pawl.ClaimRequest
	at         int64
	openedAt   int64
	rules      rules
	suspect    bool     // one may still be taken
	drawn      bool     // the tokens are
	base       int64    // tokens after it, up to Max of them, are this claim's
	queues     []string // of the jobs taken, in the order of their tokens
	kinds      []string // of the jobs taken, and perhaps more
	jobs       []pawl.ClaimedJob
	damage     []damage // found in rows on the way
}

func (c *claim) run(ctx context.Context) error {
	var err error
	if c.rules, err = c.readRules(ctx); err != nil {
		return fmt.Errorf("read rules: %w", err)
	}
	for _, queue := range c.request.Queues {
		if len(c.queues) == c.request.Max {
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
	fronts, err := selectRows(ctx, c.x, scanFront, selectFronts, queue)
	if err != nil {
		return fmt.Errorf("find kinds: %w", err)
	}
	fronts = slices.DeleteFunc(fronts, func(f front) bool { return !c.rules.allow(f) })
	if len(fronts) == 0 {
		return nil
	}
	for _, f := range fronts {
		c.kinds = append(c.kinds, f.kind)
	}
	if c.request.Orphans != nil {
		return c.takeOrphans(ctx, queue, fronts)
	}
	fronts, suspect, err := c.pickSuspect(ctx, queue, fronts)
	if err != nil || len(fronts) == 0 && suspect == nil {
		return err
	}
	terms := make([]string, 0, len(fronts)+1)
	args := []any{int64(c.request.Session), nil, queue, c.request.Max - len(c.queues), nil}
	for _, f := range fronts {
		terms = append(terms, takeLane)
		args = append(args, f.kind, f.lane)
	}
	if suspect != nil {
		terms = append(terms, takeOne)
		args = append(args, *suspect)
		c.suspect = false // if it is not taken here, nothing more is taken at all
	}
	return c.take(ctx, queue, numbered(merged(terms)), args)
}

// merged is a statement for the union of ordered terms, in order. Few are merged row by row without reading more than
// is needed; many go in groups.
func merged(terms []string) string {
	const most = 16
	if len(terms) > most {
		var groups []string
		for group := range slices.Chunk(terms, most) {
			groups = append(groups, "select seq from ("+merged(group)+")")
		}
		terms = groups
	}
	return strings.Join(terms, " union all ") + takeInOrder
}

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

// front is a kind and a lane that have ready jobs.
type front struct {
	kind string
	lane int
}

func scanFront(rows *sql.Rows) (f front, err error) { return f, rows.Scan(&f.kind, &f.lane) }

// pickSuspect takes the lanes of suspects out, and finds the first of them if one may be taken.
func (c *claim) pickSuspect(ctx context.Context, queue string, fronts []front) (rest []front, suspect *int64, err error) {
	for _, f := range fronts {
		if f.lane&laneSuspect == 0 {
			rest = append(rest, f)
			continue
		}
		if !c.suspect {
			continue
		}
		seq, found, err := selectOne(ctx, c.x, scanValue[int64], selectFront, queue, f.kind, f.lane)
		if err != nil {
			return nil, nil, fmt.Errorf("find suspect: %w", err)
		}
		if found && (suspect == nil || seq < *suspect) {
			suspect = &seq
		}
	}
	return rest, suspect, nil
}
