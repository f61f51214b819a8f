package resilience_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/resilience"
)

// single is one attempt a call, so that calls are attempts.
func single() resilience.Options { return resilience.Options{Retries: resilience.None} }

func well(context.Context) error { return nil }
func ill(context.Context) error  { return errBoom }

// calls makes n of them and fails the test if the breaker refuses one.
func calls(t *testing.T, d *resilience.Downstream, n int, f func(context.Context) error) {
	t.Helper()
	for i := range n {
		if err := d.Do(context.Background(), f); errors.Is(err, resilience.ErrOpen) {
			t.Fatalf("call %d of %d was refused: %+v", i+1, n, d.Stats())
		}
	}
}

func state(t *testing.T, d *resilience.Downstream, want resilience.State) {
	t.Helper()
	if got := d.Stats(); got.State != want {
		t.Errorf("%v, want %v: %+v", got.State, want, got)
	}
}

// refused makes a call that must not be made.
func refused(t *testing.T, d *resilience.Downstream) {
	t.Helper()
	begun := time.Now()
	err := d.Do(context.Background(), func(context.Context) error { t.Error("an open breaker let a call through"); return nil })
	if !errors.Is(err, resilience.ErrOpen) || pawl.ClassOf(err) != pawl.ClassTransient || time.Since(begun) != 0 {
		t.Errorf("refused with %v after %v", err, time.Since(begun))
	}
}

func TestBreakerOpensAtItsThreshold(t *testing.T) {
	for name, row := range map[string]struct {
		well, ill int // calls, in this order, after which it is still closed; one more failure opens it
	}{
		"all fail":               {0, 99},
		"the hundredth call":     {90, 9},
		"a tenth of very many":   {900, 99},
		"few failures in a few":  {95, 10}, // 10 of 105; with 11 of 106 above a tenth
		"just below a tenth":     {100, 11},
		"nothing but a good run": {891, 98},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, single(), func(t *testing.T, d *resilience.Downstream) {
				calls(t, d, row.well, well)
				calls(t, d, row.ill, ill)
				state(t, d, resilience.Closed)
				if s := d.Stats(); s.Calls != row.well+row.ill || s.Failures != row.ill || s.Openings != 0 {
					t.Errorf("%+v", s)
				}
				calls(t, d, 1, ill)
				state(t, d, resilience.Open)
				refused(t, d)
				if s := d.Stats(); s.Refused != 1 || s.Openings != 1 || !s.Since.Equal(time.Now()) {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// 100 calls have to be in the window, and only those count.
func TestBreakerForgets(t *testing.T) {
	virtual(t, single(), func(t *testing.T, d *resilience.Downstream) {
		calls(t, d, 99, ill)
		time.Sleep(61 * second)
		calls(t, d, 1, ill)
		state(t, d, resilience.Closed)
		if s := d.Stats(); s.Calls != 1 || s.Failures != 1 {
			t.Errorf("%+v", s)
		}
		for range 300 { // 1 call a second: never 100 in 60 s
			time.Sleep(second)
			calls(t, d, 1, ill)
		}
		state(t, d, resilience.Closed)
		if s := d.Stats(); s.Calls != 60 {
			t.Errorf("a window of 60 s holds %d calls of one a second", s.Calls)
		}
		time.Sleep(time.Hour)
		if s := d.Stats(); s.Calls != 0 || s.Failures != 0 {
			t.Errorf("an hour later: %+v", s)
		}
	})
}

func TestBreakerClosesByItsProbe(t *testing.T) {
	virtual(t, single(), func(t *testing.T, d *resilience.Downstream) {
		calls(t, d, 100, ill)
		time.Sleep(5*second - 1)
		refused(t, d)
		time.Sleep(time.Nanosecond)
		state(t, d, resilience.HalfOpen)
		calls(t, d, 1, ill) // the probe fails
		state(t, d, resilience.Open)
		refused(t, d)
		time.Sleep(5 * second)
		calls(t, d, 1, well) // the probe succeeds
		state(t, d, resilience.Closed)
		if s := d.Stats(); s.Calls != 0 || s.Openings != 2 || s.Refused != 2 {
			t.Errorf("%+v", s)
		}
		calls(t, d, 99, ill) // all is forgotten
		state(t, d, resilience.Closed)
		calls(t, d, 1, ill)
		state(t, d, resilience.Open)
	})
}

// While the probe is under way nobody else is let through.
func TestOneProbeAtATime(t *testing.T) {
	virtual(t, single(), func(t *testing.T, d *resilience.Downstream) {
		calls(t, d, 100, ill)
		time.Sleep(5 * second)
		answer, ended := make(chan error), make(chan error)
		go func() { ended <- d.Do(context.Background(), func(context.Context) error { return <-answer }) }()
		synctest.Wait()
		state(t, d, resilience.HalfOpen)
		for range 10 {
			refused(t, d)
		}
		answer <- nil
		if err := <-ended; err != nil {
			t.Error(err)
		}
		state(t, d, resilience.Closed)
	})
}

// A probe that says nothing leaves its place to the next call.
func TestProbeWithoutAVerdict(t *testing.T) {
	virtual(t, single(), func(t *testing.T, d *resilience.Downstream) {
		calls(t, d, 100, ill)
		time.Sleep(5 * second)
		ctx, cancel := context.WithCancel(context.Background())
		_ = d.Do(ctx, func(context.Context) error { cancel(); return context.Canceled })
		state(t, d, resilience.HalfOpen)
		calls(t, d, 1, well)
		state(t, d, resilience.Closed)
	})
}

// A probe that never ends, since its function ignores its ctx, does not shut the downstream off for ever.
func TestProbeThatNeverEnds(t *testing.T) {
	virtual(t, single(), func(t *testing.T, d *resilience.Downstream) {
		calls(t, d, 100, ill)
		time.Sleep(5 * second)
		late, ended := make(chan error), make(chan error)
		go func() { ended <- d.Do(context.Background(), func(context.Context) error { return <-late }) }()
		synctest.Wait()
		time.Sleep(60*second - 1)
		refused(t, d)
		time.Sleep(time.Nanosecond)
		calls(t, d, 1, ill)
		state(t, d, resilience.Open)
		late <- nil // what it says now is about another time
		<-ended
		state(t, d, resilience.Open)
	})
}

// What began before the breaker opened does not close it, and is not counted after it closed.
func TestLateAnswersAreNotCounted(t *testing.T) {
	virtual(t, single(), func(t *testing.T, d *resilience.Downstream) {
		late, ended := make(chan error), make(chan error)
		for range 2 {
			go func() { ended <- d.Do(context.Background(), func(context.Context) error { return <-late }) }()
		}
		synctest.Wait()
		calls(t, d, 100, ill)
		time.Sleep(5 * second)
		late <- nil
		<-ended
		state(t, d, resilience.HalfOpen)
		refusedBefore := d.Stats().Refused
		calls(t, d, 1, well)
		late <- errBoom
		<-ended
		if s := d.Stats(); s.State != resilience.Closed || s.Failures != 0 || s.Refused != refusedBefore {
			t.Errorf("%+v", s)
		}
	})
}

// A worker does not sleep on a breaker that has opened meanwhile.
func TestNoRetryOnAnOpenBreaker(t *testing.T) {
	options := resilience.Options{Breaker: resilience.Breaker{MinCalls: 2}}
	virtual(t, options, func(t *testing.T, d *resilience.Downstream) {
		begun, n := time.Now(), 0
		err := d.Do(context.Background(), func(context.Context) error { n++; return errBoom })
		if n != 2 || !errors.Is(err, errBoom) || time.Since(begun) > second {
			t.Errorf("%d calls in %v, %v", n, time.Since(begun), err)
		}
	})
}

// One that opens while a call waits ends it without the attempt.
func TestBreakerOpensDuringAWait(t *testing.T) {
	options := resilience.Options{Breaker: resilience.Breaker{MinCalls: 4}}
	virtual(t, options, func(t *testing.T, d *resilience.Downstream) {
		ended, n := make(chan error), 0
		go func() {
			ended <- d.Do(context.Background(), func(context.Context) error { n++; return pawl.RetryAfter(errBoom, 4*second) })
		}()
		synctest.Wait()
		for range 3 {
			ctx, cancel := context.WithCancel(context.Background())
			_ = d.Do(ctx, func(context.Context) error { time.AfterFunc(1, cancel); return errBoom })
		}
		state(t, d, resilience.Open)
		if err := <-ended; n != 1 || !errors.Is(err, resilience.ErrOpen) {
			t.Errorf("%d calls, %v", n, err)
		}
	})
}

func TestBreakerIsLogged(t *testing.T) {
	var lines bytes.Buffer
	options := single()
	options.Logger = slog.New(slog.NewTextHandler(&lines, nil))
	virtual(t, options, func(t *testing.T, d *resilience.Downstream) {
		calls(t, d, 100, ill)
		time.Sleep(5 * second)
		calls(t, d, 1, well)
		got := strings.Split(strings.TrimSpace(lines.String()), "\n")
		if len(got) != 2 || !strings.Contains(got[0], "level=WARN") || !strings.Contains(got[0], "downstream=ldap") ||
			!strings.Contains(got[1], "level=INFO") || !strings.Contains(got[1], "closed") {
			t.Errorf("%s", lines.String())
		}
	})
}
