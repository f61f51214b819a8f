//go:build linux

package main

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/postgres"
	"github.com/pawljobs/pawl/sqlite"
)

// engine is a store with all that an operator needs.
type engine interface {
	pawl.Store
	pawl.Operator
	Close() error
}

// orders is the business's own table beside the jobs: one row for each job that was enqueued together with it.
type orders interface {
	// Make creates the table.
	Make(ctx context.Context) error
	// Commit inserts a row and does what f does with jobs in the same transaction.
	Commit(ctx context.Context, id string, f func(pawl.Enqueuer) error) error
	// List returns the rows.
	List(ctx context.Context) (map[string]bool, error)
	Close()
}

const (
	makeOrders = `create table if not exists chaos_order (job text primary key)`
	listOrders = `select job from chaos_order`

	// conns of a host's store, beside the one that listens, and of its orders.
	conns      = 4
	orderConns = 2
)

// openStore opens a store of either sort, and the table of orders in the same database.
func openStore(ctx context.Context, t task, log *slog.Logger) (engine, orders, error) {
	if t.Store == postgresStore {
		return openPostgres(ctx, t, log)
	}
	return openSQLite(ctx, t.URL, log)
}

func openPostgres(ctx context.Context, t task, log *slog.Logger) (engine, orders, error) {
	store, err := postgres.Open(ctx, t.URL, postgres.Config{
		Conns: conns, StatementTimeout: intervals.Call, LockTimeout: time.Second, Logger: log,
		Pooler: t.Looks, // which does not listen
	})
	if err != nil {
		return nil, nil, err
	}
	config, err := pgxpool.ParseConfig(t.URL)
	if err == nil {
		config.MaxConns = orderConns
		var pool *pgxpool.Pool
		if pool, err = pgxpool.NewWithConfig(ctx, config); err == nil {
			return store, pgOrders{pool, store}, nil
		}
	}
	_ = store.Close()
	return nil, nil, fmt.Errorf("open orders: %w", err)
}

type pgOrders struct {
	pool  *pgxpool.Pool
	store *postgres.Store
}

func (o pgOrders) Make(ctx context.Context) error {
	_, err := o.pool.Exec(ctx, makeOrders)
	return err
}

func (o pgOrders) Commit(ctx context.Context, id string, f func(pawl.Enqueuer) error) error {
	return pgx.BeginFunc(ctx, o.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `insert into chaos_order (job) values ($1)`, id); err != nil {
			return err
		}
		return f(o.store.Tx(tx))
	})
}

func (o pgOrders) List(ctx context.Context) (map[string]bool, error) {
	rows, err := o.pool.Query(ctx, listOrders)
	if err != nil {
		return nil, err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return setOf(ids), err
}

func (o pgOrders) Close() { o.pool.Close() }

func openSQLite(ctx context.Context, path string, log *slog.Logger) (engine, orders, error) {
	store, err := sqlite.Open(ctx, path, sqlite.Config{BusyTimeout: 2 * time.Second, Logger: log})
	if err != nil {
		return nil, nil, err
	}
	source := "file:" + (&url.URL{Path: path}).EscapedPath() + "?_txlock=immediate&_pragma=busy_timeout(2000)&_pragma=synchronous(full)"
	db, err := sql.Open("sqlite", source)
	if err != nil {
		_ = store.Close()
		return nil, nil, fmt.Errorf("open orders: %w", err)
	}
	db.SetMaxOpenConns(orderConns)
	return store, liteOrders{db, store}, nil
}

type liteOrders struct {
	db    *sql.DB
	store *sqlite.Store
}

func (o liteOrders) Make(ctx context.Context) error {
	_, err := o.db.ExecContext(ctx, makeOrders)
	return err
}

func (o liteOrders) Commit(ctx context.Context, id string, f func(pawl.Enqueuer) error) error {
	tx, err := o.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() // after a commit this does nothing
	if _, err := tx.ExecContext(ctx, `insert into chaos_order (job) values (?)`, id); err != nil {
		return err
	}
	if err := f(o.store.Tx(tx)); err != nil {
		return err
	}
	return tx.Commit()
}

func (o liteOrders) List(ctx context.Context) (map[string]bool, error) {
	rows, err := o.db.QueryContext(ctx, listOrders)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var ids []string
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	return setOf(ids), rows.Err()
}

func (o liteOrders) Close() { _ = o.db.Close() }

func setOf(ids []string) map[string]bool {
	set := make(map[string]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set
}
