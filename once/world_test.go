package once_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx" of database/sql
	"go.uber.org/goleak"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/pawljobs/pawl/once"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// claims are one transaction.
type claims struct {
	claim    func(handler, key string) (bool, error)
	commit   func() error
	rollback func() error
}

// world is a database with marks.
type world struct {
	db     *sql.DB
	table  string // quoted
	hour   string
	begin  func(t testing.TB) claims
	peek   func(handler, key string) (bool, error)
	prune  func(age time.Duration) (int, error)
	open   func(config once.Config) error
	config once.Config
}

const tableName = `on"ce $1`

func server(t testing.TB) string {
	t.Helper()
	url := os.Getenv("PAWL_TEST_POSTGRES")
	if url == "" {
		t.Skip("PAWL_TEST_POSTGRES is not set: run the tests by scripts/with-services, which starts a server")
	}
	return url
}

func openDB(t testing.TB, driver, source string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func freshSchema(t testing.TB) string {
	t.Helper()
	name := `On"ce's? ` + strings.ToLower(rand.Text())[:12]
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		conn, err := pgx.Connect(ctx, server(t))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(ctx)
		if _, err := conn.Exec(ctx, "drop schema if exists "+pgx.Identifier{name}.Sanitize()+" cascade"); err != nil {
			t.Error(err)
		}
	})
	return name
}

func ofSQL(t testing.TB, db *sql.DB, marks *once.Marks) *world {
	t.Helper()
	w := &world{db: db}
	w.begin = func(t testing.TB) claims {
		t.Helper()
		tx, err := db.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback() })
		return claims{
			func(handler, key string) (bool, error) { return marks.Claim(t.Context(), tx, handler, key) }, tx.Commit, tx.Rollback,
		}
	}
	w.peek = func(handler, key string) (bool, error) { return marks.Peek(t.Context(), handler, key) }
	w.prune = func(age time.Duration) (int, error) { return marks.Prune(t.Context(), age) }
	return w
}

var worlds = map[string]func(t testing.TB) *world{
	"sqlite": func(t testing.TB) *world {
		db := openDB(t, "sqlite", "file:"+filepath.Join(t.TempDir(), "business.db")+"?_txlock=immediate&_pragma=busy_timeout(20000)&_pragma=journal_mode(wal)")
		config := once.Config{Table: tableName}
		marks, err := once.OpenSQLite(t.Context(), db, config)
		if err != nil {
			t.Fatal(err)
		}
		w := ofSQL(t, db, marks)
		w.table, w.hour, w.config = pgx.Identifier{tableName}.Sanitize(), "3600000", config
		w.open = func(config once.Config) error { _, err := once.OpenSQLite(t.Context(), db, config); return err }
		return w
	},
	"database/sql": func(t testing.TB) *world {
		db := openDB(t, "pgx", server(t))
		config := once.Config{Schema: freshSchema(t), Table: tableName}
		marks, err := once.OpenPostgres(t.Context(), db, config)
		if err != nil {
			t.Fatal(err)
		}
		w := ofSQL(t, db, marks)
		w.table, w.hour, w.config = pgx.Identifier{config.Schema, tableName}.Sanitize(), "interval '1 hour'", config
		w.open = func(config once.Config) error { _, err := once.OpenPostgres(t.Context(), db, config); return err }
		return w
	},
	"pgx": func(t testing.TB) *world {
		pool, err := pgxpool.New(t.Context(), server(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		config := once.Config{Schema: freshSchema(t), Table: tableName}
		marks, err := once.OpenPgx(t.Context(), pool, config)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = marks.Close() })
		w := &world{db: openDB(t, "pgx", server(t)), config: config, table: pgx.Identifier{config.Schema, tableName}.Sanitize(), hour: "interval '1 hour'"}
		w.begin = func(t testing.TB) claims {
			tx, err := pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
			return claims{
				func(handler, key string) (bool, error) { return marks.Claim(t.Context(), tx, handler, key) },
				func() error { return tx.Commit(t.Context()) }, func() error { return tx.Rollback(t.Context()) },
			}
		}
		w.peek = func(handler, key string) (bool, error) { return marks.Peek(t.Context(), handler, key) }
		w.prune = func(age time.Duration) (int, error) { return marks.Prune(t.Context(), age) }
		w.open = func(config once.Config) error {
			other, err := once.OpenPgx(t.Context(), pool, config)
			if err == nil {
				err = other.Close()
			}
			return err
		}
		return w
	},
}

func onEach(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	t.Parallel()
	for name, open := range worlds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

// mustClaim claims and says whether it was the first.
func (c claims) must(t testing.TB, handler, key string) bool {
	t.Helper()
	first, err := c.claim(handler, key)
	if err != nil {
		t.Fatal(err)
	}
	return first
}

func done(t testing.TB, end func() error) {
	t.Helper()
	if err := end(); err != nil {
		t.Fatal(err)
	}
}
