package postgres_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawljobs/pawl/postgres"
	"github.com/pawljobs/pawl/storetest"
)

// server is the URL of the PostgreSQL that tests work on.
func server(t testing.TB) string {
	t.Helper()
	url := os.Getenv("PAWL_TEST_POSTGRES")
	if url == "" {
		t.Skip("PAWL_TEST_POSTGRES is not set: run the tests by scripts/with-services, which starts a server")
	}
	return url
}

func TestConformance(t *testing.T) {
	server(t)
	storetest.Run(t, harness(t))
}

func TestModel(t *testing.T) {
	server(t)
	storetest.RunModel(t, harness(t))
}

// harness is that of a store in lent schemas.
func harness(t testing.TB) storetest.Harness {
	lent := newSchemas(t)
	return storetest.Harness{
		Open: func(t testing.TB, o storetest.Options) storetest.Store {
			return openIn(t, server(t), quiet(configOf(o, lent.lend(t))))
		},
		Reopen: reopen, Backdate: backdate, Begin: begin,
	}
}

func configOf(o storetest.Options, schema string) postgres.Config {
	config := postgres.Config{Connection: o.Connection, Policy: o.Policy, Retention: o.Retention, Schema: schema}
	if o.NoHistory {
		config.History = -1
	}
	return config
}

func quiet(config postgres.Config) postgres.Config {
	config.Logger = slog.New(slog.DiscardHandler)
	return config
}

// inSchema is a store that remembers where it is.
type inSchema struct {
	*postgres.Store
	url    string
	config postgres.Config
}

func openFresh(t testing.TB, o storetest.Options) storetest.Store {
	t.Helper()
	return openIn(t, server(t), quiet(configOf(o, freshSchema(t))))
}

// freshSchema is a name that no other test has, which needs its quotes. What it names is dropped after the test.
func freshSchema(t testing.TB) string {
	t.Helper()
	name := newSchemaName()
	t.Cleanup(func() { drop(t, name) })
	return name
}

func newSchemaName() string { return `Te"st's? ` + strings.ToLower(rand.Text()) }

// owner are connections to the server for what tests do behind a store's back: a new one takes longer than what it is for.
var owner = sync.OnceValues(func() (*pgxpool.Pool, error) {
	return pgxpool.New(context.Background(), os.Getenv("PAWL_TEST_POSTGRES"))
})

// execute runs a statement, again where a host that lives beside it made it the victim of a deadlock.
func execute(t testing.TB, url, statement string, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	exec := func() error {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, statement, args...)
		return err
	}
	if url == server(t) {
		pool, err := owner()
		if err != nil {
			t.Fatal(err)
		}
		exec = func() error {
			_, err := pool.Exec(ctx, statement, args...)
			return err
		}
	}
	err := exec()
	for refusal := (*pgconn.PgError)(nil); errors.As(err, &refusal) && refusal.Code == "40P01"; {
		err = exec()
	}
	if err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func openIn(t testing.TB, url string, config postgres.Config) inSchema {
	t.Helper()
	store, err := postgres.Open(t.Context(), url, config)
	if err != nil {
		t.Fatalf("open store: %v", err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	return inSchema{store, url, config}
}

func reopen(t testing.TB, s storetest.Store) storetest.Store {
	t.Helper()
	return openIn(t, s.(inSchema).url, s.(inSchema).config)
}

// backdate moves every time in the schema.
func backdate(t testing.TB, s storetest.Store, by time.Duration) {
	t.Helper()
	store := s.(inSchema)
	execute(t, store.url, fmt.Sprintf(`do $do$
declare
  c record;
begin
  for c in select a.attrelid::regclass as tab, string_agg(format('%%1$I = %%1$I - interval ''%d microseconds''', a.attname), ', ') as moves
    from pg_attribute a join pg_class k on k.oid = a.attrelid
    where k.relnamespace = %s::regnamespace and k.relkind = 'r' and a.atttypid = 'timestamptz'::regtype and not a.attisdropped
    group by a.attrelid
  loop
    execute 'update ' || c.tab || ' set ' || c.moves;
  end loop;
end $do$`, by.Microseconds(), literal(pgx.Identifier{store.config.Schema}.Sanitize())))
}

func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

func begin(t testing.TB, s storetest.Store) storetest.Tx {
	t.Helper()
	store := s.(inSchema)
	config, err := pgx.ParseConfig(store.url)
	if err != nil {
		t.Fatalf("parse url: %v", err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe // for all that may be in between
	conn, err := pgx.ConnectConfig(t.Context(), config)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatalf("begin: %v", err)
	}
	return storetest.Tx{
		Enqueuer: store.Tx(tx),
		Commit:   func() error { return tx.Commit(t.Context()) },
		Rollback: func() error { return tx.Rollback(context.Background()) },
	}
}
