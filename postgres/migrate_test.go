package postgres_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/postgres"
)

// Tables of any earlier version are brought up to date with what is in them, unless they must not be, and work then.
func TestTablesOfEarlierVersions(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("migrations/*.sql")
	if err != nil || len(names) < 2 {
		t.Fatalf("migrations %v, error %v", names, err)
	}
	slices.Sort(names)
	for version := 1; version < len(names); version++ {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			t.Parallel()
			config := postgres.Config{Schema: freshSchema(t), NoMigrate: true}
			oldTables(t, config.Schema, names[:version])
			if _, err := postgres.Open(t.Context(), server(t), config); !errors.Is(err, pawl.ErrSchema) {
				t.Errorf("without a migration: %v", err)
			}
			said := &lines{}
			config.NoMigrate, config.Logger = false, slog.New(said)
			store := openIn(t, server(t), config)
			opened, want := strings.Join(said.at(slog.LevelInfo), "\n"), fmt.Sprintf("schema=%s tables=%d from=%d", config.Schema, len(names), version)
			if !strings.Contains(opened, " store brought up to date host=") || !strings.Contains(opened, want) {
				t.Errorf("said %q, not %q", opened, want)
			}
			hosts, err := store.Hosts(t.Context())
			if err != nil || len(hosts) != 1 || hosts[0].Name != "old-host" || hosts[0].Quiet {
				t.Fatalf("hosts %+v, error %v", hosts, err)
			}
			err = errors.Join(store.QuietHost(t.Context(), hosts[0].Session, pawl.By{Who: "ada"}), store.DrainHost(t.Context(), hosts[0].Session, pawl.By{Who: "ada"}))
			if err != nil {
				t.Fatal(err)
			}
			reply, err := store.Beat(t.Context(), hosts[0].Session, pawl.Beat{})
			if err != nil || !reply.Quiet || !reply.Drain {
				t.Errorf("beat of the old host: %+v, error %v", reply, err)
			}
			put(t, store, newJob(t, store))
			letter, err := store.Letter(t.Context(), pawl.ID{15: 7})
			if err != nil || version < 8 && letter.StatusAt.UnixMilli() != 200 || letter.Status != pawl.StatusResolved {
				t.Errorf("the old letter: %+v, error %v", letter, err)
			}
		})
	}
}

// oldTables makes tables as an earlier release left them, with a host at work.
func oldTables(t *testing.T, schema string, migrations []string) {
	t.Helper()
	quoted := pgx.Identifier{schema}.Sanitize()
	replace := strings.NewReplacer("{s}", quoted, "{l}", strings.ReplaceAll(quoted, "'", "''"))
	run := func(text string) { t.Helper(); execute(t, server(t), replace.Replace(text)) }
	run(`create schema {s}`)
	run(`create table {s}.schema_version (version int primary key, applied_at timestamptz not null default now())`)
	for i, name := range migrations {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		run("do $migration$ begin " + string(text) + " end $migration$")
		run(fmt.Sprintf(`insert into {s}.schema_version (version) values (%d)`, i+1))
	}
	// It died at 100 and was resolved at 200; since version 8 that is in its own row.
	run(`insert into {s}.letter (id, dead_at, status, class, reason, fingerprint, kind, queue, connection, correlation_id, tags, exception_type,
		attempts, source_message, host, server, version, message)
	values ('00000000-0000-0000-0000-000000000007', to_timestamp(0.1), 2, 0, '', '', '', '', '', '', '{}', '', 0, '', '', '', '', '')`)
	run(`insert into {s}.evidence (letter, detail, history) values ('00000000-0000-0000-0000-000000000007', '', '[]')`)
	run(`insert into {s}.audit (at, who, door, action, subject, "from", "to", why, outcome) values
		(to_timestamp(0.2), 'ada', '', 'resolve', '00000000-0000-0000-0000-000000000007', 'dead', 'resolved', '', ''),
		(to_timestamp(0.3), 'ada', '', 'note', '00000000-0000-0000-0000-000000000007', 'resolved', 'resolved', '', '')`)
	run(`insert into {s}.session (name, info, kinds) values ('old-host', '{"Name": "old-host"}', '{}')`)
}
