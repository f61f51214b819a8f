package guest

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/pawljobs/pawl"
)

// Steps reads numbered migrations from a folder; step i leads to version i+1. Their statements are divided by a
// semicolon at the end of a line.
func Steps(files fs.FS, folder string) ([]string, error) {
	names, err := fs.Glob(files, folder+"/*.sql")
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("no migrations in %s", folder)
	}
	slices.Sort(names)
	texts := make([]string, len(names))
	for i, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		texts[i] = string(text)
	}
	return texts, nil
}

const (
	makeControl = `create table {c} (name text primary key, value text not null)`
	noteVersion = `insert into {c} (name, value) values ('version', '%d') on conflict (name) do update set value = excluded.value`
	readVersion = `select cast(value as integer) from {c} where name = 'version'`

	makeSchema = `create schema {schema}`
	hasSchema  = `select 1 from pg_catalog.pg_namespace where nspname = $1`
	hasTable   = `select 1 from pg_catalog.pg_tables where schemaname = $1 and tablename = $2`
	hasTableIn = `select 1 from sqlite_master where type = 'table' and name = ?1`
	waitTurn   = `select 1 from (select pg_advisory_xact_lock($1)) locked`
)

// Script is all that makes the tables in a database that has none of them.
func (h *Home) Script(steps []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s;\n", h.Text(makeControl))
	for i, step := range steps {
		fmt.Fprintf(&b, "\n%s\n", strings.TrimSpace(h.Text(step)))
		fmt.Fprintf(&b, "%s;\n", h.Text(fmt.Sprintf(noteVersion, i+1)))
	}
	return b.String()
}

// Migrate brings the tables to this program's version, in one transaction. A lock keeps concurrent starts apart: the
// second finds the work done.
func (h *Home) Migrate(ctx context.Context, steps []string) error {
	if version, err := h.version(ctx, h.DB); err == nil && version == len(steps) {
		return nil // the usual start takes no lock
	}
	err := h.Write(ctx, func(ctx context.Context, tx Tx) error { return h.migrate(ctx, tx, steps) })
	if err != nil {
		return fmt.Errorf("migrate table %s: %w", h.Names.Table, err)
	}
	return nil
}

func (h *Home) migrate(ctx context.Context, tx Tx, steps []string) error {
	if h.Dialect == Postgres {
		if _, err := One(ctx, tx, waitTurn, []any{h.lock()}, new(int)); err != nil {
			return fmt.Errorf("wait for another migration: %w", err)
		}
	}
	version, err := h.version(ctx, tx)
	switch {
	case err != nil:
		return err
	case version > len(steps):
		return h.newer(version, len(steps))
	case version == 0:
		if err := h.begin(ctx, tx); err != nil {
			return err
		}
	}
	for i, step := range steps[version:] {
		for statement := range strings.SplitSeq(step, ";\n") {
			if statement = strings.TrimSpace(statement); statement == "" {
				continue
			}
			if _, err := tx.ExecContext(ctx, h.Text(statement)); err != nil {
				return fmt.Errorf("to version %d: %w", version+i+1, err)
			}
		}
		if _, err := tx.ExecContext(ctx, h.Text(fmt.Sprintf(noteVersion, version+i+1))); err != nil {
			return fmt.Errorf("note version %d: %w", version+i+1, err)
		}
	}
	return nil
}

// begin makes what the first step stands on. A schema that somebody else made needs no right to make schemas.
func (h *Home) begin(ctx context.Context, tx Tx) error {
	if h.Dialect == Postgres {
		there, err := One(ctx, tx, hasSchema, []any{h.Names.Schema}, new(int))
		if err == nil && !there {
			_, err = tx.ExecContext(ctx, h.Text(makeSchema))
		}
		if err != nil {
			return fmt.Errorf("make schema: %w", err)
		}
	}
	_, err := tx.ExecContext(ctx, h.Text(makeControl))
	return err
}

// Check refuses tables of another version, saying what to do.
func (h *Home) Check(ctx context.Context, steps []string) error {
	version, err := h.version(ctx, h.DB)
	switch {
	case err != nil:
		return err
	case version > len(steps):
		return h.newer(version, len(steps))
	case version < len(steps):
		return fmt.Errorf("table %s is at version %d and this program needs %d: migrate it first: %w", h.Names.Table, version, len(steps), pawl.ErrSchema)
	}
	return nil
}

func (h *Home) newer(version, known int) error {
	return fmt.Errorf("table %s is at version %d and this program knows %d: run a newer release: %w", h.Names.Table, version, known, pawl.ErrSchema)
}

// version is that of the tables, 0 where there are none yet.
func (h *Home) version(ctx context.Context, tx Tx) (version int, err error) {
	look, args := hasTable, []any{h.Names.Schema, h.Names.Table + "_control"}
	if h.Dialect == SQLite {
		look, args = hasTableIn, args[1:]
	}
	there, err := One(ctx, tx, look, args, new(int))
	if err == nil && there {
		_, err = One(ctx, tx, h.Text(readVersion), nil, &version)
	}
	if err != nil {
		return 0, fmt.Errorf("read version of table %s: %w", h.Names.Table, Explain(err))
	}
	return version, nil
}
