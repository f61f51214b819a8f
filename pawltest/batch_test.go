package pawltest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/pawltest"
)

var digest = pawl.NewKind[mailArgs]("test.digest.v1", pawl.Policy{Queue: "1-critical"})

// openBatch is what is tested.
func openBatch(t *testing.T, to pawl.Enqueuer, users ...int64) pawl.ID {
	t.Helper()
	args := make([]mailArgs, len(users))
	for i, user := range users {
		args[i].UserID = user
	}
	members, err := mail.NewMany(t.Context(), to.Connection(), args)
	if err != nil {
		t.Fatal(err)
	}
	opened, err := digest.EnqueueAfter(t.Context(), to, members, mailArgs{int64(len(users))}, pawl.Tags("eu"))
	if err != nil {
		t.Fatal(err)
	}
	return opened.ID
}

// batchMux has mail fail for odd users, and notes what what follows is told.
func batchMux(ends *[]pawl.BatchEnd) *pawl.Mux {
	mux := pawl.NewMux()
	pawl.Handle(mux, mail, func(_ context.Context, args mailArgs) error {
		if args.UserID%2 == 1 {
			return pawl.Permanent(errors.New("no such user"))
		}
		return nil
	})
	pawl.Handle(mux, digest, func(ctx context.Context, args mailArgs) error {
		*ends = append(*ends, pawl.FromContext(ctx).After)
		return nil
	})
	return mux
}

func checkBatch(t *testing.T, in pawl.Enqueuer, batch pawl.ID, users ...int64) {
	t.Helper()
	after := pawltest.EnqueuedAfter(t, in, digest)
	if len(after) != 1 || after[0].ID != batch || after[0].Args.UserID != int64(len(users)) || after[0].Queue != "1-critical" ||
		after[0].State != "" || !slices.Equal(after[0].Options.Tags, []string{"eu"}) || time.Since(after[0].EnqueuedAt).Abs() > time.Minute {
		t.Errorf("what follows: %+v", after)
	}
	if got := usersOf(pawltest.EnqueuedIn(t, in, batch, mail)); !slices.Equal(got, users) {
		t.Errorf("members %v, want %v", got, users)
	}
	if n := len(pawltest.Enqueued(t, in, digest)); n > 0 {
		t.Errorf("%d jobs are enqueued that should follow", n)
	}
}

// usersOf has them in order: they were enqueued at once.
func usersOf(jobs []pawltest.Job[mailArgs]) []int64 { return slices.Sorted(slices.Values(users(jobs))) }

func TestBatch(t *testing.T) {
	t.Parallel()
	store := pawltest.Open(t)
	put(t, store, mail, 8)
	batch := openBatch(t, store, 1, 2, 4)
	checkBatch(t, store, batch, 1, 2, 4)
	var ends []pawl.BatchEnd
	r := pawltest.Drain(t, store, batchMux(&ends))
	if want := (pawl.BatchEnd{Batch: batch, Done: 2, Dead: 1}); !slices.Equal(ends, []pawl.BatchEnd{want}) {
		t.Errorf("what follows is told %+v, want %+v", ends, want)
	}
	if r.Attempts != 5 || r.Succeeded != 4 || len(r.Dead) != 1 || r.Left != 0 {
		t.Errorf("report %+v", r)
	}
	if left := pawltest.EnqueuedAfter(t, store, digest); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
}

// A batch is seen in the transaction that opens it, and is gone with it; one without members follows by itself.
func TestBatchInATransaction(t *testing.T) {
	t.Parallel()
	store, conn := openPostgres(t)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	checkBatch(t, store.Tx(tx), openBatch(t, store.Tx(tx), 2, 3), 2, 3)
	if after := pawltest.EnqueuedAfter(t, store, digest); len(after) > 0 {
		t.Errorf("beside the transaction: %+v", after)
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := pawltest.EnqueuedAfter(t, store, digest); len(after) > 0 {
		t.Errorf("after the rollback: %+v", after)
	}
	if tx, err = conn.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	empty := openBatch(t, store.Tx(tx))
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	var ends []pawl.BatchEnd
	if pawltest.Drain(t, store, batchMux(&ends)); !slices.Equal(ends, []pawl.BatchEnd{{Batch: empty}}) {
		t.Errorf("without members: what follows is told %+v", ends)
	}
	for range 5 {
		openBatch(t, store, 1, 2)
	}
	r := pawltest.Drain(t, store, batchMux(&ends))
	if len(ends) != 6 || r.Left != 0 {
		t.Errorf("what follows is told %+v, report %+v", ends, r)
	}
}

// A drain does not wait for ever for a batch that a transaction holds open.
func TestDrainBesideATransaction(t *testing.T) {
	t.Parallel()
	store, conn := openPostgres(t)
	batch := openBatch(t, store, 2)
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	put(t, store.Tx(tx), mail, 4, pawl.InBatch(batch))
	var ends []pawl.BatchEnd
	if r := pawltest.Drain(t, store, batchMux(&ends)); len(ends) != 0 || r.Succeeded != 1 {
		t.Errorf("what follows is told %+v, report %+v", ends, r)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	pawltest.Drain(t, store, batchMux(&ends))
	if want := (pawl.BatchEnd{Batch: batch, Done: 2}); !slices.Equal(ends, []pawl.BatchEnd{want}) {
		t.Errorf("what follows is told %+v, want %+v", ends, want)
	}
}

func TestRunAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := pawltest.Open(t)
		var ends []pawl.BatchEnd
		mux := batchMux(&ends)
		job := pawltest.RunAfter(t, store, mux, digest, mailArgs{}, pawl.BatchEnd{Done: 3, Removed: 1}, pawl.Delay(time.Hour))
		if want := (pawl.BatchEnd{Batch: job.ID, Done: 3, Removed: 1}); job.State != pawl.JobDone || !slices.Equal(ends, []pawl.BatchEnd{want}) {
			t.Errorf("job %s, told %+v, want %+v", job.State, ends, want)
		}
	})
	store := pawltest.Open(t)
	text := fatal(t, func(t testing.TB) {
		pawltest.RunAfter(t, store, pawl.NewMux(), digest, mailArgs{}, pawl.BatchEnd{}, pawl.MaxTries(-1))
	})
	if !strings.Contains(text, "max tries") {
		t.Errorf("it says %q", text)
	}
	if text := fatal(t, func(t testing.TB) { pawltest.EnqueuedAfter(t, store.Tx(nil), digest) }); !strings.Contains(text, "must be given") {
		t.Errorf("a transaction that is none: %q", text)
	}
}
