package postgres_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/postgres"
)

// Without the rows that are the locks of unique keys nothing is stored that could be a duplicate, whatever the way it comes, and
// the error says what to do. When that is done, all is well.
func TestLocksOfKeysAreMissing(t *testing.T) {
	t.Parallel()
	store := openIn(t, server(t), postgres.Config{Schema: freshSchema(t)})
	execute(t, server(t), fmt.Sprintf(`delete from %s where slot %% 2 = 0 or slot < 1000`, table(store.config.Schema, "key_lock")))
	var many []pawl.NewJob
	for n := range 100 {
		many = append(many, newJob(t, store, pawl.UniqueWhileUnfinished(fmt.Sprint("key ", n))))
	}
	held := newJob(t, store, pawl.UniqueFor("key 7", time.Hour))
	conn, err := pgx.Connect(t.Context(), server(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	cure := ""
	for name, enqueue := range map[string]func() error{
		"bulk":        func() error { _, err := store.Enqueue(t.Context(), many); return err },
		"transaction": func() error { return inTransaction(t, conn, store, many, true) },
		"one of many": func() (err error) {
			for _, job := range many {
				if _, e := store.Enqueue(t.Context(), []pawl.NewJob{job}); e != nil {
					err = e
				}
			}
			return err
		},
	} {
		err := enqueue()
		if err == nil || !strings.Contains(err.Error(), "rows are missing in ") {
			t.Errorf("%s: %v", name, err)
			continue
		}
		_, cure, _ = strings.Cut(err.Error(), "fill it again: ")
	}
	if n := len(jobsOf(t, store)); n >= len(many) {
		t.Errorf("%d jobs were stored", n)
	}
	execute(t, server(t), `delete from `+table(store.config.Schema, "job"))
	for _, statement := range strings.Split(cure, "; ") {
		execute(t, server(t), statement)
	}
	for i, result := range put(t, store, append(many, held)...) {
		if want := i < len(many); (result.Status == pawl.Accepted) != want {
			t.Errorf("%d: %+v", i, result)
		}
	}
}

// jobsOf are the ids of the jobs in a store.
func jobsOf(t *testing.T, store inSchema) []string {
	t.Helper()
	return tables{store.url, store.config.Schema}.texts(t, `select id::text from `+table(store.config.Schema, "job"))
}

// Calls of one job each that go together are nothing to each other: neither a duplicate, nor a repeat, nor an id that belongs to
// another job does anything to those beside it.
func TestUniqueCallsGoTogether(t *testing.T) {
	t.Parallel()
	store := openIn(t, server(t), postgres.Config{Schema: freshSchema(t)})
	const callers = 24
	for round := range 12 {
		key := func(n int) pawl.Option { return pawl.UniqueWhileUnfinished(fmt.Sprint("key ", round, " ", n)) }
		first := newJob(t, store, key(0))
		put(t, store, first)
		other, err := pawl.NewKind[json.RawMessage](testKind, pawl.Policy{}).
			New(t.Context(), store.Connection(), json.RawMessage(`{"n":2}`), key(1), pawl.WithID(first.ID))
		if err != nil {
			t.Fatal(err)
		}
		jobs := []pawl.NewJob{first, other, newJob(t, store, key(0))}
		for n := len(jobs); n < callers; n++ {
			jobs = append(jobs, newJob(t, store, key(n)))
		}
		var group sync.WaitGroup
		for i, job := range jobs {
			group.Go(func() {
				results, err := store.Enqueue(t.Context(), []pawl.NewJob{job})
				var want pawl.Enqueued
				switch i {
				case 0:
					want = pawl.Enqueued{ID: first.ID, Status: pawl.Repeated}
				case 1:
					if !errors.Is(err, pawl.ErrConflict) {
						t.Errorf("round %d: another job under an id that was accepted: %v, %v", round, results, err)
					}
					return
				case 2:
					want = pawl.Enqueued{ID: first.ID, Status: pawl.Duplicate}
				default:
					want = pawl.Enqueued{ID: job.ID}
				}
				if err != nil || results[0] != want {
					t.Errorf("round %d, %d: %+v, %v, wanted %+v", round, i, results, err, want)
				}
			})
		}
		group.Wait()
	}
}
