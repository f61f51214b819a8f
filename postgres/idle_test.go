package postgres_test

import (
	"testing"
	"time"

	"github.com/pawljobs/pawl/postgres"
)

// A transaction whose client has vanished keeps its locks for less than it takes to find a host dead, or the jobs that
// it has touched could not run again in time.
func TestVanishedClientsLocks(t *testing.T) {
	t.Parallel()
	for want, config := range map[string]postgres.Config{
		"5s": {}, "1s": {LockTimeout: 50 * time.Millisecond}, "8s": {LockTimeout: 8 * time.Second},
	} {
		config.Schema = freshSchema(t)
		store := openIn(t, server(t), config)
		got, err := store.Setting(t.Context(), "idle_in_transaction_session_timeout")
		if err != nil || got != want {
			t.Errorf("with a lock timeout of %s: %q, %v; want %q", config.LockTimeout, got, err, want)
		}
	}
}
