package pawl_test

import (
	"context"
	"errors"
	"fmt"
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

func ExampleKind_EnqueueAfter() {
	type Photo struct{ ID int }
	type Album struct{ ID int }
	resize := pawl.NewKind[Photo]("photo.resize.v1", pawl.Policy{})
	ready := pawl.NewKind[Album]("album.ready.v1", pawl.Policy{})
	_ = func(ctx context.Context, to pawl.Enqueuer) error {
		photos, err := resize.NewMany(ctx, to.Connection(), []Photo{{1}, {2}, {3}})
		if err != nil {
			return err
		}
		_, err = ready.EnqueueAfter(ctx, to, photos, Album{7})
		return err
	}
	mux := pawl.NewMux()
	pawl.Handle(mux, resize, func(ctx context.Context, p Photo) error { // it may add members to its own batch
		_ = pawl.InBatch(pawl.FromContext(ctx).Batch)
		return nil
	})
	pawl.Handle(mux, ready, func(ctx context.Context, a Album) error {
		after := pawl.FromContext(ctx).After
		fmt.Printf("album %d: %d photos, %d failed\n", a.ID, after.Done, after.Dead)
		return nil
	})
}
