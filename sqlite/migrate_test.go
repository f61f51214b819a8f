package sqlite_test

import (
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/sqlite"
)

// A file of any earlier version is brought up to date with what is in it, unless it must not be, and works then.
func TestFilesOfEarlierVersions(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("migrations/*.sql")
	if err != nil || len(names) < 2 {
		t.Fatalf("migrations %v, error %v", names, err)
	}
	slices.Sort(names)
	for version := 1; version < len(names); version++ {
		t.Run(fmt.Sprint(version), func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "jobs.db")
			oldFile(t, path, names[:version])
			if _, err := sqlite.Open(t.Context(), path, sqlite.Config{NoMigrate: true}); !errors.Is(err, pawl.ErrSchema) {
				t.Errorf("without a migration: %v", err)
			}
			said := &journal{}
			store, err := sqlite.Open(t.Context(), path, sqlite.Config{Logger: said.logger()})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			if want := fmt.Sprintf(`msg="store brought up to date" path=%s tables=%d from=%d`, path, len(names), version); said.count(want) != 1 {
				t.Errorf("it does not say %s", want)
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
			if _, err := processKind.Enqueue(t.Context(), store, 1); err != nil {
				t.Error(err)
			}
			letter, err := store.Letter(t.Context(), oldLetter)
			if err != nil || letter.StatusAt.UnixMilli() != map[bool]int64{true: 200, false: 100}[version < 7] || letter.Status != pawl.StatusResolved {
				t.Errorf("the old letter: %+v, error %v", letter, err)
			}
			for name, filter := range map[string]pawl.LetterFilter{
				"class": {Class: []pawl.DeathClass{pawl.DeathExhausted}}, "age": {StatusBefore: time.UnixMilli(201)}, "text": {Text: "OLD", Status: []pawl.Status{pawl.StatusResolved}},
			} {
				if n, err := store.CountLetters(t.Context(), filter); err != nil || n != 1 {
					t.Errorf("%d letters by %s, error %v", n, name, err)
				}
			}
		})
	}
}

// oldLetter died at 100 and was resolved at 200; since version 7 that is in its own row.
var oldLetter = pawl.ID{15: 7}

// oldFile makes a file as an earlier release left it, with a host at work.
func oldFile(t *testing.T, path string, migrations []string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for i, name := range migrations {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.ExecContext(t.Context(), string(text)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := db.ExecContext(t.Context(), `insert into pawl_schema (version, applied_at) values (?, 0)`, i+1); err != nil {
			t.Fatal(err)
		}
	}
	for _, statement := range []string{
		`insert into pawl_letter (id, dead_at, status, class, reason, fingerprint, kind, queue, connection, correlation_id, tags, exception_type,
			attempts, source_message, host, server, version, message)
		values (x'00000000000000000000000000000007', 100, 2, 0, '', '', '', '', '', '', '[]', '', 0, '', '', '', '', 'old')`,
		`insert into pawl_evidence (letter, detail, history) values (x'00000000000000000000000000000007', '', '[]')`,
		`insert into pawl_audit (at, who, door, action, subject, "from", "to", why, outcome) values
		(200, 'ada', '', 'resolve', '00000000-0000-0000-0000-000000000007', 'dead', 'resolved', '', ''),
		(300, 'ada', '', 'note', '00000000-0000-0000-0000-000000000007', 'resolved', 'resolved', '', '')`,
	} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := db.ExecContext(t.Context(), `insert into pawl_session (id, name, info, opened_at, beat_at) values (1, 'old-host', '{"Name": "old-host"}', 1, 1)`); err != nil {
		t.Fatal(err)
	}
}
