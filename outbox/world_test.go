package outbox_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx" of database/sql

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/outbox"
)

type args struct {
	N int `json:"n"`
}

var work = pawl.NewKind[args]("outbox.work.v1", pawl.Policy{})

const patience = 30 * time.Second

// server is the URL of the PostgreSQL that tests work on.
func server(t testing.TB) string {
	t.Helper()
	url := os.Getenv("PAWL_TEST_POSTGRES")
	if url == "" {
		t.Skip("PAWL_TEST_POSTGRES is not set: run the tests by scripts/with-services, which starts a server")
	}
	return url
}

// freshSchema is a name that no other test has, which needs its quotes.
func freshSchema(t testing.TB) string {
	t.Helper()
	name := `Ou"tbox's? ` + strings.ToLower(rand.Text())[:12]
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		conn, err := pgx.Connect(ctx, server(t))
		if err != nil {
			t.Fatalf("connect: %v", err)
		}
		defer conn.Close(ctx)
		if _, err := conn.Exec(ctx, "drop schema if exists "+pgx.Identifier{name}.Sanitize()+" cascade"); err != nil {
			t.Errorf("drop schema: %v", err)
		}
	})
	return name
}

// business is a service's own database, with an outbox in it.
type business struct {
	name   string
	db     *sql.DB // to look at it by
	box    outbox.Source
	config outbox.Config
	table  string // quoted
	reopen func(config outbox.Config) (outbox.Source, error)
	// begin starts a transaction of the service's.
	begin func(t testing.TB) transaction
}

type transaction struct {
	in       pawl.Enqueuer
	exec     func(query string) error
	commit   func() error
	rollback func() error
}

// tableName needs its quotes too.
const tableName = `out "box" $1`

// databases are the sorts of business databases.
var databases = map[string]func(t testing.TB) *business{
	"sqlite":       onSQLite,
	"database/sql": onServer,
	"pgx":          onPgx,
}

// onEach runs a test on each sort of database.
func onEach(t *testing.T, test func(t *testing.T, b *business)) {
	t.Helper()
	t.Parallel()
	for name, open := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func openFile(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate&_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func onSQLite(t testing.TB) *business {
	t.Helper()
	return boxInFile(t, openFile(t, filepath.Join(t.TempDir(), "business.db")))
}

func boxInFile(t testing.TB, db *sql.DB) *business {
	t.Helper()
	b := &business{name: "sqlite", db: db, config: outbox.Config{Table: tableName}, table: pgx.Identifier{tableName}.Sanitize()}
	b.reopen = func(config outbox.Config) (outbox.Source, error) { return outbox.OpenSQLite(t.Context(), db, config) }
	b.open(t)
	b.begin = func(t testing.TB) transaction {
		return beginSQL(t, db, b.box.(*outbox.Box))
	}
	return b
}

func (b *business) open(t testing.TB) {
	t.Helper()
	box, err := b.reopen(b.config)
	if err != nil {
		t.Fatal(err)
	}
	b.box = box
	if _, err := b.db.ExecContext(t.Context(), `create table if not exists `+b.orders()+` (id integer)`); err != nil {
		t.Fatal(err)
	}
}

// orders is a table of the service's own.
func (b *business) orders() string {
	if b.config.Schema == "" {
		return `orders`
	}
	return pgx.Identifier{b.config.Schema, "orders"}.Sanitize()
}

func openServer(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open("pgx", server(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func onServer(t testing.TB) *business {
	t.Helper()
	db := openServer(t)
	b := &business{name: "database/sql", db: db, config: outbox.Config{Schema: freshSchema(t), Table: tableName}}
	b.table = pgx.Identifier{b.config.Schema, tableName}.Sanitize()
	b.reopen = func(config outbox.Config) (outbox.Source, error) { return outbox.OpenPostgres(t.Context(), db, config) }
	b.open(t)
	b.begin = func(t testing.TB) transaction { return beginSQL(t, db, b.box.(*outbox.Box)) }
	return b
}

func beginSQL(t testing.TB, db *sql.DB, box *outbox.Box) transaction {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tx.Rollback() })
	return transaction{in: box.Tx(tx), commit: tx.Commit, rollback: tx.Rollback, exec: func(query string) error {
		_, err := tx.ExecContext(t.Context(), query)
		return err
	}}
}

func onPgx(t testing.TB) *business {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), server(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	b := &business{name: "pgx", db: openServer(t), config: outbox.Config{Schema: freshSchema(t), Table: tableName}}
	b.table = pgx.Identifier{b.config.Schema, tableName}.Sanitize()
	b.reopen = func(config outbox.Config) (outbox.Source, error) {
		box, err := outbox.OpenPgx(t.Context(), pool, config)
		if err == nil {
			t.Cleanup(func() { _ = box.Close() })
		}
		return box, err
	}
	b.open(t)
	b.begin = func(t testing.TB) transaction {
		t.Helper()
		tx, err := pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
		return transaction{
			in:     b.box.(*outbox.PgxBox).Tx(tx),
			commit: func() error { return tx.Commit(t.Context()) }, rollback: func() error { return tx.Rollback(t.Context()) },
			exec: func(query string) error { _, err := tx.Exec(t.Context(), query); return err },
		}
	}
	return b
}

// write enqueues jobs in one transaction that commits.
func (b *business) write(t testing.TB, jobs ...pawl.NewJob) []pawl.Enqueued {
	t.Helper()
	tx := b.begin(t)
	results, err := tx.in.Enqueue(t.Context(), jobs)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.commit(); err != nil {
		t.Fatal(err)
	}
	return results
}

func newJob(t testing.TB, n int, options ...pawl.Option) pawl.NewJob {
	t.Helper()
	job, err := work.New(t.Context(), pawl.Connection{}, args{n}, options...)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

func newJobs(t testing.TB, n int) []pawl.NewJob {
	t.Helper()
	jobs := make([]pawl.NewJob, n)
	for i := range jobs {
		jobs[i] = newJob(t, i)
	}
	return jobs
}

// exec runs a statement about the box's table {t}, with the database's time {now} and span {ms N}. It takes rows in another
// order than dispatchers that run meanwhile, and is run again when the server breaks it off for that.
func (b *business) exec(t testing.TB, query string, args ...any) {
	t.Helper()
	_, err := b.db.ExecContext(t.Context(), b.text(query), args...)
	for err != nil && strings.Contains(err.Error(), "40P01") {
		_, err = b.db.ExecContext(t.Context(), b.text(query), args...)
	}
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func (b *business) text(query string) string {
	if b.config.Schema != "" {
		return strings.NewReplacer("{t}", b.table, "{l}", strings.TrimSuffix(b.table, `"`)+`_lease"`, "{now}", "now()", "{hour}", "interval '1 hour'").Replace(query)
	}
	return strings.NewReplacer("{t}", b.table, "{l}", strings.TrimSuffix(b.table, `"`)+`_lease"`, "{now}", "cast((julianday('now') - 2440587.5) * 86400000 as integer)", "{hour}", "3600000").Replace(query)
}

// number reads one number.
func (b *business) number(t testing.TB, query string, args ...any) (n int) {
	t.Helper()
	if err := b.db.QueryRowContext(t.Context(), b.text(query), args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return n
}

// expire ends every lease and every wait.
func (b *business) expire(t testing.TB) {
	t.Helper()
	b.exec(t, `update {t} set locked_until = {now} - {hour} where ended_at is null`)
	b.exec(t, `update {l} set locked_until = {now} - {hour}`)
}

// dispatcher makes one that is quick to look, and keeps rows to be looked at.
func (b *business) dispatcher(t testing.TB, letters pawl.DeadLetters, change func(*outbox.DispatcherConfig), targets ...pawl.Enqueuer) *outbox.Dispatcher {
	t.Helper()
	config := outbox.DispatcherConfig{Name: "test", Poll: 20 * time.Millisecond, Keep: time.Hour, Logger: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&config)
	}
	d, err := outbox.NewDispatcher(b.box, letters, targets, config)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// start runs a dispatcher until the function that it returns is called.
func start(t testing.TB, d *outbox.Dispatcher) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("run: %v", err)
			}
		case <-time.After(patience):
			t.Error("the dispatcher does not end")
		}
	}
	t.Cleanup(stop)
	return stop
}

// until waits for a condition that has no event of its own.
func until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !condition(); {
		if time.Now().After(deadline) {
			t.Fatalf("it never came to this: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// empty waits until no message is left to be dispatched.
func (b *business) empty(t testing.TB) {
	t.Helper()
	until(t, "the outbox is empty", func() bool { return b.number(t, `select count(*) from {t} where ended_at is null`) == 0 })
}

// same compares lists of ids.
func same(t testing.TB, what string, got []pawl.ID, jobs []pawl.NewJob) {
	t.Helper()
	if len(got) != len(jobs) {
		t.Errorf("%s: %d jobs, want %d", what, len(got), len(jobs))
		return
	}
	for i := range got {
		if got[i] != jobs[i].ID {
			t.Errorf("%s: job %d is %s, want %s", what, i, got[i], jobs[i].ID)
			return
		}
	}
}
