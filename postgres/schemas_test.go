package postgres_test

import (
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/storetest"
)

// schemas are lent to cases that leave the shape of the tables as it is. Most of what a case of the suite costs is to make
// some 150 tables and indexes and to drop them, so the next case gets the same ones, emptied.
type schemas struct {
	mu   sync.Mutex
	free []string
}

// newSchemas has no schema yet. All that it made are dropped after the test.
func newSchemas(t testing.TB) *schemas {
	t.Helper()
	s := &schemas{}
	t.Cleanup(func() {
		for _, name := range s.free {
			drop(t, name)
		}
	})
	return s
}

func drop(t testing.TB, name string) {
	t.Helper()
	execute(t, server(t), "drop schema if exists "+pgx.Identifier{name}.Sanitize()+" cascade")
}

// lend returns the name of a schema that is empty or not there, until the test has ended. One whose test failed is not lent
// again.
func (s *schemas) lend(t testing.TB) string {
	t.Helper()
	name := s.take()
	if name == "" {
		name = newSchemaName()
	} else {
		empty(t, name)
	}
	t.Cleanup(func() {
		if t.Failed() {
			drop(t, name)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.free = append(s.free, name)
	})
	return name
}

func (s *schemas) take() (name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) > 0 {
		name, s.free = s.free[0], s.free[1:]
	}
	return name
}

// empty makes a schema what it was when it had just been migrated: without rows, dead ones too, without days, and with the
// first numbers.
func empty(t testing.TB, name string) {
	t.Helper()
	execute(t, server(t), `do $do$
declare
  one  record;
  days text[];
  used text[];
begin
  for one in select oid::regclass as name, relkind, relname from pg_class
    where relnamespace = `+literal(pgx.Identifier{name}.Sanitize())+`::regnamespace and relkind in ('r', 'S')
  loop
    if one.relkind = 'S' then
      perform setval(seqrelid, seqstart, false) from pg_sequence where seqrelid = one.name and pg_sequence_last_value(one.name) is not null;
    elsif one.relname ~ '^done_[0-9]+$' then
      days := days || one.name::text;
    elsif one.relname not in ('schema_version', 'key_lock') and pg_relation_size(one.name) > 0 then
      used := used || one.name::text;
    end if;
  end loop;
  if days is not null then
    execute 'drop table ' || array_to_string(days, ', ');
  end if;
  if used is not null then
    execute 'truncate ' || array_to_string(used, ', ');
  end if;
end $do$`)
}

// A schema that is emptied is as it was before its first use, whatever was done in it.
func TestEmptiedSchemaIsAsNew(t *testing.T) {
	t.Parallel()
	store := openFresh(t, storetest.Options{}).(inSchema)
	before := contents(t, store)
	session := openSession(t, store)
	put(t, store, newJob(t, store), newJob(t, store))
	for _, job := range claimNext(t, store, session, 2).Jobs {
		if _, err := store.Settle(t.Context(), session, []pawl.Settlement{{Reservation: job.Reservation, Outcome: pawl.Done{}}}); err != nil {
			t.Fatal(err)
		}
	}
	backdate(t, store, 30*time.Hour)
	reopen(t, store) // makes another day
	if used := contents(t, store); len(used) <= len(before) {
		t.Fatalf("nothing was done: %v", used)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	empty(t, store.config.Schema)
	if diff := cmp.Diff(before, contents(t, reopen(t, store).(inSchema))); diff != "" {
		t.Errorf("the emptied schema (-new +emptied):\n%s", diff)
	}
}

// contents are the sizes of the tables that have any, and how far the sequences are, by their names.
func contents(t testing.TB, s inSchema) map[string]int64 {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server(t))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	rows, err := conn.Query(t.Context(), `select relname, n from pg_class cross join lateral
  (select case relkind when 'S' then pg_sequence_last_value(oid) else pg_relation_size(oid) end as n offset 0) size
where relnamespace = $1::regnamespace and relkind in ('r', 'S')
  and (n > 0 or relname like 'done%')`, pgx.Identifier{s.config.Schema}.Sanitize())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int64{}
	var name string
	var n int64
	if _, err := pgx.ForEachRow(rows, []any{&name, &n}, func() error { found[name] = n; return nil }); err != nil {
		t.Fatal(err)
	}
	return found
}
