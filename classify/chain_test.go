package classify_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/textproto"
	"net/url"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/classify"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestChainsAndJoins(t *testing.T) {
	t.Parallel()
	badData, deadlock := &pgconn.PgError{Code: "22P02"}, &pgconn.PgError{Code: "40P01"}
	for name, row := range map[string]struct {
		err  error
		want pawl.Class
	}{
		"the outermost wins":                        {outer{syscall.ECONNRESET, permanent}, permanent},
		"the outermost wins, the other way":         {outer{badData, transient}, transient},
		"one that nobody knows is passed":           {outer{badData, unknown}, permanent},
		"permanent if any part is":                  {errors.Join(syscall.ECONNRESET, badData), permanent},
		"permanent if any part is, whatever order":  {errors.Join(badData, syscall.ECONNRESET), permanent},
		"transient beside what nobody knows":        {errors.Join(io.EOF, deadlock), transient},
		"nested joins":                              {errors.Join(io.EOF, fmt.Errorf("x: %w", errors.Join(io.EOF, badData))), permanent},
		"several of them in one text":               {fmt.Errorf("%w, then %w", deadlock, badData), permanent},
		"families do not hide each other":           {errors.Join(&textproto.Error{Code: 451}, badData), permanent},
		"a part that is nil":                        {parts{nil, deadlock, nil}, transient},
		"no parts at all":                           {parts{}, unknown},
		"a context that ended, and why":             {fmt.Errorf("%w: %w", context.Canceled, deadlock), transient},
		"a rollback that failed after a refusal":    {errors.Join(badData, errors.New("rollback: closed")), permanent},
		"a poor class is no class":                  {outer{io.EOF, pawl.ClassPoison}, unknown},
		"a class that does not exist is no class":   {outer{deadlock, 77}, transient},
		"a class that pawl gave is not our affair":  {pawl.Permanent(deadlock), transient},
		"the connection attempts of a driver, both": {&url.Error{Op: "dial", Err: errors.Join(syscall.ECONNREFUSED, io.EOF)}, transient},
	} {
		chain := classify.Default(classify.On(func(e outer) pawl.Class { return e.class }))
		if got := chain(row.err); got != row.want {
			t.Errorf("%s: %v, want %v", name, got, row.want)
		}
	}
}

type outer struct {
	error
	class pawl.Class
}

func (e outer) Unwrap() error { return e.error }

type parts []error

func (parts) Error() string     { return "parts" }
func (p parts) Unwrap() []error { return p }

func TestOwnRulesComeFirst(t *testing.T) {
	t.Parallel()
	own := func(err error) pawl.Class {
		if err == io.EOF {
			return permanent
		}
		return unknown
	}
	overrule := classify.On(func(e *pgconn.PgError) pawl.Class {
		if e.Code == "23505" {
			return transient
		}
		return unknown
	})
	chain := classify.Default(own, overrule)
	for name, row := range map[string]struct {
		err  error
		want pawl.Class
	}{
		"what is new":        {fmt.Errorf("read: %w", io.EOF), permanent},
		"what is overruled":  {&pgconn.PgError{Code: "23505"}, transient},
		"what is passed on":  {&pgconn.PgError{Code: "22001"}, permanent},
		"the defaults still": {syscall.ECONNREFUSED, transient},
	} {
		if got := chain(row.err); got != row.want {
			t.Errorf("%s: %v, want %v", name, got, row.want)
		}
	}
	if got := classify.Chain()(syscall.ECONNREFUSED); got != unknown {
		t.Errorf("a chain of nothing: %v", got)
	}
	if got := classify.Default(nil)(syscall.ECONNREFUSED); got != transient {
		t.Errorf("a nil rule: %v", got)
	}
}

// Errors that do harm where they are looked at.
type circle struct{ next *circle }

func (*circle) Error() string   { return "circle" }
func (c *circle) Unwrap() error { return c.next }

type bush struct{ next []error }

func (*bush) Error() string     { return "bush" }
func (b *bush) Unwrap() []error { return b.next }

type bomb struct{ inner error }

func (bomb) Error() string       { panic("Error") }
func (bomb) SQLState() string    { panic("SQLState") }
func (bomb) Timeout() bool       { panic("Timeout") }
func (bomb) HTTPStatusCode() int { panic("HTTPStatusCode") }
func (b bomb) Unwrap() error     { return b.inner }

type unwrapBomb struct{}

func (unwrapBomb) Error() string { return "unwrap" }
func (unwrapBomb) Unwrap() error { panic("Unwrap") }

type sneaky struct{}

func (sneaky) Error() string    { return "sneaky" }
func (sneaky) SQLState() string { runtime.Goexit(); return "" }

func TestHostileErrors(t *testing.T) {
	t.Parallel()
	ring := &circle{}
	ring.next = &circle{ring}
	tree := &bush{}
	tree.next = []error{tree, tree}
	deep := error(&pgconn.PgError{Code: "22P02"})
	for range 10_000 {
		deep = fmt.Errorf("w: %w", deep)
	}
	nested := error(&pgconn.PgError{Code: "22P02"})
	for range 10_000 {
		nested = parts{io.EOF, nested}
	}
	wide := make(parts, 60_000)
	for i := range wide {
		wide[i] = &pgconn.PgError{Code: "57014"}
	}
	for name, row := range map[string]struct {
		err  error
		want pawl.Class
	}{
		"a circle":                         {ring, unknown},
		"a tree that contains itself":      {tree, unknown},
		"10,000 deep":                      {deep, permanent},
		"10,000 joins deep":                {nested, permanent},
		"60,000 wide":                      {wide, transient},
		"methods that panic":               {bomb{syscall.ECONNRESET}, transient},
		"Unwrap that panics":               {unwrapBomb{}, unknown},
		"a nil pointer to a known type":    {(*url.Error)(nil), unknown},
		"a nil pointer among others":       {errors.Join((*pgconn.PgError)(nil), syscall.ECONNRESET), transient},
		"a nil error in a URL's error":     {&url.Error{Op: "Get"}, unknown},
		"bad text in a call that failed":   {&url.Error{Op: "Get", Err: bomb{}}, unknown},
		"a method that ends its goroutine": {sneaky{}, unknown},
	} {
		// As the host asks: so that nothing gets further than the classifier.
		begun := time.Now()
		class := pawl.ClassOf(pawl.Classify(row.err, classify.Default()))
		if took := time.Since(begun); took > 10*time.Second {
			t.Errorf("%s took %v", name, took)
		}
		if class != row.want {
			t.Errorf("%s: %v, want %v", name, class, row.want)
		}
	}
}

// The real driver's errors are recognised.
func TestSQLiteDriver(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "x.db")
	open := func(options string) *sql.DB {
		db, err := sql.Open("sqlite", "file:"+file+options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		return db
	}
	db := open("")
	if _, err := db.Exec(`create table t (id integer primary key, n integer not null check (n > 0)) strict`); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]pawl.Class{
		`insert into t values (1, 1), (1, 1)`:   permanent, // CONSTRAINT_PRIMARYKEY
		`insert into t values (2, null)`:        permanent, // CONSTRAINT_NOTNULL
		`insert into t values (3, -1)`:          permanent, // CONSTRAINT_CHECK
		`insert into t values ('x', 1)`:         permanent, // MISMATCH
		`select zeroblob(2000000000)`:           permanent, // TOOBIG
		`select * from missing`:                 unknown,
		`insert into t values (4, json('bad'))`: unknown,
	} {
		_, err := db.Exec(query)
		if err == nil {
			t.Errorf("%s: no error", query)
		}
		if got := classify.Default()(fmt.Errorf("run: %w", err)); got != want {
			t.Errorf("%s: %v, want %v (%v)", query, got, want, err)
		}
	}
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := tx.Exec(`insert into t values (9, 9)`); err != nil {
		t.Fatal(err)
	}
	_, err = open("?_pragma=busy_timeout(0)").Exec(`insert into t values (8, 8)`)
	if got := classify.Default()(err); got != transient {
		t.Errorf("BUSY: %v (%v)", got, err)
	}
}
