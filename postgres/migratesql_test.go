package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/postgres"
)

// Tables that the printed text has made, whole or from an earlier version on, are those that Open wants.
func TestMigrationSQL(t *testing.T) {
	t.Parallel()
	for _, from := range []int{0, 1, 5} {
		config := postgres.Config{Schema: freshSchema(t)}
		whole, err := postgres.MigrationSQL(config.Schema, 0)
		if err != nil {
			t.Fatal(err)
		}
		if from > 0 {
			rest, err := postgres.MigrationSQL(config.Schema, from)
			if err != nil {
				t.Fatal(err)
			}
			mark := rest[strings.Index(rest, "\n-- to version"):]
			before, _, found := strings.Cut(whole, mark)
			if !found {
				t.Fatalf("from version %d on it is not the end of the whole", from)
			}
			execute(t, server(t), before+"commit;")
			if _, err := postgres.Open(t.Context(), server(t), postgres.Config{Schema: config.Schema, NoMigrate: true}); !errors.Is(err, pawl.ErrSchema) {
				t.Errorf("at version %d: %v, want ErrSchema", from, err)
			}
			whole = rest
		}
		execute(t, server(t), whole)
		config.NoMigrate = true
		store := openIn(t, server(t), config)
		put(t, store, newJob(t, store))
		if jobs := claimAll(t, store, openSession(t, store)); len(jobs) != 1 {
			t.Errorf("from version %d on: claimed %d jobs, want 1", from, len(jobs))
		}
	}
	for _, from := range []int{-1, 999} {
		if _, err := postgres.MigrationSQL("", from); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("from version %d on: %v", from, err)
		}
	}
	if _, err := postgres.MigrationSQL("a\x00b", 0); !errors.Is(err, pawl.ErrInvalid) {
		t.Errorf("a schema with NUL: %v", err)
	}
}
