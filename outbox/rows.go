package outbox

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/execer"
	"github.com/pawljobs/pawl/internal/guest"
)

// row is a message under lease.
type row struct {
	seq       int64
	id        pawl.ID
	attempts  int // claims that count, this one included
	lost      int // of these, the last ones in a row, this one excluded, that nobody was heard of after
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

// exchange records what became of the rows of the last claim, as far as they are still the owner's, and makes the next one:
// all in one transaction. It returns how many of those that were stored are not the owner's.
func (c *core) exchange(ctx context.Context, owner string, s settlement, r *claimRequest) (rows []*row, lost int, err error) {
	if c.home.Dialect == guest.SQLite {
		rows, lost, err = c.exchangeInFile(ctx, owner, s, r)
	} else {
		rows, lost, err = c.exchangeOnServer(ctx, owner, s, r)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("claim and settle messages: %w", err)
	}
	slices.SortFunc(rows, func(a, b *row) int { return cmp.Compare(a.seq, b.seq) })
	return rows, lost, nil
}

func (c *core) exchangeOnServer(ctx context.Context, owner string, s settlement, r *claimRequest) (rows []*row, lost int, err error) {
	steps := []execer.Step{{SQL: c.texts.quick}}
	steps = append(steps, c.settleSteps(owner, s, &lost)...)
	if r != nil {
		steps = append(steps, execer.Step{
			SQL: c.texts.claim, Args: []any{r.connection, r.after, r.limit, owner, r.lease.Milliseconds(), aloneAfter, claimBytes},
			Row: func(scan func(...any) error) error {
				row, err := scanRow(scan)
				rows = append(rows, row)
				return err
			},
		})
	}
	return rows, lost, c.home.Do(ctx, steps...)
}

// exchangeInFile chooses in the program what PostgreSQL chooses by itself.
func (c *core) exchangeInFile(ctx context.Context, owner string, s settlement, r *claimRequest) (rows []*row, lost int, err error) {
	err = c.home.Write(ctx, func(ctx context.Context, tx guest.Tx) error {
		if err := execer.OnSQL(tx).Do(ctx, c.settleSteps(owner, s, &lost)...); err != nil || r == nil {
			return err
		}
		found, bytes := 0, 0
		err := guest.Rows(ctx, tx, c.texts.claim, []any{r.connection, r.after, r.limit}, func(answer *sql.Rows) error {
			row, err := scanRow(answer.Scan)
			if err != nil {
				return err
			}
			suspect := row.lost >= aloneAfter
			if found++; suspect && found > 1 {
				return nil
			}
			rows = append(rows, row)
			if bytes += len(row.envelope); suspect || bytes > claimBytes {
				return guest.ErrEnough
			}
			return nil
		})
		if err != nil || len(rows) == 0 {
			return err
		}
		_, err = tx.ExecContext(ctx, c.texts.take, c.list(rows...), owner, r.lease.Milliseconds())
		return err
	})
	return rows, lost, err
}

// settleSteps record what became of rows.
func (c *core) settleSteps(owner string, s settlement, lost *int) (steps []execer.Step) {
	if len(s.stored) > 0 {
		steps = append(steps, execer.Step{SQL: c.texts.mark, Args: []any{c.list(s.stored...), owner}, Changed: func(n int64) {
			*lost = len(s.stored) - int(n)
		}})
	}
	if len(s.given) > 0 {
		steps = append(steps, execer.Step{SQL: c.texts.giveBack, Args: []any{c.list(s.given...), owner, 0}})
	}
	if len(s.doubted) > 0 {
		steps = append(steps, execer.Step{SQL: c.texts.giveBack, Args: []any{c.list(s.doubted...), owner, retryWait(1).Milliseconds()}})
	}
	for _, r := range s.refused {
		steps = append(steps, execer.Step{
			SQL: c.texts.refuse, Args: []any{c.list(r), owner, textOf(r.err), retryWait(r.attempts).Milliseconds()},
		})
	}
	return steps
}

func scanRow(scan func(...any) error) (*row, error) {
	r := &row{}
	var created, run, delay int64
	err := scan(&r.seq, (*idColumn)(&r.id), &r.attempts, &r.lost, &r.lastError, &created, &run, &delay, &r.envelope)
	r.createdAt = time.UnixMilli(created).UTC()
	if run != 0 {
		r.runAt = time.UnixMilli(run).UTC()
	}
	r.delay = time.Duration(delay) * time.Millisecond
	return r, err
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

// settlement is what became of rows that do not die.
type settlement struct {
	stored  []*row
	given   []*row // back, uncounted and ready at once
	doubted []*row // given back, for others to pass
	refused []*row
}

func (s settlement) any() bool { return len(s.stored)+len(s.given)+len(s.doubted)+len(s.refused) > 0 }

// condemn writes down why rows die, before their letters say so. It is on disk when it returns, and with it every claim
// before: whatever happens now, none of them is dispatched again.
func (c *core) condemn(ctx context.Context, owner string, rows []*row) (own []*row, err error) {
	err = c.home.Write(ctx, func(ctx context.Context, tx guest.Tx) error {
		own = own[:0]
		for _, r := range rows {
			n, err := change(ctx, tx, c.texts.condemn, c.list(r), owner, textOf(r.err))
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
func (c *core) bury(ctx context.Context, owner string, rows []*row) error {
	err := c.home.Write(ctx, func(ctx context.Context, tx guest.Tx) error {
		_, err := change(ctx, tx, c.texts.bury, c.list(rows...), owner)
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
