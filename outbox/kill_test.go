package outbox_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/outbox"
	"github.com/pawljobs/pawl/postgres"
	"github.com/pawljobs/pawl/sqlite"
)

// The test binary is the process that is killed as well.
const roleVariable = "PAWL_OUTBOX_TEST_PLAN"

// killPlan says what a child does, and at which of its fault points it kills itself.
type killPlan struct {
	Driver   string // of the business database
	Source   string
	Schema   string
	Target   string // URL, or path
	TargetIn string // schema
	Table    string
	IDs      []pawl.ID // the last one is of a message that the store refuses, at its tenth claim
	Point    int
}

func childRole() bool {
	text := os.Getenv(roleVariable)
	if text == "" {
		return false
	}
	var plan killPlan
	err := json.Unmarshal([]byte(text), &plan)
	if err == nil {
		err = plan.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// points counts the fault points that a process has come by, and kills it at one.
type points struct{ left atomic.Int64 }

func (p *points) pass() {
	if p.left.Add(-1) == 0 {
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Kill()
		}
		if err != nil {
			panic(err)
		}
		select {} // the signal is on its way
	}
}

// run writes the business transaction, unless it is there, and dispatches until all is marked.
func (p killPlan) run() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	at := &points{}
	at.left.Store(int64(p.Point))
	var under driver.Driver = stdlib.GetDefaultDriver()
	if p.Driver == "sqlite" {
		db, err := sql.Open("sqlite", "")
		if err != nil {
			return err
		}
		under = db.Driver()
		_ = db.Close()
	}
	db := sql.OpenDB(deadly{under, p.Source, at})
	defer db.Close()
	db.SetMaxOpenConns(1) // so that the points come in order
	open := outbox.OpenPostgres
	if p.Driver == "sqlite" {
		open = outbox.OpenSQLite
	}
	box, err := open(ctx, db, outbox.Config{Schema: p.Schema})
	if err != nil {
		return err
	}
	target, letters, err := p.openTarget(ctx, at)
	if err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	for i, id := range p.IDs {
		if _, err := work.Enqueue(ctx, box.Tx(tx), args{i}, pawl.WithID(id)); err != nil {
			return err
		}
	}
	if err := tx.Commit(); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, `update `+p.Table+` set attempts = 9 where attempts < 9 and id = (select id from `+p.Table+` order by id desc limit 1)`); err != nil {
		return err
	}
	d, err := outbox.NewDispatcher(box, letters, []pawl.Enqueuer{target}, outbox.DispatcherConfig{
		Batch: 2, Poll: 10 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	dispatching, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- d.Run(dispatching) }()
	beside, err := sql.Open(p.Driver, p.Source)
	if err != nil {
		return err
	}
	defer beside.Close()
	watch, err := open(ctx, beside, outbox.Config{Schema: p.Schema, NoMigrate: true})
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		time.Sleep(5 * time.Millisecond)
		stats, err := watch.Stats(ctx)
		if err != nil {
			return err
		}
		if stats.Pending == 0 {
			break
		}
	}
	stop()
	return <-ended
}

func (p killPlan) openTarget(ctx context.Context, at *points) (pawl.Enqueuer, pawl.DeadLetters, error) {
	if p.TargetIn == "" {
		s, err := sqlite.Open(ctx, p.Target, sqlite.Config{})
		return deadlyTarget{s, at, p}, deadlyLetters{s, at}, err
	}
	s, err := postgres.Open(ctx, p.Target, postgres.Config{Schema: p.TargetIn})
	return deadlyTarget{s, at, p}, deadlyLetters{s, at}, err
}

// deadlyTarget has a fault point before and after each enqueue.
type deadlyTarget struct {
	pawl.Enqueuer
	at   *points
	plan killPlan
}

func (d deadlyTarget) Enqueue(ctx context.Context, jobs []pawl.NewJob) ([]pawl.Enqueued, error) {
	d.at.pass()
	for _, job := range jobs {
		if job.ID == d.plan.IDs[len(d.plan.IDs)-1] {
			return nil, pawl.ErrUnsupported
		}
	}
	results, err := d.Enqueuer.Enqueue(ctx, jobs)
	d.at.pass()
	return results, err
}

// deadlyLetters has one before and after each record.
type deadlyLetters struct {
	pawl.DeadLetters
	at *points
}

func (d deadlyLetters) RecordDeaths(ctx context.Context, letters []pawl.DeadLetter) ([]pawl.Recorded, error) {
	d.at.pass()
	recorded, err := d.DeadLetters.RecordDeaths(ctx, letters)
	d.at.pass()
	return recorded, err
}

// deadly makes connections with a fault point before and after each statement, commits among them.
type deadly struct {
	driver driver.Driver
	source string
	at     *points
}

func (d deadly) Driver() driver.Driver { return d.driver }

func (d deadly) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := d.driver.Open(d.source)
	return deadlyConn{conn, d.at}, err
}

type deadlyConn struct {
	driver.Conn
	at *points
}

func (c deadlyConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.at.pass()
	defer c.at.pass()
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

func (c deadlyConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.at.pass()
	defer c.at.pass()
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

func (c deadlyConn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	c.at.pass()
	tx, err := c.Conn.(driver.ConnBeginTx).BeginTx(ctx, options)
	return deadlyTx{tx, c.at}, err
}

func (c deadlyConn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.Conn.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

type deadlyTx struct {
	driver.Tx
	at *points
}

func (t deadlyTx) Commit() error {
	t.at.pass()
	defer t.at.pass()
	return t.Tx.Commit()
}

// A process is killed at every point between the business's first statement and the dispatcher's last: each message
// becomes one job, and the one that the store refuses one letter. The jobs run in between, so that what is handed in again has ended already.
func TestKillAtEveryPoint(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) (*business, store, killPlan){
		"sqlite to postgres": func(t *testing.T) (*business, store, killPlan) {
			b, plan := killFile(t, filepath.Join(t.TempDir(), "business.db"))
			plan.Target, plan.TargetIn = server(t), freshSchema(t)
			target, err := postgres.Open(t.Context(), plan.Target, postgres.Config{Schema: plan.TargetIn})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = target.Close() })
			return b, target, plan
		},
		"postgres to sqlite": func(t *testing.T) (*business, store, killPlan) {
			b := &business{name: "database/sql", db: openServer(t), config: outbox.Config{Schema: freshSchema(t)}}
			box, err := outbox.OpenPostgres(t.Context(), b.db, b.config)
			if err != nil {
				t.Fatal(err)
			}
			b.box, b.table = box, pgx.Identifier{b.config.Schema, "pawl_outbox"}.Sanitize()
			plan := killPlan{Driver: "pgx", Table: b.table, Source: server(t), Schema: b.config.Schema, Target: filepath.Join(t.TempDir(), "jobs.db")}
			return b, storeInFile(t, plan.Target), plan
		},
		"one file": func(t *testing.T) (*business, store, killPlan) {
			path := filepath.Join(t.TempDir(), "both.db")
			b, plan := killFile(t, path)
			plan.Target = path
			return b, storeInFile(t, path), plan
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, target, plan := open(t)
			killEverywhere(t, b, target, plan)
		})
	}
}

func killFile(t *testing.T, path string) (*business, killPlan) {
	t.Helper()
	db := openFile(t, path)
	box, err := outbox.OpenSQLite(t.Context(), db, outbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	source := "file:" + path + "?_txlock=immediate&_pragma=busy_timeout(20000)&_pragma=journal_mode(wal)"
	return &business{name: "sqlite", db: db, box: box, table: `"pawl_outbox"`}, killPlan{Driver: "sqlite", Table: "pawl_outbox", Source: source}
}

// killEverywhere has one process killed at a point, a second one, which has to end the work of the first, at the same, and
// a third one end it; then it goes on to the next point.
func killEverywhere(t *testing.T, b *business, target store, plan killPlan) {
	t.Helper()
	runs := map[pawl.ID]int{}
	for point := 1; ; point++ {
		plan.IDs = []pawl.ID{pawl.NewID(), pawl.NewID(), pawl.NewID(), pawl.NewID()}
		killed := false
		for child, at := range []int{point, point, 0} {
			plan.Point = at
			wasKilled := runChild(t, plan)
			killed = killed || child == 0 && wasKilled
			for _, job := range claimAll(t, target) {
				runs[job.ID]++
			}
			b.expire(t)
			if !killed {
				break
			}
		}
		for i, id := range plan.IDs {
			if want := min(1, len(plan.IDs)-1-i); runs[id] != want {
				t.Fatalf("message %s became %d jobs, want %d, with kills at point %d", id, runs[id], want, point)
			}
		}
		if n := b.number(t, `select count(*) from {t} where status < 2`); n != 0 {
			t.Fatalf("%d messages are not marked, with kills at point %d", n, point)
		}
		letters := lettersOf(t, target)
		if last, ok := letters[plan.IDs[3].String()]; !ok || len(letters) != point || last.Class != pawl.DeathPoison {
			t.Fatalf("%d letters, want %d; the last is %+v", len(letters), point, last)
		}
		if killed {
			continue
		}
		t.Logf("killed at %d points", point-1)
		if point < 30 {
			t.Errorf("a process has come to its end before point %d: are the points still there?", point)
		}
		break
	}
}

// runChild reports whether the child was killed.
func runChild(t *testing.T, plan killPlan) bool {
	t.Helper()
	text, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Env = append(os.Environ(), roleVariable+"="+string(text), "GORACE=atexit_sleep_ms=0")
	out, err := cmd.CombinedOutput()
	if err == nil {
		return false
	}
	if plan.Point > 0 && cmd.ProcessState.ExitCode() == -1 { // by a signal
		return true
	}
	t.Fatalf("child at point %d: %v\n%s", plan.Point, err, out)
	return false
}
