package resilience_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/classify"
	"github.com/pawljobs/pawl/resilience"
)

var errBoom = errors.New("boom")

// virtual runs a test in a bubble of virtual time, with a downstream of these options.
func virtual(t *testing.T, options resilience.Options, test func(t *testing.T, d *resilience.Downstream)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		options.Classifiers = append(options.Classifiers, classify.Default())
		if options.Logger == nil {
			options.Logger = slog.New(slog.DiscardHandler)
		}
		d, err := resilience.New("ldap", options)
		if err != nil {
			t.Fatal(err)
		}
		test(t, d)
	})
}

// between fails the test unless d lies in the range.
func between(t *testing.T, what string, d, least, most time.Duration) {
	t.Helper()
	if d < least || d > most {
		t.Errorf("%s: %v, want %v to %v", what, d, least, most)
	}
}

func TestDoRepeatsWhatMaySucceed(t *testing.T) {
	virtual(t, resilience.Options{}, func(t *testing.T, d *resilience.Downstream) {
		for name, row := range map[string]struct {
			errs  []error // of the attempts; then nil
			calls int
			class pawl.Class
			least time.Duration // that Do takes
		}{
			"well at once":             {nil, 1, pawl.ClassUnknown, 0},
			"well after one":           {[]error{errBoom}, 2, pawl.ClassUnknown, second / 2},
			"well after three":         {[]error{errBoom, errBoom, errBoom}, 4, pawl.ClassUnknown, 7 * second / 2},
			"never well":               {[]error{errBoom, errBoom, errBoom, errBoom, errBoom}, 4, pawl.ClassUnknown, 7 * second / 2},
			"transient":                {[]error{pawl.Transient(errBoom)}, 2, pawl.ClassUnknown, second / 2},
			"permanent":                {[]error{pawl.Permanent(errBoom)}, 1, pawl.ClassPermanent, 0},
			"poison":                   {[]error{&pawl.PoisonError{Err: errBoom}}, 1, pawl.ClassPoison, 0},
			"permanent to classify":    {[]error{errBoom, cloudError(404)}, 2, pawl.ClassPermanent, second / 2},
			"transient to classify":    {[]error{cloudError(503), cloudError(503), cloudError(503), cloudError(503)}, 4, pawl.ClassTransient, 7 * second / 2},
			"a short wait asked for":   {[]error{pawl.RetryAfter(errBoom, 4*second)}, 2, pawl.ClassUnknown, 4 * second},
			"5 s asked for":            {[]error{pawl.RetryAfter(errBoom, 5*second)}, 2, pawl.ClassUnknown, 5 * second},
			"a long wait asked for":    {[]error{pawl.RetryAfter(errBoom, 5*second+1)}, 1, pawl.ClassTransient, 0},
			"a breaker within is open": {[]error{fmt.Errorf("x: %w", resilience.ErrOpen)}, 1, pawl.ClassUnknown, 0},
		} {
			begun, calls := time.Now(), 0
			err := d.Do(context.Background(), func(context.Context) error {
				calls++
				if calls <= len(row.errs) {
					return row.errs[calls-1]
				}
				return nil
			})
			if calls != row.calls || pawl.ClassOf(err) != row.class || (err == nil) != (calls > len(row.errs)) {
				t.Errorf("%s: %d calls, %v (%v), want %d, %v", name, calls, err, pawl.ClassOf(err), row.calls, row.class)
			}
			between(t, name, time.Since(begun), row.least, max(row.least*3/2, row.least))
		}
	})
}

type cloudError int

func (e cloudError) Error() string       { return fmt.Sprint("cloud ", int(e)) }
func (e cloudError) HTTPStatusCode() int { return int(e) }

// The waits grow, are never shorter than stated, and differ.
func TestWaits(t *testing.T) {
	virtual(t, resilience.Options{Breaker: resilience.Breaker{MinCalls: 1_000_000}}, func(t *testing.T, d *resilience.Downstream) {
		seen := map[time.Duration]bool{}
		for range 200 {
			last, waits := time.Now(), []time.Duration{}
			_ = d.Do(context.Background(), func(context.Context) error {
				waits = append(waits, time.Since(last))
				last = time.Now()
				return errBoom
			})
			for i, wait := range waits[1:] {
				delay := second / 2 << i
				between(t, fmt.Sprint("wait ", i+1), wait, delay, delay*3/2)
				seen[wait] = true
			}
		}
		if len(seen) < 300 {
			t.Errorf("only %d different waits of 600: no jitter", len(seen))
		}
	})
}

func TestNoWaitIsAbove5s(t *testing.T) {
	virtual(t, resilience.Options{Retries: 1, Delay: 5 * second}, func(t *testing.T, d *resilience.Downstream) {
		for range 20 {
			begun := time.Now()
			_ = d.Do(context.Background(), func(context.Context) error { return errBoom })
			between(t, "wait", time.Since(begun), 5*second, 5*second)
		}
	})
}

func TestDoEndsWithItsRungs(t *testing.T) {
	hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, row := range map[string]struct {
		options     resilience.Options
		least, most time.Duration
		calls       int
		rung        resilience.Rung
	}{
		"attempts":                 {resilience.Options{}, 83500 * time.Millisecond, 85250 * time.Millisecond, 4, resilience.RungAttempt},
		"total":                    {resilience.Options{Attempt: 15 * second, Total: 40 * second}, 40 * second, 40 * second, 3, resilience.RungTotal},
		"mail":                     {resilience.SMTP(), 30 * second, 30 * second, 1, resilience.RungAttempt},
		"no time for another wait": {resilience.Options{Attempt: 20 * second, Total: 20*second + 400*time.Millisecond}, 20 * second, 20 * second, 1, resilience.RungAttempt},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, row.options, func(t *testing.T, d *resilience.Downstream) {
				begun, calls := time.Now(), 0
				err := d.Do(context.Background(), func(ctx context.Context) error { calls++; return hang(ctx) })
				between(t, "took", time.Since(begun), row.least, row.most)
				var timeout *resilience.TimeoutError
				if !errors.As(err, &timeout) || timeout.Rung != row.rung || timeout.Attempt != row.calls || timeout.Downstream != "ldap" {
					t.Errorf("got %v", err)
				}
				if calls != row.calls || pawl.ClassOf(err) != pawl.ClassTransient || !errors.Is(err, context.DeadlineExceeded) || !timeout.Timeout() {
					t.Errorf("%d calls, class %v, %v", calls, pawl.ClassOf(err), err)
				}
				if failures := d.Stats().Failures; failures == 0 || failures > calls {
					t.Errorf("%d failures counted of %d", failures, calls)
				}
			})
		})
	}
}

func TestDoOfAFunctionThatAnswersLate(t *testing.T) {
	virtual(t, resilience.SMTP(), func(t *testing.T, d *resilience.Downstream) {
		late := func(answer error) error {
			return d.Do(context.Background(), func(ctx context.Context) error { <-ctx.Done(); return answer })
		}
		if err := late(nil); err != nil {
			t.Errorf("what succeeded late: %v", err)
		}
		if err := late(pawl.Permanent(errBoom)); pawl.ClassOf(err) != pawl.ClassPermanent {
			t.Errorf("a refusal that came late: %v", err)
		}
		if err := late(errBoom); !errors.Is(err, errBoom) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("what was cut off: %v", err)
		}
	})
}

func TestDoStopsWithItsCaller(t *testing.T) {
	virtual(t, resilience.Options{}, func(t *testing.T, d *resilience.Downstream) {
		gone := errors.New("caller went away")
		for name, row := range map[string]struct {
			after time.Duration
			calls int
		}{"during an attempt": {second, 1}, "during a wait": {11 * second / 10, 1}} {
			ctx, cancel := context.WithCancelCause(context.Background())
			time.AfterFunc(row.after, func() { cancel(gone) })
			begun, calls := time.Now(), 0
			err := d.Do(ctx, func(ctx context.Context) error {
				calls++
				if !strings.Contains(name, "wait") {
					<-ctx.Done()
					return context.Cause(ctx)
				}
				time.Sleep(second)
				return errBoom
			})
			if took := time.Since(begun); took != row.after || calls != row.calls || !errors.Is(err, gone) {
				t.Errorf("%s: %d calls, %v after %v", name, calls, err, took)
			}
			if strings.Contains(name, "wait") && !errors.Is(err, errBoom) {
				t.Errorf("%s: the failure before is not in %v", name, err)
			}
		}
		if s := d.Stats(); s.Failures != 1 {
			t.Errorf("a caller that went away was counted: %+v", s)
		}
	})
}

// A function that panics or ends its goroutine is a failure, also as a probe, and wedges nothing.
func TestDoSurvivesPanics(t *testing.T) {
	options := resilience.Options{Retries: resilience.None, Breaker: resilience.Breaker{MinCalls: 2}}
	virtual(t, options, func(t *testing.T, d *resilience.Downstream) {
		harm := []func(){func() { panic("boom") }, runtime.Goexit}
		for i := range 6 {
			done := make(chan struct{})
			go func() {
				defer close(done)
				defer func() { _ = recover() }()
				_ = d.Do(context.Background(), func(context.Context) error { harm[i%2](); return nil })
			}()
			<-done
			if i > 0 && d.Stats().State != resilience.Open {
				t.Fatalf("after %d panics: %+v", i+1, d.Stats())
			}
			if i > 0 {
				time.Sleep(5 * second)
			}
		}
		if err := d.Do(context.Background(), func(context.Context) error { return nil }); err != nil || d.Stats().State != resilience.Closed {
			t.Errorf("the probe: %v, %+v", err, d.Stats())
		}
	})
}

// Errors that do harm when they are looked at do none here.
func TestDoOfHostileErrors(t *testing.T) {
	virtual(t, resilience.Options{}, func(t *testing.T, d *resilience.Downstream) {
		ring := &circle{}
		ring.next = ring
		for _, err := range []error{ring, bomb{}, (*circle)(nil)} {
			calls := 0
			if got := d.Do(context.Background(), func(context.Context) error { calls++; return err }); got == nil || calls != 4 {
				t.Errorf("%T: %d calls", err, calls)
			}
		}
	})
}

type circle struct{ next error }

func (*circle) Error() string   { return "circle" }
func (c *circle) Unwrap() error { return c.next }

type bomb struct{}

func (bomb) Error() string { panic("Error") }
func (bomb) Timeout() bool { panic("Timeout") }
func (bomb) Unwrap() error { panic("Unwrap") }

func TestStateNames(t *testing.T) {
	t.Parallel()
	var names []string
	for _, s := range []resilience.State{resilience.Closed, resilience.Open, resilience.HalfOpen} {
		names = append(names, s.String())
	}
	if want := []string{"closed", "open", "half-open"}; !slices.Equal(names, want) {
		t.Errorf("%v", names)
	}
}
