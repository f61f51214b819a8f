package sqlite

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/pawljobs/pawl"
)

const (
	parked = `9223372036854775807` // run_at of a job that waits for its turn

	insertTurn = `insert into pawl_turn (job_id, place, okey, lkey, kind, stage, pending) values (?1, ?2, ?3, ?4, ?5, ?6, ?7)`
	deleteTurn = `delete from pawl_turn where job_id = ?1 returning okey, lkey, kind`

	// The first gate behind the ordering key.
	behindOrder = `case when lkey is not null then 1 when kind is not null then 2 else 3 end`
	hasComeDue  = `(select j.run_at = ` + parked + ` from pawl_job j where j.id = job_id)`

	// A job that is neither ready nor reserved leaves its limits, and stands in their lines, at the end, once it is due.
	leaveLimits = `update pawl_turn set place = iif(stage = 0, place, ?2), pending = ` + hasComeDue + `, stage = iif(okey is not null and stage = 0, 0, ` + behindOrder + `)
where job_id = ?1 and exists (select 1 from pawl_job j where j.id = job_id and j.run_at is not null)
returning okey, lkey, kind, stage, pending`

	firstOfOrder = `select job_id from pawl_turn where okey = ?1 and stage = 0
and not exists (select 1 from pawl_turn h where h.okey = ?1 and h.stage > 0) order by place limit 1`
	firstOfKey  = `select job_id from pawl_turn where lkey = ?1 and stage = 1 and pending = 1 order by place limit ?2`
	firstOfKind = `select job_id from pawl_turn where kind = ?1 and stage = 2 and pending = 1 order by place limit ?2`
	countKey    = `select count(*) from (select 1 from pawl_turn where lkey = ?1 and stage >= 2 limit ?2)`
	countKind   = `select count(*) from (select 1 from pawl_turn where kind = ?1 and stage = 3 limit ?2)`
	countPile   = `select count(*) from (select 1 from pawl_turn where kind = ?1 and stage = 3 and pending = 1 limit ?2)`

	passOrder = `update pawl_turn set stage = ` + behindOrder + `, pending = ` + hasComeDue + ` where job_id = ?1 and stage = 0
returning place, lkey, kind, stage, pending`
	passKey  = `update pawl_turn set stage = 2 where job_id = ?1 returning place, lkey, kind, stage, pending`
	passKind = `update pawl_turn set stage = 3, pending = ?2 where job_id = ?1 returning place, lkey, kind, stage, pending`

	letThrough = `update pawl_job set seq = ?2, run_at = null, ready_at = ?3 where id = ?1 and run_at is not null`
)

// lineKey stands for a key in a line: half of the SHA-256 of its parts.
func lineKey(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return string(h.Sum(nil)[:16])
}

// Gates, in the order in which they are passed.
const (
	gateOrder = iota
	gateKey
	gateKind
	through
)

// turns gives turns, in a transaction of whoever changed something: it is told what happened to jobs, and then lets
// through those whose turn it is. See docs/adr/0012.
type turns struct {
	x      execer
	at     int64
	orders map[string]bool   // ordering keys to look at
	keys   map[string]string // limit keys, with their kinds
	kinds  map[string]bool
	ready  []readyTurn // to be made ready
	limits map[string]pawl.Limit
	more   bool // a line was longer than is let through at a time
}

type readyTurn struct {
	id    pawl.ID
	place int64
}

func newTurns(x execer, at int64) *turns {
	return &turns{x: x, at: at, orders: map[string]bool{}, keys: map[string]string{}, kinds: map[string]bool{}}
}

// lines are those that a job stands in.
type lines struct {
	order, key, kind sql.NullString
}

// look has the gates of a job looked at.
func (t *turns) look(l lines) {
	if l.order.Valid {
		t.orders[l.order.String] = true
	}
	if l.key.Valid {
		t.keys[l.key.String] = l.kind.String
	}
	if l.kind.Valid {
		t.kinds[l.kind.String] = true
	}
}

// stand is where a job stands after a step.
type stand struct {
	lines
	place   int64
	stage   int
	pending bool
}

func scanLines(rows *sql.Rows) (l lines, err error) {
	return l, rows.Scan((*keyColumn)(&l.order), (*keyColumn)(&l.key), &l.kind)
}

// keyColumn reads a key that is stored as bytes.
type keyColumn sql.NullString

func (c *keyColumn) Scan(value any) error {
	*c = keyColumn{}
	if b, ok := value.([]byte); ok {
		*c = keyColumn{string(b), true}
	}
	return nil
}

func keyValue(key string) any {
	if key == "" {
		return nil
	}
	return []byte(key)
}

// linesOf are the lines that a new job stands in.
func linesOf(job *pawl.NewJob) (l lines, any bool) {
	if job.OrderingKey != "" {
		l.order = sql.NullString{String: lineKey(job.OrderingKey), Valid: true}
	}
	if job.Limited {
		l.kind = sql.NullString{String: job.Kind, Valid: true}
		if job.LimitKey != "" {
			l.key = sql.NullString{String: lineKey(job.Kind, job.LimitKey), Valid: true}
		}
	}
	return l, l.order.Valid || l.kind.Valid
}

func (l lines) firstGate() int {
	switch {
	case l.order.Valid:
		return gateOrder
	case l.key.Valid:
		return gateKey
	}
	return gateKind
}

// enter puts a job into its lines. due says that its time has come.
func (t *turns) enter(ctx context.Context, id pawl.ID, place int64, l lines, due bool) error {
	t.look(l)
	first := l.firstGate()
	_, err := t.x.ExecContext(ctx, insertTurn, id[:], place, keyValue(l.order.String), keyValue(l.key.String), l.kind, first, due || first == gateOrder)
	return err
}

// ended takes jobs that have ended out of their lines.
func (t *turns) ended(ctx context.Context, id pawl.ID) error {
	l, _, err := selectOne(ctx, t.x, scanLines, deleteTurn, id[:])
	t.look(l)
	return err
}

// back is told of a job that has gone back to wait, or whose time has come.
func (t *turns) back(ctx context.Context, id pawl.ID, place int64) error {
	s, found, err := selectOne(ctx, t.x, func(rows *sql.Rows) (s stand, err error) {
		return s, rows.Scan((*keyColumn)(&s.order), (*keyColumn)(&s.key), &s.kind, &s.stage, &s.pending)
	}, leaveLimits, id[:], place)
	if err != nil || !found {
		return err
	}
	t.look(s.lines)
	if s.stage == through && s.pending {
		t.ready = append(t.ready, readyTurn{id, place})
	}
	return nil
}

// atOnce is how many jobs are let through a gate at a time.
const atOnce = 1000

// give lets through whose turn it is. It reports whether jobs became ready.
func (t *turns) give(ctx context.Context) (ready bool, err error) {
	if len(t.orders)+len(t.keys)+len(t.kinds)+len(t.ready) == 0 {
		return false, nil
	}
	for order := range t.orders {
		if err := t.pass(ctx, passOrder, nil, firstOfOrder, []byte(order)); err != nil {
			return false, fmt.Errorf("give turns by ordering key: %w", err)
		}
	}
	if len(t.keys)+len(t.kinds) > 0 && t.limits == nil {
		if t.limits, err = readLimits(ctx, t.x); err != nil {
			return false, fmt.Errorf("read limits: %w", err)
		}
	}
	for key, kind := range t.keys {
		free, err := t.free(ctx, t.limits[kind].PerKey, countKey, []byte(key))
		if err == nil && free > 0 {
			err = t.pass(ctx, passKey, nil, firstOfKey, []byte(key), free)
		}
		if err != nil {
			return false, fmt.Errorf("give turns by limit key: %w", err)
		}
	}
	for kind := range t.kinds {
		if err := t.giveKind(ctx, kind); err != nil {
			return false, fmt.Errorf("give turns of kind %s: %w", kind, err)
		}
	}
	return t.makeReady(ctx)
}

// free is how many jobs may pass a gate.
func (t *turns) free(ctx context.Context, most int, count string, gate any) (int, error) {
	if most == 0 {
		return atOnce, nil
	}
	taken, _, err := selectOne(ctx, t.x, scanValue[int], count, gate, most)
	return min(max(most-taken, 0), atOnce), err
}

func (t *turns) giveKind(ctx context.Context, kind string) error {
	limit := t.limits[kind]
	free, err := t.free(ctx, limit.Concurrency, countKind, kind)
	if err != nil {
		return err
	}
	switch {
	case limit.Starts > 0:
		return t.giveByRate(ctx, kind, limit, free)
	case free == 0:
		return nil
	}
	return t.pass(ctx, passKind, []any{false}, firstOfKind, kind, free)
}

// pass lets the first of a line through its gate.
func (t *turns) pass(ctx context.Context, pass string, how []any, first string, gate ...any) error {
	ids, err := selectRows(ctx, t.x, func(rows *sql.Rows) (id pawl.ID, err error) {
		return id, rows.Scan((*idColumn)(&id))
	}, first, gate...)
	if err != nil {
		return err
	}
	t.more = t.more || len(ids) == atOnce
	for _, id := range ids {
		s, _, err := selectOne(ctx, t.x, func(rows *sql.Rows) (s stand, err error) {
			return s, rows.Scan(&s.place, (*keyColumn)(&s.key), &s.kind, &s.stage, &s.pending)
		}, pass, append([]any{id[:]}, how...)...)
		if err != nil {
			return err
		}
		t.look(s.lines)
		if s.stage == through && (s.pending || pass == passKind) {
			t.ready = append(t.ready, readyTurn{id, s.place})
		}
	}
	return nil
}

// makeReady puts those who are through at the ends of their queues.
func (t *turns) makeReady(ctx context.Context) (bool, error) {
	if len(t.ready) == 0 {
		return false, nil
	}
	slices.SortFunc(t.ready, func(a, b readyTurn) int { return cmp.Compare(a.place, b.place) })
	last, _, err := selectOne(ctx, t.x, scanValue[int64], takeSeq, len(t.ready))
	if err != nil {
		return false, fmt.Errorf("draw numbers: %w", err)
	}
	for i, job := range t.ready {
		if _, err := t.x.ExecContext(ctx, letThrough, job.id[:], last-int64(len(t.ready))+int64(i)+1, t.at); err != nil {
			return false, fmt.Errorf("make job %s ready: %w", job.id, err)
		}
	}
	t.ready = nil
	return true, nil
}

// due is told of the jobs whose time has come: those with the numbers after base up to last.
func (t *turns) due(ctx context.Context, base, last int64) error {
	jobs, err := selectRows(ctx, t.x, func(rows *sql.Rows) (j readyTurn, err error) {
		return j, rows.Scan(&j.place, (*looseID)(&j.id))
	}, selectDueLined, base, last)
	for _, job := range jobs {
		if err == nil {
			err = t.back(ctx, job.id, job.place)
		}
	}
	return err
}

// sweep gives turns to jobs that are due, or for which there is a token now. It returns the time until the next token;
// negative: none is waited for.
func (t *turns) sweep(ctx context.Context, limit int) (next time.Duration, err error) {
	kinds, err := selectRows(ctx, t.x, scanValue[string], selectRatesDue, t.at, limit)
	if err != nil {
		return -1, err
	}
	for _, kind := range kinds {
		t.kinds[kind] = true
	}
	ready, err := t.give(ctx)
	if err != nil {
		return -1, err
	}
	if w, ok := t.x.(*writer); ok && ready {
		w.ready = true
	}
	at, _, err := selectOne(ctx, t.x, scanValue[sql.NullInt64], selectNextRate)
	if err != nil || !at.Valid {
		return -1, err
	}
	return longMillis(at.Int64 - t.at), nil
}
