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
