package app

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx" of database/sql

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/api"
	"github.com/pawljobs/pawl/app/internal/config"
	"github.com/pawljobs/pawl/internal/wire"
	"github.com/pawljobs/pawl/ops"
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

// boxConns are the connections to a business database: for a dispatcher, its upkeep, a look at how it stands, and the API.
const boxConns = 4

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

// operatedBox is the outbox that a command is about; it may be far away.
type operatedBox struct {
	pawl.Outbox
	name  string
	close func() error
}

// theOutbox is the one that a command is about.
func (p *program) theOutbox(ctx context.Context, name string) (*operatedBox, error) {
	if client, err := p.server(ctx); client != nil || err != nil {
		return farBox(ctx, client, name, err)
	}
	settings, err := p.settings()
	if err != nil {
		return nil, err
	}
	names := settings.OutboxNames()
	if len(names) == 0 {
		return nil, withStatus(exitNotFound, errors.New("the configuration has no outboxes: docs/outbox.md says how to state one"))
	}
	if name, err = pickBox(names, name, "outboxes"); err != nil {
		return nil, err
	}
	box, err := openOutbox(ctx, settings, name, false)
	if err != nil {
		return nil, err
	}
	return &operatedBox{box, name, box.Close}, nil
}

// farBox is one that a server knows.
func farBox(ctx context.Context, client *api.Client, name string, err error) (*operatedBox, error) {
	if err != nil {
		return nil, err
	}
	looks, err := client.Outboxes(ctx)
	if err == nil && len(looks) == 0 {
		err = withStatus(exitNotFound, fmt.Errorf("the server at %s knows no outboxes: its configuration says which it does", client.Address()))
	}
	if err == nil {
		name, err = pickBox(wire.Each(looks, func(l ops.OutboxLook) string { return l.Name }), name, "the server")
	}
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return &operatedBox{client.Outbox(name), name, client.Close}, nil
}

// pickBox is the name that was given, or that of the only one there is.
func pickBox(names []string, name, place string) (string, error) {
	switch {
	case name == "" && len(names) > 1:
		return "", withStatus(exitUsage, fmt.Errorf("%w (%s)", errSeveral, strings.Join(names, ", ")))
	case name == "":
		return names[0], nil
	case !slices.Contains(names, name):
		return "", withStatus(exitNotFound, fmt.Errorf("there is no outbox %q: %s has %s", name, place, strings.Join(names, ", ")))
	}
	return name, nil
}
