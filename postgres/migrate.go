package postgres

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
)

//go:embed migrations/*.sql
var migrations embed.FS

// steps are the texts of the migrations; step i leads to version i+1.
func (s *Store) steps() ([]string, error) {
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
		texts[i] = s.schema.text(string(text))
	}
	return texts, nil
}

// migrate brings the tables to this program's version, in one transaction. An advisory lock keeps concurrent starts
// apart: the second finds the work done.
func (s *Store) migrate(ctx context.Context, conn *pgx.Conn) error {
	texts, err := s.steps()
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	if version, err := s.version(ctx, conn); err == nil && version == len(texts) {
		s.found = version
		return nil // the usual start takes no lock
	}
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { return s.migrateTo(ctx, tx, texts) })
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

func (s *Store) migrateTo(ctx context.Context, tx pgx.Tx, texts []string) error {
	if _, err := tx.Exec(ctx, `select pg_advisory_xact_lock($1)`, pgx.QueryExecModeExec, s.schema.lock("migrate")); err != nil {
		return fmt.Errorf("wait for another migration: %w", err)
	}
	version, err := s.version(ctx, tx)
	if err != nil {
		return err
	}
	if version > len(texts) {
		return newerSchema(version, len(texts))
	}
	s.found = version
	if version == 0 {
		if err := s.makeSchema(ctx, tx); err != nil {
			return err
		}
	}
	for i, text := range texts[version:] {
		step := version + i + 1
		if err := script(ctx, tx, text); err != nil {
			return fmt.Errorf("to version %d: %w", step, err)
		}
		if _, err := tx.Exec(ctx, s.schema.text(`insert into {s}.schema_version (version) values ($1)`), pgx.QueryExecModeExec, step); err != nil {
			return fmt.Errorf("to version %d: %w", step, err)
		}
	}
	return nil
}

// makeSchema makes the schema where it is missing: one that somebody else made needs no right to make schemas.
func (s *Store) makeSchema(ctx context.Context, tx pgx.Tx) error {
	var there bool
	err := tx.QueryRow(ctx, `select exists (select 1 from pg_catalog.pg_namespace where nspname = $1)`,
		pgx.QueryExecModeExec, s.schema.name).Scan(&there)
	if err != nil {
		return err
	}
	text := `create table {s}.schema_version (version int primary key, applied_at timestamptz not null default now())`
	if !there {
		text = `create schema {s}; ` + text
	}
	return script(ctx, tx, s.schema.text(text))
}

// script runs several statements.
func script(ctx context.Context, tx pgx.Tx, text string) error {
	_, err := tx.Conn().PgConn().Exec(ctx, text).ReadAll()
	return err
}

// version is that of the tables, 0 where there are none yet.
func (s *Store) version(ctx context.Context, q interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
},
) (version int, err error) {
	var there bool
	err = q.QueryRow(ctx, `select exists (select 1 from pg_catalog.pg_tables where schemaname = $1 and tablename = 'schema_version')`,
		pgx.QueryExecModeExec, s.schema.name).Scan(&there)
	if err == nil && there {
		err = q.QueryRow(ctx, s.schema.text(`select coalesce(max(version), 0) from {s}.schema_version`), pgx.QueryExecModeExec).Scan(&version)
	}
	if err != nil {
		return 0, fmt.Errorf("read schema version: %w", err)
	}
	return version, nil
}

// checkSchema refuses tables of another version, saying what to run.
func (s *Store) checkSchema(ctx context.Context, conn *pgx.Conn) error {
	texts, err := s.steps()
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	version, err := s.version(ctx, conn)
	switch {
	case err != nil:
		return err
	case version > len(texts):
		return newerSchema(version, len(texts))
	case version == 0:
		return fmt.Errorf("the database has no tables of pawl in schema %s: run `pawl migrate up` to make them: %w", s.schema.name, pawl.ErrSchema)
	case version < len(texts):
		return fmt.Errorf("tables are at version %d and this program needs %d: run `pawl migrate up`: %w", version, len(texts), pawl.ErrSchema)
	}
	s.found = version
	return nil
}

func newerSchema(version, known int) error {
	return fmt.Errorf("tables are at version %d and this program knows %d: run a newer release: %w", version, known, pawl.ErrSchema)
}
