package pawltest

import (
	"testing"

	"github.com/pawljobs/pawl"
)

// EnqueuedAfter returns the jobs of a kind that follow batches which are open, in the order in which these were opened. Their
// ids are those of the batches; they are in no State yet. in is a store, or a store's transaction, as with Enqueued.
func EnqueuedAfter[T any](t testing.TB, in pawl.Enqueuer, kind pawl.Kind[T]) []Job[T] {
	t.Helper()
	views, err := sourceOf(t, in).LiveCallbacks(t.Context(), kind.Name())
	return jobsOf[T](t, views, err)
}

// EnqueuedIn returns the jobs of a kind that are members of a batch and have not ended, in the order of their enqueue. in is a
// store, or a store's transaction, as with Enqueued.
func EnqueuedIn[T any](t testing.TB, in pawl.Enqueuer, batch pawl.ID, kind pawl.Kind[T]) (members []Job[T]) {
	t.Helper()
	for _, job := range Enqueued(t, in, kind) {
		if job.Options.Batch == batch {
			members = append(members, job)
		}
	}
	return members
}

// RunAfter is Run of a job that follows a batch whose members have ended so: its handler finds that in Job.After. With a zero
// end.Batch the batch is one that never was.
func RunAfter[T any](t testing.TB, store Store, mux *pawl.Mux, kind pawl.Kind[T], args T, end pawl.BatchEnd, options ...pawl.Option) pawl.JobView {
	t.Helper()
	job, err := kind.New(t.Context(), store.Connection(), args, options...)
	if err != nil {
		t.Fatalf("pawltest: enqueue: %v", err)
	}
	envelope, err := pawl.DecodeEnvelope(job.Envelope)
	if err != nil {
		t.Fatalf("pawltest: enqueue: %v", err)
	}
	if end.Batch.IsZero() {
		end.Batch = job.ID
	}
	envelope.After = end
	job.Envelope = envelope.Encode()
	return run(t, store, mux, job)
}
