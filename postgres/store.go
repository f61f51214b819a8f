// Package postgres keeps jobs in PostgreSQL, version 13 or later: the store for many hosts on many machines.
//
// All of it lies in a schema of its own ("pawl" unless configured), whose names are always qualified. A job can be
// enqueued in the caller's own transaction, whatever driver began it: see Store.Tx and Store.SQLTx.
//
// The store has a few connections of its own, apart from those that handlers use, so that heartbeats and settles never
// wait behind them, and one more that listens for jobs committed elsewhere. Behind pgbouncer in transaction mode,
// which is noticed, nobody can listen, and hosts look every 200 ms instead.
//
// Speed comes from four things. Jobs that are enqueued at the same time share a statement and its commit. A claim
// touches no index, and starts where the one before ended, so that neither the dead rows behind it nor an old snapshot
// that keeps them slow it down. Jobs that are scheduled, finished or dead lie where no claim comes by. And whatever is
// settled together is one statement.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

// Config of a store. The zero value is good.
type Config struct {
	// Connection is the name by which letters and jobs refer to this store. Default "default".
	Connection string
	// Policy is what the jobs of this connection inherit.
	Policy pawl.Policy
	// Schema holds all of the store's tables. Default "pawl"; 1-63 bytes, any characters but NUL. It is made if it is
	// missing.
	Schema string
	// History is how long finished jobs are kept to be looked at. Default 24 hours; negative keeps none, and then
	// only their ids are remembered, for 24 hours.
	History time.Duration
	// Retention is how long letters are kept that were resolved or discarded, counted from then; what is older is pruned by
	// the hour. Default: as long as nobody removes them.
	Retention time.Duration
	// Conns is how many connections the store has for its statements, beside the one that listens. Default 4; 1 works.
	Conns int
	// StatementTimeout bounds every statement, on both sides. Default 30 s.
	StatementTimeout time.Duration
	// LockTimeout bounds the wait for a lock, and how long a transaction of the store's own, whose client may have
	// vanished, keeps its locks without a statement; for the latter at least 1 s. Default 5 s.
	LockTimeout time.Duration
	// Pooler says that there is a connection pooler in transaction mode between here and the server. One that gives
	// itself away, as pgbouncer does, is noticed without it.
	Pooler bool
	// NoMigrate leaves the tables alone: Open then fails with ErrSchema when they are missing or of another version.
	NoMigrate bool
	// Logger receives what has no caller to go to, and one line that says what was opened. Default slog.Default(), without that line.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Connection == "" {
		c.Connection = "default"
	}
	if c.Schema == "" {
		c.Schema = "pawl"
	}
	if c.History == 0 {
		c.History = remembered
	}
	if c.Conns <= 0 {
		c.Conns = 4
	}
	if c.StatementTimeout <= 0 {
		c.StatementTimeout = 30 * time.Second
	}
	if c.LockTimeout <= 0 {
		c.LockTimeout = 5 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// remembered is how long the id of a finished job is known, so that it is not accepted again.
const remembered = 24 * time.Hour

// Store is a pawl.Store and a pawl.Operator in one schema of a PostgreSQL database.
type Store struct {
	config   Config
	schema   schema
	sql      statements
	pool     *pgxpool.Pool
	own      sync.Map // the server's processes behind the pool, by number
	pooler   bool     // no session state, no LISTEN
	pageSize int      // of the server, in bytes
	found    int      // version of the tables before Open
	tells    bool     // what was opened

	names    names
	slots    slots
	claims   *claimer
	due      dueCursor
	held     *holdings
	enqueues *grouper
	inserts  chan struct{} // a slot for each enqueue under way: the rest of the connections is for others
	hosted   atomic.Bool   // a host has opened a session
	repeats  atomic.Int64  // until then (Unix nanoseconds), ids are expected to be there already
	waker    *waker
	turns    *turnGiver
	counts   *sharing // of batches
	limits   limitCache

	background context.Context // until Close
	stop       context.CancelFunc
	workers    sync.WaitGroup
	closeOnce  sync.Once
}

var _ pawl.Store = (*Store)(nil)

// Open connects to the server and brings the store's tables up to date. The url is what pgx takes: postgres://… or
// key=value pairs, and the PG* environment for what it leaves out; a search_path that does not begin with the schema is refused. The
// caller closes the store.
func Open(ctx context.Context, url string, config Config) (*Store, error) {
	tells := config.Logger != nil
	config = config.withDefaults()
	names, err := newSchema(config.Schema)
	if err != nil {
		return nil, err
	}
	s := &Store{config: config, schema: names, sql: newStatements(names), tells: tells}
	s.background, s.stop = context.WithCancel(context.Background())
	if err := s.open(ctx, url); err != nil {
		return nil, errors.Join(fmt.Errorf("open postgres: %w", err), s.Close())
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, url string) error {
	if err := s.connect(ctx, url); err != nil {
		return err
	}
	s.names.init()
	s.slots.init()
	s.held = newHoldings()
	s.claims = newClaimer()
	s.turns, s.counts = newTurnGiver(), newSharing()
	if err := s.askForTurns(ctx); err != nil {
		return fmt.Errorf("look at rights: %w", err)
	}
	if err := s.keepSlots(ctx); err != nil && state(err) != insufficientRights { // hosts make them
		return fmt.Errorf("prepare tables of finished jobs: %w", err)
	}
	s.inserts = make(chan struct{}, max(1, s.config.Conns/2))
	s.waker = newWaker()
	s.startWaking()
	s.enqueues = newGrouper()
	s.workers.Go(s.runGroups)
	s.workers.Go(s.runTurns)
	s.workers.Go(s.tellOthers)
	s.workers.Go(s.watchUntaken)
	s.workers.Go(s.watchSwapped)
	s.workers.Go(s.runCounts)
	return s.sayOpened()
}

// sayOpened says in the log where the store is.
func (s *Store) sayOpened() error {
	texts, err := s.steps()
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	if !s.tells {
		return nil
	}
	at := s.pool.Config().ConnConfig
	desk.Opened(s.config.Logger, s.found, len(texts), slog.String("host", at.Host), slog.String("database", at.Database),
		slog.String("user", at.User), slog.String("schema", s.schema.name))
	return nil
}

// Close waits for the calls under way and closes the connections. Calls that come later return pawl.ErrClosed.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		s.stop()
		s.workers.Wait()
		if s.pool != nil {
			s.pool.Close()
		}
	})
	return nil
}

// Connection names the store and what its jobs inherit.
func (s *Store) Connection() pawl.Connection {
	return pawl.Connection{Name: s.config.Connection, Policy: s.config.Policy}
}
