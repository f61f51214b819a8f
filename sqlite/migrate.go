package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/pawljobs/pawl"
)

//go:embed migrations/*.sql
var migrations embed.FS

// steps are the texts of the migrations; step i leads to version i+1.
func steps() ([]string, error) {
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	texts := make([]string, len(names))
	for i, name := range names {
		text, err := migrations.ReadFile(name)
		if err != nil {
			return nil, err
		}
		texts[i] = string(text)
	}
	return texts, nil
}

// migrate brings the tables to this program's version, and returns the one that it found. The write lock of its one
// transaction keeps concurrent starts apart: the second finds the work done.
func migrate(ctx context.Context, conn *sql.Conn) (version int, err error) {
	texts, err := steps()
	if err != nil {
		return 0, fmt.Errorf("read migrations: %w", err)
	}
	if version, err := schemaVersion(ctx, conn); err == nil && version == len(texts) {
		return version, nil // the usual start takes no lock
	}
	if _, err := conn.ExecContext(ctx, "begin immediate"); err != nil {
		return 0, fmt.Errorf("migrate: %w", lockError(err))
	}
	defer func() {
		if err != nil {
			_, rollbackErr := conn.ExecContext(context.WithoutCancel(ctx), "rollback")
			err = errors.Join(err, rollbackErr)
		}
	}()
	if version, err = schemaVersion(ctx, conn); err != nil {
		return 0, err
	}
	if version > len(texts) {
		return 0, newerSchema(version, len(texts))
	}
	for i, text := range texts[version:] {
		if _, err := conn.ExecContext(ctx, text); err != nil {
			return 0, fmt.Errorf("migrate to version %d: %w", version+i+1, err)
		}
		if _, err := conn.ExecContext(ctx, `insert into pawl_schema (version, applied_at) values (?1, ?2)`, version+i+1, now()); err != nil {
			return 0, fmt.Errorf("migrate to version %d: %w", version+i+1, err)
		}
	}
	if _, err := conn.ExecContext(ctx, "commit"); err != nil {
		return 0, fmt.Errorf("migrate: %w", err)
	}
	return version, nil
}

// schemaVersion is 0 where there are no tables yet.
func schemaVersion(ctx context.Context, conn *sql.Conn) (version int, err error) {
	var there bool
	row := conn.QueryRowContext(ctx, `select exists (select 1 from sqlite_schema where type = 'table' and name = 'pawl_schema')`)
	if err := row.Scan(&there); err != nil {
		return 0, fmt.Errorf("read schema version: %w", explain(err))
	}
	if !there {
		return 0, nil
	}
	row = conn.QueryRowContext(ctx, `select coalesce(max(version), 0) from pawl_schema`)
	if err := row.Scan(&version); err != nil {
		return 0, fmt.Errorf("read schema version: %w", explain(err))
	}
	return version, nil
}

// checkSchema refuses tables of another version than this program's, which it returns, saying what to run.
func checkSchema(ctx context.Context, conn *sql.Conn) (version int, err error) {
	texts, err := steps()
	if err != nil {
		return 0, fmt.Errorf("read migrations: %w", err)
	}
	version, err = schemaVersion(ctx, conn)
	switch {
	case err != nil:
		return 0, err
	case version > len(texts):
		return 0, newerSchema(version, len(texts))
	case version < len(texts):
		return 0, fmt.Errorf("tables are at version %d and this program needs %d: run `pawl migrate up`: %w", version, len(texts), pawl.ErrSchema)
	}
	return version, nil
}

func newerSchema(version, known int) error {
	return fmt.Errorf("tables are at version %d and this program knows %d: run a newer release: %w", version, known, pawl.ErrSchema)
}
