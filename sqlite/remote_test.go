package sqlite_test

import (
	"testing"
	"time"

	"github.com/pawljobs/pawl/internal/desktest"
	"github.com/pawljobs/pawl/internal/remotetest"
	"github.com/pawljobs/pawl/storetest"
)

// The promises of a store hold over the network too.
func TestRemoteConformance(t *testing.T) {
	local := harness()
	of := func(s storetest.Store) storetest.Store { return s.(remotetest.Store).Local.(onFile) }
	remote := func(t testing.TB, s storetest.Store) storetest.Store { return remotetest.New(t, s.(onFile)) }
	storetest.Run(t, storetest.Harness{
		Open:     func(t testing.TB, o storetest.Options) storetest.Store { return remote(t, local.Open(t, o)) },
		Reopen:   func(t testing.TB, s storetest.Store) storetest.Store { return remote(t, local.Reopen(t, of(s))) },
		Backdate: func(t testing.TB, s storetest.Store, by time.Duration) { local.Backdate(t, of(s), by) },
		Begin:    func(t testing.TB, s storetest.Store) storetest.Tx { return local.Begin(t, of(s)) },
	})
}

func TestRemoteDesk(t *testing.T) {
	desktest.Run(t, func(t testing.TB) desktest.Desk {
		d := openDesk(t)
		d.Store = remotetest.New(t, d.Store.(remotetest.Local))
		d.Many = 2500 // three pages; how the store itself bears more is TestDesk's to say
		return d
	})
}
