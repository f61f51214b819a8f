package outbox_test

import (
	"path/filepath"
	"testing"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/postgres"
	"github.com/pawljobs/pawl/sqlite"
)

// store is a place for jobs and letters.
type store interface {
	pawl.Store
	pawl.Operator
}

func fileStore(t testing.TB) store {
	t.Helper()
	return storeInFile(t, filepath.Join(t.TempDir(), "jobs.db"))
}

func storeInFile(t testing.TB, path string) store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func serverStore(t testing.TB) store {
	t.Helper()
	s, err := postgres.Open(t.Context(), server(t), postgres.Config{Schema: freshSchema(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// jobsOf lists what waits in a store, in the order in which it would be claimed.
func jobsOf(t testing.TB, s pawl.Store) (ids []pawl.ID) {
	t.Helper()
	for _, job := range claimAll(t, s) {
		ids = append(ids, job.ID)
	}
	return ids
}

// claimAll takes whatever is ready, and finishes it.
func claimAll(t testing.TB, s pawl.Store) (jobs []pawl.ClaimedJob) {
	t.Helper()
	session, err := s.OpenSession(t.Context(), pawl.HostInfo{Name: "test", Kinds: []string{work.Name()}})
	if err != nil {
		t.Fatal(err)
	}
	for {
		claimed, err := s.Claim(t.Context(), pawl.ClaimRequest{Session: session, Queues: []string{"2-default"}, Kinds: []string{work.Name()}, Max: 500})
		if err != nil {
			t.Fatal(err)
		}
		if len(claimed.Jobs) == 0 && !claimed.More {
			return jobs
		}
		jobs = append(jobs, claimed.Jobs...)
		settlements := make([]pawl.Settlement, len(claimed.Jobs))
		for i, job := range claimed.Jobs {
			settlements[i] = pawl.Settlement{Reservation: job.Reservation, Outcome: pawl.Done{}}
		}
		if _, err := s.Settle(t.Context(), session, settlements); err != nil {
			t.Fatal(err)
		}
	}
}
