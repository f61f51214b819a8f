package pawl_test

import (
	"errors"
	"testing"

	"github.com/pawljobs/pawl"
)

// A batch is one call: the job that follows, and its members, which know it.
func TestEnqueueAfter(t *testing.T) {
	t.Parallel()
	to := &memory{}
	kind := pawl.NewKind[mailArgs]("mail.send.v1", pawl.Policy{})
	members, err := kind.NewMany(t.Context(), to.Connection(), make([]mailArgs, 2))
	if err != nil {
		t.Fatal(err)
	}
	batch, err := kind.EnqueueAfter(t.Context(), to, members, mailArgs{})
	if err != nil {
		t.Fatal(err)
	}
	if members[0].Batch != (pawl.ID{}) {
		t.Error("the caller's job was changed")
	}
	jobs := to.jobs
	if len(jobs) != 3 || !jobs[0].Opens || jobs[0].ID != batch.ID || jobs[0].Member() != (pawl.ID{}) {
		t.Fatalf("jobs %+v", jobs)
	}
	for _, job := range jobs[1:] {
		e, err := pawl.DecodeEnvelope(job.Envelope)
		if err != nil || e.Batch != batch.ID || job.Member() != batch.ID {
			t.Errorf("member %+v, error %v", e, err)
		}
		if job.Letter = pawl.NewID(); job.Member() != (pawl.ID{}) {
			t.Error("what comes from a letter is a member")
		}
	}
	for name, err := range map[string]error{
		"no enqueuer":   enqueueAfter(t, kind, nil),
		"damaged":       enqueueAfter(t, kind, to, pawl.NewJob{}),
		"another batch": enqueueAfter(t, kind, to, jobs[1]),
		"a callback":    enqueueAfter(t, kind, to, jobs[0]),
		"zero":          func() error { _, err := kind.Enqueue(t.Context(), to, mailArgs{}, pawl.InBatch(pawl.ID{})); return err }(),
	} {
		if err == nil || len(to.jobs) != 3 {
			t.Errorf("%s: error %v, %d jobs", name, err, len(to.jobs))
		}
	}
	if !errors.Is(pawl.BatchEnded(batch.ID, batch.ID), pawl.ErrBatchEnded) {
		t.Error("the refusal is not ErrBatchEnded")
	}
}

func enqueueAfter(t *testing.T, kind pawl.Kind[mailArgs], to pawl.Enqueuer, members ...pawl.NewJob) error {
	t.Helper()
	_, err := kind.EnqueueAfter(t.Context(), to, members, mailArgs{})
	return err
}
