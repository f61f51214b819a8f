package host_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
)

// atOnce makes a shutdown whose grace is over as soon as it begins.
func atOnce(config host.Config) host.Config {
	config.Drain = host.Drain{Handler: 10 * time.Millisecond, Server: 5 * time.Second, Host: 10 * time.Second}
	return config
}

// Thirty deploys over one long job with max tries 3: it never dies of them. (Case 4.)
func TestThirtyDeploys(t *testing.T) {
	onBoth(t, func(s *site) {
		begun := make(chan pawl.ID, 9)
		var finish atomic.Bool
		s.handle(func(ctx context.Context, job *pawl.Job, _ workArgs) error {
			if finish.Load() {
				return nil
			}
			begun <- job.ID
			<-ctx.Done()
			return ctx.Err()
		})
		ids := s.put(work, 1, pawl.MaxTries(3))
		for n := range 30 {
			h := s.startOn(s.store, atOnce(s.config("a", 1)))
			come(s, "a start", begun)
			h.stop()
			view := s.view(ids[0])
			s.equal("after a deploy", words(view.State, view.Attempt, view.Requeues, len(view.History)), words("waiting", 0, n+1, 0))
		}
		finish.Store(true)
		h := s.startOn(s.store, s.config("a", 1))
		s.ended(ids, pawl.JobDone, 1)
		h.stop()
		s.equal("runs", s.runs.count(), 31)
	})
}

// Whatever a handler makes of the shutdown's cancellation, its job is requeued once, no attempt is spent, and there is no
// second copy. (Case 5.)
func TestWrappedCancellation(t *testing.T) {
	onBoth(t, func(s *site) {
		begun := make(chan pawl.ID, 9)
		ends := []func(ctx context.Context) error{
			func(ctx context.Context) error { return ctx.Err() },
			func(ctx context.Context) error { return fmt.Errorf("send mail: %w", ctx.Err()) },
			func(context.Context) error { return errors.New("my own words") },
			func(ctx context.Context) error { return pawl.RetryAfter(ctx.Err(), time.Hour) },
			func(ctx context.Context) error { return errors.Join(context.Cause(ctx), errors.New("and more")) },
		}
		var again atomic.Bool
		s.handle(func(ctx context.Context, job *pawl.Job, args workArgs) error {
			if again.Load() {
				return nil
			}
			begun <- job.ID
			<-ctx.Done()
			if cause := context.Cause(ctx); !errors.Is(cause, pawl.ErrShutdown) {
				t.Errorf("cause %v", cause)
			}
			return ends[args.N](ctx)
		})
		h := s.startOn(s.open(), atOnce(s.config("a", len(ends))))
		ids := s.put(work, len(ends), pawl.MaxTries(2))
		for range ids {
			come(s, "a start", begun)
		}
		h.stop()
		for _, id := range ids {
			view := s.view(id)
			s.equal("put back", words(view.State, view.Attempt, view.Requeues, len(view.History)), "waiting 0 1 0")
		}
		page, err := s.store.Jobs(s.Context(), pawl.JobFilter{}, pawl.Page{})
		s.equal("jobs", words(len(page.Jobs), err), words(len(ids), nil))
		again.Store(true)
		h = s.start("b", len(ends))
		s.ended(ids, pawl.JobDone, 1)
		s.ran(ids, 1, 1)
		h.stop()
	})
}

// A handler that never returns and ignores its ctx: the stop deadline holds, its slot is free again, its job runs on
// another host, its late return is refused, and a gauge shows it. (Case 14.)
func TestHandlerThatNeverReturns(t *testing.T) {
	onBoth(t, func(s *site) {
		begun, gate, late := make(chan pawl.ID, 9), make(chan struct{}), make(chan error, 9)
		s.handle(func(ctx context.Context, job *pawl.Job, args workArgs) error {
			if job.Kind == once.Name() || job.Attempt == 2 || job.Attempt == 1 && len(s.runs.of(job.ID)) > 1 {
				return nil
			}
			begun <- job.ID
			<-gate
			late <- job.Delete(context.Background())
			return nil
		})
		config := s.config("a", 1)
		config.Intervals.GiveUp = 200 * time.Millisecond
		config.Drain = host.Drain{Handler: 50 * time.Millisecond, Server: 300 * time.Millisecond, Host: 5 * time.Second}
		h := s.startOn(s.open(), config)

		timedOut := s.put(work, 1, pawl.Timeout(100*time.Millisecond), pawl.Backoff(10*time.Millisecond))
		come(s, "a start", begun)
		s.until("the gauge", func() bool { return h.Stats().Strays == 1 })
		s.ended(timedOut, pawl.JobDone, 2) // in the slot that was given back
		s.ended(s.put(once, 3), pawl.JobDone, 1)
		s.equal("history", s.view(timedOut[0]).History[0].Ending, pawl.EndTimedOut)

		cutOff := s.put(work, 1, pawl.Timeout(time.Hour))
		come(s, "a start", begun)
		stopping := time.Now()
		h.stop()
		if took := time.Since(stopping); took > 5*time.Second {
			t.Errorf("the stop took %s", took)
		}
		s.equal("strays", h.Stats().Strays, 2)
		view := s.view(cutOff[0])
		s.equal("cut off", words(view.State, view.Attempt, view.Requeues), "waiting 0 1")
		heir := s.start("b", 1)
		s.ended(cutOff, pawl.JobDone, 1)
		close(gate)
		for range 2 {
			if err := come(s, "a late operation", late); !errors.Is(err, pawl.ErrFinished) {
				t.Errorf("a late operation: %v", err)
			}
		}
		s.until("the gauge", func() bool { return h.Stats().Strays == 0 })
		heir.stop()
		s.ended(timedOut, pawl.JobDone, 2)
		s.ended(cutOff, pawl.JobDone, 1)
	})
}

// The parent context ends at random moments with a hundred jobs running on two servers: each stop is clean, every job is
// accounted for, none runs twice at the same time. (Case 13; in virtual time TestDrainAtARandomMoment goes further.)
func TestStopsAtRandomMoments(t *testing.T) {
	rounds := 40
	if testing.Short() {
		rounds = 5
	}
	onBoth(t, func(s *site) {
		random := rand.New(rand.NewPCG(11, 5))
		var running sync.Map
		var last atomic.Bool
		s.handle(func(ctx context.Context, job *pawl.Job, args workArgs) error {
			run := new(int)
			if _, there := running.LoadOrStore(job.ID, run); there {
				t.Errorf("job %s runs twice at the same time", job.ID)
			}
			defer running.CompareAndDelete(job.ID, run)
			if last.Load() {
				return nil
			}
			select {
			case <-time.After(time.Duration(args.N%50) * time.Millisecond):
			case <-ctx.Done():
				return fmt.Errorf("stopped: %w", ctx.Err())
			}
			switch {
			case args.N%3 == 0:
				running.Delete(job.ID) // from its release on it may run again
				return job.Release(ctx, 0)
			case args.N%5 == 0:
				return errors.New("again")
			}
			return nil
		})
		var ids []pawl.ID
		for range rounds {
			ids = append(ids, s.put(work, 60, pawl.MaxTries(1000), pawl.Backoff(time.Millisecond), pawl.InQueue("1-critical"))...)
			ids = append(ids, s.put(work, 60, pawl.MaxTries(1000), pawl.Backoff(time.Millisecond))...)
			config := atOnce(s.config("a", 50))
			config.Servers = []host.Server{
				{Name: "one", Queues: []string{"1-critical"}, Workers: 50},
				{Name: "two", Queues: []string{"2-default"}, Workers: 50},
			}
			h := s.startOn(s.store, config)
			<-time.After(time.Duration(random.IntN(60)) * time.Millisecond)
			h.cancel()
			h.stop()
			queues, err := s.store.Queues(s.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, queue := range queues {
				s.equal("reserved in "+queue.Name, queue.Reserved, 0)
			}
		}
		last.Store(true)
		h := s.start("last", 100)
		for _, id := range ids {
			s.until("the end of all", func() bool { return s.view(id).State == pawl.JobDone })
		}
		h.stop()
		page, err := s.store.Letters(s.Context(), pawl.LetterFilter{}, pawl.Page{})
		s.equal("letters", words(len(page.Letters), err), "0 <nil>")
	})
}
