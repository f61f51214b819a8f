package sqlite_test

import (
	"bytes"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/sqlite"
)

// Any path is the path of one file, also one that looks like a data source with settings.
func TestOddPaths(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a b.db", "what?.db", "x.db?mode=memory", "50%.db", "a%20b.db", "a#b.db", "ünï.db", "file:x.db", "'quoted'.db"} {
		path := filepath.Join(t.TempDir(), name)
		store, err := sqlite.Open(t.Context(), path, sqlite.Config{})
		if err != nil {
			t.Errorf("open %q: %v", name, err)
			continue
		}
		enqueue(t, store, "odd.v1")
		if err := store.Close(); err != nil {
			t.Errorf("close %q: %v", name, err)
		}
		if info, err := os.Stat(path); err != nil || info.Size() == 0 {
			t.Errorf("%q: the jobs are not in the file: %v", name, err)
		}
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	text := filepath.Join(folder, "notes.txt")
	if err := os.WriteFile(text, []byte(strings.Repeat("these are notes\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path   string
		config sqlite.Config
		says   string
		is     error
	}{
		{path: "", says: "must name a file", is: pawl.ErrInvalid},
		{path: ":memory:", says: "must name a file", is: pawl.ErrInvalid},
		{path: text, says: "not an SQLite file"},
		{path: filepath.Join(folder, "missing", "jobs.db"), says: "the folder is missing or may not be written"},
		{path: folder, says: "the folder is missing or may not be written"},
		{path: filepath.Join(folder, "new.db"), config: sqlite.Config{NoMigrate: true}, says: "pawl migrate up", is: pawl.ErrSchema},
		{path: filepath.Join(folder, "other.db"), config: sqlite.Config{Driver: "nosuch"}, says: `unknown driver "nosuch"`},
	} {
		store, err := sqlite.Open(t.Context(), c.path, c.config)
		if err == nil {
			t.Errorf("%q was opened: %v", c.path, store.Close())
			continue
		}
		if !strings.Contains(err.Error(), c.says) || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("open %q: %v, want %q", c.path, err, c.says)
		}
	}
}

func TestNewerSchemaIsRefused(t *testing.T) {
	t.Parallel()
	_, db := service(t, sqlite.Config{})
	if _, err := db.ExecContext(t.Context(), `insert into pawl_schema (version, applied_at) values (99, 0)`); err != nil {
		t.Fatal(err)
	}
	for _, config := range []sqlite.Config{{}, {NoMigrate: true}} {
		if again, err := sqlite.Open(t.Context(), storePath(t, db), config); !errors.Is(err, pawl.ErrSchema) {
			t.Errorf("error is %v, want ErrSchema", err)
			if err == nil {
				_ = again.Close()
			}
		}
	}
}

// A store that is refused leaves the file as it is: a slip of an operator's must not change another program's database,
// nor make one.
func TestRefusedFileIsNotChanged(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "other.db")
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = db.ExecContext(t.Context(), `create table users (name text)`)
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, refused := range []string{path, filepath.Join(folder, "missing.db")} {
		if store, err := sqlite.Open(t.Context(), refused, sqlite.Config{NoMigrate: true}); !errors.Is(err, pawl.ErrSchema) {
			t.Errorf("open %s: %v, want ErrSchema", refused, err)
			if err == nil {
				_ = store.Close()
			}
		}
	}
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the refused file has changed: %v", err)
	}
	if files, err := os.ReadDir(folder); err != nil || len(files) != 1 {
		t.Errorf("files are now %v, %v", files, err)
	}
}
