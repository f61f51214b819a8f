package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/pawljobs/pawl"
)

// Transaction is what jobs can be enqueued in. *sql.Tx has these methods, and so has what wraps one.
type Transaction interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Tx hands in jobs as part of a transaction of the caller's: they are there when it commits, and never were when it is
// rolled back. The transaction is one of the store's driver (see Config.Driver), on the file that holds Pawl's tables. Use
// it in the goroutine that uses the transaction.
//
// Begin such a transaction as immediate (modernc.org/sqlite and mattn/go-sqlite3 have _txlock=immediate): SQLite cannot
// let a transaction write that began by reading while another connection wrote.
func (s *Store) Tx(tx Transaction) pawl.Enqueuer { return transaction{s, tx} }

type transaction struct {
	store *Store
	tx    Transaction
}

func (t transaction) Connection() pawl.Connection { return t.store.Connection() }

func (t transaction) Enqueue(ctx context.Context, jobs []pawl.NewJob) ([]pawl.Enqueued, error) {
	if err := checkJobs(jobs); err != nil || len(jobs) == 0 {
		return nil, err
	}
	if err := t.check(); err != nil {
		return nil, err
	}
	err := t.store.checkLibrary(ctx, t.tx)
	var results []pawl.Enqueued
	if err == nil {
		results, err = enqueueJobs(ctx, t.tx, jobs, now())
	}
	if err != nil {
		return nil, fmt.Errorf("enqueue in transaction: %w", explainTx(err))
	}
	return results, nil
}

// check refuses what is no transaction.
func (t transaction) check() error {
	if tx, ok := t.tx.(*sql.Tx); t.tx == nil || ok && tx == nil {
		return &pawl.FieldError{Field: "transaction", Value: nil, Rule: "must be given"}
	}
	if _, ok := t.tx.(*sql.DB); ok {
		return &pawl.FieldError{Field: "transaction", Value: "*sql.DB", Rule: "must be a transaction: without one, enqueue in the store itself"}
	}
	return nil
}

// explainTx goes by the text, which all drivers take from SQLite itself.
func explainTx(err error) error {
	switch text := err.Error(); {
	case strings.Contains(text, "no such table: pawl_"):
		return fmt.Errorf("the transaction is on a file that does not hold this store's tables: %w", err)
	case strings.Contains(text, "database is locked"):
		return fmt.Errorf("the transaction could not take the write lock; begin it as immediate (%w): %w", err, pawl.ErrBusy)
	}
	return err
}
