package once_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawljobs/pawl/once"
)

// late opens connections that say of a transaction which they have begun that the ctx had ended before, as that of
// modernc.org/sqlite does when it ends just then.
type late struct {
	inner  driver.Driver
	source string
	on     *atomic.Bool
}

func (d late) Driver() driver.Driver { return d.inner }

func (d late) Connect(context.Context) (driver.Conn, error) {
	conn, err := d.inner.Open(d.source)
	return lateConn{conn, d.on}, err
}

type lateConn struct {
	driver.Conn
	on *atomic.Bool
}

func (c lateConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
	if query == "begin immediate" && err == nil && c.on.Load() {
		return nil, context.Canceled
	}
	return result, err
}

func (c lateConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

// A transaction whose beginning was reported as cancelled does not stay open on a connection of the pool: it would keep
// everybody else from writing to the file.
func TestBeginThatIsCancelledLeavesNoLock(t *testing.T) {
	t.Parallel()
	source := "file:" + filepath.Join(t.TempDir(), "business.db") + "?_txlock=immediate&_pragma=busy_timeout(100)&_pragma=journal_mode(wal)"
	other := openDB(t, "sqlite", source)
	on := new(atomic.Bool)
	db := sql.OpenDB(late{other.Driver(), source, on})
	t.Cleanup(func() { _ = db.Close() })
	marks, err := once.OpenSQLite(t.Context(), db, once.Config{})
	if err != nil {
		t.Fatal(err)
	}
	on.Store(true)
	if _, err := marks.Prune(t.Context(), time.Hour); !errors.Is(err, context.Canceled) {
		t.Fatalf("a begin that is cancelled: %v", err)
	}
	if _, err := other.ExecContext(t.Context(), "create table business (id integer)"); err != nil {
		t.Errorf("somebody else writes: %v", err)
	}
	on.Store(false)
	if _, err := marks.Prune(t.Context(), time.Hour); err != nil {
		t.Errorf("the next: %v", err)
	}
}
