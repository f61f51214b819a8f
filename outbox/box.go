package outbox

import (
	"context"
	"database/sql"
	"embed"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

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
	// Table is the outbox's name, at most 48 bytes; two more tables, with "_control" and "_lease" added, lie beside it.
	// Default "pawl_outbox".
	Table string
	// NoMigrate leaves the tables alone: opening then fails with pawl.ErrSchema when they are missing or of another
	// version. PostgresSchema and SQLiteSchema print what makes them.
	NoMigrate bool
}

func (c Config) tables() guest.Tables {
	return guest.Tables{
		Names: guest.Names{Schema: c.Schema, Table: c.Table}, Default: "pawl_outbox", Migrations: migrations, NoMigrate: c.NoMigrate,
	}
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
	return openBox(ctx, db, guest.Postgres, config)
}

// OpenSQLite opens the outbox in an SQLite file, 3.35 or later, whatever its driver, and brings its tables up to date. The
// connections need a busy timeout (busy_timeout), as all have that write to a file that others write to.
func OpenSQLite(ctx context.Context, db *sql.DB, config Config) (*Box, error) {
	return openBox(ctx, db, guest.SQLite, config)
}

func openBox(ctx context.Context, db *sql.DB, dialect guest.Dialect, config Config) (*Box, error) {
	c, err := open(config, func() (*guest.Home, error) { return guest.Open(ctx, db, dialect, config.tables()) })
	if err != nil {
		return nil, err
	}
	return &Box{c}, nil
}

// OpenPgx opens the outbox in a PostgreSQL database, and brings its tables up to date. The pool stays its owner's.
func OpenPgx(ctx context.Context, pool *pgxpool.Pool, config Config) (*PgxBox, error) {
	c, err := open(config, func() (*guest.Home, error) { return guest.OpenPool(ctx, pool, config.tables()) })
	if err != nil {
		return nil, err
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

func open(config Config, home func() (*guest.Home, error)) (core, error) {
	if config.Connection.Name == "" {
		config.Connection.Name = "default"
	}
	if err := pawl.CheckName("connection", config.Connection.Name); err != nil {
		return core{}, fmt.Errorf("open outbox: %w", err)
	}
	h, err := home()
	if err != nil {
		return core{}, fmt.Errorf("open outbox: %w", err)
	}
	texts := newStatements(h)
	return core{home: h, texts: &texts, connection: config.Connection, channel: h.Channel(), written: &bell{}}, nil
}

// PostgresSchema is the SQL that makes the tables, for those who migrate by themselves: see Config.NoMigrate.
func PostgresSchema(config Config) (string, error) { return config.tables().Script(guest.Postgres) }

// SQLiteSchema is PostgresSchema for SQLite.
func SQLiteSchema(config Config) (string, error) { return config.tables().Script(guest.SQLite) }

// Connection names the store that the messages go to, and what its jobs inherit there.
func (c *core) Connection() pawl.Connection { return c.connection }
