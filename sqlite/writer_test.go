package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/pawljobs/pawl"
)

var writerKind = pawl.NewKind[int]("writer.work.v1", pawl.Policy{})

// stopped is a store whose writer is held up until release is called: what is handed in meanwhile makes one group.
func stopped(t *testing.T) (s *Store, release func()) {
	t.Helper()
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "jobs.db"), Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	gate := make(chan struct{})
	go func() {
		_ = s.write(context.Background(), func(context.Context, *writer) error { <-gate; return nil })
	}()
	synctest.Wait()
	return s, func() { close(gate) }
}

func jobCount(t *testing.T, s *Store) int {
	t.Helper()
	n, _, err := selectOne(context.Background(), s.reads, scanValue[int], `select count(*) from pawl_job`)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// handIn enqueues n jobs at the same time, each by a call of its own, and returns when all calls wait.
func handIn(ctx context.Context, s *Store, n int) (errs []error, answered func()) {
	errs = make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { _, errs[i] = writerKind.Enqueue(ctx, s, i) })
	}
	synctest.Wait()
	return errs, group.Wait
}

func TestCallsShareACommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, release := stopped(t)
		commits := 0
		wake := s.writer.wake
		s.writer.wake = func() { commits++; wake() } // the writer reads it after it was released
		errs, answered := handIn(t.Context(), s, 50)
		release()
		answered()
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		if n := jobCount(t, s); n != 50 {
			t.Errorf("%d jobs stored, want 50", n)
		}
		if commits != 1 {
			t.Errorf("50 waiting calls took %d commits, want 1", commits)
		}
	})
}

func TestFailingCallFailsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, release := stopped(t)
		broken := errors.New("broken")
		var failed error
		ran := 0
		var group sync.WaitGroup
		group.Go(func() {
			failed = s.write(t.Context(), func(ctx context.Context, w *writer) error {
				ran++
				if _, err := w.ExecContext(ctx, `update pawl_counter set value = 77 where name = 'switches'`); err != nil {
					return err
				}
				return broken
			})
		})
		errs, answered := handIn(t.Context(), s, 10)
		release()
		answered()
		group.Wait()
		if err := errors.Join(errs...); err != nil {
			t.Errorf("neighbours of the failing call: %v", err)
		}
		if !errors.Is(failed, broken) || ran != 2 {
			t.Errorf("the failing call ran %d times and got %v, want twice (in the group, and alone) and its own error", ran, failed)
		}
		if n := jobCount(t, s); n != 10 {
			t.Errorf("%d jobs stored, want 10", n)
		}
		value, _, err := selectOne(t.Context(), s.reads, scanValue[int], readSwitchNo)
		if err != nil || value != 0 {
			t.Errorf("the failing call left %d, %v", value, err)
		}
	})
}

func TestCloseWithCallsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, release := stopped(t)
		errs, answered := handIn(t.Context(), s, 20)
		closed := make(chan error, 1)
		go func() { closed <- s.Close() }()
		synctest.Wait()
		release()
		answered()
		if err := <-closed; err != nil {
			t.Errorf("close: %v", err)
		}
		stored := 0
		for _, err := range errs {
			switch {
			case err == nil:
				stored++
			case !errors.Is(err, pawl.ErrClosed):
				t.Errorf("error is %v, want nil or ErrClosed", err)
			}
		}
		again, err := Open(t.Context(), s.path, Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		if n := jobCount(t, again); n != stored {
			t.Errorf("%d calls were told that their job is stored, and %d are", stored, n)
		}
		if _, err := writerKind.Enqueue(t.Context(), s, 1); !errors.Is(err, pawl.ErrClosed) {
			t.Errorf("enqueue after the close: %v, want ErrClosed", err)
		}
	})
}

func TestCallerThatGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, release := stopped(t)
		impatient := errors.New("impatient")
		ctx, cancel := context.WithCancelCause(t.Context())
		gaveUp, gone := handIn(ctx, s, 5)
		stays, answered := handIn(t.Context(), s, 5)
		cancel(impatient)
		gone() // while the writer is still held up
		for _, err := range gaveUp {
			if !errors.Is(err, impatient) {
				t.Errorf("error is %v, want the ctx's cause", err)
			}
		}
		if _, err := writerKind.Enqueue(ctx, s, 1); !errors.Is(err, impatient) {
			t.Errorf("enqueue with a ctx that is done: %v, want its cause", err)
		}
		release()
		answered()
		if err := errors.Join(stays...); err != nil {
			t.Errorf("calls that stayed: %v", err)
		}
		if n := jobCount(t, s); n != 5 {
			t.Errorf("%d jobs stored, want the 5 of those who stayed", n)
		}
	})
}

// A call that has begun is finished, whatever becomes of its ctx: its caller learns the outcome.
func TestCallerWhoseCallHasBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, release := stopped(t)
		release()
		ctx, cancel := context.WithCancel(t.Context())
		err := s.write(ctx, func(ctx context.Context, w *writer) error {
			cancel()
			_, err := insertJobs(ctx, w, []pawl.NewJob{newJob(t, s)}, now())
			return err
		})
		if err != nil || jobCount(t, s) != 1 {
			t.Errorf("error is %v with %d jobs stored, want none and 1", err, jobCount(t, s))
		}
	})
}

func newJob(t *testing.T, s *Store, options ...pawl.Option) pawl.NewJob {
	t.Helper()
	job, err := writerKind.New(t.Context(), s.Connection(), 1, options...)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// A full disk fails what needs room, and leaves the store as it was.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	limit := func(pages int) {
		t.Helper()
		err := s.write(t.Context(), func(ctx context.Context, w *writer) error {
			_, _, err := selectOne(ctx, w, scanValue[int], map[bool]string{true: `pragma max_page_count = 100`, false: `pragma max_page_count = 1000000`}[pages == 100])
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := writerKind.Enqueue(t.Context(), s, 1); err != nil {
		t.Fatal(err)
	}
	limit(100)
	big := newJob(t, s)
	big.Envelope = make([]byte, 1<<20)
	for range 3 {
		if _, err := s.Enqueue(t.Context(), []pawl.NewJob{newJob(t, s), big}); err == nil {
			t.Fatal("a job of a megabyte fits into 100 pages")
		}
	}
	limit(1_000_000)
	if _, err := s.Enqueue(t.Context(), []pawl.NewJob{big}); err != nil {
		t.Errorf("enqueue when there is room again: %v", err)
	}
	if n := jobCount(t, s); n != 2 {
		t.Errorf("%d jobs stored, want 2", n)
	}
}

// What is acknowledged is on disk: each commit of the connection that writes is flushed. The WAL file of a rush shrinks.
func TestDurability(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	err := s.write(t.Context(), func(ctx context.Context, w *writer) error {
		for pragma, want := range map[string]string{"synchronous": "2", "journal_mode": "wal", "journal_size_limit": "67108864"} {
			got, _, err := selectOne(ctx, w, scanValue[string], "pragma "+pragma)
			if err != nil {
				return err
			}
			if got != want {
				t.Errorf("pragma %s is %s, want %s", pragma, got, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Reading connections cannot write.
func TestReadsOnlyRead(t *testing.T) {
	t.Parallel()
	s := openHere(t)
	if _, err := s.reads.ExecContext(t.Context(), `delete from pawl_counter`); err == nil {
		t.Error("a reading connection has written")
	}
}
