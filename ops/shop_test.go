package ops_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/ops"
	"github.com/pawljobs/pawl/postgres"
	"github.com/pawljobs/pawl/storetest"
)

// shop is a store with letters, as operations see it.
type shop struct {
	*testing.T
	storetest.Store
	desk    *ops.Desk
	session pawl.SessionID
}

func newShop(t *testing.T, store storetest.Store) shop {
	t.Helper()
	session, err := store.OpenSession(t.Context(), pawl.HostInfo{Name: "h", Kinds: []string{workKind}, Sinks: []string{"one"}})
	if err != nil {
		t.Fatal(err)
	}
	return shop{t, store, newDesk(t, store), session}
}

// onBoth runs a test on both stores.
func onBoth(t *testing.T, test func(s shop)) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		test(newShop(t, openFile(t)))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(newShop(t, openPostgres(t)))
	})
}

func openPostgres(t testing.TB) *postgres.Store {
	t.Helper()
	url := os.Getenv("PAWL_TEST_POSTGRES")
	if url == "" {
		t.Skip("PAWL_TEST_POSTGRES is not set: run the tests by scripts/with-services, which starts a server")
	}
	schema := "ops_" + strings.ToLower(rand.Text())
	store, err := postgres.Open(t.Context(), url, postgres.Config{Schema: schema})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), url)
		if err != nil {
			t.Error(err)
			return
		}
		_, err = conn.Exec(context.Background(), "drop schema "+pgx.Identifier{schema}.Sanitize()+" cascade")
		if err := errors.Join(err, conn.Close(context.Background()), store.Close()); err != nil {
			t.Error(err)
		}
	})
	return store
}

// dead records the letters of n jobs; change may alter each.
func (s shop) dead(n int, policy pawl.Policy, options []pawl.Option, change func(i int, l *pawl.DeadLetter)) []pawl.DeadLetter {
	s.Helper()
	all := make([]pawl.DeadLetter, n)
	for i := range all {
		all[i] = deadLetter(s.T, "default", policy, options...)
		if change != nil {
			change(i, &all[i])
		}
	}
	for part := range slices.Chunk(all, 1000) {
		if _, err := s.RecordDeaths(s.Context(), part); err != nil {
			s.Fatal(err)
		}
	}
	return all
}

func redriveOf(o pawl.OperationOptions) pawl.NewOperation {
	return pawl.NewOperation{Action: pawl.ActionRedrive, By: ann, Options: o}
}

func (s shop) start(o pawl.NewOperation) pawl.Operation {
	s.Helper()
	started, err := s.desk.StartOperation(s.Context(), o)
	if err != nil {
		s.Fatal(err)
	}
	return started
}

func (s shop) run(id pawl.ID) pawl.Operation {
	s.Helper()
	operation, err := s.desk.RunOperation(s.Context(), id, ops.RunOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return operation
}

func (s shop) operation(id pawl.ID) pawl.Operation {
	s.Helper()
	operation, err := s.Operation(s.Context(), id)
	if err != nil {
		s.Fatal(err)
	}
	return operation
}

func (s shop) items(id pawl.ID, filter pawl.ItemFilter) []pawl.OperationItem {
	s.Helper()
	page, err := s.OperationItems(s.Context(), id, filter, pawl.Page{Limit: 1000})
	if err != nil {
		s.Fatal(err)
	}
	return page.Items
}

// jobsOf are the jobs of all letters, and fails where a letter has two.
func (s shop) jobsOf() map[pawl.ID]pawl.ID {
	s.Helper()
	of := map[pawl.ID]pawl.ID{}
	for page := (pawl.Page{Limit: 1000}); ; {
		found, err := s.Jobs(s.Context(), pawl.JobFilter{}, page)
		if err != nil {
			s.Fatal(err)
		}
		for _, job := range found.Jobs {
			if other, twice := of[job.Letter]; twice {
				s.Fatalf("letter %s went on as %s and as %s", job.Letter, other, job.ID)
			}
			of[job.Letter] = job.ID
		}
		if page.After = found.Next; found.Next == "" {
			return of
		}
	}
}

func (s shop) want(what string, got, want any) {
	s.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		s.Errorf("%s: got %v, want %v", what, got, want)
	}
}
