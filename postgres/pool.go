package postgres

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawljobs/pawl"
)

// connect opens the first connection, brings the tables up to date with it, and then the pool.
func (s *Store) connect(ctx context.Context, url string) error {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("%w: %w", pawl.ErrInvalid, err) // pgx leaves passwords out of it
	}
	if err := s.checkSearchPath(config.ConnConfig.RuntimeParams); err != nil {
		return err
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = 10 * time.Second
	}
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "pawl"
	}
	if err := s.prepare(ctx, config.ConnConfig); err != nil {
		return err
	}
	config.MaxConns = int32(s.config.Conns)
	config.MinConns = 0
	if s.pooler {
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	} else {
		config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
		config.AfterConnect = s.settings
		config.BeforeClose = func(conn *pgx.Conn) { s.own.Delete(conn.PgConn().PID()) }
	}
	s.pool, err = pgxpool.NewWithConfig(ctx, config)
	return err
}

// pathOption is a search_path among the options of a connection.
var pathOption = regexp.MustCompile(`search_path\s*=\s*(\S*)`)

// checkSearchPath refuses a search_path that does not begin with the schema of the tables. Their names are always qualified, so whoever
// gave it would find others than he means.
func (s *Store) checkSearchPath(params map[string]string) error {
	path, given := params["search_path"]
	if found := pathOption.FindStringSubmatch(params["options"]); !given && found != nil {
		path, given = found[1], true
	}
	first, _, _ := strings.Cut(path, ",")
	if !given || strings.Trim(first, ` "`) == s.schema.name {
		return nil
	}
	return &pawl.FieldError{Field: "search_path", Value: path, Rule: fmt.Sprintf("must be left out of the store's URL and of PGOPTIONS: "+
		"the tables are in schema %q; another is named by the schema of the configuration", s.schema.name)}
}

// prepare looks at the server through a connection of its own, and migrates.
func (s *Store) prepare(ctx context.Context, config *pgx.ConnConfig) error {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return &connectError{err}
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if s.pooler, s.pageSize, err = about(ctx, conn); err != nil {
		return err
	}
	s.pooler = s.pooler || s.config.Pooler
	if s.config.NoMigrate {
		return denied(s.checkSchema(ctx, conn))
	}
	return denied(s.migrate(ctx, conn))
}

// about asks for the size of the server's pages, and whether something between here and the server hands out connections of its
// own: the process that answers is then not the one that the greeting named.
func about(ctx context.Context, conn *pgx.Conn) (pooler bool, pageSize int, err error) {
	var pid uint32
	err = conn.QueryRow(ctx, `select pg_backend_pid(), current_setting('block_size')::int`, pgx.QueryExecModeExec).Scan(&pid, &pageSize)
	if err != nil {
		return false, 0, fmt.Errorf("look at the server: %w", err)
	}
	return pid != conn.PgConn().PID(), pageSize, nil
}

// settings are those of each connection. A transaction whose client has vanished ends long before that host counts as
// dead: until then nobody could recover the jobs that it has touched. Plans are made once and for all: every statement
// of a host finds its rows by an index, whatever the statistics of a table that was empty a minute ago say. Reads for
// operators are planned as usual; see view.
func (s *Store) settings(ctx context.Context, conn *pgx.Conn) error {
	encodeListsWhole(conn.TypeMap())
	text := "set statement_timeout = " + milliseconds(s.config.StatementTimeout) +
		"; set lock_timeout = " + milliseconds(s.config.LockTimeout) +
		"; set idle_in_transaction_session_timeout = " + milliseconds(max(s.config.LockTimeout, time.Second)) +
		"; set default_transaction_isolation = 'read committed'; set jit = off; set plan_cache_mode = force_generic_plan" +
		"; set enable_seqscan = off; set enable_bitmapscan = off; set enable_hashjoin = off; set enable_mergejoin = off"
	if _, err := conn.PgConn().Exec(ctx, text).ReadAll(); err != nil {
		return fmt.Errorf("set up connection: %w", err)
	}
	s.own.Store(conn.PgConn().PID(), true)
	return nil
}

func milliseconds(d time.Duration) string {
	return strconv.FormatInt(max(1, d.Milliseconds()), 10)
}

// querier runs statements: on a connection, each with a commit of its own, or in a transaction.
type querier interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}

// run calls f with a connection. Where PostgreSQL undid f's work for the sake of another transaction, it is called
// again, so it must leave nothing behind but its results.
func (s *Store) run(ctx context.Context, f func(ctx context.Context, conn *pgxpool.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.StatementTimeout+s.config.LockTimeout)
	defer cancel()
	for try := 1; ; try++ {
		err := s.runOnce(ctx, f)
		if err == nil || !collided(err) || try == mostTries || !wait(ctx, collisionWait(try)) {
			return s.explain(ctx, err)
		}
	}
}

func (s *Store) runOnce(ctx context.Context, f func(ctx context.Context, conn *pgxpool.Conn) error) error {
	if s.background.Err() != nil {
		return pawl.ErrClosed
	}
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer conn.Release()
	return f(ctx, conn)
}

// write runs f in a transaction, as run does.
func (s *Store) write(ctx context.Context, f func(ctx context.Context, tx pgx.Tx) error) error {
	return s.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error { return f(ctx, tx) })
	})
}

// view runs an operator's reads, which see one state of the database and are planned by its statistics.
func (s *Store) view(ctx context.Context, f func(ctx context.Context, q querier) error) error {
	return s.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
		return pgx.BeginTxFunc(ctx, conn, options, func(tx pgx.Tx) error {
			if !s.pooler {
				if _, err := tx.Exec(ctx, planAsUsual, pgx.QueryExecModeSimpleProtocol); err != nil {
					return err
				}
			}
			return f(ctx, tx)
		})
	})
}

const planAsUsual = `set local plan_cache_mode = auto; set local enable_seqscan = on; set local enable_bitmapscan = on;
set local enable_hashjoin = on; set local enable_mergejoin = on`

// wait pauses; false when ctx ended first.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
