package sqlite

import (
	"database/sql"
	"encoding/json"
	"errors"
	"path/filepath"
	"testing"

	"github.com/pawljobs/pawl"
)

// Tables that the printed text has made are those that Open wants.
func TestMigrationSQL(t *testing.T) {
	t.Parallel()
	text, err := MigrationSQL(0)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "jobs.db")
	db, err := sql.Open("sqlite", path)
	if err == nil {
		_, err = db.ExecContext(t.Context(), text)
	}
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	store, err := Open(t.Context(), path, Config{NoMigrate: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = pawl.NewKind[json.RawMessage]("a.v1", pawl.Policy{}).Enqueue(t.Context(), store, json.RawMessage(`{}`))
	if err = errors.Join(err, store.Close()); err != nil {
		t.Error(err)
	}
	for _, from := range []int{-1, 999} {
		if _, err := MigrationSQL(from); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("from version %d on: %v", from, err)
		}
	}
}
