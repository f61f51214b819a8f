package app

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx" of database/sql

	"github.com/pawljobs/pawl/app/internal/config"
	"github.com/pawljobs/pawl/outbox"
)

// openedBox is an outbox of the configuration, with the database that it is in.
type openedBox struct {
	*outbox.Box
	name   string
	config config.Outbox
	db     *sql.DB
}

func (b *openedBox) Close() error { return b.db.Close() }

// boxConns are the connections to a business database: for a dispatcher, its upkeep, and a look at how it stands.
const boxConns = 3

// openOutbox opens one by its name. Its tables are made where making says so and the settings leave that to this program.
func openOutbox(ctx context.Context, settings *config.Settings, name string, making bool) (*openedBox, error) {
	c, at, err := settings.Outbox(name)
	if err != nil {
		return nil, fmt.Errorf("outbox %s: %w", name, err)
	}
	tables := c.Config()
	tables.NoMigrate = tables.NoMigrate || !making
	tables.Connection = connectionOf(settings)
	driver, source, open := "pgx", at.At, outbox.OpenPostgres
	if at.Engine == config.SQLite {
		if err := mustHold(at.At); err != nil {
			return nil, fmt.Errorf("outbox %s: %w", name, err)
		}
		driver, source, open = "sqlite", sourceOf(at.At), outbox.OpenSQLite
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		return nil, fmt.Errorf("outbox %s: %w", name, err)
	}
	db.SetMaxOpenConns(boxConns)
	box, err := open(ctx, db, tables)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("outbox %s: %w", name, err), db.Close())
	}
	return &openedBox{Box: box, name: name, config: c, db: db}, nil
}

// sourceOf is how the driver is asked for a file: one that waits for other writers.
func sourceOf(path string) string {
	if path = filepath.ToSlash(path); !strings.HasPrefix(path, "/") && filepath.IsAbs(path) { // C:/…
		path = "/" + path
	}
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?_txlock=immediate&_pragma=busy_timeout(20000)"
}

// errSeveral asks for a name where there is more than one.
var errSeveral = errors.New("there are several outboxes: name one with --outbox")

// theOutbox is the one that a command is about.
func (p *program) theOutbox(ctx context.Context, name string) (*openedBox, error) {
	settings, err := p.settings()
	if err != nil {
		return nil, err
	}
	names := settings.OutboxNames()
	switch _, stated := settings.Outboxes[name]; {
	case len(names) == 0:
		return nil, withStatus(exitNotFound, errors.New("the configuration has no outboxes: docs/outbox.md says how to state one"))
	case name == "" && len(names) > 1:
		return nil, withStatus(exitUsage, fmt.Errorf("%w (%s)", errSeveral, strings.Join(names, ", ")))
	case name == "":
		name = names[0]
	case !stated:
		return nil, withStatus(exitNotFound, fmt.Errorf("there is no outbox %q: outboxes has %s", name, strings.Join(names, ", ")))
	}
	return openOutbox(ctx, settings, name, false)
}
