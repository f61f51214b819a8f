package postgres_test

import (
	"os"
	"testing"
	"time"

	"github.com/pawljobs/pawl/storetest"
)

// bouncer is the URL of the same database through pgbouncer in transaction mode.
func bouncer(t testing.TB) string {
	t.Helper()
	server(t)
	url := os.Getenv("PAWL_TEST_PGBOUNCER")
	if url == "" {
		t.Skip("PAWL_TEST_PGBOUNCER is not set: run the tests by scripts/with-services, which starts a pgbouncer")
	}
	return url
}

// Behind pgbouncer in transaction mode all is as it is without it. That it is there is noticed, and one connection to it is
// enough.
func TestConformanceBehindPgbouncer(t *testing.T) {
	url, lent := bouncer(t), newSchemas(t)
	storetest.Run(t, storetest.Harness{
		Open: func(t testing.TB, o storetest.Options) storetest.Store {
			config := quiet(configOf(o, lent.lend(t))) // each store says that it has to poll
			config.Conns = 1
			return openIn(t, url, config)
		},
		Reopen: reopen,
		Backdate: func(t testing.TB, s storetest.Store, by time.Duration) {
			backdate(t, inSchema{s.(inSchema).Store, server(t), s.(inSchema).config}, by)
		},
		Begin: begin,
	})
}

// One connection, and one that listens, are enough without it. These groups do all that is done in another way then.
func TestConformanceOnOneConnection(t *testing.T) {
	server(t)
	h, lent := harness(t), newSchemas(t)
	h.Open = func(t testing.TB, o storetest.Options) storetest.Store {
		config := configOf(o, lent.lend(t))
		config.Conns = 1
		return openIn(t, server(t), config)
	}
	h.Only = []string{"Wake", "Jobs", "Groups", "Operations", "Operation work"}
	storetest.Run(t, h)
}
