// Package sqlite keeps jobs in an SQLite file: the store that needs nothing installed. Several processes may work on
// one file, and Pawl's tables (prefixed pawl_) may live in a service's own file beside its own.
//
// Durability is not traded: the file is in WAL mode with synchronous=FULL, so a job whose Enqueue returned is on disk.
// Speed comes from sharing commits: one goroutine writes, and all that waits when it begins shares its transaction.
//
// One process must use one copy of SQLite for one file. A service that opens the file itself with another driver than
// modernc.org/sqlite, such as mattn/go-sqlite3, names it in Config.Driver.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	_ "modernc.org/sqlite" // the driver, in pure Go
)

// Config of a store. The zero value is good.
type Config struct {
	// Connection is the name by which letters and jobs refer to this store. Default "default".
	Connection string
	// Policy is what the jobs of this connection inherit.
	Policy pawl.Policy
	// Driver is the name under which database/sql knows the SQLite driver to use. Default "sqlite", which is
	// modernc.org/sqlite, in pure Go. A service whose own code opens the same file with another driver must name that
	// one here: two copies of SQLite in one process do not see each other's locks.
	Driver string
	// History is how long finished jobs are kept to be looked at. Default 24 hours; negative keeps none, and then
	// only their ids are remembered, for 24 hours.
	History time.Duration
	// Retention is how long letters are kept that were resolved or discarded, counted from then; what is older is pruned by
	// the hour. Default: as long as nobody removes them.
	Retention time.Duration
	// BusyTimeout is how long a write waits for another connection that holds the file's write lock. Default 5 s.
	BusyTimeout time.Duration
	// PollInterval is how often the file is looked at for what other processes have written, while somebody waits to
	// be woken. Default 50 ms.
	PollInterval time.Duration
	// NoMigrate leaves the tables alone: Open then fails with ErrSchema when they are missing or of another version.
	NoMigrate bool
	// Logger receives what has no caller to go to, and one line that says what was opened. Default slog.Default(), without that line.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Connection == "" {
		c.Connection = "default"
	}
	if c.Driver == "" {
		c.Driver = "sqlite"
	}
	if c.History == 0 {
		c.History = remembered
	}
	if c.BusyTimeout <= 0 {
		c.BusyTimeout = 5 * time.Second
	}
	if c.PollInterval <= 0 {
		c.PollInterval = 50 * time.Millisecond
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c
}

// remembered is how long the id of a finished job is known, so that it is not accepted again.
const remembered = 24 * time.Hour

// Store is a pawl.Store and a pawl.Operator on one SQLite file.
type Store struct {
	config   Config
	path     string
	tells    bool    // what was opened
	library  string  // of the driver; see readLibrary
	reads    *sql.DB // several connections that cannot write
	writer   *writer
	waker    *waker
	stripped atomic.Int64 // envelopes of jobs that finished before are gone; see stripHistory

	closeOnce sync.Once
	closeErr  error
}

var (
	_ pawl.Store         = (*Store)(nil)
	_ pawl.Operator      = (*Store)(nil)
	_ pawl.OperationWork = (*Store)(nil)
)

// Open opens the file, making it where there is none, puts it into WAL mode, in which it stays, and brings Pawl's tables
// up to date. The file must be on a local disk: WAL mode needs shared memory. The caller closes the store.
func Open(ctx context.Context, path string, config Config) (*Store, error) {
	if path == "" || path == ":memory:" {
		return nil, &pawl.FieldError{Field: "path", Value: path, Rule: "must name a file"}
	}
	tells := config.Logger != nil
	config = config.withDefaults()
	absolute, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	s := &Store{config: config, path: absolute, tells: tells}
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), s.Close())
	}
	return s, nil
}

func (s *Store) open(ctx context.Context) error {
	if _, err := os.Stat(s.path); s.config.NoMigrate && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no such file: run `pawl migrate up` to make it: %w", pawl.ErrSchema)
	}
	writes, err := openFile(s.path, s.config, false, 1)
	if err != nil {
		return err
	}
	conn, err := writes.Conn(ctx)
	if err != nil {
		return errors.Join(explain(err), writes.Close())
	}
	found, err := s.prepareFile(ctx, conn)
	if err != nil {
		return errors.Join(err, conn.Close(), writes.Close())
	}
	file, err := os.Stat(s.path)
	if err == nil {
		s.waker, err = startWaker(s.path, s.config)
	}
	if err != nil {
		return errors.Join(err, conn.Close(), writes.Close())
	}
	s.writer = startWriter(writes, conn, place{path: s.path, file: file}, s.config, s.waker.signal)
	if s.reads, err = openFile(s.path, s.config, true, 4); err != nil {
		return err
	}
	texts, err := steps()
	if err == nil && s.tells {
		desk.Opened(s.config.Logger, found, len(texts), slog.String("path", s.path))
	}
	return err
}

// prepareFile returns the version that the tables had.
func (s *Store) prepareFile(ctx context.Context, conn *sql.Conn) (found int, err error) {
	if s.config.NoMigrate { // looks before anything is changed: the file may be another program's
		if found, err = checkSchema(ctx, conn); err != nil {
			return 0, err
		}
	}
	if err := useWAL(ctx, conn, s.config.BusyTimeout); err != nil {
		return 0, err
	}
	if err := conn.QueryRowContext(ctx, readLibrary).Scan(&s.library); err != nil {
		return 0, fmt.Errorf("identify the SQLite library: %w", err)
	}
	if s.config.NoMigrate {
		return found, nil
	}
	return migrate(ctx, conn)
}

// Close waits for the writes under way and closes the file. Calls that come later return pawl.ErrClosed.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		if s.waker != nil {
			s.closeErr = s.waker.close()
		}
		if s.writer != nil {
			s.closeErr = errors.Join(s.closeErr, s.writer.close())
		}
		if s.reads != nil {
			s.closeErr = errors.Join(s.closeErr, s.reads.Close())
		}
	})
	return s.closeErr
}

// Connection names the store and what its jobs inherit.
func (s *Store) Connection() pawl.Connection {
	return pawl.Connection{Name: s.config.Connection, Policy: s.config.Policy}
}

// now is the store's clock, in Unix milliseconds. The processes on one file share a machine and so its clock.
func now() int64 { return time.Now().UnixMilli() }
