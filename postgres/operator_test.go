package postgres_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl/internal/desktest"
	"github.com/pawljobs/pawl/postgres"
)

func TestDesk(t *testing.T) {
	server(t)
	desktest.Run(t, openDesk)
}

// One connection is enough, and there need not be anything about it that lasts.
func TestDeskBehindPooler(t *testing.T) {
	server(t)
	config := postgres.Config{Conns: 1, Pooler: true, Logger: slog.New(slog.DiscardHandler)}
	desktest.Run(t, func(t testing.TB) desktest.Desk { return openDeskWith(t, config) })
}

// BenchmarkLetters asks a store with 100,000 letters:
//
//	scripts/with-services go test ./postgres -run '^$' -bench Letters -benchtime 200x
func BenchmarkLetters(b *testing.B) { desktest.BenchmarkLetters(b, openDesk) }

func openDesk(t testing.TB) desktest.Desk {
	t.Helper()
	return openDeskWith(t, postgres.Config{})
}

func openDeskWith(t testing.TB, config postgres.Config) desktest.Desk {
	t.Helper()
	config.Schema = freshSchema(t)
	store := openIn(t, server(t), config)
	return desktest.Desk{TB: t, Store: store.Store, Tables: tables{store.url, config.Schema}}
}

// tables are those of a schema.
type tables struct{ url, schema string }

func (s tables) name(table string) string { return pgx.Identifier{s.schema, table}.Sanitize() }

// connect is a connection beside the store's, such as an administrator's.
func (s tables) connect(t testing.TB) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), s.url)
	if err != nil {
		t.Fatalf("connect: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func (s tables) texts(t testing.TB, query string, args ...any) []string {
	t.Helper()
	conn := s.connect(t)
	defer conn.Close(context.Background())
	rows, err := conn.Query(context.Background(), query, args...)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return texts
}

// Dump leaves out the numbers of names, the locks of keys and the marks of slots, which are made ahead of what needs them.
func (s tables) Dump(t testing.TB) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, table := range s.texts(t, `select tablename::text from pg_catalog.pg_tables where schemaname = $1
		and tablename not in ('name', 'kind', 'key', 'key_lock', 'slot')`, s.schema) {
		all[table] = s.texts(t, fmt.Sprintf(`select r::text from %s r order by 1`, s.name(table)))
	}
	return all
}

// stored is the name of the table that a test means.
func (s tables) stored(t testing.TB, table string) string {
	t.Helper()
	if table != "done" {
		return table
	}
	current := s.texts(t, fmt.Sprintf(`select 'done_' || n from %s where from_at <= now() order by from_at desc limit 1`, s.name("slot")))
	return strings.Join(current, "")
}

func (s tables) Hide(t testing.TB, table string) {
	t.Helper()
	execute(t, s.url, fmt.Sprintf(`alter table %s rename to away`, s.name(s.stored(t, table))))
}

func (s tables) Show(t testing.TB, table string) {
	t.Helper()
	execute(t, s.url, fmt.Sprintf(`alter table %s rename to %s`, s.name("away"), pgx.Identifier{s.stored(t, table)}.Sanitize()))
}

func (s tables) Multiply(t testing.TB, by int, apart time.Duration) {
	t.Helper()
	letter := s.name("letter")
	execute(t, s.url, fmt.Sprintf(`insert into %s (id, dead_at, status, status_at, group_resolved_at, class, reason, fingerprint, kind, queue,
  connection, job_id, correlation_id, tags, exception_type, attempts, source_message, host, server, version, message, batch)
select gen_random_uuid(), dead_at - i * t.apart, status, status_at - i * t.apart, group_resolved_at - i * t.apart, class, reason, fingerprint, kind,
  queue, connection, gen_random_uuid(), correlation_id, tags, exception_type, attempts, source_message, host, server, version, message || ' #' || i, batch
from %[1]s, generate_series(1, %[2]d) i, (values (interval '%[3]d milliseconds')) t (apart)`, letter, by-1, apart.Milliseconds()))
	execute(t, s.url, "vacuum analyze "+letter)
}

// BenchmarkUnique compares jobs with unique keys with others:
//
//	scripts/with-services go test ./postgres -run '^$' -bench Unique -benchtime 20000x
func BenchmarkUnique(b *testing.B) { desktest.BenchmarkUnique(b, openDesk) }
