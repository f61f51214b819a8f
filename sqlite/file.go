package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
)

// connector opens connections to a file, whichever driver makes them, with the settings that a store needs.
type connector struct {
	driver   driver.Driver
	source   string
	settings []string
}

// newConnector makes the connector of one sort of connections: those that write, or those that cannot.
func newConnector(path string, config Config, readOnly bool) (connector, error) {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") { // C:/…
		path = "/" + path
	}
	c := connector{
		source: (&url.URL{Scheme: "file", Path: path}).String(),
		settings: []string{
			fmt.Sprintf("pragma busy_timeout = %d", config.BusyTimeout.Milliseconds()),
			"pragma synchronous = full",
			"pragma temp_store = memory",
			"pragma secure_delete = fast", // what is deleted from a page is overwritten; see Store.wipe
			"pragma cache_size = -32768",
			"pragma wal_autocheckpoint = 4000",
			"pragma journal_size_limit = 67108864", // what the WAL file of a rush keeps of the disk afterwards
		},
	}
	if readOnly {
		c.settings = append(c.settings, "pragma query_only = 1")
	}
	db, err := sql.Open(config.Driver, c.source) // the only way to a driver by its name
	if err != nil {
		return connector{}, err
	}
	c.driver = db.Driver()
	return c, db.Close()
}

// Driver is that of the connections.
func (c connector) Driver() driver.Driver { return c.driver }

// Connect opens a connection.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.driver.Open(c.source)
	if err != nil {
		return nil, err
	}
	for _, setting := range c.settings {
		if err := execOn(ctx, conn, setting); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", setting, err), conn.Close())
		}
	}
	return conn, nil
}

func execOn(ctx context.Context, conn driver.Conn, statement string) error {
	execer, ok := conn.(driver.ExecerContext)
	if !ok {
		return fmt.Errorf("driver connection %T has no ExecContext: %w", conn, pawl.ErrUnsupported)
	}
	_, err := execer.ExecContext(ctx, statement, nil)
	return err
}

// openFile opens a pool of connections.
func openFile(path string, config Config, readOnly bool, connections int) (*sql.DB, error) {
	c, err := newConnector(path, config, readOnly)
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(c)
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	return db, nil
}

// useWAL puts the file into WAL mode, in which it stays. SQLite does not wait for others that do so at the same time, or
// that use the file in another mode, so this does.
func useWAL(ctx context.Context, conn *sql.Conn, limit time.Duration) error {
	for deadline := time.Now().Add(limit); ; {
		var mode string
		err := conn.QueryRowContext(ctx, "pragma journal_mode = wal").Scan(&mode)
		switch {
		case err == nil && mode == "wal":
			return nil
		case err == nil:
			return fmt.Errorf("the file stays in journal mode %s and cannot be shared safely: WAL mode needs shared memory, "+
				"which network file systems do not have", mode)
		case !isBusy(err) || time.Now().After(deadline):
			return lockError(err)
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// place is where a file was when it was opened.
type place struct {
	path string
	file fs.FileInfo
}

var errGone = errors.New("the file was removed or replaced while it was open: what is written to it now nobody would find; " +
	"put it back, or restart the program to use the file that is there")

// check fails when the path leads to another file by now, or to none. The system would let a program that has the old
// one open go on writing to it.
func (p place) check() error {
	file, err := os.Stat(p.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(file, p.file) {
		return fmt.Errorf("%s: %w", p.path, errGone)
	}
	return nil
}

// readLibrary tells copies of the SQLite library apart: their versions, and some of the options that they were built
// with. Two copies in one process do not see each other's locks, and destroy a file that both write
// (https://www.sqlite.org/howtocorrupt.html, section 2.2.1).
const readLibrary = `select sqlite_source_id() || ' ' || coalesce(sqlite_compileoption_get(6), '') || ' ' || coalesce(sqlite_compileoption_get(14), '')
|| ' ' || coalesce(sqlite_compileoption_get(17), '') || ' ' || coalesce(sqlite_compileoption_get(18), '') || ' ' || coalesce(sqlite_compileoption_get(48), '')`

// checkLibrary refuses a transaction that runs on another copy of the library than the store.
func (s *Store) checkLibrary(ctx context.Context, tx execer) error {
	library, _, err := selectOne(ctx, tx, scanValue[string], readLibrary)
	if err != nil {
		return err
	}
	if library != s.library {
		return fmt.Errorf("the transaction's driver brings its own copy of SQLite, and two copies in one process destroy a "+
			"file that both write: open the store with Config.Driver set to that driver's name, as database/sql knows it: %w", pawl.ErrUnsupported)
	}
	return nil
}
