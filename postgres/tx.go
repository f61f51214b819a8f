package postgres

import (
	"context"
	"fmt"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/execer"
)

// Tx hands in jobs as part of a transaction of pgx, or of anything that has its methods: they are there when it
// commits, which wakes a waiting host, and never were when it is rolled back. It must be read committed, PostgreSQL's
// default, for an id that is enqueued and finished at the same moment to be recognised.
func (s *Store) Tx(tx PgxTx) pawl.Enqueuer {
	if tx == nil {
		return transaction{store: s}
	}
	return transaction{s, execer.OnPgx(tx)}
}

// SQLTx is Tx for a transaction of database/sql, or of anything that has its methods, with any driver for PostgreSQL.
func (s *Store) SQLTx(tx SQLTx) pawl.Enqueuer {
	if tx == nil {
		return transaction{store: s}
	}
	return transaction{s, execer.OnSQL(tx)}
}

type transaction struct {
	store *Store
	tx    execer.Execer
}

func (t transaction) Connection() pawl.Connection { return t.store.Connection() }

func (t transaction) Enqueue(ctx context.Context, jobs []pawl.NewJob) ([]pawl.Enqueued, error) {
	if err := checkJobs(jobs); err != nil || len(jobs) == 0 {
		return nil, err
	}
	if t.tx == nil {
		return nil, &pawl.FieldError{Field: "transaction", Value: nil, Rule: "must be given"}
	}
	in, err := t.store.newInsertion(ctx, jobs)
	if err != nil {
		return nil, fmt.Errorf("enqueue in transaction: %w", err)
	}
	in.notify, in.alone, in.guest = true, true, true
	if err := in.run(ctx, t.tx); err != nil {
		return nil, fmt.Errorf("enqueue in transaction: %w", err)
	}
	if err := in.checkRepeats(ctx, t.tx); err != nil {
		return nil, fmt.Errorf("enqueue in transaction: %w", err)
	}
	if in.batched {
		if err := in.join(ctx, t.tx); err != nil {
			return nil, fmt.Errorf("enqueue in transaction: %w", err)
		}
	}
	return in.results, nil
}
