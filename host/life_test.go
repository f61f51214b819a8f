package host_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawljobs/pawl"
)

func TestRetriesFollowTheCurve(t *testing.T) {
	virtual(t, func(w *world) {
		var starts []time.Time
		w.handle(func(ctx context.Context, _ workArgs) error {
			job := pawl.FromContext(ctx)
			starts = append(starts, time.Now())
			if job.Attempt != len(starts) || job.MaxTries != 6 || job.LastAttempt() != (len(starts) == 6) {
				t.Errorf("run %d sees attempt %d of %d, last %v", len(starts), job.Attempt, job.MaxTries, job.LastAttempt())
			}
			return errors.New("no luck")
		})
		id := w.put(1)
		h := w.start()
		w.pass(6 * time.Hour)
		h.clean()
		w.equal("runs", len(starts), 6)
		for i, want := range []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 2 * time.Hour} {
			if gap := starts[i+1].Sub(starts[i]); gap < want || gap > want+want/10+2*time.Second {
				t.Errorf("gap %d is %s, want %s and at most 10 %% more", i+1, gap, want)
			}
		}
		l := w.letterOf(id)
		w.equal("class and reason", words(l.Class, l.Reason), "transient-exhausted budget")
		w.equal("attempts", l.Attempts, 6)
		w.equal("history", len(l.History), 6)
		w.equal("message", l.Message, "no luck")
		w.equal("where", l.Host+" "+l.Server+" "+l.Version, "desk-7 desk-7:worker-io v1")
		w.equal("started", l.StartedAt.Equal(starts[5]), true)
		w.equal("warnings", len(w.lines.at(slog.LevelWarn, "job attempt failed")), 5)
		w.equal("error lines", w.deathLines()[id.String()], 1)
		w.equal("execution lines of those that were tried again", len(w.lines.at(slog.LevelInfo, "job ran")), 5)
	})
}

// One thousand jobs that fail in the same second come back spread out, and none too early.
func TestRetriesAreSpread(t *testing.T) {
	virtual(t, func(w *world) {
		var mu sync.Mutex
		back := map[time.Duration]int{}
		begun := time.Now()
		w.handle(func(ctx context.Context, _ workArgs) error {
			if pawl.FromContext(ctx).Attempt == 1 {
				return errors.New("all at once")
			}
			mu.Lock()
			defer mu.Unlock()
			back[time.Since(begun).Truncate(time.Second)]++
			return nil
		})
		w.putMany(1000)
		h := w.start()
		w.pass(5 * time.Minute)
		h.clean()
		total := 0
		for at, n := range back {
			total += n
			if at < time.Minute || n > 400 {
				t.Errorf("%d jobs came back in the second after %s", n, at)
			}
		}
		w.equal("came back", total, 1000)
	})
}

func noMap() map[string]int { return nil }

func TestEndings(t *testing.T) {
	for name, c := range map[string]struct {
		handler      func(ctx context.Context) error
		tries        int
		class        string
		reason       pawl.Reason
		kind, detail string
	}{
		"permanent": {handler: func(context.Context) error { return pawl.Permanent(errors.New("unknown role")) }, class: "permanent", reason: pawl.ReasonPermanent, kind: "*errors.errorString"},
		"panic":     {handler: func(context.Context) error { panic("boom") }, tries: 2, class: "transient-exhausted", reason: pawl.ReasonBudget, kind: "*pawl.PanicError", detail: "life_test.go"},
		"panic nil": {handler: func(context.Context) error { panic(nil) }, tries: 2, class: "transient-exhausted", reason: pawl.ReasonBudget, kind: "*pawl.PanicError", detail: "*runtime.PanicNilError"},
		"nil map":   {handler: func(context.Context) error { noMap()["x"] = 1; return nil }, tries: 2, class: "transient-exhausted", reason: pawl.ReasonBudget, detail: "assignment to entry in nil map"},
		"goexit":    {handler: func(context.Context) error { runtime.Goexit(); return nil }, tries: 2, class: "transient-exhausted", reason: pawl.ReasonBudget, kind: "pawl.sentinel"},
		"wrong args": {handler: func(context.Context) error {
			return &pawl.PoisonError{Reason: pawl.ReasonWrongArgs, Err: errors.New("x")}
		}, class: "poison", reason: pawl.ReasonWrongArgs},
		"own misuse":    {handler: func(ctx context.Context) error { return pawl.FromContext(ctx).Release(ctx, -1) }, class: "permanent", reason: pawl.ReasonPermanent},
		"hostile error": {handler: func(context.Context) error { return hostile{} }, tries: 1, class: "transient-exhausted", reason: pawl.ReasonBudget, kind: "host_test.hostile"},
		"huge error":    {handler: func(context.Context) error { return errors.New(strings.Repeat("\x00é", 3<<20)) }, tries: 1, class: "transient-exhausted", reason: pawl.ReasonBudget},
		"timeout":       {handler: func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, tries: 2, class: "transient-exhausted", reason: pawl.ReasonTimeout, detail: "job timeout"},
		"explicit": {handler: func(ctx context.Context) error {
			return pawl.FromContext(ctx).Fail(ctx, errors.New("I say so"))
		}, class: "permanent", reason: pawl.ReasonExplicit, detail: "I say so"},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(w *world) {
				w.handle(func(ctx context.Context, args workArgs) error {
					if args.N == 2 {
						return nil
					}
					return c.handler(ctx)
				})
				options := []pawl.Option{}
				if c.tries > 0 {
					options = append(options, pawl.MaxTries(c.tries), pawl.Backoff(time.Second))
				}
				id, neighbour := w.put(1, options...), w.put(2)
				h := w.start()
				w.pass(10 * time.Minute)
				h.clean()
				w.equal("end", w.ended(id), "dead")
				w.equal("neighbour", w.ended(neighbour), "done")
				l := w.letterOf(id)
				w.equal("class and reason", words(l.Class, l.Reason), words(c.class, c.reason))
				w.equal("attempts", l.Attempts, max(c.tries, 1))
				if c.kind != "" {
					w.equal("exception type", l.ExceptionType, c.kind)
				}
				if !strings.Contains(l.Message+l.Detail, c.detail) {
					t.Errorf("no %q in\n%s\n%s", c.detail, l.Message, l.Detail)
				}
				w.equal("error lines", fmt.Sprint(w.deathLines()), fmt.Sprint(map[string]int{id.String(): 1}))
				w.equal("running and strays", fmt.Sprint(h.Stats().Running, h.Stats().Strays), "0 0")
			})
		})
	}
}

// hostile is an error whose methods all panic.
type hostile struct{}

func (hostile) Error() string { panic("Error") }
func (hostile) Unwrap() error { panic("Unwrap") }
func (hostile) Is(error) bool { panic("Is") }
func (hostile) As(any) bool   { panic("As") }

func TestTimeoutThenRetry(t *testing.T) {
	virtual(t, func(w *world) {
		var causes []error
		w.handle(func(ctx context.Context, _ workArgs) error {
			job := pawl.FromContext(ctx)
			if job.Attempt == 2 {
				return nil
			}
			begun := time.Now()
			deadline, ok := ctx.Deadline()
			w.equal("deadline of the ctx", ok && deadline.Equal(begun.Add(30*time.Second)) && job.Deadline().Equal(deadline), true)
			<-ctx.Done()
			w.equal("timeout", time.Since(begun), 30*time.Second)
			causes = append(causes, context.Cause(ctx))
			return fmt.Errorf("call: %w", ctx.Err())
		})
		id := w.put(1, pawl.Timeout(30*time.Second))
		h := w.start()
		w.pass(5 * time.Minute)
		h.clean()
		w.equal("end", w.ended(id), "done")
		w.equal("cause", errors.Is(causes[0], pawl.ErrTimeout), true)
		w.equal("timed out", h.Stats().TimedOut, 1)
		warn := w.lines.at(slog.LevelWarn, "job attempt failed")
		w.equal("warning", warn[0]["ending"], "timed out")
	})
}

func TestNilAfterTheTimeoutAcknowledges(t *testing.T) {
	virtual(t, func(w *world) {
		w.handle(func(ctx context.Context, _ workArgs) error {
			<-ctx.Done()
			time.Sleep(9 * time.Second)
			return nil
		})
		id := w.put(1, pawl.Timeout(time.Second))
		h := w.start()
		w.pass(time.Minute)
		h.clean()
		w.equal("end", w.ended(id), "done")
		w.equal("strays", h.Stats().Strays, 0)
	})
}

func TestExtendMovesTheTimeout(t *testing.T) {
	virtual(t, func(w *world) {
		var ran time.Duration
		var late error
		w.handle(func(ctx context.Context, _ workArgs) error {
			begun, job := time.Now(), pawl.FromContext(ctx)
			for range 3 {
				time.Sleep(8 * time.Second)
				if err := job.Extend(ctx, 10*time.Second); err != nil {
					t.Error(err)
				}
			}
			deadline, _ := ctx.Deadline()
			w.equal("deadline", deadline.Sub(begun), 34*time.Second)
			<-ctx.Done()
			ran = time.Since(begun)
			late = job.Extend(ctx, time.Hour)
			return ctx.Err()
		})
		w.put(1, pawl.Timeout(10*time.Second), pawl.MaxTries(1))
		h := w.start()
		w.pass(5 * time.Minute)
		h.clean()
		w.equal("ran", ran, 34*time.Second)
		w.equal("extension after the timeout", errors.Is(late, pawl.ErrTimeout), true)
	})
}

func TestHandlerThatIgnoresItsContext(t *testing.T) {
	virtual(t, func(w *world) {
		w.config.Servers = oneServer(1)
		gate := make(chan struct{})
		var late []error
		var runs atomic.Int32
		w.handle(func(ctx context.Context, args workArgs) error {
			if args.N == 2 || runs.Add(1) > 1 {
				return nil
			}
			job := pawl.FromContext(ctx)
			<-gate
			late = append(late, job.Release(context.Background(), 0), job.Delete(context.Background()),
				job.Progress(context.Background(), 1, ""), job.Extend(context.Background(), time.Second))
			return errors.New("too late")
		})
		id := w.put(1, pawl.Timeout(30*time.Second))
		h := w.start()
		w.pass(39 * time.Second)
		other := w.put(2)
		w.equal("strays before", h.Stats().Strays, 0)
		w.pass(2 * time.Second)
		w.equal("strays", h.Stats().Strays, 1)
		w.equal("the slot is given to another", w.ended(other), "done")
		w.pass(2 * time.Minute)
		w.equal("end", w.ended(id), "done")
		w.equal("timed out", h.Stats().TimedOut, 1)
		w.equal("warnings", len(w.lines.at(slog.LevelWarn, "a handler ignores its cancelled context and is given up")), 1)
		close(gate)
		synctest.Wait()
		w.equal("strays after", h.Stats().Strays, 0)
		for i, err := range late {
			if !errors.Is(err, pawl.ErrFinished) && !errors.Is(err, pawl.ErrLeaseLost) {
				t.Errorf("late operation %d returned %v", i, err)
			}
		}
		noted := w.lines.at(slog.LevelWarn, "a handler that was given up has returned; this changes nothing")
		w.equal("note", noted[0]["error"], "too late")
		h.clean()
		w.equal("end after the late return", w.ended(id), "done")
	})
}

func TestReleaseCountsAttempts(t *testing.T) {
	virtual(t, func(w *world) {
		releases := 40_000
		if testing.Short() {
			releases = 2_000
		}
		runs := 0
		w.config.Logger = slog.New(slog.DiscardHandler)
		w.handle(func(ctx context.Context, _ workArgs) error {
			runs++
			if job := pawl.FromContext(ctx); job.Attempt != runs {
				t.Errorf("run %d is attempt %d", runs, job.Attempt)
			}
			return pawl.FromContext(ctx).Release(ctx, 0)
		})
		id := w.put(1, pawl.MaxTries(releases))
		h := w.start()
		w.pass(24 * time.Hour)
		h.clean()
		w.equal("runs", runs, releases)
		l := w.letterOf(id)
		w.equal("death", words(l.Class, l.Reason, l.Attempts), words("transient-exhausted", "budget", releases))
		w.equal("type", l.ExceptionType, "*host.NotRunError")
		w.equal("started", l.StartedAt.IsZero(), true)
		w.equal("released", h.Stats().Released, releases)
	})
}

func TestOperations(t *testing.T) {
	virtual(t, func(w *world) {
		var second []error
		w.handle(func(ctx context.Context, args workArgs) error {
			job := pawl.FromContext(ctx)
			switch {
			case job.Attempt > 1:
				return nil
			case args.N == 1:
				second = append(second, job.Delete(ctx), job.Release(ctx, 0), job.Fail(ctx, errors.New("x")))
				w.equal("finished", job.Finished(), true)
				time.Sleep(time.Minute) // beats find the reservation gone: no reason to cancel
				if err := ctx.Err(); err != nil {
					t.Errorf("ctx after the transition: %v", context.Cause(ctx))
				}
				panic("after the transition")
			case args.N == 2:
				return job.Release(ctx, 30*time.Second)
			}
			return job.Progress(ctx, 40, "rows")
		})
		deleted, released := w.put(1), w.put(2)
		h := w.start()
		w.pass(20 * time.Second)
		w.equal("state of the released one", w.look(released).claim.Attempt, 1)
		w.pass(2 * time.Minute)
		h.clean()
		w.equal("ends", w.ended(deleted)+w.ended(released), "donedone")
		w.equal("first", second[0], nil)
		w.equal("second", errors.Is(second[1], pawl.ErrFinished) && errors.Is(second[2], pawl.ErrFinished), true)
		w.equal("the panic is logged", len(w.lines.at(slog.LevelWarn, "the handler failed after its job's transition; this changes nothing")), 1)
		w.equal("deaths", len(w.deathLines()), 0)
	})
}

func TestProgressComesWithTheNextBeat(t *testing.T) {
	virtual(t, func(w *world) {
		w.handle(func(ctx context.Context, _ workArgs) error {
			if err := pawl.FromContext(ctx).Progress(ctx, 40, "rows"); err != nil {
				t.Error(err)
			}
			time.Sleep(20 * time.Second)
			return nil
		})
		id := w.put(1)
		h := w.start()
		w.pass(6 * time.Second)
		p := w.look(id).progress
		w.equal("progress", words(p.Percent, p.Note), "40 rows")
		h.clean()
	})
}

// A retry-until that passes between two runs is a death by deadline; one that passes during a run lets it finish.
func TestDeadline(t *testing.T) {
	virtual(t, func(w *world) {
		w.handle(func(ctx context.Context, args workArgs) error {
			if args.N == 1 {
				time.Sleep(2 * time.Minute)
				return nil
			}
			return errors.New("no luck")
		})
		during := w.put(1, pawl.RetryFor(time.Minute))
		between := w.put(2, pawl.RetryFor(3*time.Minute), pawl.Backoff(time.Minute))
		waiting := w.put(3, pawl.RetryFor(time.Minute), pawl.Delay(time.Second))
		w.with(waiting, func(j *fakeJob) { j.runAt = time.Now().Add(2 * time.Minute) }) // held back for long
		h := w.start()
		w.pass(10 * time.Minute)
		h.clean()
		w.equal("during", w.ended(during), "done")
		l := w.letterOf(between)
		w.equal("between", words(l.Reason, l.Attempts), "deadline 3")
		l = w.letterOf(waiting)
		w.equal("waiting", words(l.Reason, l.StartedAt.IsZero()), "deadline true")
	})
}

func TestClassifiersAreAsked(t *testing.T) {
	virtual(t, func(w *world) {
		w.config.Classifiers = []pawl.Classifier{
			func(error) pawl.Class { panic("a bad classifier") },
			func(err error) pawl.Class {
				if strings.Contains(err.Error(), "422") {
					return pawl.ClassPermanent
				}
				return pawl.ClassUnknown
			},
		}
		w.handle(func(context.Context, workArgs) error { return errors.New("status 422") })
		id := w.put(1)
		h := w.start()
		w.pass(time.Minute)
		h.clean()
		w.equal("class", w.letterOf(id).Class, pawl.DeathPermanent)
	})
}

func TestLogLinesHaveTheFixedKeys(t *testing.T) {
	virtual(t, func(w *world) {
		w.handle(func(ctx context.Context, _ workArgs) error {
			pawl.FromContext(ctx).Logger().With("extra", 1).Info("mine")
			pawl.FromContext(ctx).Logger().WithGroup("g").Info("grouped", "x", 1)
			return errors.New("no luck")
		})
		id := w.put(1, pawl.MaxTries(2), pawl.CorrelationID("req-1"))
		h := w.start()
		w.pass(10 * time.Minute)
		h.clean()
		for _, message := range []string{"mine", "grouped", "job ran", "job attempt failed", "job dead-lettered"} {
			found := false
			for _, level := range []slog.Level{slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
				for _, e := range w.lines.at(level, message) {
					found = true
					if e["job"] != id.String() || e["kind"] != "test.work.v1" || e["queue"] != "2-default" || e["correlation_id"] != "req-1" {
						t.Errorf("keys of %q: %v", message, e)
					}
				}
			}
			w.equal("found "+message, found, true)
		}
		death := w.lines.at(slog.LevelError, "job dead-lettered")[0]
		w.equal("death", words(death["class"], death["reason"], death["attempts"], death["letter"]),
			words("transient-exhausted", "budget", 2, w.letterOf(id).ID))
		w.equal("its run", words(death["ending"], death["duration"], death["waited"] != nil), words("returned", 0, true))
	})
}
