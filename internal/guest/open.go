package guest

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"reflect"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pawljobs/pawl"
)

// Tables say which tables a guest has.
type Tables struct {
	Names
	Default    string // name of the table where Names has none
	Migrations fs.FS  // with the folders migrations/postgres and migrations/sqlite
	NoMigrate  bool   // they are looked at and not changed
}

var errNoDatabase error = &pawl.FieldError{Field: "database", Value: nil, Rule: "must be given"}

// Open brings the tables up to date, or checks that they are.
func Open(ctx context.Context, db *sql.DB, dialect Dialect, tables Tables) (*Home, error) {
	if db == nil {
		return nil, errNoDatabase
	}
	home, steps, err := tables.home(db, dialect)
	if err == nil && tables.NoMigrate {
		err = home.Check(ctx, steps)
	} else if err == nil {
		err = home.Migrate(ctx, steps)
	}
	if err != nil {
		return nil, err
	}
	return home, nil
}

// OpenPool is Open for a pool of pgx, which stays its owner's: what is held of it is given back by closing Home.DB.
func OpenPool(ctx context.Context, pool *pgxpool.Pool, tables Tables) (*Home, error) {
	if pool == nil {
		return nil, errNoDatabase
	}
	db := stdlib.OpenDBFromPool(pool)
	home, err := Open(ctx, db, Postgres, tables)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return home, nil
}

// Script is the SQL that makes the tables.
func (t Tables) Script(dialect Dialect) (string, error) {
	home, steps, err := t.home(nil, dialect)
	if err != nil {
		return "", err
	}
	return home.Script(steps), nil
}

func (t Tables) home(db *sql.DB, dialect Dialect) (*Home, []string, error) {
	folder := "migrations/sqlite"
	if t.Table == "" {
		t.Table = t.Default
	}
	if dialect == Postgres {
		folder = "migrations/postgres"
		if t.Schema == "" {
			t.Schema = "public"
		}
	}
	home, err := New(db, dialect, t.Names)
	if err != nil {
		return nil, nil, err
	}
	steps, err := Steps(t.Migrations, folder)
	return home, steps, err
}

// IsNone reports what cannot be somebody's transaction: nothing, or a whole database.
func IsNone(tx any) bool {
	switch tx.(type) {
	case *sql.DB, *pgxpool.Pool:
		return true
	}
	return IsNil(tx)
}

// IsNil reports nil, and an interface that holds a nil pointer.
func IsNil(value any) bool {
	v := reflect.ValueOf(value)
	return value == nil || v.Kind() == reflect.Pointer && v.IsNil()
}
