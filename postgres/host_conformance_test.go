package postgres_test

import (
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/pawljobs/pawl/postgres"
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

// Behind pgbouncer in transaction mode all is as it is without it. That it is there is noticed.
func TestConformanceBehindPgbouncer(t *testing.T) {
	url := bouncer(t)
	storetest.Run(t, storetest.Harness{
		Open: func(t testing.TB, o storetest.Options) storetest.Store {
			config := configOf(t, o)
			config.Logger = slog.New(slog.DiscardHandler) // each store says that it has to poll
			return openIn(t, url, config)
		},
		Reopen: reopen,
		Backdate: func(t testing.TB, s storetest.Store, by time.Duration) {
			backdate(t, inSchema{s.(inSchema).Store, server(t), s.(inSchema).config}, by)
		},
		Begin: begin,
	})
}

// One connection is enough.
func TestConformanceOnOneConnection(t *testing.T) {
	server(t)
	h := harness()
	h.Open = func(t testing.TB, o storetest.Options) storetest.Store {
		config := configOf(t, o)
		config.Conns = 1
		return openIn(t, server(t), config)
	}
	storetest.Run(t, h)
}

func configOf(t testing.TB, o storetest.Options) postgres.Config {
	t.Helper()
	config := postgres.Config{Connection: o.Connection, Policy: o.Policy, Retention: o.Retention, Schema: freshSchema(t)}
	if o.NoHistory {
		config.History = -1
	}
	return config
}
