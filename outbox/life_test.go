package outbox_test

import (
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/inline"
	"github.com/pawljobs/pawl/outbox"
)

func TestMain(m *testing.M) {
	if childRole() {
		return
	}
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/jackc/pgx/v5/pgxpool.(*Pool).backgroundHealthCheck"))
}

// A commit wakes a dispatcher that would not look for an hour.
func TestCommitWakes(t *testing.T) {
	onEach(t, func(t *testing.T, b *business) {
		target := fileStore(t)
		d := b.dispatcher(t, target, func(c *outbox.DispatcherConfig) { c.Poll = time.Hour }, target)
		first, second := newJob(t, 1), newJob(t, 2)
		b.write(t, first)
		start(t, d)
		b.empty(t)
		tx := b.begin(t)
		if _, err := tx.in.Enqueue(t.Context(), []pawl.NewJob{second}); err != nil {
			t.Fatal(err)
		}
		if err := tx.commit(); err != nil {
			t.Fatal(err)
		}
		b.empty(t)
		same(t, "in the store", jobsOf(t, target), []pawl.NewJob{first, second})
	})
}

// A commit of another process is heard of on PostgreSQL.
func TestCommitElsewhereWakes(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"pgx", "database/sql"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := databases[name](t)
			target := fileStore(t)
			other, err := b.reopen(b.config)
			if err != nil {
				t.Fatal(err)
			}
			start(t, b.dispatcher(t, target, func(c *outbox.DispatcherConfig) { c.Poll = time.Hour }, target))
			until(t, "it listens", func() bool {
				return b.number(t, `select count(*) from pg_stat_activity where query like 'listen%pawl_%' and state = 'idle'`) > 0
			})
			b.box = other
			job := newJob(t, 1)
			b.write(t, job)
			b.empty(t)
			same(t, "in the store", jobsOf(t, target), []pawl.NewJob{job})
		})
	}
}

// Switched off, messages gather; switched on, they go.
func TestSwitch(t *testing.T) {
	onEach(t, func(t *testing.T, b *business) {
		target := fileStore(t)
		if err := b.switchOff(t); err != nil {
			t.Fatal(err)
		}
		jobs := newJobs(t, 3)
		b.write(t, jobs...)
		d := b.dispatcher(t, target, nil, target)
		start(t, d)
		time.Sleep(100 * time.Millisecond)
		stats, err := b.stats(t)
		if err != nil || stats.Pending != 3 || !stats.Off || !strings.HasPrefix(stats.Why, "the store moves (ada, 20") || stats.Oldest < 50*time.Millisecond || stats.Oldest > time.Minute {
			t.Errorf("stats %+v, error %v", stats, err)
		}
		if n := d.Counts().Dispatched; n != 0 {
			t.Errorf("%d messages were dispatched", n)
		}
		if err := b.switchOn(t); err != nil {
			t.Fatal(err)
		}
		b.empty(t)
		same(t, "in the store", jobsOf(t, target), jobs)
		if stats, err := b.stats(t); err != nil || stats.Pending != 0 || stats.Off || stats.Oldest != 0 || len(stats.Connections) != 0 {
			t.Errorf("stats %+v, error %v", stats, err)
		}
		for _, by := range []pawl.By{{Who: "ada"}, {Why: "the store moves"}, {Who: "ada", Why: "\x00"}} {
			if err := b.box.(operated).SwitchOff(t.Context(), by); !errors.Is(err, pawl.ErrInvalid) {
				t.Errorf("off by %+v: %v", by, err)
			}
		}
	})
}

// A dispatcher that is off itself only purges.
func TestPurge(t *testing.T) {
	onEach(t, func(t *testing.T, b *business) {
		target := fileStore(t)
		stop := start(t, b.dispatcher(t, target, nil, target))
		for range 3 {
			b.write(t, newJobs(t, 1000)...)
		}
		b.empty(t)
		stop()
		old, young := newJob(t, 1), newJob(t, 2)
		b.exec(t, `update {t} set ended_at = ended_at - 25 * {hour} where seq > (select min(seq) from {t})`)
		b.write(t, old, young)
		b.exec(t, `update {t} set created_at = created_at - 100 * {hour}`)
		d := b.dispatcher(t, target, func(c *outbox.DispatcherConfig) { c.Off = true }, target)
		start(t, d)
		until(t, "what is old is gone, and counted", func() bool {
			return b.number(t, `select count(*) from {t}`) == 3 && d.Counts().Purged == 2999
		})
		if n := b.number(t, `select count(*) from {t} where ended_at is null`); n != 2 {
			t.Errorf("%d messages wait", n)
		}
	})
}

// Starts at the same moment make the tables once, and other versions are refused.
func TestOpening(t *testing.T) {
	onEach(t, func(t *testing.T, b *business) {
		config := b.config
		config.Table = "other"
		config.NoMigrate = true
		if _, err := b.reopen(config); !errors.Is(err, pawl.ErrSchema) {
			t.Errorf("without tables: %v", err)
		}
		config.NoMigrate = false
		var group sync.WaitGroup
		for range 6 {
			group.Go(func() {
				if _, err := b.reopen(config); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		config.NoMigrate = true
		if _, err := b.reopen(config); err != nil {
			t.Error(err)
		}
		b.exec(t, strings.ReplaceAll(`update {t} set value = '9' where name = 'version'`, "{t}", strings.ReplaceAll(b.table, `out ""box"" $1`, "other_control")))
		for _, config.NoMigrate = range []bool{true, false} {
			if _, err := b.reopen(config); !errors.Is(err, pawl.ErrSchema) || !strings.Contains(err.Error(), "newer release") {
				t.Errorf("newer tables: %v", err)
			}
		}
		for _, bad := range []outbox.Config{
			{Schema: b.config.Schema, Table: strings.Repeat("t", 49)},
			{Schema: b.config.Schema, Table: "a\x00"},
			{Schema: strings.Repeat("s", 64)},
			{Schema: b.config.Schema, Connection: pawl.Connection{Name: "a\n"}},
		} {
			if _, err := b.reopen(bad); !errors.Is(err, pawl.ErrInvalid) {
				t.Errorf("%+v: %v", bad, err)
			}
		}
	})
}

// What is printed makes tables that work.
func TestSchemaForThoseWhoMigrateThemselves(t *testing.T) {
	onEach(t, func(t *testing.T, b *business) {
		config := outbox.Config{Schema: b.config.Schema, Table: "printed", NoMigrate: true}
		print := outbox.PostgresSchema
		if config.Schema == "" {
			print = outbox.SQLiteSchema
		}
		text, err := print(config)
		if err != nil {
			t.Fatal(err)
		}
		for statement := range strings.SplitSeq(text, ";\n") {
			if strings.TrimSpace(statement) != "" {
				b.exec(t, statement)
			}
		}
		box, err := b.reopen(config)
		if err != nil {
			t.Fatal(err)
		}
		b.box = box
		b.write(t, newJob(t, 1))
	})
}

func TestBadMessages(t *testing.T) {
	onEach(t, func(t *testing.T, b *business) {
		good, bare, redriven, damaged := newJob(t, 1), newJob(t, 2), newJob(t, 3), newJob(t, 4)
		bare.Envelope = nil
		redriven.Letter = pawl.NewID()
		damaged.Envelope = []byte("PWL?")
		late := newJob(t, 5)
		late.RunAt = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
		tx := b.begin(t)
		for name, bad := range map[string]pawl.NewJob{"bare": bare, "redriven": redriven, "damaged": damaged, "late": late} {
			_, err := tx.in.Enqueue(t.Context(), []pawl.NewJob{good, bad})
			if !errors.Is(err, pawl.ErrInvalid) && !errors.Is(err, pawl.ErrUnsupported) || !strings.Contains(err.Error(), "job 2 of 2") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if results, err := tx.in.Enqueue(t.Context(), nil); err != nil || len(results) != 0 {
			t.Errorf("no jobs: %v, error %v", results, err)
		}
		if err := tx.commit(); err != nil {
			t.Fatal(err)
		}
		if _, err := tx.in.Enqueue(t.Context(), []pawl.NewJob{good}); err == nil {
			t.Error("a transaction that has ended took a message")
		}
		if n := b.number(t, `select count(*) from {t}`); n != 0 {
			t.Errorf("%d messages", n)
		}
	})
}

func TestTransactionMustBeGiven(t *testing.T) {
	t.Parallel()
	db := openFile(t, filepath.Join(t.TempDir(), "business.db"))
	box, err := outbox.OpenSQLite(t.Context(), db, outbox.Config{})
	if err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.New(t.Context(), server(t))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	onServer, err := outbox.OpenPgx(t.Context(), pool, outbox.Config{Schema: freshSchema(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer onServer.Close()
	for name, to := range map[string]pawl.Enqueuer{
		"nil": box.Tx(nil), "the database": box.Tx(db), "no transaction of pgx": onServer.Tx(nil), "the pool": onServer.Tx(pool),
	} {
		if _, err := to.Enqueue(t.Context(), newJobs(t, 1)); !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), "transaction") {
			t.Errorf("%s: %v", name, err)
		}
	}
	elsewhere := openFile(t, filepath.Join(t.TempDir(), "other.db"))
	tx, err := elsewhere.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := box.Tx(tx).Enqueue(t.Context(), newJobs(t, 1)); err == nil || !strings.Contains(err.Error(), "does not hold table pawl_outbox") {
		t.Errorf("a transaction on another file: %v", err)
	}
}

func TestBadDispatchers(t *testing.T) {
	t.Parallel()
	b, target := onSQLite(t), fileStore(t)
	now, err := inline.New(pawl.NewMux(), inline.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var none *outbox.Box
	good := []pawl.Enqueuer{target}
	for name, make := range map[string]func() (*outbox.Dispatcher, error){
		"no box": func() (*outbox.Dispatcher, error) {
			return outbox.NewDispatcher(nil, target, good, outbox.DispatcherConfig{})
		},
		"a nil box": func() (*outbox.Dispatcher, error) {
			return outbox.NewDispatcher(none, target, good, outbox.DispatcherConfig{})
		},
		"no letters": func() (*outbox.Dispatcher, error) {
			return outbox.NewDispatcher(b.box, nil, good, outbox.DispatcherConfig{})
		},
		"no target": func() (*outbox.Dispatcher, error) {
			return outbox.NewDispatcher(b.box, target, nil, outbox.DispatcherConfig{})
		},
		"nil target": func() (*outbox.Dispatcher, error) {
			return outbox.NewDispatcher(b.box, target, []pawl.Enqueuer{nil}, outbox.DispatcherConfig{})
		},
		"one twice": func() (*outbox.Dispatcher, error) {
			return outbox.NewDispatcher(b.box, target, []pawl.Enqueuer{target, target}, outbox.DispatcherConfig{})
		},
		"inline": func() (*outbox.Dispatcher, error) {
			return outbox.NewDispatcher(b.box, target, []pawl.Enqueuer{now}, outbox.DispatcherConfig{})
		},
		"big batch": func() (*outbox.Dispatcher, error) {
			return outbox.NewDispatcher(b.box, target, good, outbox.DispatcherConfig{Batch: 5001})
		},
		"short lease": func() (*outbox.Dispatcher, error) {
			return outbox.NewDispatcher(b.box, target, good, outbox.DispatcherConfig{Lease: time.Millisecond})
		},
		"long timeout": func() (*outbox.Dispatcher, error) {
			return outbox.NewDispatcher(b.box, target, good, outbox.DispatcherConfig{Timeout: time.Minute})
		},
		"busy poll": func() (*outbox.Dispatcher, error) {
			return outbox.NewDispatcher(b.box, target, good, outbox.DispatcherConfig{Poll: 1})
		},
		"no tries": func() (*outbox.Dispatcher, error) {
			return outbox.NewDispatcher(b.box, target, good, outbox.DispatcherConfig{Tries: -1})
		},
		"bad name": func() (*outbox.Dispatcher, error) {
			return outbox.NewDispatcher(b.box, target, good, outbox.DispatcherConfig{Name: "a\n"})
		},
	} {
		if _, err := make(); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := outbox.NewDispatcher(b.box, target, good, outbox.DispatcherConfig{Logger: slog.New(slog.DiscardHandler)}); err != nil {
		t.Error(err)
	}
	for name, open := range map[string]func() error{
		"no database": func() error { _, err := outbox.OpenSQLite(t.Context(), nil, outbox.Config{}); return err },
		"no pool":     func() error { _, err := outbox.OpenPgx(t.Context(), nil, outbox.Config{}); return err },
		"a schema":    func() error { _, err := outbox.OpenSQLite(t.Context(), b.db, outbox.Config{Schema: "s"}); return err },
	} {
		if err := open(); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
