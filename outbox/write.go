package outbox

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/execer"
	"github.com/pawljobs/pawl/internal/guest"
)

// SQLTx is what a Box asks of a transaction: *sql.Tx has it, and so have the transactions of sqlx, bun, and gorm's
// ConnPool.
type SQLTx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// PgxTx is what a PgxBox asks of a transaction of pgx.
type PgxTx interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}

// Tx hands in jobs as part of the caller's own transaction, as a store's Tx does: a message is there when it commits, and
// never was when it is rolled back. The message's id is the job's.
//
// Accepted means that the message was written, Repeated that the box has one of this id already and nothing was written.
// Whether a unique key is held is for the store to say when the message gets there: then it stores nothing, and the
// message counts as dispatched.
//
// On SQLite begin the transaction as immediate (_txlock=immediate).
func (b *Box) Tx(tx SQLTx) pawl.Enqueuer {
	if guest.IsNone(tx) {
		return writer{core: &b.core}
	}
	if b.home.Dialect == guest.SQLite {
		return writer{&b.core, fileWriter{tx}}
	}
	return writer{&b.core, serverWriter{execer.OnSQL(tx)}}
}

// Tx hands in jobs as part of a transaction of pgx, as that of a Box does.
func (b *PgxBox) Tx(tx PgxTx) pawl.Enqueuer {
	if guest.IsNone(tx) {
		return writer{core: &b.core}
	}
	return writer{&b.core, serverWriter{execer.OnPgx(tx)}}
}

// writer is a transaction to write messages in.
type writer struct {
	core *core
	tx   inserter // nil: there is none
}

// inserter writes rows and returns the ids of those that were not there yet.
type inserter interface {
	insert(ctx context.Context, c *core, rows []newRow) (fresh map[pawl.ID]bool, err error)
}

type newRow struct {
	id       pawl.ID
	runAt    int64 // Unix milliseconds; 0: none
	delay    int64 // milliseconds
	envelope []byte
}

func (w writer) Connection() pawl.Connection { return w.core.connection }

// Enqueue writes the messages, all or none.
func (w writer) Enqueue(ctx context.Context, jobs []pawl.NewJob) ([]pawl.Enqueued, error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	rows := make([]newRow, len(jobs))
	for i := range jobs {
		var err error
		if rows[i], err = message(jobs[i]); err != nil {
			return nil, fmt.Errorf("job %d of %d: %w", i+1, len(jobs), err)
		}
	}
	if w.tx == nil {
		return nil, &pawl.FieldError{Field: "transaction", Value: nil, Rule: "must be given: the message is part of the caller's"}
	}
	fresh, err := w.tx.insert(ctx, w.core, rows)
	if err != nil {
		return nil, fmt.Errorf("write to the outbox: %w", w.explain(err))
	}
	w.core.written.ring()
	results := make([]pawl.Enqueued, len(jobs))
	for i := range jobs {
		results[i].ID = jobs[i].ID
		if !fresh[jobs[i].ID] {
			results[i].Status = pawl.Repeated
		}
		fresh[jobs[i].ID] = false // the second of a batch is a repeat
	}
	return results, nil
}

// message is the row of a job. Its envelope says that it came by the outbox.
func message(job pawl.NewJob) (newRow, error) {
	if err := job.Check(); err != nil {
		return newRow{}, err
	}
	switch {
	case !job.Letter.IsZero() || !job.EnqueuedAt.IsZero():
		return newRow{}, fmt.Errorf("a redrive goes straight to its store: %w", pawl.ErrUnsupported)
	case job.Opens || !job.Batch.IsZero():
		return newRow{}, fmt.Errorf("a batch goes straight to its store, where it may have ended before a message arrives: %w", pawl.ErrUnsupported)
	case job.RunAt.Year() > 9999:
		return newRow{}, &pawl.FieldError{Field: "run at", Value: job.RunAt, Rule: "must be a time before the year 10000"}
	}
	envelope, err := pawl.DecodeEnvelope(job.Envelope)
	if err != nil {
		return newRow{}, &pawl.FieldError{Field: "job", Value: job.ID, Rule: "must be made with a Kind: " + err.Error()}
	}
	row := newRow{id: job.ID, delay: ceilMillis(job.Delay), envelope: job.Envelope}
	if envelope.Origin == (pawl.Origin{}) {
		envelope.Origin = pawl.Origin{Source: pawl.OriginOutbox, Ref: job.ID.String()}
		row.envelope = envelope.Encode()
	}
	if !job.RunAt.IsZero() {
		row.runAt = max(job.RunAt.Add(time.Millisecond-1).UnixMilli(), 1)
	}
	return row, nil
}

// ceilMillis rounds up: a wait is never shortened.
func ceilMillis(d time.Duration) int64 {
	return int64((max(d, 0) + time.Millisecond - 1) / time.Millisecond)
}

// explain goes by the text, which drivers take from the database.
func (w writer) explain(err error) error {
	text := err.Error()
	switch table := w.core.home.Names.Table; {
	case strings.Contains(text, "no such table") || strings.Contains(text, "42P01"):
		return fmt.Errorf("the transaction is on a database that does not hold table %s: %w", table, err)
	case strings.Contains(text, "database is locked"):
		return fmt.Errorf("the transaction could not take the write lock; begin it as immediate (%w): %w", err, pawl.ErrBusy)
	}
	return err
}

// insertAtOnce bounds a statement.
const insertAtOnce = 1000

// serverWriter writes to PostgreSQL.
type serverWriter struct{ execer.Execer }

func (w serverWriter) insert(ctx context.Context, c *core, rows []newRow) (map[pawl.ID]bool, error) {
	fresh := make(map[pawl.ID]bool, len(rows))
	var one execer.IDColumn
	steps := make([]execer.Step, 0, 2)
	for start := 0; start < len(rows); start += insertAtOnce {
		part := rows[start:min(start+insertAtOnce, len(rows))]
		ids, envelopes := make(execer.IDs, len(part)), make([][]byte, len(part))
		runs, delays := make([]int64, len(part)), make([]int64, len(part))
		for i, row := range part {
			ids[i], runs[i], delays[i], envelopes[i] = row.id, row.runAt, row.delay, row.envelope
		}
		steps = append(steps, execer.Step{
			SQL: c.texts.insert, Args: []any{c.connection.Name, ids, runs, delays, envelopes},
			Row: func(scan func(...any) error) error {
				err := scan(&one)
				fresh[pawl.ID(one)] = true
				return err
			},
		})
	}
	steps = append(steps, execer.Step{SQL: notify, Args: []any{c.channel}})
	return fresh, w.Do(ctx, steps...)
}

// fileWriter writes to SQLite.
type fileWriter struct{ SQLTx }

func (w fileWriter) insert(ctx context.Context, c *core, rows []newRow) (map[pawl.ID]bool, error) {
	const most = 128
	fresh := make(map[pawl.ID]bool, len(rows))
	for start := 0; start < len(rows); start += most {
		part := rows[start:min(start+most, len(rows))]
		args := make([]any, 0, 5*len(part))
		for _, row := range part {
			args = append(args, row.id[:], c.connection.Name, orNull(row.runAt), orNull(row.delay), row.envelope)
		}
		query := c.texts.insert + strings.Repeat(insertSQLiteRow+",", len(part)-1) + insertSQLiteRow + insertSQLiteEnd
		err := guest.Rows(ctx, w, query, args, func(rows *sql.Rows) error {
			var id idColumn
			err := rows.Scan(&id)
			fresh[pawl.ID(id)] = true
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return fresh, nil
}

func orNull(n int64) any {
	if n == 0 {
		return nil
	}
	return n
}
