package inline_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawljobs/pawl"
)

func TestTimeoutCancelsTheHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, func(ctx context.Context, _ args) error {
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), pawl.ErrTimeout) {
				t.Errorf("cause %v", context.Cause(ctx))
			}
			return errors.Join(downError{1}, ctx.Err())
		})
		begun := time.Now()
		err := f.run(t.Context(), pawl.Timeout(30*time.Second))
		if !errors.Is(err, pawl.ErrTimeout) || !errors.Is(err, downError{1}) || time.Since(begun) != 30*time.Second {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
		letter := f.letters.only(t)
		if letter.Class != pawl.DeathExhausted || letter.Reason != pawl.ReasonSync || letter.History[0].Ending != pawl.EndTimedOut ||
			letter.History[0].Duration != 30*time.Second {
			t.Errorf("letter %+v", letter)
		}
		if f.jobs.Strays() != 0 {
			t.Error("a handler that obeyed is a stray")
		}
	})
}

func TestNilAfterTheTimeoutIsSuccess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, func(ctx context.Context, _ args) error {
			time.Sleep(39 * time.Second)
			return nil
		})
		if err := f.run(t.Context(), pawl.Timeout(30*time.Second)); err != nil || len(f.letters.all()) != 0 {
			t.Errorf("%v, %d letters", err, len(f.letters.all()))
		}
	})
}

func TestHandlerThatIgnoresItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var late error
		f := setup(t, func(ctx context.Context, _ args) error {
			time.Sleep(5 * time.Minute)
			late = pawl.FromContext(ctx).Fail(context.Background(), downError{2})
			return downError{3}
		})
		begun := time.Now()
		err := f.run(t.Context(), pawl.Timeout(30*time.Second))
		if !errors.Is(err, pawl.ErrTimeout) || time.Since(begun) != 40*time.Second {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
		if f.jobs.Strays() != 1 || len(f.log.at(slog.LevelWarn)) != 1 {
			t.Errorf("%d strays, warnings %v", f.jobs.Strays(), f.log.at(slog.LevelWarn))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := f.jobs.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("close with a stray gives %v", err)
		}
		if err := f.jobs.Close(t.Context()); err != nil || time.Since(begun) != 5*time.Minute {
			t.Errorf("close gives %v after %s", err, time.Since(begun))
		}
		if !errors.Is(late, pawl.ErrFinished) || f.jobs.Strays() != 0 {
			t.Errorf("late transition gives %v, %d strays", late, f.jobs.Strays())
		}
		f.letters.only(t)
		if err := f.run(t.Context()); !errors.Is(err, pawl.ErrClosed) || len(f.letters.all()) != 1 {
			t.Errorf("closed: %v, %d letters", err, len(f.letters.all()))
		}
	})
}

func TestExtend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := setup(t, func(ctx context.Context, _ args) error {
			job := pawl.FromContext(ctx)
			time.Sleep(20 * time.Second)
			if err := job.Extend(ctx, time.Minute); err != nil {
				t.Error(err)
			}
			if time.Until(job.Deadline()) != time.Minute {
				t.Errorf("deadline in %s", time.Until(job.Deadline()))
			}
			<-ctx.Done()
			if err := job.Extend(ctx, time.Minute); !errors.Is(err, pawl.ErrTimeout) {
				t.Errorf("extend after the timeout gives %v", err)
			}
			return ctx.Err()
		})
		begun := time.Now()
		if err := f.run(t.Context(), pawl.Timeout(30*time.Second)); !errors.Is(err, pawl.ErrTimeout) || time.Since(begun) != 80*time.Second {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
	})
}

// A caller that goes away in the middle cancels the handler; the record of the death is made all the same, and what is
// behind it in the batch is not started.
func TestCallerThatGoesAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("client gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		runs := 0
		f := setup(t, func(ctx context.Context, _ args) error {
			runs++
			cancel(gone)
			<-ctx.Done()
			return context.Cause(ctx)
		})
		_, err := work.EnqueueMany(ctx, f.jobs, []args{{1}, {2}})
		if !errors.Is(err, gone) || errors.Is(err, pawl.ErrTimeout) || runs != 1 {
			t.Errorf("%v, %d runs", err, runs)
		}
		if letter := f.letters.only(t); letter.Reason != pawl.ReasonSync || letter.History[0].Ending != pawl.EndReturned {
			t.Errorf("letter %+v", letter)
		}
	})
}

func TestCallerThatGoesAwayFromADeafHandler(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		f := setup(t, func(context.Context, args) error {
			cancel()
			time.Sleep(time.Minute)
			return nil
		})
		begun := time.Now()
		if err := f.run(ctx); !errors.Is(err, context.Canceled) || time.Since(begun) != 10*time.Second {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
		f.letters.only(t)
		if err := f.jobs.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
