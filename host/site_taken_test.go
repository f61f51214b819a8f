package host_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/ops"
)

// An operator deletes running jobs: the handlers hear that their reservations are gone, what they end with is refused, and
// the workers go on. (Case 17; TestRunningJobIsTakenAway has it for a queue that is cleared.)
func TestRunningJobIsDeleted(t *testing.T) {
	onBoth(t, func(s *site) {
		begun, causes := make(chan pawl.ID, 9), make(chan error, 9)
		s.handle(func(ctx context.Context, job *pawl.Job, args workArgs) error {
			if job.Kind == once.Name() {
				return nil
			}
			begun <- job.ID
			<-ctx.Done()
			causes <- context.Cause(ctx)
			causes <- job.Delete(context.Background())
			return []error{nil, pawl.Permanent(errors.New("no")), errors.New("again")}[args.N]
		})
		h := s.start("a", 3)
		ids := s.put(work, 3)
		for range ids {
			come(s, "a start", begun)
		}
		results, err := s.store.DeleteJobs(s.Context(), ids, operator("wrong import"))
		if err = errors.Join(append(results, err)...); err != nil {
			t.Fatal(err)
		}
		for range 2 * len(ids) {
			if err := come(s, "a refusal", causes); !errors.Is(err, pawl.ErrLeaseLost) {
				t.Errorf("cause or late operation: %v", err)
			}
		}
		s.ended(s.put(once, 5), pawl.JobDone, 1)
		s.until("no handler", func() bool { return h.Stats().Running == 0 })
		h.stop()
		s.ran(ids, 1)
		s.ended(ids, pawl.JobRemoved, 1)
		s.equal("died, retried and strays", words(h.Stats().Died(), h.Stats().Retried, h.Stats().Strays), "0 0 0")
	})
}

// A job died of its timeout while its handler ignores that and goes on. An operator retries it under the same id: now two
// handlers run for one id, of which the old one can change nothing any more, whatever it returns. (Case 17.)
func TestJobIsRetriedUnderARunningHandler(t *testing.T) {
	onBoth(t, func(s *site) {
		type run struct {
			job *pawl.Job
			end chan error
		}
		runs, strays := make(chan run, 9), make(chan error, 9)
		s.handle(func(ctx context.Context, job *pawl.Job, _ workArgs) error {
			r := run{job, make(chan error, 1)}
			if len(s.runs.of(job.ID)) > 1 {
				if err := job.Extend(ctx, patience); err != nil {
					return err
				}
			}
			runs <- r
			err := <-r.end
			if errors.Is(err, errStray) {
				strays <- job.Fail(context.Background(), err)
			}
			return err
		})
		config := s.config("a", 2)
		config.Intervals.GiveUp = 200 * time.Millisecond
		h := s.startOn(s.open(), config)
		ids := s.put(work, 1, pawl.MaxTries(1), pawl.Timeout(time.Second))
		old := come(s, "the first run", runs)
		s.ended(ids, pawl.JobDead, 1)
		letter := s.letterOf(ids[0])

		desk, err := ops.New(s.store, nil)
		if err != nil {
			t.Fatal(err)
		}
		if id, err := desk.Retry(s.Context(), letter.ID, ops.RetryOptions{By: operator("retry"), Confirmed: true}); err != nil || id != ids[0] {
			t.Fatalf("retry: job %s, error %v", id, err)
		}
		second := come(s, "the second run", runs)
		s.equal("the same job, anew", words(second.job.ID, second.job.Attempt), words(ids[0], 1))
		old.end <- errStray
		if err := come(s, "the old handler's operation", strays); !errors.Is(err, pawl.ErrFinished) && !errors.Is(err, pawl.ErrLeaseLost) {
			t.Errorf("the old handler could still do something: %v", err)
		}
		s.until("the old handler's return", func() bool { return h.Stats().Strays == 0 })
		s.equal("the second run goes on", s.view(ids[0]).State, pawl.JobReserved)
		second.end <- nil
		s.ended(ids, pawl.JobDone, 1)
		letter = s.letterOf(ids[0])
		s.equal("its only letter", words(letter.Status, letter.Outcome), "resolved succeeded")
		h.stop()
	})
}

var errStray = errors.New("what a stray says")
