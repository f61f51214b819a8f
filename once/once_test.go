package once_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/once"
)

func TestClaim(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for i, row := range []struct {
			handler, key string
			want         bool
		}{
			{"mail", "1", true},
			{"mail", "1", false},
			{"mail", "2", true},
			{"ledger", "1", true},
			{"mail", "1 ", true},
			{"Mail", "1", true},
			{"mail", "é", true},
			{"mail", "e\u0301", true}, // bytes count
			{"mail", strings.Repeat("k", 256), true},
			{"mail", strings.Repeat("k", 256), false},
		} {
			tx := w.begin(t)
			if got := tx.must(t, row.handler, row.key); got != row.want {
				t.Errorf("claim %d (%s, %s): %v, want %v", i, row.handler, row.key, got, row.want)
			}
			if tx.must(t, row.handler, row.key) {
				t.Errorf("claim %d: true again in its own transaction", i)
			}
			done(t, tx.commit)
		}
		tx := w.begin(t)
		if !tx.must(t, "mail", "3") {
			t.Error("a new key is no repeat")
		}
		done(t, tx.rollback)
		for key, want := range map[string]bool{"1": true, "3": false} {
			if set, err := w.peek("mail", key); err != nil || set != want {
				t.Errorf("peek %s: %v, error %v; want %v", key, set, err, want)
			}
		}
		tx = w.begin(t)
		if !tx.must(t, "mail", "3") {
			t.Error("what was rolled back is no claim")
		}
		done(t, tx.rollback)
	})
}

// A claim waits for the end of another of the same mark, and is told right.
func TestConcurrentClaims(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		for key, commits := range map[string]bool{"kept": true, "undone": false} {
			one := w.begin(t)
			if !one.must(t, "mail", key) {
				t.Fatal("the first is a repeat")
			}
			second := make(chan bool, 1)
			var group sync.WaitGroup
			group.Go(func() {
				two := w.begin(t)
				first, err := two.claim("mail", key)
				if err != nil {
					t.Error(err)
				}
				second <- first
				if err := two.rollback(); err != nil {
					t.Error(err)
				}
			})
			select {
			case <-second:
				t.Fatal("the second claim did not wait")
			case <-time.After(100 * time.Millisecond):
			}
			end := one.rollback
			if commits {
				end = one.commit
			}
			done(t, end)
			if first := <-second; first == commits {
				t.Errorf("the first was committed: %v; the second was told %v", commits, first)
			}
			group.Wait()
		}
	})
}

// Of many at once one is the first.
func TestOneOfMany(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		var group sync.WaitGroup
		firsts := make(chan bool, 8)
		for range 8 {
			group.Go(func() {
				tx := w.begin(t)
				first, err := tx.claim("mail", "key")
				if err == nil {
					err = tx.commit()
				}
				if err != nil {
					t.Error(err)
				}
				firsts <- first
			})
		}
		group.Wait()
		close(firsts)
		n := 0
		for first := range firsts {
			if first {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d were the first", n)
		}
	})
}

func TestBadClaims(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		tx := w.begin(t)
		for _, row := range []struct{ handler, key, field string }{
			{"", "k", "handler"},
			{strings.Repeat("h", 129), "k", "handler"},
			{"h\n", "k", "handler"},
			{"h", "", "key"},
			{"h", strings.Repeat("k", 257), "key"},
			{"h", "a\x00b", "key"},
			{"h", "a\xff", "key"},
		} {
			var field *pawl.FieldError
			if _, err := tx.claim(row.handler, row.key); !errors.As(err, &field) || field.Field != row.field {
				t.Errorf("claim (%q, %q): %v", row.handler, row.key, err)
			}
			if _, err := w.peek(row.handler, row.key); !errors.As(err, &field) || field.Field != row.field {
				t.Errorf("peek (%q, %q): %v", row.handler, row.key, err)
			}
		}
		if !tx.must(t, "h", "k") {
			t.Error("the transaction was spoilt")
		}
		done(t, tx.rollback)
		if _, err := tx.claim("h", "k"); err == nil {
			t.Error("a claim in a transaction that has ended")
		}
		if _, err := w.prune(0); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("prune all: %v", err)
		}
	})
}

func TestTransactionMustBeGiven(t *testing.T) {
	t.Parallel()
	db := openDB(t, "sqlite", "file:"+filepath.Join(t.TempDir(), "business.db"))
	marks, err := once.OpenSQLite(t.Context(), db, once.Config{})
	if err != nil {
		t.Fatal(err)
	}
	var none *sql.Tx
	for name, tx := range map[string]once.SQLTx{"nil": nil, "a nil *sql.Tx": none, "the database": db} {
		if _, err := marks.Claim(t.Context(), tx, "h", "k"); !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), "transaction") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if set, err := marks.Peek(t.Context(), "h", "k"); err != nil || set {
		t.Errorf("a mark is set: %v, error %v", set, err)
	}
	for name, open := range map[string]func() error{
		"no database":      func() error { _, err := once.OpenPostgres(t.Context(), nil, once.Config{}); return err },
		"no pool":          func() error { _, err := once.OpenPgx(t.Context(), nil, once.Config{}); return err },
		"a schema":         func() error { _, err := once.OpenSQLite(t.Context(), db, once.Config{Schema: "s"}); return err },
		"a long name":      func() error { _, err := once.SQLiteSchema(once.Config{Table: strings.Repeat("t", 49)}); return err },
		"a NUL in a name":  func() error { _, err := once.PostgresSchema(once.Config{Schema: "a\x00"}); return err },
		"a name not UTF-8": func() error { _, err := once.PostgresSchema(once.Config{Table: "a\xff"}); return err },
	} {
		if err := open(); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPrune(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		fill := `insert into ` + w.table + ` (handler, key, claimed_at) `
		if w.config.Schema == "" {
			fill += `with recursive n (i) as (select 1 union all select i + 1 from n where i < 2500)
select 'old', i, cast((julianday('now') - 2440587.5) * 86400000 as integer) - 2 * ` + w.hour + ` from n`
		} else {
			fill += `select 'old', g::text, now() - 2 * ` + w.hour + ` from generate_series(1, 2500) g`
		}
		if _, err := w.db.ExecContext(t.Context(), fill); err != nil {
			t.Fatal(err)
		}
		tx := w.begin(t)
		tx.must(t, "new", "1")
		done(t, tx.commit)
		for _, want := range []int{2500, 0} {
			if n, err := w.prune(time.Hour); err != nil || n != want {
				t.Errorf("pruned %d, error %v; want %d", n, err, want)
			}
		}
		if set, err := w.peek("new", "1"); err != nil || !set {
			t.Errorf("the new mark: %v, error %v", set, err)
		}
	})
}

// Starts at the same moment make the tables once; without a migration older and newer tables are refused.
func TestOpening(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		config := w.config
		config.Table = "other"
		config.NoMigrate = true
		if err := w.open(config); !errors.Is(err, pawl.ErrSchema) {
			t.Errorf("without tables: %v", err)
		}
		config.NoMigrate = false
		var group sync.WaitGroup
		for range 6 {
			group.Go(func() {
				if err := w.open(config); err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
		config.NoMigrate = true
		if err := w.open(config); err != nil {
			t.Error(err)
		}
		control := pgx.Identifier{"other_control"}.Sanitize()
		if config.Schema != "" {
			control = pgx.Identifier{config.Schema, "other_control"}.Sanitize()
		}
		if _, err := w.db.ExecContext(t.Context(), `update `+control+` set value = '9' where name = 'version'`); err != nil {
			t.Fatal(err)
		}
		for _, config.NoMigrate = range []bool{true, false} {
			if err := w.open(config); !errors.Is(err, pawl.ErrSchema) || !strings.Contains(err.Error(), "newer release") {
				t.Errorf("with newer tables: %v", err)
			}
		}
	})
}

// What is printed makes tables that can be opened.
func TestSchemaForThoseWhoMigrateThemselves(t *testing.T) {
	onEach(t, func(t *testing.T, w *world) {
		config := once.Config{Schema: w.config.Schema, Table: "printed", NoMigrate: true}
		print := once.PostgresSchema
		if config.Schema == "" {
			print = once.SQLiteSchema
		}
		text, err := print(config)
		if err != nil {
			t.Fatal(err)
		}
		for statement := range strings.SplitSeq(text, ";\n") {
			if strings.TrimSpace(statement) != "" {
				if _, err := w.db.ExecContext(t.Context(), statement); err != nil {
					t.Fatalf("%s: %v", statement, err)
				}
			}
		}
		if err := w.open(config); err != nil {
			t.Error(err)
		}
	})
}
