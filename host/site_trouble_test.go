package host_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
	"github.com/pawljobs/pawl/storetest"
)

// A job that is delayed for ten times longer than it takes to be called dead, and one that runs for three times as long,
// have one run each, with two hosts to choose from. (Cases 11 and 12.)
func TestLongerThanTheLease(t *testing.T) {
	onBoth(t, func(s *site) {
		s.handle(func(ctx context.Context, job *pawl.Job, args workArgs) error {
			if job.Queue != "1-critical" {
				return nil
			}
			select {
			case <-time.After(4500 * time.Millisecond):
			case <-ctx.Done():
			}
			return ctx.Err()
		})
		delayed := s.put(work, 3, pawl.Delay(15*time.Second))
		long := append(s.put(work, 3, pawl.InQueue("1-critical")), s.put(once, 3, pawl.InQueue("1-critical"))...)
		var hosts []*worker
		for _, name := range []string{"a", "b"} {
			config := s.config(name, 5)
			config.Intervals.Beat, config.Intervals.Silence, config.Intervals.DeadAfter = 300*time.Millisecond, time.Second, 1500*time.Millisecond
			hosts = append(hosts, s.startOn(s.open(), config))
		}
		s.ended(long, pawl.JobDone, 1)
		s.ended(delayed, pawl.JobDone, 1)
		s.ran(slices.Concat(long, delayed), 1)
		for _, h := range hosts {
			h.stop()
			s.equal("recovered and lost", words(h.Stats().Recovered, h.Stats().LeasesLost), "0 0")
		}
	})
}

// The write of an acknowledgement fails once, before or after its commit: it is tried again, nothing runs twice or stays
// reserved, and what ends meanwhile is not held up. (Case 15.)
func TestAcknowledgementFailsOnce(t *testing.T) {
	for _, when := range []storetest.When{storetest.Before, storetest.After} {
		t.Run(when.String(), func(t *testing.T) {
			onBoth(t, func(s *site) {
				s.handle(func(context.Context, *pawl.Job, workArgs) error { return nil })
				faulty := storetest.Fail(s.open())
				var failed atomic.Int64
				faulty.Hook("Settle", func(_ context.Context, call func() error) error {
					if failed.Add(1) > 1 {
						return call()
					}
					if when == storetest.After {
						_ = call()
					}
					return errDown
				})
				h := s.startOn(faulty, s.config("a", 10))
				ids := append(s.put(work, 30), s.put(once, 30)...)
				s.ended(ids, pawl.JobDone, 1)
				s.ran(ids, 1)
				h.stop()
				s.equal("struck", failed.Load() > 1, true)
				s.equal("settled", words(h.Stats().Succeeded, h.Stats().Unsettled, s.reserved()), "60 0 0")
			})
		})
	}
}

// The store is away for twice as long as it takes to be called dead: nobody is declared dead, nothing is charged, what
// ends meanwhile is recorded afterwards, calls and lines are few, and all goes on by itself. (Case 16; in virtual time
// TestOutage takes a minute.)
func TestOutageOnStores(t *testing.T) {
	onBoth(t, func(s *site) {
		const jobs = 20
		begun := make(chan pawl.ID, 99)
		gates := []chan struct{}{make(chan struct{}), make(chan struct{})}
		s.handle(func(ctx context.Context, job *pawl.Job, args workArgs) error {
			if job.Kind == once.Name() {
				return nil
			}
			begun <- job.ID
			select {
			case <-gates[args.N%2]:
			case <-ctx.Done():
				t.Errorf("a job was cancelled: %v", context.Cause(ctx))
			}
			return nil
		})
		links := []*outage{newOutage(s.open()), newOutage(s.open())}
		hosts := []*worker{s.startOn(links[0], s.config("a", jobs/2)), s.startOn(links[1], s.config("b", jobs/2))}
		ids := s.put(work, jobs)
		for range ids {
			come(s, "a start", begun)
		}
		sessions := words(hosts[0].Stats().Session, hosts[1].Stats().Session)
		for _, link := range links {
			link.down.Store(true)
		}
		close(gates[0])
		<-time.After(6 * time.Second)
		s.equal("ready", words(hosts[0].Ready(), hosts[1].Ready()), "false false")
		if n := links[0].calls.Load() + links[1].calls.Load(); n > 300 {
			t.Errorf("%d calls in six seconds without a store", n)
		}
		late := s.put(once, 4)
		for _, link := range links {
			link.down.Store(false)
		}
		s.until("both hosts", func() bool { return hosts[0].Ready() && hosts[1].Ready() })
		close(gates[1])
		ids = append(ids, late...)
		s.ended(ids, pawl.JobDone, 1)
		s.ran(ids, 1)
		s.equal("sessions", words(hosts[0].Stats().Session, hosts[1].Stats().Session), sessions)
		for _, h := range hosts {
			h.stop()
			s.equal("recovered and lost", words(h.Stats().Recovered, h.Stats().LeasesLost), "0 0")
		}
		if n := len(s.lines.at(slog.LevelWarn, "")); n == 0 || n > 25 {
			t.Errorf("%d warnings", n)
		}
	})
}

// Two programs share a store, each with kinds of its own, in the same queues. While one is away its jobs wait, untouched
// and to be seen, and do not hold up the other's; when it is back they run. (Case 22.)
func TestTwoProgramsOnOneStore(t *testing.T) {
	onBoth(t, func(s *site) {
		const jobs = 100
		program := func(name string, kind pawl.Kind[workArgs]) *worker {
			s.mux = pawl.NewMux()
			pawl.Handle(s.mux, kind, func(ctx context.Context, _ workArgs) error {
				job := pawl.FromContext(ctx)
				if job.Kind != kind.Name() {
					t.Errorf("%s runs a job of kind %s", name, job.Kind)
				}
				s.runs.add(job)
				return nil
			})
			return s.start(name, 10)
		}
		away := program("mail", once)
		s.until("the program that goes away", away.Ready)
		away.stop()
		var mails, orders []pawl.ID
		for range jobs / 10 {
			mails, orders = append(mails, s.put(once, 10)...), append(orders, s.put(work, 10)...)
		}
		shop := program("shop", work)
		s.ended(orders, pawl.JobDone, 1)
		s.ran(mails)
		for _, id := range mails {
			view := s.view(id)
			s.equal("a job whose program is away", words(view.State, view.Attempt, view.Crashes), "waiting 0 0")
		}
		back := program("mail", once)
		s.ended(mails, pawl.JobDone, 1)
		s.ran(slices.Concat(mails, orders), 1)
		back.stop()
		shop.stop()
	})
}

// Every way in which a handler can end badly, or not at all: the job is retried, the process and its other jobs go on, and
// nothing is left of it.
func TestHandlersThatMisbehave(t *testing.T) {
	onBoth(t, func(s *site) {
		gate := make(chan struct{})
		ways := []func(ctx context.Context) error{
			func(context.Context) error { panic("boom") },
			func(context.Context) error { panic(nil) },
			func(context.Context) error { noMap()["x"] = 1; return nil },
			func(context.Context) error { runtime.Goexit(); return nil },
			func(context.Context) error { return hostile{} },
			func(context.Context) error { <-gate; return nil },
			func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
			func(ctx context.Context) error { return pawl.FromContext(ctx).Release(ctx, -1) },
		}
		s.handle(func(ctx context.Context, job *pawl.Job, args workArgs) error {
			if job.Kind == once.Name() || job.Attempt > 1 {
				return nil
			}
			return ways[args.N](ctx)
		})
		config := s.config("a", 3)
		config.Intervals.GiveUp = 100 * time.Millisecond
		h := s.startOn(s.open(), config)
		ids := s.put(work, len(ways), pawl.Backoff(10*time.Millisecond), pawl.Timeout(300*time.Millisecond))
		good := s.put(once, 50)
		s.ended(good, pawl.JobDone, 1)
		s.ended(ids[:len(ways)-1], pawl.JobDone, 2)
		s.ended(ids[len(ways)-1:], pawl.JobDead, 1) // a fault of the call itself is permanent
		for i, want := range []pawl.Ending{
			pawl.EndPanicked, pawl.EndPanicked, pawl.EndPanicked, pawl.EndReturned, pawl.EndReturned, pawl.EndTimedOut, pawl.EndTimedOut,
		} {
			s.equal("ending", s.view(ids[i]).History[0].Ending, want)
		}
		s.equal("strays, panics, timeouts", words(h.Stats().Strays, h.Stats().Panicked, h.Stats().TimedOut), "1 3 2")
		close(gate)
		s.until("the stray's return", func() bool { return h.Stats().Strays == 0 })
		h.stop()
	})
}

// Handlers that keep connections and transactions open, as many as there are workers, and others that fill the store's
// one connection with enqueues: beats, claims and settles go on.
func TestHandlersThatHoldConnections(t *testing.T) {
	onBoth(t, func(s *site) {
		const workers = 8
		begun, open := make(chan pawl.ID, 99), make(chan struct{})
		store := s.open()
		s.handle(func(ctx context.Context, job *pawl.Job, args workArgs) error {
			if job.Queue == "3-bulk" {
				return nil
			}
			begun <- job.ID
			if args.N%2 == 0 {
				undo, err := s.engine.hold(ctx, s.where)
				<-open
				return errors.Join(err, undo())
			}
			for {
				select {
				case <-open:
					return nil
				default:
				}
				if _, err := once.Enqueue(ctx, store, workArgs{1}, pawl.InQueue("3-bulk")); err != nil {
					return err
				}
			}
		})
		h := s.startOn(store, s.config("a", workers+2))
		ids := s.put(work, workers, pawl.MaxTries(1))
		for range ids {
			come(s, "a start", begun)
		}
		session, since := h.Stats().Session, time.Now()
		others := h.Stats().Succeeded
		s.until("beats", func() bool { return h.Stats().LastBeat.After(since.Add(3 * time.Second)) })
		if n := h.Stats().Succeeded - others; n < 20 {
			t.Errorf("%d jobs were settled meanwhile", n)
		}
		s.equal("session", h.Stats().Session, session)
		s.equal("ready", h.Ready(), true)
		close(open)
		s.ended(ids, pawl.JobDone, 1)
		h.stop()
		s.equal("lost", h.Stats().LeasesLost, 0)
	})
}

// What a handler can say about its job: progress is shown, the timeout moves, and the logger has the fixed keys.
func TestWhatAHandlerCanDo(t *testing.T) {
	onBoth(t, func(s *site) {
		reported, open := make(chan error, 9), make(chan struct{})
		s.handle(func(ctx context.Context, job *pawl.Job, _ workArgs) error {
			before := job.Deadline()
			err := errors.Join(job.Progress(ctx, 40, "half of it, nearly"), job.Extend(ctx, time.Hour))
			if !job.Deadline().After(before.Add(50 * time.Minute)) {
				err = errors.Join(err, errors.New("the deadline has not moved"))
			}
			if job.Progress(ctx, 101, "") == nil || job.Extend(ctx, 0) == nil {
				err = errors.Join(err, errors.New("nonsense was accepted"))
			}
			job.Logger().Info("mine")
			reported <- err
			<-open
			return ctx.Err()
		})
		h := s.start("a", 1)
		ids := s.put(work, 1, pawl.Timeout(500*time.Millisecond), pawl.CorrelationID("req-1"))
		if err := come(s, "the report", reported); err != nil {
			t.Error(err)
		}
		begun := time.Now()
		s.until("the progress", func() bool { return s.view(ids[0]).Progress == "40 % half of it, nearly" })
		s.until("the end of the first timeout", func() bool { return time.Since(begun) > 700*time.Millisecond })
		close(open)
		s.ended(ids, pawl.JobDone, 1)
		h.stop()
		mine := s.lines.at(slog.LevelInfo, "mine")
		s.equal("lines", len(mine), 1)
		s.equal("keys", words(mine[0]["job"], mine[0]["kind"], mine[0]["queue"], mine[0]["attempt"], mine[0]["correlation_id"]),
			words(ids[0], work.Name(), "2-default", 1, "req-1"))
	})
}

// A small server inside an API process, bound to one queue, works beside a full host and without it.
func TestEmbeddedServer(t *testing.T) {
	onBoth(t, func(s *site) {
		served := make(chan string, 99)
		handle := func(by string) func(context.Context, *pawl.Job, workArgs) error {
			return func(_ context.Context, job *pawl.Job, _ workArgs) error {
				served <- by + " " + job.Queue
				return nil
			}
		}
		s.handle(handle("api"))
		config := s.config("api", 2)
		config.Servers = []host.Server{{Name: "api", Queues: []string{"1-critical"}, Workers: 2}}
		api := s.startOn(s.open(), config)
		ids := append(s.put(work, 3, pawl.InQueue("1-critical")), s.put(once, 2, pawl.InQueue("1-critical"))...)
		waiting := s.put(work, 2)
		s.ended(ids, pawl.JobDone, 1)
		for range ids {
			s.equal("served", come(s, "a start", served), "api 1-critical")
		}
		s.equal("others wait", words(s.view(waiting[0]).State, s.view(waiting[1]).State), "waiting waiting")
		s.handle(handle("full"))
		full := s.start("full", 4)
		s.ended(waiting, pawl.JobDone, 1)
		for range waiting {
			s.equal("served", come(s, "a start", served), "full 2-default")
		}
		full.stop()
		api.stop()
	})
}
