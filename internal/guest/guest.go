// Package guest looks after tables of Pawl's that are guests in a service's own database, apart from any store: how they
// are named, made, brought up to date, and written to. It speaks database/sql, so any driver will do.
package guest

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/execer"
)

// Dialect is the language that a database speaks.
type Dialect uint8

// The dialects.
const (
	Postgres Dialect = iota
	SQLite
)

// Names say what the tables are called: Table itself; beside it Table_control, with the version and the switches; and
// Table_lease where the guest has leases.
type Names struct {
	Schema string // PostgreSQL only
	Table  string
}

// maxTable leaves room for the names of indexes within PostgreSQL's 63 bytes.
const maxTable = 48

// Home is a database with the tables of one guest.
type Home struct {
	DB      *sql.DB
	Dialect Dialect
	Names   Names
	replace *strings.Replacer
}

// New checks the names. It does not look at the database yet, which may be nil where only texts are asked for.
func New(db *sql.DB, dialect Dialect, names Names) (*Home, error) {
	for _, name := range []struct {
		field, value string
		limit        int
	}{{"schema", names.Schema, 63}, {"table", names.Table, maxTable}} {
		if name.value == "" && name.field == "schema" && dialect == SQLite {
			continue
		}
		if name.field == "schema" && dialect == SQLite {
			return nil, &pawl.FieldError{Field: name.field, Value: name.value, Rule: "must be empty: an SQLite file has none"}
		}
		if name.value == "" || len(name.value) > name.limit || !utf8.ValidString(name.value) || strings.ContainsRune(name.value, 0) {
			return nil, &pawl.FieldError{Field: name.field, Value: name.value, Rule: fmt.Sprintf("must have 1 to %d bytes of UTF-8, without NUL", name.limit)}
		}
	}
	h := &Home{DB: db, Dialect: dialect, Names: names}
	h.replace = strings.NewReplacer("{t}", h.qualified(names.Table), "{c}", h.qualified(names.Table+"_control"), "{l}", h.qualified(names.Table+"_lease"),
		"{schema}", quote(names.Schema), "{i:", `"`+strings.ReplaceAll(names.Table, `"`, `""`)+"_", ":i}", `"`)
	return h, nil
}

func quote(name string) string { return pgx.Identifier{name}.Sanitize() }

func (h *Home) qualified(table string) string {
	if h.Names.Schema == "" {
		return quote(table)
	}
	return quote(h.Names.Schema) + "." + quote(table)
}

// Text is a statement's text for these tables: {t}, {c} and {l} are the table and those beside it, {i:NAME:i} an index.
// Nothing else brings a name into SQL.
func (h *Home) Text(template string) string { return h.replace.Replace(template) }

// Channel is that of notifications about the table.
func (h *Home) Channel() string {
	sum := sha256.Sum256([]byte(h.Names.Schema + "\x00" + h.Names.Table))
	return "pawl_" + hex.EncodeToString(sum[:8])
}

// lock is the key of the advisory lock on migrations.
func (h *Home) lock() int64 {
	return lockKey("guest\x00" + h.Names.Schema + "\x00" + h.Names.Table)
}

// Lock is the key of an advisory lock of the guest's own, on one of the things that it has of a sort.
func (h *Home) Lock(sort, thing string) int64 {
	return lockKey(sort + "\x00" + h.Names.Schema + "\x00" + h.Names.Table + "\x00" + thing)
}

func lockKey(name string) int64 {
	sum := sha256.Sum256([]byte("pawl\x00" + name))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

// NowSQLite is the time of the machine in Unix milliseconds, as SQLite knows it.
const NowSQLite = `cast(round((julianday('now') - 2440587.5) * 86400000) as integer)`

// Tx is what statements run on.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Write runs f in a transaction of its own; on SQLite in one that has the write lock from the beginning.
func (h *Home) Write(ctx context.Context, f func(ctx context.Context, tx Tx) error) (err error) {
	if h.Dialect == SQLite {
		return Explain(h.writeFile(ctx, f))
	}
	tx, err := h.DB.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	if err := f(ctx, tx); err != nil {
		return errors.Join(err, rolledBack(tx.Rollback()))
	}
	return tx.Commit()
}

// Do runs steps in a transaction of its own, on PostgreSQL. It is one round trip where the driver is that of pgx.
func (h *Home) Do(ctx context.Context, steps ...execer.Step) error {
	conn, err := h.DB.Conn(ctx)
	if err != nil {
		return err
	}
	ours := false
	err = conn.Raw(func(driver any) error {
		c, ok := driver.(*stdlib.Conn)
		if ours = ok; !ours {
			return nil
		}
		return execer.OnPgx(c.Conn()).Do(ctx, steps...)
	})
	err = errors.Join(err, rolledBack(conn.Close()))
	if ours || err != nil {
		return err
	}
	return h.Write(ctx, func(ctx context.Context, tx Tx) error { return execer.OnSQL(tx).Do(ctx, steps...) })
}

// rolledBack leaves out that there was nothing to roll back: database/sql does so itself when a ctx ends.
func rolledBack(err error) error {
	if errors.Is(err, sql.ErrTxDone) || errors.Is(err, sql.ErrConnDone) {
		return nil
	}
	return err
}

// writeFile begins by hand: how a driver begins is up to how it was opened.
func (h *Home) writeFile(ctx context.Context, f func(ctx context.Context, tx Tx) error) (err error) {
	conn, err := h.DB.Conn(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rolledBack(conn.Close())) }()
	if _, err = conn.ExecContext(ctx, "begin immediate"); err != nil {
		err = fmt.Errorf("begin: %w", err) // a ctx that ends just then has drivers say so of a transaction that was begun
	} else if err = f(ctx, conn); err == nil {
		if _, err = conn.ExecContext(ctx, "commit"); err == nil {
			return nil
		}
	}
	_, rollback := conn.ExecContext(context.WithoutCancel(ctx), "rollback")
	if rollback != nil && strings.Contains(rollback.Error(), "no transaction is active") {
		rollback = nil // it was not begun; or SQLite has rolled it back by itself, as it does when the disk is full
	}
	return errors.Join(err, rollback)
}

// Explain says that a lock of an SQLite file was not to be had. It goes by the text, which all drivers take from SQLite.
func Explain(err error) error {
	if err == nil || errors.Is(err, pawl.ErrBusy) {
		return err
	}
	for _, text := range []string{"database is locked", "database table is locked"} {
		if strings.Contains(err.Error(), text) {
			return fmt.Errorf("another connection holds the write lock of the file (%w): %w", err, pawl.ErrBusy)
		}
	}
	return err
}

// ErrEnough ends the reading of rows.
var ErrEnough = errors.New("enough")

// Rows runs a query and reads each row of its answer, or as many until read returns ErrEnough.
func Rows(ctx context.Context, tx Tx, query string, args []any, read func(rows *sql.Rows) error) error {
	rows, err := tx.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := read(rows); err == ErrEnough {
			break
		} else if err != nil {
			return err
		}
	}
	return errors.Join(rows.Err(), rows.Close())
}

// One reads the single row of an answer; false when there is none.
func One(ctx context.Context, tx Tx, query string, args []any, targets ...any) (found bool, err error) {
	err = Rows(ctx, tx, query, args, func(rows *sql.Rows) error {
		found = true
		return rows.Scan(targets...)
	})
	return found, err
}
