package sqlite_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desktest"
	"github.com/pawljobs/pawl/sqlite"
)

func TestDesk(t *testing.T) { desktest.Run(t, openDesk) }

// BenchmarkLetters asks a store with 100,000 letters:
//
//	go test ./sqlite -run '^$' -bench Letters -benchtime 200x
func BenchmarkLetters(b *testing.B) { desktest.BenchmarkLetters(b, openDesk) }

func openDesk(t testing.TB) desktest.Desk {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jobs.db")
	store, err := sqlite.Open(t.Context(), path, sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	return desktest.Desk{TB: t, Store: store, Tables: tables{path}}
}

// tables are those of a file.
type tables struct{ path string }

// beside is another connection to the file, such as an administrator's.
func (f tables) beside(t testing.TB) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+f.path+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatalf("open file: %v", err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func (f tables) exec(t testing.TB, statement string) {
	t.Helper()
	db := f.beside(t)
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func (f tables) Hide(t testing.TB, table string) {
	t.Helper()
	f.exec(t, "alter table pawl_"+table+" rename to pawl_away")
}

func (f tables) Show(t testing.TB, table string) {
	t.Helper()
	f.exec(t, "alter table pawl_away rename to pawl_"+table)
}

func (f tables) Multiply(t testing.TB, by int, apart time.Duration) {
	t.Helper()
	f.exec(t, fmt.Sprintf(`insert into pawl_letter (id, dead_at, status, status_at, group_resolved_at, class, reason, fingerprint, kind, queue,
		connection, job_id, correlation_id, tags, exception_type, attempts, source_message, host, server, version, message, batch)
		select randomblob(16), dead_at - %d * i, status, status_at - %[1]d * i, group_resolved_at - %[1]d * i, class, reason, fingerprint, kind, queue,
		connection, randomblob(16), correlation_id, tags, exception_type, attempts, source_message, host, server, version, message || ' #' || i, batch
		from pawl_letter, (with recursive n(i) as (select 1 union all select i + 1 from n where i < %d) select i from n)`,
		apart.Milliseconds(), by-1))
	f.exec(t, `insert into pawl_evidence (letter, detail, history) select id, '', '[]' from pawl_letter where id not in (select letter from pawl_evidence)`)
}

func (f tables) Dump(t testing.TB) map[string][]string {
	t.Helper()
	db := f.beside(t)
	defer db.Close()
	all := map[string][]string{}
	for _, name := range f.rows(t, db, `select name from sqlite_schema where type = 'table' and name like 'pawl~_%' escape '~'`) {
		all[name] = f.rows(t, db, fmt.Sprintf("select * from %q order by 1", name))
	}
	return all
}

// rows returns each row of a query as text.
func (f tables) rows(t testing.TB, db *sql.DB, query string) (lines []string) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	for rows.Next() {
		values, targets := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			targets[i] = &values[i]
		}
		if err := rows.Scan(targets...); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		lines = append(lines, line(values))
	}
	if err := rows.Err(); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return lines
}

func line(values []any) string {
	if name, ok := values[0].(string); ok && len(values) == 1 {
		return name
	}
	return fmt.Sprintf("%x", values)
}

// Where a sink stands idle, looking for work takes no write lock.
func TestIdleSinksWriteNothing(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	session := d.Register("mail")
	tx, err := d.Tables.(tables).beside(t).BeginTx(t.Context(), nil)
	d.OK("begin", err)
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(t.Context(), `insert into pawl_sink (name) values ('holds the lock')`)
	d.OK("take the write lock", err)
	tasks, err := d.ClaimAlerts(t.Context(), pawl.AlertClaim{Session: session, Sinks: []string{"mail"}, Max: 5})
	d.OK("claim", err)
	d.Equal("tasks", len(tasks), 0)
}

// BenchmarkUnique compares jobs with unique keys with others:
//
//	go test ./sqlite -run '^$' -bench Unique -benchtime 20000x
func BenchmarkUnique(b *testing.B) { desktest.BenchmarkUnique(b, openDesk) }
