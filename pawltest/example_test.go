package pawltest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/pawltest"
)

type welcomeArgs struct {
	UserID int64 `json:"user_id"`
}

var welcome = pawl.NewKind[welcomeArgs]("email.welcome.v1", pawl.Policy{Queue: "1-critical"})

// signUp is what is tested: it enqueues.
func signUp(ctx context.Context, to pawl.Enqueuer, user int64) error {
	_, err := welcome.Enqueue(ctx, to, welcomeArgs{UserID: user})
	return err
}

// A test of code that enqueues.
func ExampleEnqueuedOnce() {
	testSignUp := func(t *testing.T) {
		store := pawltest.Open(t)
		if err := signUp(t.Context(), store, 7); err != nil {
			t.Fatal(err)
		}
		if job := pawltest.EnqueuedOnce(t, store, welcome); job.Args.UserID != 7 {
			t.Errorf("user %d is welcomed, want 7", job.Args.UserID)
		}
	}
	run(testSignUp)
	// Output: passed
}

// A test of a handler and of its retries, which take no time in a bubble.
func ExampleRun() {
	testWelcome := func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			calls := 0
			mux := pawl.NewMux()
			pawl.Handle(mux, welcome, func(ctx context.Context, args welcomeArgs) error {
				if calls++; calls == 1 {
					return errors.New("the mail server is busy")
				}
				return nil
			})
			job := pawltest.Run(t, pawltest.Open(t), mux, welcome, welcomeArgs{UserID: 7})
			if job.State != pawl.JobDone || job.Attempt != 2 {
				t.Errorf("the job is %s after %d attempts, want done after 2", job.State, job.Attempt)
			}
		})
	}
	run(testWelcome)
	// Output: passed
}

type albumArgs struct {
	Album int64 `json:"album"`
}

var (
	resize     = pawl.NewKind[albumArgs]("photo.resize.v1", pawl.Policy{})
	albumReady = pawl.NewKind[albumArgs]("album.ready.v1", pawl.Policy{})
)

// upload is what is tested: it opens a batch.
func upload(ctx context.Context, to pawl.Enqueuer, album int64) error {
	photos, err := resize.NewMany(ctx, to.Connection(), make([]albumArgs, 3))
	if err == nil {
		_, err = albumReady.EnqueueAfter(ctx, to, photos, albumArgs{Album: album})
	}
	return err
}

// A test of code that opens a batch, and of what follows it.
func ExampleEnqueuedAfter() {
	testUpload := func(t *testing.T) {
		store, ready := pawltest.Open(t), pawl.BatchEnd{}
		if err := upload(t.Context(), store, 7); err != nil {
			t.Fatal(err)
		}
		batch := pawltest.EnqueuedAfter(t, store, albumReady)[0]
		if photos := pawltest.EnqueuedIn(t, store, batch.ID, resize); batch.Args.Album != 7 || len(photos) != 3 {
			t.Errorf("album %d has %d photos, want 7 and 3", batch.Args.Album, len(photos))
		}
		mux := pawl.NewMux()
		pawl.Handle(mux, resize, func(context.Context, albumArgs) error { return nil })
		pawl.Handle(mux, albumReady, func(ctx context.Context, args albumArgs) error {
			ready = pawl.FromContext(ctx).After
			return nil
		})
		if pawltest.Drain(t, store, mux); ready.Done != 3 {
			t.Errorf("the album is ready with %d photos, want 3", ready.Done)
		}
	}
	run(testUpload)
	// Output: passed
}
