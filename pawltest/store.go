package pawltest

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/sqlite"
)

// Open opens a fresh SQLite store in a folder of the test's own. It is closed, and the folder removed, when the test ends.
func Open(t testing.TB) *sqlite.Store {
	t.Helper()
	store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "jobs.db"), sqlite.Config{Logger: quiet()})
	if err != nil {
		t.Fatalf("pawltest: open store: %v", err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("pawltest: close store: %v", err)
		}
	})
	return store
}

// Job is a job that was enqueued, with its args as the kind's type.
type Job[T any] struct {
	pawl.JobView // as an operator sees it, for example its Queue, State and RunAt
	Args         T
	Options      pawl.Envelope // what else was said at the enqueue: Policy, Tags, CorrelationID, Unique, …
}

// source is what jobs are read from: the SQL stores and their transactions.
type source interface {
	LiveJobs(ctx context.Context, kind string) ([]pawl.JobView, error)
	LiveCallbacks(ctx context.Context, kind string) ([]pawl.JobView, error)
}

func sourceOf(t testing.TB, in pawl.Enqueuer) source {
	t.Helper()
	from, ok := in.(source)
	if !ok {
		t.Fatalf("pawltest: the jobs of a %T cannot be read; ask a store, or its Tx", in)
	}
	return from
}

// Enqueued returns the jobs of a kind that have not ended, in the order of their enqueue. in is a store, or a store's
// transaction: store.Tx(tx), also before its commit. The test fails at once where they cannot be read, or have args that
// are not the kind's.
func Enqueued[T any](t testing.TB, in pawl.Enqueuer, kind pawl.Kind[T]) []Job[T] {
	t.Helper()
	views, err := sourceOf(t, in).LiveJobs(t.Context(), kind.Name())
	return jobsOf[T](t, views, err)
}

// jobsOf reads jobs, unless err says that they could not be.
func jobsOf[T any](t testing.TB, views []pawl.JobView, err error) []Job[T] {
	t.Helper()
	if err != nil {
		t.Fatalf("pawltest: %v", err)
	}
	jobs := make([]Job[T], len(views))
	for i, view := range views {
		if jobs[i], err = read[T](view); err != nil {
			t.Fatalf("pawltest: job %s of kind %s: %v", view.ID, view.Kind, err)
		}
	}
	return jobs
}

// EnqueuedOnce is Enqueued where there has to be exactly one such job.
func EnqueuedOnce[T any](t testing.TB, in pawl.Enqueuer, kind pawl.Kind[T]) Job[T] {
	t.Helper()
	jobs := Enqueued(t, in, kind)
	if len(jobs) != 1 {
		text := ""
		for _, job := range jobs {
			text += "\n  " + job.ID.String() + " " + string(job.Options.Args)
		}
		t.Fatalf("pawltest: there are %d jobs of kind %s, want exactly one%s", len(jobs), kind.Name(), text)
	}
	return jobs[0]
}

func read[T any](view pawl.JobView) (job Job[T], err error) {
	job.JobView = view
	if job.Options, err = pawl.DecodeEnvelope(view.Envelope); err != nil {
		return job, err
	}
	if err := json.Unmarshal(job.Options.Args, &job.Args); err != nil {
		return job, fmt.Errorf("read args %s: %w", job.Options.Args, err)
	}
	return job, nil
}
