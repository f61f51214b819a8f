package outbox

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/guest"
)

//go:embed migrations
var migrations embed.FS

// Config of an outbox. The zero value is good.
type Config struct {
	// Connection is the store that messages go to: its name, and what its jobs inherit there. It is what that store's
	// Connection() returns. Default: the name "default", and nothing to inherit. See Box.For for several.
	Connection pawl.Connection
	// Schema holds the tables; PostgreSQL only. Default "public"; made if it is missing.
	Schema string
	// Table is the outbox's name, at most 48 bytes; a second table, with "_control" added, lies beside it. Default
	// "pawl_outbox".
	Table string
	// NoMigrate leaves the tables alone: opening then fails with pawl.ErrSchema when they are missing or of another
	// version. PostgresSchema and SQLiteSchema print what makes them.
	NoMigrate bool
}

func (c Config) withDefaults(dialect guest.Dialect) Config {
	if c.Connection.Name == "" {
		c.Connection.Name = "default"
	}
	if c.Schema == "" && dialect == guest.Postgres {
		c.Schema = "public"
	}
	if c.Table == "" {
		c.Table = "pawl_outbox"
	}
	return c
}

// Box is an outbox in a database that is used through database/sql. Make one with OpenPostgres or OpenSQLite. The
// database stays its owner's: a Box holds nothing that would have to be closed.
type Box struct{ core }

// PgxBox is an outbox in a PostgreSQL database that is used through pgx. Make one with OpenPgx, and close it.
type PgxBox struct{ core }

// Source is what a dispatcher empties: a *Box or a *PgxBox.
type Source interface{ source() *core }

// core is what both have in common.
type core struct {
	home       *guest.Home
	texts      *statements
	connection pawl.Connection
	channel    string
	written    *bell
}

func (c *core) source() *core { return c }

// OpenPostgres opens the outbox in a PostgreSQL database, whatever its driver, and brings its tables up to date. Where the
// driver is that of pgx (github.com/jackc/pgx/v5/stdlib), commits wake a dispatcher at once.
func OpenPostgres(ctx context.Context, db *sql.DB, config Config) (*Box, error) {
	c, err := open(ctx, db, guest.Postgres, config)
	if err != nil {
		return nil, err
	}
	return &Box{c}, nil
}

// OpenSQLite opens the outbox in an SQLite file, 3.35 or later, whatever its driver, and brings its tables up to date. The
// connections need a busy timeout (busy_timeout), as all have that write to a file that others write to.
func OpenSQLite(ctx context.Context, db *sql.DB, config Config) (*Box, error) {
	c, err := open(ctx, db, guest.SQLite, config)
	if err != nil {
		return nil, err
	}
	return &Box{c}, nil
}

// OpenPgx opens the outbox in a PostgreSQL database, and brings its tables up to date. The pool stays its owner's.
func OpenPgx(ctx context.Context, pool *pgxpool.Pool, config Config) (*PgxBox, error) {
	if pool == nil {
		return nil, errNoDatabase
	}
	db := stdlib.OpenDBFromPool(pool)
	c, err := open(ctx, db, guest.Postgres, config)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &PgxBox{c}, nil
}

// Close gives back what the box holds of the pool, which stays open.
func (b *PgxBox) Close() error { return b.home.DB.Close() }

// For is the box for messages to another store.
func (b *Box) For(connection pawl.Connection) *Box { return &Box{b.to(connection)} }

// For is the box for messages to another store.
func (b *PgxBox) For(connection pawl.Connection) *PgxBox { return &PgxBox{b.to(connection)} }

func (c core) to(connection pawl.Connection) core {
	c.connection = connection
	return c
}

var errNoDatabase error = &pawl.FieldError{Field: "database", Value: nil, Rule: "must be given"}

func open(ctx context.Context, db *sql.DB, dialect guest.Dialect, config Config) (core, error) {
	if db == nil {
		return core{}, errNoDatabase
	}
	config = config.withDefaults(dialect)
	home, steps, err := tables(db, dialect, config)
	if err == nil {
		err = pawl.CheckName("connection", config.Connection.Name)
	}
	if err == nil && config.NoMigrate {
		err = home.Check(ctx, steps)
	} else if err == nil {
		err = home.Migrate(ctx, steps)
	}
	if err != nil {
		return core{}, fmt.Errorf("open outbox: %w", err)
	}
	texts := newStatements(home)
	return core{home: home, texts: &texts, connection: config.Connection, channel: home.Channel(), written: &bell{}}, nil
}

func tables(db *sql.DB, dialect guest.Dialect, config Config) (*guest.Home, []string, error) {
	home, err := guest.New(db, dialect, guest.Names{Schema: config.Schema, Table: config.Table})
	if err != nil {
		return nil, nil, err
	}
	folder := "migrations/postgres"
	if dialect == guest.SQLite {
		folder = "migrations/sqlite"
	}
	steps, err := guest.Steps(migrations, folder)
	return home, steps, err
}

// PostgresSchema is the SQL that makes the tables, for those who migrate by themselves: see Config.NoMigrate.
func PostgresSchema(config Config) (string, error) { return schema(guest.Postgres, config) }

// SQLiteSchema is PostgresSchema for SQLite.
func SQLiteSchema(config Config) (string, error) { return schema(guest.SQLite, config) }

func schema(dialect guest.Dialect, config Config) (string, error) {
	home, steps, err := tables(nil, dialect, config.withDefaults(dialect))
	if err != nil {
		return "", err
	}
	return home.Script(steps), nil
}

// Connection names the store that the messages go to, and what its jobs inherit there.
func (c *core) Connection() pawl.Connection { return c.connection }
