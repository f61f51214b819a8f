package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/sqlite"
)

var txKind = pawl.NewKind[int]("tx.work.v1", pawl.Policy{})

// service is a program that keeps its own table beside Pawl's.
func service(t *testing.T, config sqlite.Config) (*sqlite.Store, *sql.DB) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "service.db")
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if _, err := db.ExecContext(t.Context(), `create table orders (id integer primary key, state text)`); err != nil {
		t.Fatal(err)
	}
	store, err := sqlite.Open(t.Context(), path, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return store, db
}

func count(t *testing.T, db *sql.DB, query string) (n int) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), query).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// order takes an order and enqueues its job in one transaction.
func order(ctx context.Context, store *sqlite.Store, db *sql.DB, commit bool) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, `insert into orders (state) values ('taken')`); err != nil {
		return err
	}
	if _, err := txKind.Enqueue(ctx, store.Tx(tx), 1); err != nil {
		return err
	}
	if !commit {
		return nil
	}
	return tx.Commit()
}

func TestTxWithTheServicesOwnTables(t *testing.T) {
	t.Parallel()
	store, db := service(t, sqlite.Config{})
	for i, commit := range []bool{true, false, true} {
		if err := order(t.Context(), store, db, commit); err != nil {
			t.Fatalf("order %d: %v", i, err)
		}
		orders, jobs := count(t, db, `select count(*) from orders`), count(t, db, `select count(*) from pawl_job`)
		if want := []int{1, 1, 2}[i]; orders != want || jobs != want {
			t.Errorf("after order %d: %d orders and %d jobs, want %d of each", i, orders, jobs, want)
		}
	}
}

// A commit on a connection of the caller's wakes who waits, without anybody asking.
func TestTxCommitWakes(t *testing.T) {
	t.Parallel()
	store, db := service(t, sqlite.Config{})
	session, err := store.OpenSession(t.Context(), pawl.HostInfo{Name: "a"})
	if err != nil {
		t.Fatal(err)
	}
	wake, err := store.Wake(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	settle(t, wake)
	if err := order(t.Context(), store, db, true); err != nil {
		t.Fatal(err)
	}
	select {
	case <-wake:
	case <-time.After(10 * time.Second):
		t.Fatal("the commit woke nobody")
	}
	claimed, err := store.Claim(t.Context(), pawl.ClaimRequest{
		Session: session, Queues: []string{"2-default"}, Kinds: []string{txKind.Name()}, Max: 5,
	})
	if err != nil || len(claimed.Jobs) != 1 {
		t.Errorf("claimed %d jobs, %v; want the one that was committed", len(claimed.Jobs), err)
	}
}

func TestTxOnAnotherFile(t *testing.T) {
	t.Parallel()
	store, _ := service(t, sqlite.Config{})
	other, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "other.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	tx, err := other.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := txKind.Enqueue(t.Context(), store.Tx(tx), 1); err == nil || !strings.Contains(err.Error(), "does not hold this store's tables") {
		t.Errorf("error is %v, want one that says that it is the wrong file", err)
	}
}

// A plain enqueue while the caller holds its own write transaction would wait for itself.
func TestPlainEnqueueInsideATransaction(t *testing.T) {
	t.Parallel()
	store, db := service(t, sqlite.Config{BusyTimeout: 200 * time.Millisecond})
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(t.Context(), `insert into orders (state) values ('taken')`); err != nil {
		t.Fatal(err)
	}
	_, err = txKind.Enqueue(t.Context(), store, 1)
	if !errors.Is(err, pawl.ErrBusy) || !strings.Contains(err.Error(), "store.Tx(tx)") {
		t.Fatalf("error is %v, want ErrBusy and the way out", err)
	}
	if _, err := txKind.Enqueue(t.Context(), store.Tx(tx), 2); err != nil {
		t.Fatalf("enqueue in the transaction: %v", err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if _, err := txKind.Enqueue(t.Context(), store, 3); err != nil {
		t.Fatalf("enqueue afterwards: %v", err)
	}
	if n := count(t, db, `select count(*) from pawl_job`); n != 2 {
		t.Errorf("%d jobs stored, want 2: that of the transaction and the one afterwards", n)
	}
}

// SQLite cannot let a transaction write that has read while another connection wrote.
func TestTxThatBeganByReading(t *testing.T) {
	t.Parallel()
	store, db := service(t, sqlite.Config{})
	deferred, err := sql.Open("sqlite", "file:"+storePath(t, db)+"?_pragma=busy_timeout(200)")
	if err != nil {
		t.Fatal(err)
	}
	defer deferred.Close()
	tx, err := deferred.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	var n int
	if err := tx.QueryRowContext(t.Context(), `select count(*) from orders`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	if _, err := txKind.Enqueue(t.Context(), store, 1); err != nil {
		t.Fatal(err)
	}
	_, err = txKind.Enqueue(t.Context(), store.Tx(tx), 2)
	if !errors.Is(err, pawl.ErrBusy) || !strings.Contains(err.Error(), "begin it as immediate") {
		t.Errorf("error is %v, want ErrBusy and the way out", err)
	}
}

func storePath(t *testing.T, db *sql.DB) (path string) {
	t.Helper()
	if err := db.QueryRowContext(t.Context(), `select file from pragma_database_list where name = 'main'`).Scan(&path); err != nil {
		t.Fatal(err)
	}
	return path
}

// foreign is a transaction of a driver that brings its own copy of SQLite.
type foreign struct{ *sql.Tx }

func (f foreign) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if strings.Contains(query, "sqlite_source_id") {
		return f.Tx.QueryContext(ctx, `select 'another copy'`)
	}
	return f.Tx.QueryContext(ctx, query, args...)
}

// Two copies of SQLite in one process do not see each other's locks.
func TestTxOfAnotherLibrary(t *testing.T) {
	t.Parallel()
	store, db := service(t, sqlite.Config{})
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback() }()
	_, err = txKind.Enqueue(t.Context(), store.Tx(foreign{tx}), 1)
	if !errors.Is(err, pawl.ErrUnsupported) || !strings.Contains(err.Error(), "Config.Driver") {
		t.Errorf("error is %v, want ErrUnsupported and the way out", err)
	}
	if n := count(t, db, `select count(*) from pawl_job`); n != 0 {
		t.Errorf("%d jobs stored, want none", n)
	}
}

func TestTxNeedsATransaction(t *testing.T) {
	t.Parallel()
	store, db := service(t, sqlite.Config{})
	if _, err := txKind.Enqueue(t.Context(), store.Tx(db), 1); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("error is %v, want ErrInvalid", err)
	}
	if n := count(t, db, `select count(*) from pawl_job`); n != 0 {
		t.Errorf("%d jobs stored, want none", n)
	}
}

func TestTxMustBeGiven(t *testing.T) {
	t.Parallel()
	store, db := service(t, sqlite.Config{})
	var none *sql.Tx
	for name, tx := range map[string]sqlite.Transaction{"nil": nil, "a nil *sql.Tx": none} {
		if _, err := txKind.Enqueue(t.Context(), store.Tx(tx), 1); !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), "transaction") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := count(t, db, `select count(*) from pawl_job`); n != 0 {
		t.Errorf("%d jobs", n)
	}
}
