package sqlite_test

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/pawljobs/pawl"
)

// A file that was taken away from under the store keeps no job that anybody would find, so none is accepted, until it is
// there again.
func TestFileIsTakenAway(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("an open file cannot be taken away there")
	}
	for name, take := range map[string]func(path string) error{
		"removed": func(path string) error { return os.Rename(path, path+".away") },
		"replaced": func(path string) error {
			return errors.Join(os.Rename(path, path+".away"), os.WriteFile(path, nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, db, log := damageable(t)
			path := storePath(t, db)
			enqueue(t, store, damagedKind)
			if err := take(path); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				_, err := pawl.NewKind[int](damagedKind, pawl.Policy{}).Enqueue(t.Context(), store, 1)
				if err == nil || !strings.Contains(err.Error(), "removed or replaced") || errors.Is(err, pawl.ErrClosed) {
					t.Errorf("enqueue: %v", err)
				}
			}
			if n := log.count("removed or replaced"); n != 1 {
				t.Errorf("%d warnings", n)
			}
			if err := os.Rename(path+".away", path); err != nil {
				t.Fatal(err)
			}
			enqueue(t, store, damagedKind)
			if n := count(t, db, `select count(*) from pawl_job`); n != 2 {
				t.Errorf("%d jobs, want 2", n)
			}
		})
	}
}

// A write that has ended its transaction by itself, as that on a full disk does, leaves nothing to roll back or to log.
func TestTransactionThatEndedItself(t *testing.T) {
	t.Parallel()
	store, db, log := damageable(t)
	if _, err := db.ExecContext(t.Context(), `create trigger full before insert on pawl_job begin select raise(rollback, 'full'); end`); err != nil {
		t.Fatal(err)
	}
	if _, err := pawl.NewKind[int](damagedKind, pawl.Policy{}).Enqueue(t.Context(), store, 1); err == nil {
		t.Error("enqueued")
	}
	if _, err := db.ExecContext(t.Context(), `drop trigger full`); err != nil {
		t.Fatal(err)
	}
	enqueue(t, store, damagedKind)
	if n := log.count("roll back"); n != 0 {
		t.Errorf("%d warnings", n)
	}
}
