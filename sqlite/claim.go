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
	takeHead = `update pawl_job set session = ?1, token = ?2 + c.n, attempt = attempt + 1
from (select seq, row_number() over (order by seq) as n from (`
	takeTail = `)) c where pawl_job.seq = c.seq
returning id, token, kind, attempt, crashes, requeues, started <> 0, enqueued_at, ready_at, letter, envelope`

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

	selectAttempts = `select a.job_id, a.record from pawl_job j join pawl_attempt a on a.job_id = j.id
where j.session = ?1 and j.token > ?2 and j.token <= ?3 order by j.token, a.n`

	anyVerdict     = `select 1 from pawl_verdict limit 1`
	selectVerdicts = `select v.job_id, v.letter from pawl_job j join pawl_verdict v on v.job_id = j.id
where j.session = ?1 and j.token > ?2 and j.token <= ?3`
)

// Lanes of a kind; see the schema.
const (
	laneSwitched = 1 // runs only while the kind is switched on
	laneSuspect  = 2
)

// Claim reserves ready jobs for the session.
func (s *Store) Claim(ctx context.Context, request pawl.ClaimRequest) (pawl.Claimed, error) {
	if request.Max < 1 {
		return pawl.Claimed{}, &pawl.FieldError{Field: "max", Value: request.Max, Rule: "must be at least 1"}
	}
	var c claim
	live := false
	err := s.write(ctx, func(ctx context.Context, w *writer) (err error) {
		c = claim{x: w, request: request, at: now(), suspect: request.Suspect}
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
	return pawl.Claimed{Now: time.UnixMilli(c.at).UTC(), Jobs: c.jobs, More: len(c.jobs) == request.Max}, nil
}

// claim is one claim under way.
type claim struct {
	x        execer
	request  pawl.ClaimRequest
	at       int64
	openedAt int64
	rules    rules
	suspect  bool  // one may still be taken
	base     int64 // tokens after it, up to Max of them, are this claim's
	jobs     []pawl.ClaimedJob
}

func (c *claim) run(ctx context.Context) error {
	var err error
	if c.rules, err = c.readRules(ctx); err != nil {
		return fmt.Errorf("read rules: %w", err)
	}
	for _, queue := range c.request.Queues {
		if len(c.jobs) == c.request.Max {
			break
		}
		if c.rules.paused[queue] {
			continue
		}
		if err := c.drain(ctx, queue); err != nil {
			return fmt.Errorf("queue %s: %w", queue, err)
		}
	}
	if len(c.jobs) == 0 {
		return nil
	}
	slices.SortFunc(c.jobs, func(a, b pawl.ClaimedJob) int { return int(a.Token - b.Token) })
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
	if c.request.Orphans != nil {
		return c.takeOrphans(ctx, queue, fronts)
	}
	fronts, suspect, err := c.pickSuspect(ctx, queue, fronts)
	if err != nil || len(fronts) == 0 && suspect == nil {
		return err
	}
	terms := make([]string, 0, len(fronts)+1)
	args := []any{int64(c.request.Session), nil, queue, c.request.Max - len(c.jobs)}
	for _, h := range fronts {
		terms = append(terms, takeLane)
		args = append(args, h.kind, h.lane)
	}
	if suspect != nil {
		terms = append(terms, takeOne)
		args = append(args, *suspect)
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

// numbered gives the bare parameters numbers from 5 on.
func numbered(text string) string {
	var b strings.Builder
	next := 5
	for i := 0; i < len(text); i++ {
		b.WriteByte(text[i])
		if text[i] == '?' && (i+1 == len(text) || text[i+1] < '0' || text[i+1] > '9') {
			b.WriteString(strconv.Itoa(next))
			next++
		}
	}
	return b.String()
}

// take reserves the candidates, and adds the jobs.
func (c *claim) take(ctx context.Context, queue, candidates string, args []any) error {
	if c.base == 0 {
		last, _, err := selectOne(ctx, c.x, scanValue[int64], takeTokens, c.request.Max)
		if err != nil {
			return fmt.Errorf("draw tokens: %w", err)
		}
		c.base = last - int64(c.request.Max)
	}
	args[1] = c.base + int64(len(c.jobs))
	jobs, err := selectRows(ctx, c.x, scanClaimed, takeHead+candidates+takeTail, args...)
	if err != nil {
		return fmt.Errorf("reserve jobs: %w", err)
	}
	for i := range jobs {
		jobs[i].Queue = queue
		c.suspect = c.suspect && jobs[i].Crashes < pawl.CrashSuspect
	}
	c.jobs = append(c.jobs, jobs...)
	return nil
}

func scanClaimed(rows *sql.Rows) (j pawl.ClaimedJob, err error) {
	return j, rows.Scan((*idColumn)(&j.ID), &j.Token, &j.Kind, &j.Attempt, &j.Crashes, &j.Requeues, &j.Started,
		(*timeColumn)(&j.EnqueuedAt), (*timeColumn)(&j.ReadyAt), (*idColumn)(&j.Letter), &j.Envelope)
}

// front is a kind and a lane that have ready jobs.
type front struct {
	kind string
	lane int
}

func scanFront(rows *sql.Rows) (h front, err error) { return h, rows.Scan(&h.kind, &h.lane) }

// pickSuspect takes the lanes of suspects out, and finds the first of them if one may be taken.
func (c *claim) pickSuspect(ctx context.Context, queue string, fronts []front) (rest []front, suspect *int64, err error) {
	for _, h := range fronts {
		if h.lane&laneSuspect == 0 {
			rest = append(rest, h)
			continue
		}
		if !c.suspect {
			continue
		}
		seq, found, err := selectOne(ctx, c.x, scanValue[int64], selectFront, queue, h.kind, h.lane)
		if err != nil {
			return nil, nil, fmt.Errorf("find suspect: %w", err)
		}
		if found && (suspect == nil || seq < *suspect) {
			suspect = &seq
		}
	}
	return rest, suspect, nil
}

// addPast adds what is kept of the earlier life of the claimed jobs that have one.
func (c *claim) addPast(ctx context.Context) error {
	index := make(map[pawl.ID]*pawl.ClaimedJob)
	for i := range c.jobs {
		if j := &c.jobs[i]; j.Attempt > 1 || j.Requeues > 0 || j.Crashes > 0 {
			index[j.ID] = j
		}
	}
	args := []any{int64(c.request.Session), c.base, c.base + int64(len(c.jobs))}
	if len(index) > 0 {
		if err := c.addHistory(ctx, index, args); err != nil {
			return fmt.Errorf("read history: %w", err)
		}
	}
	if _, any, err := selectOne(ctx, c.x, scanValue[int64], anyVerdict); err != nil || !any {
		return err
	}
	if err := c.addVerdicts(ctx, args); err != nil {
		return fmt.Errorf("read verdicts: %w", err)
	}
	return nil
}

func (c *claim) addHistory(ctx context.Context, index map[pawl.ID]*pawl.ClaimedJob, args []any) error {
	_, err := selectRows(ctx, c.x, func(rows *sql.Rows) (struct{}, error) {
		var id pawl.ID
		var record pawl.AttemptRecord
		err := rows.Scan((*idColumn)(&id), jsonColumn{&record})
		if j := index[id]; j != nil {
			j.History = append(j.History, record)
		}
		return struct{}{}, err
	}, selectAttempts, args...)
	return err
}

func (c *claim) addVerdicts(ctx context.Context, args []any) error {
	index := make(map[pawl.ID]*pawl.ClaimedJob, len(c.jobs))
	for i := range c.jobs {
		index[c.jobs[i].ID] = &c.jobs[i]
	}
	_, err := selectRows(ctx, c.x, func(rows *sql.Rows) (struct{}, error) {
		var id pawl.ID
		letter := new(pawl.DeadLetter)
		err := rows.Scan((*idColumn)(&id), jsonColumn{letter})
		if j := index[id]; j != nil && err == nil {
			letter.Envelope = j.Envelope
			j.Verdict = letter
		}
		return struct{}{}, err
	}, selectVerdicts, args...)
	return err
}
