package postgres

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawljobs/pawl"
)

const (
	arrivalsAtOnce = 2000
	turnsAtOnce    = 1000 // that are given at one gate at a time
)

// Gates, in the order in which they are passed.
const (
	gateOrder = iota
	gateKey
	gateKind
	gatesPassed
)

// lineKey stands for a key in a line: half of the SHA-256 of its parts.
func lineKey(parts ...string) (key pawl.ID) {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	copy(key[:], h.Sum(nil))
	return key
}

// lines are those that a job stands in; zeros where it stands in none.
type lines struct {
	order, key pawl.ID
	kind       int32
}

// linesOf are the lines that a job stands in.
func linesOf(job *pawl.NewJob, kind int32) (l lines) {
	if job.OrderingKey != "" {
		l.order = lineKey(job.OrderingKey)
	}
	if job.Limited {
		l.kind = kind
		if job.LimitKey != "" {
			l.key = lineKey(job.Kind, job.LimitKey)
		}
	}
	return l
}

// giving is one transaction that gives turns.
type giving struct {
	store  *Store
	conn   *pgxpool.Conn
	now    time.Time
	limits map[int32]pawl.Limit // that are in force
	rates  map[int32]rateRow
	jobs   idList         // to look at, in the order of what has happened to them
	mine   bool           // nobody else gives turns
	dirty  map[lines]bool // lines to look at
	ready  []stand        // those who are through
	again  map[lines]bool // lines that were longer than is let through at a time
	made   int            // jobs that became ready
	more   bool           // there is more to look at
	from   int64          // the first arrival that is looked at
	last   int64          // that was taken
}

// stand is where a job stands.
type stand struct {
	lines
	id      pawl.ID
	place   int64
	stage   int16
	pending bool
}

func scanStand(rows pgx.Rows) (s stand, err error) {
	var kind *int32
	err = rows.Scan((*idColumn)(&s.id), &s.place, (*idColumn)(&s.order), (*idColumn)(&s.key), &kind, &s.stage, &s.pending)
	if kind != nil {
		s.kind = *kind
	}
	return s, err
}

func newGiving(s *Store, conn *pgxpool.Conn, from int64) giving {
	return giving{store: s, conn: conn, from: from, limits: map[int32]pawl.Limit{}, dirty: map[lines]bool{}}
}

func (t *giving) run(ctx context.Context, started idList) error {
	lock := seizeTurns
	if len(started) > 0 {
		lock = lockTurns
	}
	if err := t.begin(ctx, lock); err != nil {
		return fmt.Errorf("take arrivals: %w", err)
	}
	if !t.mine {
		_, err := t.conn.Exec(ctx, "rollback")
		return err
	}
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"count starts", func(ctx context.Context) error { return t.countStarts(ctx, started) }},
		{"look at jobs", t.arrive},
		{"by ordering key", t.passOrders},
		{"by limit key", t.passKeys},
		{"by kind", t.passKinds},
		{"make jobs ready", t.makeReady},
		{"note what is left", t.noteAgain},
		{"commit", t.end},
	} {
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return nil
}

// end commits, after which whoever left word while this one held the lock relies on it to look once more.
func (t *giving) end(ctx context.Context) error {
	batch := &pgx.Batch{}
	batch.Queue("commit")
	t.store.queueAnyArrival(batch, t.from, &t.more, new(*time.Duration))
	if err := t.conn.SendBatch(ctx, batch).Close(); err != nil {
		return err
	}
	t.store.turns.arrivals.took(time.Now(), t.last)
	return nil
}

// begin takes what there is to look at, unless somebody else gives turns and the lock is not to be waited for.
func (t *giving) begin(ctx context.Context, lock string) error {
	s := t.store
	batch := &pgx.Batch{}
	batch.Queue("begin")
	batch.Queue(lock, s.schema.lock("turns"))
	type arrival struct {
		n   int64
		job pawl.ID
	}
	var arrived []arrival
	batch.Queue(s.sql.takeArrivals, arrivalsAtOnce, t.from).Query(func(rows pgx.Rows) error {
		var a arrival
		var l lines
		var kind *int32
		_, err := pgx.ForEachRow(rows, []any{&a.n, (*idColumn)(&a.job), (*idColumn)(&l.order), (*idColumn)(&l.key), &kind}, func() error {
			if l.kind = 0; kind != nil {
				l.kind = *kind
			}
			t.look(l)
			arrived = append(arrived, a)
			t.last = max(t.last, a.n)
			t.mine = true
			return nil
		})
		return err
	})
	batch.Queue(s.sql.selectLimits).Query(func(rows pgx.Rows) error {
		found, err := readLimitRows(rows)
		for _, row := range found {
			t.limits[row.kind] = row.limit // what was set comes after what is stated
		}
		return err
	})
	batch.Queue(s.sql.selectRates).Query(t.readRates)
	if err := t.conn.SendBatch(ctx, batch).Close(); err != nil {
		return err
	}
	slices.SortFunc(arrived, func(a, b arrival) int { return cmp.Compare(a.n, b.n) })
	seen := map[pawl.ID]bool{{}: true}
	for _, a := range arrived {
		if !seen[a.job] {
			t.jobs = append(t.jobs, a.job)
		}
		seen[a.job] = true
	}
	return nil
}

// look has lines looked at.
func (t *giving) look(l lines) {
	if l.order != (pawl.ID{}) {
		t.dirty[lines{order: l.order}] = true
	}
	if l.key != (pawl.ID{}) {
		t.dirty[lines{key: l.key, kind: l.kind}] = true
	}
	if l.kind != 0 {
		t.dirty[lines{kind: l.kind}] = true
	}
}

// arrive sees what has become of jobs: those that have ended leave their lines, those that went back, or are due, leave
// their limits and stand in line for them anew.
func (t *giving) arrive(ctx context.Context) error {
	if len(t.jobs) == 0 {
		return nil
	}
	batch := &pgx.Batch{}
	batch.Queue(t.store.sql.leaveLines, t.jobs).Query(func(rows pgx.Rows) error {
		var l lines
		var kind *int32
		_, err := pgx.ForEachRow(rows, []any{(*idColumn)(&l.order), (*idColumn)(&l.key), &kind}, func() error {
			if l.kind = 0; kind != nil {
				l.kind = *kind
			}
			t.look(l)
			return nil
		})
		return err
	})
	batch.Queue(t.store.sql.leaveLimits, t.jobs).Query(t.readStands)
	return t.conn.SendBatch(ctx, batch).Close()
}

// readStands has the gates that jobs have come to looked at, and notes who is through.
func (t *giving) readStands(rows pgx.Rows) error {
	_, err := t.stands(rows)
	return err
}

func (t *giving) stands(rows pgx.Rows) ([]stand, error) {
	all, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (stand, error) { return scanStand(rows) })
	for _, s := range all {
		t.look(lines{key: s.key, kind: s.kind})
		if s.stage == gatesPassed && (s.pending || s.kind != 0) {
			t.ready = append(t.ready, s)
		}
	}
	return all, err
}
