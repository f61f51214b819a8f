package sqlite_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawljobs/pawl/sqlite"
	"github.com/pawljobs/pawl/storetest"
)

func TestConformance(t *testing.T) { storetest.Run(t, harness()) }

func TestModel(t *testing.T) {
	t.Parallel()
	storetest.RunModel(t, harness())
}

func harness() storetest.Harness {
	return storetest.Harness{Open: openFresh, Reopen: reopen, Backdate: backdate, Begin: begin}
}

// onFile is a store that remembers where it is.
type onFile struct {
	*sqlite.Store
	path    string
	options storetest.Options
}

func openFresh(t testing.TB, o storetest.Options) storetest.Store {
	t.Helper()
	return openFile(t, filepath.Join(t.TempDir(), "jobs.db"), o)
}

func reopen(t testing.TB, s storetest.Store) storetest.Store {
	t.Helper()
	return openFile(t, s.(onFile).path, s.(onFile).options)
}

func openFile(t testing.TB, path string, o storetest.Options) storetest.Store {
	t.Helper()
	config := sqlite.Config{Connection: o.Connection, Policy: o.Policy, Retention: o.Retention}
	if o.NoHistory {
		config.History = -1
	}
	store, err := sqlite.Open(t.Context(), path, config)
	if err != nil {
		t.Fatalf("open store: %v", err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	return onFile{store, path, o}
}

// openBeside is a connection to the store's file, as a service has one.
func openBeside(t testing.TB, s storetest.Store) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+s.(onFile).path+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatalf("open file: %v", err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// The columns that hold times, by the schema's habit of naming them.
const timeColumns = `select m.name, c.name from sqlite_master m, pragma_table_info(m.name) c
where m.type = 'table' and m.name like 'pawl~_%' escape '~' and c.type = 'INTEGER'
  and (c.name in ('at', 'until') or c.name like '%~_at' escape '~')`

func backdate(t testing.TB, s storetest.Store, by time.Duration) {
	t.Helper()
	db := openBeside(t, s)
	defer db.Close()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatalf("begin: %v", err)
	}
	defer func() { _ = tx.Rollback() }()
	rows, err := tx.QueryContext(t.Context(), timeColumns)
	if err != nil {
		t.Fatalf("find times: %v", err)
	}
	var updates []string
	for rows.Next() {
		var table, column string
		if err := rows.Scan(&table, &column); err != nil {
			t.Fatalf("find times: %v", err)
		}
		updates = append(updates, fmt.Sprintf(`update %q set %q = %[2]q - ? where %[2]q > 0 and %[2]q < 9223372036854775807`, table, column))
	}
	if err := rows.Err(); err != nil || len(updates) == 0 {
		t.Fatalf("find times: %d columns, %v", len(updates), err)
	}
	for _, update := range updates {
		if _, err := tx.ExecContext(t.Context(), update, by.Milliseconds()); err != nil {
			t.Fatalf("%s: %v", update, err)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

func begin(t testing.TB, s storetest.Store) storetest.Tx {
	t.Helper()
	tx, err := openBeside(t, s).BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatalf("begin: %v", err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return storetest.Tx{Enqueuer: s.(onFile).Tx(tx), Commit: tx.Commit, Rollback: tx.Rollback}
}
