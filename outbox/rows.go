package outbox

import (
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/execer"
	"github.com/pawljobs/pawl/internal/guest"
)

// keeping is the same box, whose rows stay in it after their end or do not.
func (c *core) keeping(rows bool) *core {
	if rows {
		return c
	}
	other, texts := *c, *c.texts
	texts.mark, texts.markRun, texts.bury = texts.erase, texts.eraseRun, texts.erase
	other.texts = &texts
	return &other
}

// row is a message under lease.
type row struct {
	seq       int64
	id        pawl.ID
	attempts  int // claims that count, this one included
	lost      int // of these, the last ones in a row before this one, that nobody was heard of after
	lastError string
	createdAt time.Time
	runAt     time.Time     // zero: none
	delay     time.Duration // what is left of it
	envelope  []byte

	job  pawl.NewJob
	fate fate
	err  error // with fateRefused
}

// fate is what is known of a row after its job was handed in.
type fate uint8

const (
	fateUnknown fate = iota // not handed in, or without an answer: given back, uncounted
	fateStored
	fateRefused // the row itself is at fault
	fateUnclear // refused alone, and nobody knows whether the row or the store is at fault
	fateDead    // it is past its last claim
)

// claimRequest asks for messages to one connection.
type claimRequest struct {
	connection string
	owner      string
	after      int64 // sequence number
	limit      int
	lease      time.Duration
}

const (
	claimBytes = 16 << 20 // of envelopes in one claim
	aloneAfter = 3        // claims in a row that nobody was heard of after, and a row is taken alone
)

// exchange records what became of the rows of earlier claims, as far as their leases hold, and makes the next one: all in one
// transaction. It returns how many of those that were stored were not under their lease any more.
func (c *core) exchange(ctx context.Context, settled []settlement, r *claimRequest) (b batch, lost int, err error) {
	if c.home.Dialect == guest.SQLite {
		b, lost, err = c.exchangeInFile(ctx, settled, r)
	} else {
		b, lost, err = c.exchangeOnServer(ctx, settled, r)
	}
	if err != nil {
		return batch{}, 0, fmt.Errorf("claim and settle messages: %w", err)
	}
	return b, lost, nil
}

func (c *core) exchangeOnServer(ctx context.Context, settled []settlement, r *claimRequest) (b batch, lost int, err error) {
	steps := []execer.Step{{SQL: c.texts.quick}}
	steps = append(steps, c.settleSteps(settled, &lost)...)
	if r != nil {
		steps = append(steps, execer.Step{SQL: c.texts.turn, Args: []any{c.home.Lock("claim", r.connection)}})
		steps = append(steps, c.expireSteps(r)...)
		steps = append(steps, execer.Step{
			SQL: c.texts.claim, Args: []any{r.connection, r.after, r.limit, r.owner, r.lease.Milliseconds(), aloneAfter, claimBytes},
			Row: func(scan func(...any) error) error {
				row, err := scanRow(scan, &b.lease)
				b.rows = append(b.rows, row)
				return err
			},
		})
	}
	return b, lost, c.home.Do(ctx, steps...)
}

// expireSteps end the leases that are over.
func (c *core) expireSteps(r *claimRequest) []execer.Step {
	return []execer.Step{
		{SQL: c.texts.charge, Args: []any{r.connection, aloneAfter}},
		{SQL: c.texts.over, Args: []any{r.connection}},
	}
}

// settleSteps record what became of rows, and end their leases.
func (c *core) settleSteps(settled []settlement, lost *int) (steps []execer.Step) {
	for _, s := range settled {
		steps = c.markSteps(steps, s, lost)
		if lost := s.missed(); len(lost) > 0 {
			steps = append(steps, execer.Step{SQL: c.texts.giveBack, Args: []any{c.list(lost...), s.lease, 0}})
		}
		if len(s.doubted) > 0 {
			steps = append(steps, execer.Step{SQL: c.texts.giveBack, Args: []any{c.list(s.doubted...), s.lease, retryWait(1).Milliseconds()}})
		}
		for _, r := range s.refused {
			steps = append(steps, execer.Step{
				SQL: c.texts.refuse, Args: []any{c.list(r), s.lease, textOf(r.err), retryWait(r.attempts).Milliseconds(), r.attempts},
			})
		}
		steps = append(steps, execer.Step{SQL: c.texts.release, Args: []any{s.lease}})
	}
	return steps
}

// mostRuns is how many runs are marked as such; where there are more the rows are listed.
const mostRuns = 8

// markSteps record that rows are stored: mostly all of a claim, whose numbers follow each other.
func (c *core) markSteps(steps []execer.Step, s settlement, lost *int) []execer.Step {
	if len(s.stored) == 0 {
		return steps
	}
	*lost += len(s.stored)
	found := func(n int64) { *lost -= int(n) }
	runs := runsOf(s.stored)
	if runs == nil {
		return append(steps, execer.Step{SQL: c.texts.mark, Args: []any{c.list(s.stored...), s.lease}, Changed: found})
	}
	for _, run := range runs {
		steps = append(steps, execer.Step{SQL: c.texts.markRun, Args: []any{run.first, s.lease, run.last}, Changed: found})
	}
	return steps
}

// span is from one number to another, both included.
type span struct{ first, last int64 }

// runsOf cuts rows, which are in order, where a number is left out; nil where there are too many cuts.
func runsOf(rows []*row) (runs []span) {
	for _, r := range rows {
		switch n := len(runs); {
		case n > 0 && runs[n-1].last == r.seq-1:
			runs[n-1].last = r.seq
		case n == mostRuns:
			return nil
		default:
			runs = append(runs, span{r.seq, r.seq})
		}
	}
	return runs
}

// scanRow reads a row, and what an answer has before it.
func scanRow(scan func(...any) error, before any) (*row, error) {
	r := &row{}
	var created, run, delay int64
	err := scan(before, &r.seq, (*idColumn)(&r.id), &r.attempts, &r.lost, &r.lastError, &created, &run, &delay, &r.envelope)
	r.setTimes(created, run, delay)
	return r, err
}

// setTimes takes milliseconds as the database has them.
func (r *row) setTimes(created, run, delay int64) {
	r.createdAt = time.UnixMilli(created).UTC()
	if run != 0 {
		r.runAt = time.UnixMilli(run).UTC()
	}
	r.delay = time.Duration(delay) * time.Millisecond
}

// idColumn reads an id from either database.
type idColumn pawl.ID

// ScanUUID reads what pgx has decoded.
func (c *idColumn) ScanUUID(v pgtype.UUID) error {
	*c = idColumn(v.Bytes)
	return nil
}

// Scan reads bytes as SQLite has them, or the text that other drivers for PostgreSQL hand over.
func (c *idColumn) Scan(value any) error {
	if b, ok := value.([]byte); ok && len(b) == len(c) {
		copy(c[:], b)
		return nil
	}
	return (*execer.IDColumn)(c).Scan(value)
}

// settlement is what became of the rows of one claim that do not die.
type settlement struct {
	lease   int64
	until   time.Time // when the lease is over, and others have the rows
	stored  []*row
	given   []*row // back, uncounted and ready at once
	doubted []*row // given back, for others to pass
	refused []*row
}

// missed are the rows that are given back and whose last dispatchers had not been heard of: this one was.
func (s settlement) missed() (rows []*row) {
	for _, r := range s.given {
		if r.lost > 0 {
			rows = append(rows, r)
		}
	}
	return rows
}

// condemn writes down why rows die, before their letters say so. It is on disk when it returns, and with it every claim
// before: whatever happens now, none of them is dispatched any more.
func (c *core) condemn(ctx context.Context, lease int64, rows []*row) (own []*row, err error) {
	err = c.home.Write(ctx, func(ctx context.Context, tx guest.Tx) error {
		own = own[:0]
		for _, r := range rows {
			n, err := change(ctx, tx, c.texts.condemn, c.list(r), lease, textOf(r.err), r.attempts)
			if err != nil {
				return err
			}
			if n > 0 {
				own = append(own, r)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("write down why messages die: %w", err)
	}
	return own, nil
}

// bury ends rows whose letters are recorded.
func (c *core) bury(ctx context.Context, lease int64, rows []*row) error {
	err := c.home.Write(ctx, func(ctx context.Context, tx guest.Tx) error {
		_, err := change(ctx, tx, c.texts.bury, c.list(rows...), lease)
		return err
	})
	if err != nil {
		return fmt.Errorf("mark dead messages: %w", err)
	}
	return nil
}

// purge removes up to limit rows that ended so long ago.
func (c *core) purge(ctx context.Context, age time.Duration, limit int) (n int, err error) {
	err = c.home.Write(ctx, func(ctx context.Context, tx guest.Tx) error {
		n, err = change(ctx, tx, c.texts.purge, age.Milliseconds(), limit)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("purge messages: %w", err)
	}
	return n, nil
}

func change(ctx context.Context, tx guest.Tx, query string, args ...any) (int, error) {
	result, err := tx.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

// list names rows in one argument: by their ids in PostgreSQL, by their numbers in SQLite.
func (c *core) list(rows ...*row) string {
	onFile := c.home.Dialect == guest.SQLite
	b := make([]byte, 0, 40*len(rows)+2)
	for _, r := range rows {
		b = append(b, ',')
		if onFile {
			b = strconv.AppendInt(b, r.seq, 10)
		} else {
			b = hex.AppendEncode(b, r.id[:])
		}
	}
	if onFile {
		return "[" + string(b[1:]) + "]"
	}
	return "{" + string(b[1:]) + "}"
}

// textOf is what is kept of an error in its row.
func textOf(err error) string {
	text := pawl.NewEvidence(err).Message
	if runes := []rune(text); len(runes) > 1000 {
		text = string(runes[:1000]) + "…"
	}
	return text
}

// retryWait is the wait after a claim whose row was refused: 1 s, doubled to at most a minute; four minutes until the
// tenth.
func retryWait(attempts int) time.Duration {
	return min(time.Second<<min(max(attempts-1, 0), 10), time.Minute)
}
