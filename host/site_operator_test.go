package host_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
)

// An operator clears the queue, and thereby takes away what runs: the handler is told, its end is refused, and the worker
// goes on with the next job. (Case 17.)
func TestRunningJobIsTakenAway(t *testing.T) {
	onBoth(t, func(s *site) {
		begun, causes := make(chan pawl.ID, 9), make(chan error, 9)
		s.handle(func(ctx context.Context, job *pawl.Job, args workArgs) error {
			if job.Kind == once.Name() {
				return nil
			}
			begun <- job.ID
			<-ctx.Done()
			causes <- context.Cause(ctx)
			causes <- job.Fail(context.Background(), errors.New("too late"))
			return []error{nil, pawl.Permanent(errors.New("no")), errors.New("again")}[args.N]
		})
		h := s.start("a", 3)
		ids := s.put(work, 3)
		for range ids {
			come(s, "a start", begun)
		}
		if n, err := s.store.ClearQueue(s.Context(), "2-default", operator("clear")); n != 3 || err != nil {
			t.Errorf("cleared %d jobs, error %v", n, err)
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
		s.equal("died and strays", words(h.Stats().Died(), h.Stats().Strays), "0 0")
		s.equal("errors", len(s.lines.at(slog.LevelError, "")), 0)
	})
}

// A session is ended while its host lives, as that of a zombie is: its jobs are requeued, what it still does is refused,
// and it goes on under a new session. (Case 17.)
func TestRunningJobIsRequeued(t *testing.T) {
	onBoth(t, func(s *site) {
		begun, causes := make(chan pawl.ID, 9), make(chan error, 9)
		s.handle(func(ctx context.Context, job *pawl.Job, _ workArgs) error {
			if job.Attempt > 1 {
				return nil
			}
			begun <- job.ID
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return errors.New("what a zombie says")
		})
		h := s.start("a", 3)
		ids := s.put(work, 3)
		for range ids {
			come(s, "a start", begun)
		}
		old := h.Stats().Session
		s.endSession(old)
		for range ids {
			if err := come(s, "the cause", causes); !errors.Is(err, pawl.ErrLeaseLost) {
				t.Errorf("cause: %v", err)
			}
		}
		s.ended(ids, pawl.JobDone, 2)
		s.ran(ids, 1, 2)
		h.stop()
		s.equal("a new session", h.Stats().Session > old, true)
		s.equal("refused", h.Stats().LeasesLost, 3)
	})
}

// endSession ends a live host's session as an observer would that takes it for dead.
func (s *site) endSession(victim pawl.SessionID) {
	s.Helper()
	for try := 0; try < 100; try++ { // it may beat between the look and the end
		session, err := s.store.OpenSession(s.Context(), pawl.HostInfo{Name: "observer"})
		if err != nil {
			s.Fatal(err)
		}
		reply, err := s.store.Beat(s.Context(), session, pawl.Beat{})
		if err != nil {
			s.Fatal(err)
		}
		dead := slices.DeleteFunc(reply.Others, func(o pawl.SeenSession) bool { return o.ID != victim })
		report, err := s.store.Sweep(s.Context(), pawl.SweepRequest{Session: session, Dead: dead})
		if err == nil {
			err = s.store.CloseSession(s.Context(), session)
		}
		if err != nil {
			s.Fatal(err)
		}
		if len(report.Ended) == 1 {
			return
		}
	}
	s.Fatal("the session cannot be ended")
}

// An operator, through another handle, cancels jobs that wait, that are scheduled, and that run: the latter hear of it
// within the rhythm of wake-ups, and none is ever run again.
func TestJobsAreCancelled(t *testing.T) {
	onBoth(t, func(s *site) {
		begun, causes := make(chan pawl.ID, 9), make(chan error, 9)
		s.handle(func(ctx context.Context, job *pawl.Job, args workArgs) error {
			if job.Queue == "1-critical" {
				return errors.New("again, in an hour")
			}
			begun <- job.ID
			<-ctx.Done()
			causes <- context.Cause(ctx)
			if args.N == 0 {
				return nil // it was as good as done
			}
			return fmt.Errorf("stopped: %w", ctx.Err())
		})
		config := s.config("a", 2)
		config.Intervals.Beat, config.Intervals.Silence, config.Intervals.DeadAfter = 20*time.Second, time.Minute, 2*time.Minute
		h := s.startOn(s.open(), config)
		retried := s.put(work, 1, pawl.InQueue("1-critical"), pawl.Backoff(time.Hour))
		s.until("a retry", func() bool { return h.Stats().Retried == 1 })
		ids := s.put(work, 2)
		for range 2 {
			come(s, "a start", begun)
		}
		waiting := s.put(once, 2)
		scheduled := s.put(work, 1, pawl.Delay(time.Hour))
		// A wake-up makes a host beat once a second at most.
		s.until("a beat that is a second old", func() bool { return time.Since(h.Stats().LastBeat) > time.Second })
		all := slices.Concat(ids, waiting, scheduled, retried, []pawl.ID{pawl.NewID()})
		results, err := s.store.CancelJobs(s.Context(), all, operator("wrong import"))
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []pawl.JobState{"reserved", "reserved", "removed", "removed", "removed", "removed", ""} {
			s.equal(fmt.Sprint("result ", i), results[i].State, want)
		}
		if !errors.Is(results[6].Err, pawl.ErrNotFound) {
			t.Errorf("unknown: %v", results[6].Err)
		}
		told := time.Now()
		for range 2 {
			if err := come(s, "the cause", causes); !errors.Is(err, pawl.ErrCancelled) {
				t.Errorf("cause: %v", err)
			}
		}
		if took := time.Since(told); took > 10*time.Second {
			t.Errorf("it took %s until the handlers heard of it", took)
		}
		s.ended(ids[:1], pawl.JobDone, 1)
		s.ended(ids[1:], pawl.JobRemoved, 1)
		s.ended(waiting, pawl.JobRemoved, 0)
		s.ended(scheduled, pawl.JobRemoved, 0)
		s.ended(retried, pawl.JobRemoved, 1)
		history := s.view(ids[1]).History
		s.equal("history", words(len(history), history[0].Ending, history[0].Message), "1 cancelled stopped: context canceled (cancelled by an operator)")
		s.equal("cancelled", h.Stats().Cancelled, 1)
		h.stop()
		s.equal("runs", s.runs.count(), 3)
		if _, err := s.store.CancelJobs(s.Context(), ids, operator("again")); err != nil {
			t.Error(err)
		}
	})
}

// An operator makes one of two hosts quiet: it finishes what it runs and takes nothing more, the list says so, and the
// other one does the work.
func TestHostIsQuieted(t *testing.T) {
	onBoth(t, func(s *site) {
		begun, open := make(chan pawl.ID, 99), make(chan struct{})
		s.handle(func(_ context.Context, job *pawl.Job, _ workArgs) error {
			if job.Kind == work.Name() {
				begun <- job.ID
				<-open
			}
			return nil
		})
		first := s.start("first", 2)
		held := s.put(work, 2)
		for range held {
			come(s, "a start", begun)
		}
		second := s.start("second", 2)
		s.until("the second host", second.Ready)
		session := first.Stats().Session
		if err := s.store.QuietHost(s.Context(), session, operator("deploy")); err != nil {
			t.Fatal(err)
		}
		s.until("the host that was asked", func() bool { return !first.Ready() })
		s.ended(s.put(once, 20), pawl.JobDone, 1)
		s.until("the list", func() bool {
			hosts := s.hosts()
			return len(hosts) == 2 && hosts[0].Draining && hosts[0].Quiet && hosts[0].Busy == 2 && !hosts[1].Draining && !hosts[1].Quiet
		})
		s.equal("what they ran", words(first.Stats().Started, second.Stats().Started), "2 20")
		close(open)
		s.ended(held, pawl.JobDone, 1)
		s.equal("the other is ready", second.Ready(), true)
		first.stop()
		if err := s.store.QuietHost(s.Context(), session, operator("deploy")); !errors.Is(err, pawl.ErrNotFound) {
			t.Errorf("a host that has gone: %v", err)
		}
		second.stop()
	})
}

// Every host is listed with its servers, queues, kinds, workers, version and times, beside one that is embedded in an API
// process and bound to one queue.
func TestHostsAreListed(t *testing.T) {
	onBoth(t, func(s *site) {
		begun, open := make(chan pawl.ID, 9), make(chan struct{})
		s.handle(func(_ context.Context, job *pawl.Job, _ workArgs) error { begun <- job.ID; <-open; return nil })
		full := s.config("Desk-7", 1)
		full.Servers = nil
		h := s.startOn(s.open(), full)
		s.until("the host", h.Ready)
		small := s.config("api-3", 1)
		small.Servers = []host.Server{
			{Name: "api", Queues: []string{"1-critical"}, Workers: 2},
			{Name: "mixed", Queues: []string{"a", "b"}, Workers: 1, Weights: map[string]int{"a": 2, "b": 1}},
		}
		embedded := s.startOn(s.open(), small)
		s.until("the embedded host", embedded.Ready)
		ids := s.put(work, 1)
		come(s, "a start", begun)
		s.until("its beat", func() bool { return s.hosts()[0].Busy == 1 })
		hosts := s.hosts()
		for i, want := range []string{
			"desk-7 v1 [test.once.v1 test.work.v1] [desk-7:worker-io desk-7:worker-cpu] [[1-critical 2-default] [3-bulk]] [20 true] 1",
			"api-3 v1 [test.once.v1 test.work.v1] [api-3:worker-api api-3:worker-mixed] [[1-critical] [a b]] [2 true] 0",
		} {
			v := hosts[i]
			kinds := slices.Clone(v.Kinds)
			slices.Sort(kinds)
			io, cpu := v.Servers[0], v.Servers[1]
			s.equal("host", words(v.Name, v.Version, kinds, []string{io.Name, cpu.Name}, [][]string{io.Queues, cpu.Queues},
				[]any{io.Workers, cpu.Workers >= 1}, v.Busy), want)
			if since := time.Since(v.OpenedAt); since < 0 || since > patience || v.BeatAt.Before(v.OpenedAt) || v.PID == 0 {
				t.Errorf("host %d: opened %s, beat %s, pid %d", i, v.OpenedAt, v.BeatAt, v.PID)
			}
		}
		s.equal("weights", hosts[1].Servers[1].Weights, map[string]int{"a": 2, "b": 1})
		close(open)
		s.ended(ids, pawl.JobDone, 1)
		h.stop()
		embedded.stop()
		s.equal("hosts left", len(s.hosts()), 0)
	})
}

// A weighted server starts jobs by its weights while all queues have some, and gives an empty one's share to the others.
func TestWeightsOnStores(t *testing.T) {
	for name, c := range map[string]struct {
		put  []int // into 1-critical, 2-default, 3-bulk
		want []int // of the first 200 starts
	}{
		"all full":  {[]int{200, 200, 200}, []int{120, 60, 20}},
		"one empty": {[]int{200, 0, 200}, []int{171, 0, 29}},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(s *site) {
				s.handle(func(context.Context, *pawl.Job, workArgs) error { return nil })
				queues := []string{"1-critical", "2-default", "3-bulk"}
				for i, n := range c.put {
					if n > 0 {
						s.put(work, n, pawl.InQueue(queues[i]))
					}
				}
				config := s.config("a", 4)
				config.Servers = weighted(4)
				h := s.startOn(s.open(), config)
				s.until("200 starts", func() bool { return s.runs.count() >= 200 })
				s.until("the end of all", func() bool { return h.Stats().Succeeded == int64(c.put[0]+c.put[1]+c.put[2]) })
				h.stop()
				got := map[string]int{}
				for _, queue := range s.runs.queue[:200] {
					got[queue]++
				}
				for i, want := range c.want {
					if n := got[queues[i]]; n < want-8 || n > want+8 {
						t.Errorf("%d of 200 starts are from %s, want about %d", n, queues[i], want)
					}
				}
			})
		})
	}
}

// The second signal: Run returns at once and closes nothing. Another host recovers what was running.
func TestAbortOnStores(t *testing.T) {
	onBoth(t, func(s *site) {
		begun, open := make(chan pawl.ID, 9), make(chan struct{})
		defer close(open)
		s.handle(func(_ context.Context, job *pawl.Job, _ workArgs) error {
			if job.Attempt == 1 {
				begun <- job.ID
				<-open
			}
			return nil
		})
		h := s.start("a", 3)
		ids := s.put(work, 3)
		for range ids {
			come(s, "a start", begun)
		}
		h.cancel() // the first signal
		s.until("the drain", func() bool { return !h.Ready() })
		called := time.Now()
		h.Abort()
		<-h.ended
		if took := time.Since(called); !errors.Is(h.err, host.ErrAborted) || took > 5*time.Second {
			t.Errorf("Run returned %v after %s", h.err, took)
		}
		for _, id := range ids {
			s.equal("state", s.view(id).State, pawl.JobReserved)
		}
		s.equal("hosts", len(s.hosts()), 1)
		heir := s.start("b", 3)
		s.ended(ids, pawl.JobDone, 2)
		s.ran(ids, 1, 2)
		s.until("the sweep that recovered them has said so", func() bool { return heir.Stats().Recovered == 3 })
		s.equal("crashes", s.view(ids[0]).History[0].Ending, pawl.EndCrashed)
		heir.stop()
	})
}
