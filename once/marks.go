package once

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/execer"
	"github.com/pawljobs/pawl/internal/guest"
)

//go:embed migrations
var migrations embed.FS

// Config says where the marks are. The zero value is good.
type Config struct {
	// Schema holds the tables; PostgreSQL only. Default "public"; made if it is missing.
	Schema string
	// Table is at most 48 bytes; a second table, with "_control" added, lies beside it. Default "pawl_once".
	Table string
	// NoMigrate leaves the tables alone: opening then fails with pawl.ErrSchema when they are missing or of another
	// version. PostgresSchema and SQLiteSchema print what makes them.
	NoMigrate bool
}

// Marks are those in a database that is used through database/sql. Make them with OpenPostgres or OpenSQLite. The database
// stays its owner's.
type Marks struct{ core }

// PgxMarks are those in a PostgreSQL database that is used through pgx. Make them with OpenPgx, and close them.
type PgxMarks struct{ core }

type core struct {
	home  *guest.Home
	texts statements
}

// SQLTx is what Marks ask of a transaction: *sql.Tx has it, and so have the transactions of sqlx, bun, and gorm's ConnPool.
type SQLTx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// PgxTx is what PgxMarks ask of a transaction of pgx.
type PgxTx interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	SendBatch(ctx context.Context, batch *pgx.Batch) pgx.BatchResults
}

// OpenPostgres opens the marks in a PostgreSQL database, whatever its driver, and brings the tables up to date.
func OpenPostgres(ctx context.Context, db *sql.DB, config Config) (*Marks, error) {
	return openMarks(ctx, db, guest.Postgres, config)
}

// OpenSQLite opens the marks in an SQLite file, whatever its driver, and brings the tables up to date. The connections need
// a busy timeout (busy_timeout).
func OpenSQLite(ctx context.Context, db *sql.DB, config Config) (*Marks, error) {
	return openMarks(ctx, db, guest.SQLite, config)
}

func openMarks(ctx context.Context, db *sql.DB, dialect guest.Dialect, config Config) (*Marks, error) {
	home, err := guest.Open(ctx, db, dialect, config.tables())
	if err != nil {
		return nil, fmt.Errorf("open marks: %w", err)
	}
	return &Marks{core{home: home, texts: newStatements(home)}}, nil
}

// OpenPgx opens the marks in a PostgreSQL database, and brings the tables up to date. The pool stays its owner's.
func OpenPgx(ctx context.Context, pool *pgxpool.Pool, config Config) (*PgxMarks, error) {
	home, err := guest.OpenPool(ctx, pool, config.tables())
	if err != nil {
		return nil, fmt.Errorf("open marks: %w", err)
	}
	return &PgxMarks{core{home: home, texts: newStatements(home)}}, nil
}

// Close gives back what the marks hold of the pool, which stays open.
func (m *PgxMarks) Close() error { return m.home.DB.Close() }

var errNoTransaction error = &pawl.FieldError{Field: "transaction", Value: nil, Rule: "must be given: the mark is part of the caller's"}

func (c Config) tables() guest.Tables {
	return guest.Tables{
		Names: guest.Names{Schema: c.Schema, Table: c.Table}, Default: "pawl_once", Migrations: migrations, NoMigrate: c.NoMigrate,
	}
}

// PostgresSchema is the SQL that makes the tables, for those who migrate by themselves: see Config.NoMigrate.
func PostgresSchema(config Config) (string, error) { return config.tables().Script(guest.Postgres) }

// SQLiteSchema is PostgresSchema for SQLite.
func SQLiteSchema(config Config) (string, error) { return config.tables().Script(guest.SQLite) }

type statements struct{ claim, peek, prune string }

const (
	claimPostgres = `insert into {t} (handler, key) values ($1, $2) on conflict (handler, key) do nothing`
	claimSQLite   = `insert into {t} (handler, key, claimed_at) values (?1, ?2, {now}) on conflict (handler, key) do nothing`

	peekPostgres = `select 1 from {t} where handler = $1 and key = $2`
	peekSQLite   = `select 1 from {t} where handler = ?1 and key = ?2`

	prunePostgres = `delete from {t} where ctid = any(array(
  select ctid from {t} where claimed_at < now() - $1 * interval '1 millisecond' order by claimed_at limit $2 for update skip locked))`
	pruneSQLite = `delete from {t} where (handler, key) in (select handler, key from {t} where claimed_at < {now} - ?1 order by claimed_at limit ?2)`
)

func newStatements(h *guest.Home) statements {
	if h.Dialect == guest.SQLite {
		text := func(template string) string { return h.Text(strings.ReplaceAll(template, "{now}", guest.NowSQLite)) }
		return statements{claim: text(claimSQLite), peek: text(peekSQLite), prune: text(pruneSQLite)}
	}
	return statements{claim: h.Text(claimPostgres), peek: h.Text(peekPostgres), prune: h.Text(prunePostgres)}
}

// Claim sets the mark as part of the caller's transaction: true the first time, and false when it is set already, also
// earlier in this transaction. While another transaction claims the same mark it waits for that one's end, and is true if
// that was rolled back. On an error the transaction is to be rolled back.
//
// On PostgreSQL the transaction should be read committed, the default: one that is stricter fails (SQLSTATE 40001) where
// it had to wait for a claim that was committed. On SQLite begin it as immediate (_txlock=immediate).
func (m *Marks) Claim(ctx context.Context, tx SQLTx, handler, key string) (first bool, err error) {
	if guest.IsNone(tx) {
		return false, errNoTransaction
	}
	return m.claim(ctx, execer.OnSQL(tx), handler, key)
}

// Claim sets the mark as part of a transaction of pgx, as that of Marks does.
func (m *PgxMarks) Claim(ctx context.Context, tx PgxTx, handler, key string) (first bool, err error) {
	if guest.IsNone(tx) {
		return false, errNoTransaction
	}
	return m.claim(ctx, execer.OnPgx(tx), handler, key)
}

func (c *core) claim(ctx context.Context, x execer.Execer, handler, key string) (first bool, err error) {
	if err := check(handler, key); err != nil {
		return false, err
	}
	err = x.Do(ctx, execer.Step{SQL: c.texts.claim, Args: []any{handler, key}, Changed: func(n int64) { first = n > 0 }})
	if err != nil {
		return false, fmt.Errorf("claim mark %q of %s: %w", key, handler, guest.Explain(err))
	}
	return first, nil
}

// Peek reports whether the mark is set, by a transaction that has committed.
func (c *core) Peek(ctx context.Context, handler, key string) (bool, error) {
	if err := check(handler, key); err != nil {
		return false, err
	}
	set, err := guest.One(ctx, c.home.DB, c.texts.peek, []any{handler, key}, new(int))
	if err != nil {
		return false, fmt.Errorf("look for mark %q of %s: %w", key, handler, err)
	}
	return set, nil
}

const (
	maxKey     = 256
	pruneBatch = 1000
)

// check refuses names that two databases would compare differently.
func check(handler, key string) error {
	if err := pawl.CheckName("handler", handler); err != nil {
		return err
	}
	switch {
	case key == "" || len(key) > maxKey:
		return &pawl.FieldError{Field: "key", Value: key, Rule: fmt.Sprintf("must have 1 to %d bytes", maxKey)}
	case !utf8.ValidString(key) || strings.ContainsFunc(key, unicode.IsControl):
		return &pawl.FieldError{Field: "key", Value: key, Rule: "must be valid UTF-8 without control characters"}
	}
	return nil
}

// Prune forgets the marks that were set longer ago than age, a thousand in a transaction, and returns how many those were,
// also with an error: what was done before it stays done.
func (c *core) Prune(ctx context.Context, age time.Duration) (pruned int, err error) {
	if age <= 0 {
		return 0, &pawl.FieldError{Field: "age", Value: age, Rule: "must be greater than 0"}
	}
	for {
		n := 0
		err := c.home.Write(ctx, func(ctx context.Context, tx guest.Tx) error {
			result, err := tx.ExecContext(ctx, c.texts.prune, age.Milliseconds(), pruneBatch)
			if err != nil {
				return err
			}
			rows, err := result.RowsAffected()
			n = int(rows)
			return err
		})
		if err != nil {
			return pruned, fmt.Errorf("prune marks: %w", err)
		}
		if pruned += n; n < pruneBatch {
			return pruned, nil
		}
	}
}
