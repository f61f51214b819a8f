package sqlite_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/sqlite"
)

// desk is a store as an operator sits before it.
type desk struct {
	testing.TB
	*sqlite.Store
	path string
}

var ada = pawl.By{Who: "ada", Door: "cli", Why: "test"}

func openDesk(t testing.TB) desk {
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
	return desk{t, store, path}
}

func (d desk) ok(what string, err error) {
	d.Helper()
	if err != nil {
		d.Fatalf("%s: %v", what, err)
	}
}

func (d desk) equal(what string, got, want any) {
	d.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		d.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// invalid checks that an error names the field that it is about.
func (d desk) invalid(what string, err error, field string) {
	d.Helper()
	var fieldErr *pawl.FieldError
	if !errors.As(err, &fieldErr) || !errors.Is(err, pawl.ErrInvalid) || fieldErr.Field != field {
		d.Errorf("%s: error is %v, want one of field %q", what, err, field)
	}
}

// beside is another connection to the file, such as an administrator's.
func (d desk) beside() *sql.DB {
	d.Helper()
	db, err := sql.Open("sqlite", "file:"+d.path+"?_pragma=busy_timeout(5000)")
	d.ok("open file", err)
	d.Cleanup(func() { _ = db.Close() })
	return db
}

func (d desk) exec(statements ...string) {
	d.Helper()
	db := d.beside()
	defer db.Close()
	for _, statement := range statements {
		_, err := db.ExecContext(d.Context(), statement)
		d.ok(statement, err)
	}
}

// dump is all that the tables hold.
func (d desk) dump() map[string][]string {
	d.Helper()
	db := d.beside()
	defer db.Close()
	tables := map[string][]string{}
	rows, err := db.QueryContext(d.Context(), `select name from sqlite_schema where type = 'table' and name like 'pawl~_%' escape '~'`)
	d.ok("list tables", err)
	for rows.Next() {
		var name string
		d.ok("list tables", rows.Scan(&name))
		tables[name] = nil
	}
	d.ok("list tables", rows.Err())
	for name := range tables {
		tables[name] = d.dumpTable(db, name)
	}
	return tables
}

func (d desk) dumpTable(db *sql.DB, name string) (lines []string) {
	d.Helper()
	rows, err := db.QueryContext(d.Context(), fmt.Sprintf("select * from %q order by 1", name))
	d.ok("read "+name, err)
	defer rows.Close()
	columns, err := rows.Columns()
	d.ok("read "+name, err)
	for rows.Next() {
		values, targets := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			targets[i] = &values[i]
		}
		d.ok("read "+name, rows.Scan(targets...))
		lines = append(lines, fmt.Sprintf("%x", values))
	}
	d.ok("read "+name, rows.Err())
	return lines
}

// letter is a death elsewhere.
func letter(changes ...func(*pawl.DeadLetter)) pawl.DeadLetter {
	job := pawl.NewID()
	l := pawl.DeadLetter{
		ID: pawl.LetterID("default", job, 1), JobID: job, Connection: "default", Queue: "2-default", Kind: "mail.v1",
		Envelope: []byte("envelope"), ExceptionType: "*net.OpError", Message: "no answer", Detail: "stack", Attempts: 6,
		Reason: pawl.ReasonBudget, Fingerprint: "1-abc", Host: "host-a", Server: "io", Version: "v1",
	}
	for _, change := range changes {
		change(&l)
	}
	return l
}

func letters(n int, changes ...func(*pawl.DeadLetter)) []pawl.DeadLetter {
	all := make([]pawl.DeadLetter, n)
	for i := range all {
		all[i] = letter(changes...)
	}
	return all
}

func (d desk) record(all ...pawl.DeadLetter) {
	d.Helper()
	_, err := d.RecordDeaths(d.Context(), all)
	d.ok("record deaths", err)
}

// walk lists page by page, with a step between two pages.
func (d desk) walk(filter pawl.LetterFilter, limit int, between func(page int)) []pawl.ID {
	d.Helper()
	var all []pawl.ID
	page := pawl.Page{Limit: limit}
	for n := 0; ; n++ {
		found, err := d.Letters(d.Context(), filter, page)
		d.ok("list letters", err)
		for _, l := range found.Letters {
			all = append(all, l.ID)
		}
		if page.After = found.Next; found.Next == "" {
			return all
		}
		between(n)
	}
}

func (d desk) sinks(names ...string) pawl.SessionID {
	d.Helper()
	session, err := d.OpenSession(d.Context(), pawl.HostInfo{Name: "host-a", Kinds: []string{workKind.Name()}, Sinks: names})
	d.ok("open session", err)
	return session
}

var workKind = pawl.NewKind[json.RawMessage]("desk.work.v1", pawl.Policy{})

func (d desk) jobs(n int, options ...pawl.Option) []pawl.NewJob {
	d.Helper()
	jobs := make([]pawl.NewJob, n)
	for i := range jobs {
		job, err := workKind.New(context.Background(), d.Connection(), json.RawMessage(`{}`), options...)
		d.ok("make job", err)
		jobs[i] = job
	}
	return jobs
}

func (d desk) enqueue(jobs ...pawl.NewJob) {
	d.Helper()
	_, err := d.Enqueue(d.Context(), jobs)
	d.ok("enqueue", err)
}
