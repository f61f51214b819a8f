package pawl_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
)

var (
	errBoom = errors.New("boom")
	noon    = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
)

func exact(tries int, delays ...time.Duration) pawl.Policy {
	return pawl.Policy{MaxTries: tries, Backoff: delays}
}

// TestDecide covers every line of the function: each row is a promise about what an attempt's end leads to.
func TestDecide(t *testing.T) {
	t.Parallel()
	minute := exact(6, time.Minute)
	once := exact(1, time.Minute)
	poison := &pawl.PoisonError{Reason: pawl.ReasonWrongArgs, Err: errBoom}
	for _, row := range []struct {
		name   string
		policy pawl.Policy
		facts  pawl.Facts
		err    error
		want   pawl.Outcome
	}{
		{"nil is done", minute, pawl.Facts{Attempt: 1, Ending: pawl.EndReturned}, nil, pawl.Done{}},
		{"nil after the timeout is done", minute, pawl.Facts{Attempt: 6, Ending: pawl.EndTimedOut}, nil, pawl.Done{}},
		{"nil after the shutdown's cancel is done", once, pawl.Facts{Attempt: 1, Ending: pawl.EndInterrupted}, nil, pawl.Done{}},

		{"unclassified retries", minute, pawl.Facts{Attempt: 1, Ending: pawl.EndReturned}, errBoom, pawl.Retry{After: time.Minute}},
		{"transient retries", minute, pawl.Facts{Attempt: 5}, pawl.Transient(errBoom), pawl.Retry{After: time.Minute}},
		{"a panic retries", minute, pawl.Facts{Attempt: 1}, &pawl.PanicError{Value: "x"}, pawl.Retry{After: time.Minute}},
		{"Goexit retries", minute, pawl.Facts{Attempt: 1}, pawl.ErrGoexit, pawl.Retry{After: time.Minute}},
		{"a timeout retries", minute, pawl.Facts{Attempt: 1, Ending: pawl.EndTimedOut}, context.DeadlineExceeded, pawl.Retry{After: time.Minute}},
		{"RetryAfter waits longer", minute, pawl.Facts{Attempt: 1}, pawl.RetryAfter(errBoom, time.Hour), pawl.Retry{After: time.Hour}},
		{"the curve wins over a shorter RetryAfter", minute, pawl.Facts{Attempt: 1}, pawl.RetryAfter(errBoom, time.Second), pawl.Retry{After: time.Minute}},
		{"RetryAfter counts the attempt", minute, pawl.Facts{Attempt: 6}, pawl.RetryAfter(errBoom, time.Hour), pawl.Dead{pawl.DeathExhausted, pawl.ReasonBudget}},

		{"permanent dies at once", minute, pawl.Facts{Attempt: 1}, pawl.Permanent(errBoom), pawl.Dead{pawl.DeathPermanent, pawl.ReasonPermanent}},
		{"poison dies at once", minute, pawl.Facts{Attempt: 1}, poison, pawl.Dead{pawl.DeathPoison, pawl.ReasonWrongArgs}},
		{"wrapped poison dies at once", minute, pawl.Facts{Attempt: 1}, fmt.Errorf("x: %w", poison), pawl.Dead{pawl.DeathPoison, pawl.ReasonWrongArgs}},
		{"a payload error of our own is permanent", minute, pawl.Facts{Attempt: 1}, fmt.Errorf("enqueue: %w", &pawl.FieldError{Field: "queue"}), pawl.Dead{pawl.DeathPermanent, pawl.ReasonPermanent}},
		{"a redrive error of our own is permanent", minute, pawl.Facts{Attempt: 1}, pawl.ErrAlreadyRedriven, pawl.Dead{pawl.DeathPermanent, pawl.ReasonPermanent}},

		{"the last try dies by budget", minute, pawl.Facts{Attempt: 6}, errBoom, pawl.Dead{pawl.DeathExhausted, pawl.ReasonBudget}},
		{"the last try dies by timeout", minute, pawl.Facts{Attempt: 6, Ending: pawl.EndTimedOut}, errBoom, pawl.Dead{pawl.DeathExhausted, pawl.ReasonTimeout}},
		{"max tries 1 dies at its first failure", once, pawl.Facts{Attempt: 1}, errBoom, pawl.Dead{pawl.DeathExhausted, pawl.ReasonBudget}},
		{"attempts far beyond the budget die", minute, pawl.Facts{Attempt: math.MaxInt}, errBoom, pawl.Dead{pawl.DeathExhausted, pawl.ReasonBudget}},

		{"a retry before the deadline", minute, pawl.Facts{Attempt: 1, Now: noon, Deadline: noon.Add(time.Minute + 1)}, errBoom, pawl.Retry{After: time.Minute}},
		{"a retry at the deadline dies", minute, pawl.Facts{Attempt: 1, Now: noon, Deadline: noon.Add(time.Minute)}, errBoom, pawl.Dead{pawl.DeathExhausted, pawl.ReasonDeadline}},
		{"success after the deadline is done", minute, pawl.Facts{Attempt: 1, Now: noon, Deadline: noon.Add(-time.Hour)}, nil, pawl.Done{}},

		{"a shutdown requeues", minute, pawl.Facts{Attempt: 6, Ending: pawl.EndInterrupted}, errBoom, pawl.GiveBack{Interrupted: true}},
		{"a shutdown requeues whatever is wrapped", minute, pawl.Facts{Attempt: 1, Ending: pawl.EndInterrupted}, fmt.Errorf("send: %w", context.Canceled), pawl.GiveBack{Interrupted: true}},
		{"a shutdown requeues in spite of RetryAfter", minute, pawl.Facts{Attempt: 1, Ending: pawl.EndInterrupted}, pawl.RetryAfter(errBoom, time.Hour), pawl.GiveBack{Interrupted: true}},
		{"permanent holds in a shutdown", minute, pawl.Facts{Attempt: 1, Ending: pawl.EndInterrupted}, pawl.Permanent(errBoom), pawl.Dead{pawl.DeathPermanent, pawl.ReasonPermanent}},
		{"max tries 1 is not requeued by a shutdown", once, pawl.Facts{Attempt: 1, Ending: pawl.EndInterrupted}, errBoom, pawl.Dead{pawl.DeathExhausted, pawl.ReasonInterrupted}},
		{"nil after an operator's cancel is done", once, pawl.Facts{Attempt: 1, Ending: pawl.EndCancelled}, nil, pawl.Done{}},
		{"a cancelled one goes back, to be removed", once, pawl.Facts{Attempt: 1, Ending: pawl.EndCancelled}, errBoom, pawl.GiveBack{}},
		{"a cancelled one goes back whatever it says", minute, pawl.Facts{Attempt: 6, Ending: pawl.EndCancelled}, pawl.Permanent(poison), pawl.GiveBack{}},
		{"cut off requeues", minute, pawl.Facts{Attempt: 6, Ending: pawl.EndCutOff}, nil, pawl.GiveBack{Interrupted: true}},
		{"max tries 1 cut off is lost", once, pawl.Facts{Attempt: 1, Ending: pawl.EndCutOff}, nil, pawl.Dead{pawl.DeathExhausted, pawl.ReasonLost}},
	} {
		if got := pawl.Decide(row.policy, row.facts, row.err); got != row.want {
			t.Errorf("%s: got %#v, want %#v", row.name, got, row.want)
		}
	}
}

func TestAdmit(t *testing.T) {
	t.Parallel()
	six := exact(6, time.Minute)
	for _, row := range []struct {
		name   string
		policy pawl.Policy
		facts  pawl.Facts
		want   pawl.Dead
		dead   bool
	}{
		{"a first attempt runs", six, pawl.Facts{Attempt: 1}, pawl.Dead{}, false},
		{"the last attempt runs", six, pawl.Facts{Attempt: 6, Last: pawl.EndReturned}, pawl.Dead{}, false},
		{"a suspect runs", six, pawl.Facts{Attempt: 3, Crashes: pawl.CrashSuspect, Last: pawl.EndCrashed}, pawl.Dead{}, false},
		{"one try too many", six, pawl.Facts{Attempt: 7, Last: pawl.EndReleased}, pawl.Dead{pawl.DeathExhausted, pawl.ReasonBudget}, true},
		{"40,000 releases", six, pawl.Facts{Attempt: 40_001, Last: pawl.EndReleased}, pawl.Dead{pawl.DeathExhausted, pawl.ReasonBudget}, true},
		{"the last try crashed", six, pawl.Facts{Attempt: 7, Crashes: 1, Last: pawl.EndCrashed}, pawl.Dead{pawl.DeathExhausted, pawl.ReasonCrashed}, true},
		{"the last try timed out", six, pawl.Facts{Attempt: 7, Last: pawl.EndTimedOut}, pawl.Dead{pawl.DeathExhausted, pawl.ReasonTimeout}, true},
		{"the third crash is poison", six, pawl.Facts{Attempt: 4, Crashes: 3, Last: pawl.EndCrashed}, pawl.Dead{pawl.DeathPoison, pawl.ReasonCrashLoop}, true},
		{"the third crash is poison also on the last try", six, pawl.Facts{Attempt: 7, Crashes: 3}, pawl.Dead{pawl.DeathPoison, pawl.ReasonCrashLoop}, true},
		{"max tries 1 with a start mark is lost", exact(1, 0), pawl.Facts{Attempt: 2, Started: true, Crashes: 1, Last: pawl.EndCrashed}, pawl.Dead{pawl.DeathExhausted, pawl.ReasonLost}, true},
		{"max tries 1 without a start mark runs", exact(1, 0), pawl.Facts{Attempt: 1}, pawl.Dead{}, false},
		{"before the deadline", six, pawl.Facts{Attempt: 1, Now: noon, Deadline: noon.Add(1)}, pawl.Dead{}, false},
		{"at the deadline", six, pawl.Facts{Attempt: 1, Now: noon, Deadline: noon}, pawl.Dead{pawl.DeathExhausted, pawl.ReasonDeadline}, true},
	} {
		if got, dead := pawl.Admit(row.policy, row.facts); got != row.want || dead != row.dead {
			t.Errorf("%s: got %#v, %v, want %#v, %v", row.name, got, dead, row.want, row.dead)
		}
	}
}

func after(t *testing.T, p pawl.Policy, job pawl.ID, attempt int) time.Duration {
	t.Helper()
	p.MaxTries = math.MaxInt
	outcome, ok := pawl.Decide(p, pawl.Facts{Job: job, Attempt: attempt}, errBoom).(pawl.Retry)
	if !ok {
		t.Fatalf("attempt %d is not retried", attempt)
	}
	return outcome.After
}

// Case 1: the curve is clamped to its last delay whatever the attempt, and nothing overflows.
func TestBackoffIsClamped(t *testing.T) {
	t.Parallel()
	p := pawl.DefaultPolicy()
	p.Jitter = 0
	for attempt, want := range map[int]time.Duration{
		math.MinInt: time.Minute, 0: time.Minute, 1: time.Minute, 2: 5 * time.Minute, 3: 30 * time.Minute,
		4: 2 * time.Hour, 5: 2 * time.Hour, 6: 2 * time.Hour, 305: 2 * time.Hour, 1024: 2 * time.Hour,
		1_000_000: 2 * time.Hour, math.MaxInt - 1: 2 * time.Hour,
	} {
		if got := after(t, p, pawl.NewID(), attempt); got != want {
			t.Errorf("attempt %d: got %v, want %v", attempt, got, want)
		}
	}
}

// The gaps of the default curve are those that the documentation promises: 4.6 hours in all.
func TestDefaultCurve(t *testing.T) {
	t.Parallel()
	p := pawl.DefaultPolicy()
	var sum time.Duration
	for attempt := 1; attempt < p.MaxTries; attempt++ {
		p.Jitter = 0
		sum += after(t, p, pawl.NewID(), attempt)
	}
	if want := 16_560 * time.Second; sum != want {
		t.Errorf("the gaps sum to %v, want %v", sum, want)
	}
}

// Case 6: jobs that fail in the same second come back spread out, none before its delay, each the same on every host.
func TestJitterSpreads(t *testing.T) {
	t.Parallel()
	p := pawl.DefaultPolicy()
	seconds := map[time.Duration]int{}
	for range 1000 {
		job := pawl.NewID()
		d := after(t, p, job, 1)
		if d < time.Minute || d > 66*time.Second {
			t.Fatalf("delay %v lies outside 60 s to 66 s", d)
		}
		if again := after(t, p, job, 1); again != d {
			t.Fatalf("the same job and attempt gave %v and %v", d, again)
		}
		seconds[d.Truncate(time.Second)]++
	}
	for second := time.Minute; second < 66*time.Second; second += time.Second {
		if n := seconds[second]; n < 80 || n > 280 {
			t.Errorf("%d of 1000 retries fall into second %v: not spread", n, second)
		}
	}
}

func TestClassOf(t *testing.T) {
	t.Parallel()
	deep := errBoom
	for range 10_000 {
		deep = fmt.Errorf("level: %w", deep)
	}
	for _, row := range []struct {
		name string
		err  error
		want pawl.Class
	}{
		{"nil", nil, pawl.ClassUnknown},
		{"plain", errBoom, pawl.ClassUnknown},
		{"permanent", pawl.Permanent(errBoom), pawl.ClassPermanent},
		{"permanent inside a wrapper", fmt.Errorf("x: %w", pawl.Permanent(errBoom)), pawl.ClassPermanent},
		{"outermost wins: transient", pawl.Transient(pawl.Permanent(errBoom)), pawl.ClassTransient},
		{"outermost wins: permanent", pawl.Permanent(fmt.Errorf("x: %w", pawl.RetryAfter(errBoom, 1))), pawl.ClassPermanent},
		{"joined: any permanent part", errors.Join(errBoom, pawl.Transient(errBoom), pawl.Permanent(errBoom)), pawl.ClassPermanent},
		{"joined: transient", errors.Join(errBoom, pawl.Transient(errBoom)), pawl.ClassTransient},
		{"joined by fmt", fmt.Errorf("%w and %w", errBoom, pawl.Permanent(errBoom)), pawl.ClassPermanent},
		{"transient around a join", pawl.Transient(errors.Join(errBoom, pawl.Permanent(errBoom))), pawl.ClassTransient},
		{"10,000 levels", deep, pawl.ClassUnknown},
		{"permanent under 10,000 levels", fmt.Errorf("x: %w", wrapMany(pawl.Permanent(errBoom), 10_000)), pawl.ClassPermanent},
		{"a circle", circle(), pawl.ClassUnknown},
		{"an Unwrap that panics", evil{}, pawl.ClassUnknown},
	} {
		if got := pawl.ClassOf(row.err); got != row.want {
			t.Errorf("%s: got %v, want %v", row.name, got, row.want)
		}
	}
}

func wrapMany(err error, n int) error {
	for range n {
		err = fmt.Errorf("level: %w", err)
	}
	return err
}

type ring struct{ next *ring }

func (r *ring) Error() string { return "ring" }
func (r *ring) Unwrap() error { return r.next }

func circle() error {
	a, b := &ring{}, &ring{}
	a.next, b.next = b, a
	return a
}

type evil struct{}

func (evil) Error() string { panic("no text") }
func (evil) Unwrap() error { panic("no inner error") }

func TestChainHas(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name string
		err  error
		want bool
	}{
		{"nil", nil, false},
		{"itself", errBoom, true},
		{"wrapped", fmt.Errorf("x: %w", pawl.Permanent(errBoom)), true},
		{"joined", errors.Join(context.Canceled, fmt.Errorf("x: %w", errBoom)), true},
		{"another", context.Canceled, false},
		{"a circle", circle(), false},
		{"10,000 levels", wrapMany(errBoom, 10_000), true},
		{"an Unwrap that panics", evil{}, false},
		{"not comparable", uncomparable{errBoom}, false},
	} {
		if got := pawl.ChainHas(row.err, errBoom); got != row.want {
			t.Errorf("%s: got %v", row.name, got)
		}
	}
	if pawl.ChainHas(uncomparable{}, uncomparable{}) {
		t.Error("errors that cannot be compared are the same")
	}
}

type uncomparable []error

func (uncomparable) Error() string { return "uncomparable" }

// A wait that is longer than anybody's patience is still a wait.
func TestRetryAfterIsBounded(t *testing.T) {
	t.Parallel()
	outcome := pawl.Decide(exact(6, time.Minute), pawl.Facts{Attempt: 1}, pawl.RetryAfter(errBoom, math.MaxInt64))
	if retry, ok := outcome.(pawl.Retry); !ok || retry.After < 365*24*time.Hour || noon.Add(retry.After).Before(noon) {
		t.Errorf("got %v", outcome)
	}
}

func TestAfterOf(t *testing.T) {
	t.Parallel()
	asked := pawl.RetryAfter(errBoom, time.Minute)
	for _, row := range []struct {
		err  error
		want time.Duration
	}{
		{nil, 0},
		{errBoom, 0},
		{pawl.Transient(errBoom), 0},
		{fmt.Errorf("x: %w", asked), time.Minute},
		{errors.Join(errBoom, asked, pawl.RetryAfter(errBoom, time.Second)), time.Minute},
		{pawl.Permanent(asked), time.Minute},
	} {
		if got := pawl.AfterOf(row.err); got != row.want {
			t.Errorf("%v: %v, want %v", row.err, got, row.want)
		}
	}
}

func TestWrappersKeepNilAndIdentity(t *testing.T) {
	t.Parallel()
	for name, wrap := range map[string]func(error) error{
		"Permanent": pawl.Permanent, "Transient": pawl.Transient,
		"RetryAfter": func(err error) error { return pawl.RetryAfter(err, time.Second) },
	} {
		if wrap(nil) != nil {
			t.Errorf("%s(nil) is not nil", name)
		}
		if err := wrap(fmt.Errorf("x: %w", errBoom)); !errors.Is(err, errBoom) || err.Error() != "x: boom" {
			t.Errorf("%s hides what it wraps: %v", name, err)
		}
	}
}

func TestClassifiersAreAskedInOrder(t *testing.T) {
	t.Parallel()
	unsure := func(error) pawl.Class { return pawl.ClassUnknown }
	panics := func(error) pawl.Class { panic("x") }
	exits := func(error) pawl.Class { runtime.Goexit(); return pawl.ClassPermanent }
	permanent := func(error) pawl.Class { return pawl.ClassPermanent }
	transient := func(error) pawl.Class { return pawl.ClassTransient }
	for _, row := range []struct {
		name string
		err  error
		ask  []pawl.Classifier
		want pawl.Class
	}{
		{"nobody", errBoom, nil, pawl.ClassUnknown},
		{"the first that knows", errBoom, []pawl.Classifier{unsure, panics, exits, permanent, transient}, pawl.ClassPermanent},
		{"the error itself first", pawl.Transient(errBoom), []pawl.Classifier{permanent}, pawl.ClassTransient},
		{"nil", nil, []pawl.Classifier{permanent}, pawl.ClassUnknown},
	} {
		got := pawl.Classify(row.err, row.ask...)
		if pawl.ClassOf(got) != row.want || !errors.Is(got, row.err) {
			t.Errorf("%s: got %v as %v, want %v", row.name, got, pawl.ClassOf(got), row.want)
		}
	}
}
