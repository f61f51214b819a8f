//go:build unix

package app

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/outbox"
)

var relayed = pawl.NewKind[struct{ N int }]("relay.test.v1", pawl.Policy{})

// shop is a business that writes messages, beside a serve that carries them to a store.
type shop struct {
	*testing.T
	db     *sql.DB
	box    *outbox.Box
	past   string // a time that is over, for db
	store  *sql.DB
	jobs   string // counts them in the store
	config string // file
}

// A serve carries messages from a business database to its store, is killed again and again, and each message is one job.
func TestServeCarriesMessages(t *testing.T) {
	t.Parallel()
	t.Run("from a server", func(t *testing.T) {
		t.Parallel()
		path, url := filepath.Join(t.TempDir(), "jobs.db"), database(t)
		s := &shop{T: t, past: "now() - interval '1 hour'", jobs: `select count(*) from pawl_job`}
		s.configure("sqlite:"+path, url)
		s.db, s.store = s.database("pgx", url), s.database("sqlite", "file:"+path+"?mode=rw")
		box, err := outbox.OpenPostgres(t.Context(), s.db, outbox.Config{})
		s.check(err)
		s.box = box
		s.killAgainAndAgain()
	})
	t.Run("from a file", func(t *testing.T) {
		t.Parallel()
		path, url := filepath.Join(t.TempDir(), "shop.db"), database(t)
		s := &shop{T: t, past: "0", jobs: `select count(*) from pawl.job`}
		s.configure(url, "sqlite:"+path)
		s.db, s.store = s.database("sqlite", sourceOf(path)), s.database("pgx", url)
		box, err := outbox.OpenSQLite(t.Context(), s.db, outbox.Config{})
		s.check(err)
		s.box = box
		s.killAgainAndAgain()
	})
}

func (s *shop) check(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *shop) database(driver, source string) *sql.DB {
	s.Helper()
	db, err := sql.Open(driver, source)
	s.check(err)
	s.Cleanup(func() { _ = db.Close() })
	return db
}

func (s *shop) configure(store, business string) {
	s.config = filepath.Join(s.TempDir(), "pawl.yaml")
	text := fmt.Sprintf("connections:\n  default: {url: '%s'}\n  shop: {url: '%s'}\noutboxes:\n  shop: {poll: 50ms}\n", store, business)
	s.check(os.WriteFile(s.config, []byte(text), 0o600))
}

const (
	relayKills = 4
	relayEach  = 1500 // messages between two kills
)

func (s *shop) killAgainAndAgain() {
	for kill := range relayKills {
		s.write(relayEach)
		p := serveBy(s.T, "", nil, "--config", s.config)
		before := kill * relayEach / 2
		s.until("some are carried", func() bool { return s.stored() > before })
		if kill%2 == 1 { // in the middle of what it does then
			s.write(relayEach / 10)
		}
		p.signal(syscall.SIGKILL)
		<-p.ended
		_, err := s.db.ExecContext(s.Context(), `update pawl_outbox_lease set locked_until = `+s.past) // a minute later
		s.check(err)
	}
	p := serveBy(s.T, "", nil, "--config", s.config)
	s.until("the outbox is empty", func() bool {
		stats, err := s.box.Stats(s.Context())
		s.check(err)
		return stats.Pending == 0
	})
	all := relayKills*relayEach + relayKills/2*(relayEach/10)
	if n := s.stored(); n != all {
		s.Errorf("%d jobs, want %d", n, all)
	}
	s.until("the metrics say so", func() bool {
		page := p.get("/metrics")
		return strings.Contains(page, `pawl_outbox_waiting{outbox="shop"} 0`) && strings.Contains(page, `pawl_outbox_relayed_total{outbox="shop"}`) &&
			strings.Contains(page, `pawl_outbox_oldest_seconds{outbox="shop"} 0`) && strings.Contains(page, `pawl_outbox_poison_total{outbox="shop"} 0`)
	})
	p.signal(syscall.SIGTERM)
	p.ends("0", patience)
}

func (s *shop) until(what string, is func() bool) {
	s.Helper()
	for deadline := time.Now().Add(patience); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("it never came to this: %s", what)
		}
	}
}

func (s *shop) write(n int) {
	s.Helper()
	for start := 0; start < n; start += 50 {
		tx, err := s.db.BeginTx(s.Context(), nil)
		s.check(err)
		for i := range min(50, n-start) {
			_, err := relayed.Enqueue(s.Context(), s.box.Tx(tx), struct{ N int }{start + i})
			s.check(err)
		}
		s.check(tx.Commit())
	}
}

// stored counts the jobs in the store, which nobody runs.
func (s *shop) stored() (n int) {
	if s.store.QueryRowContext(s.Context(), s.jobs).Scan(&n) != nil {
		return 0 // the serve has not made it yet
	}
	return n
}
