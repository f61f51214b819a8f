package resilience

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/pawljobs/pawl"
)

// Downstream is an outside service with its ladder and its breaker. It is safe for use by many goroutines.
type Downstream struct {
	name      string
	options   Options
	breaker   *breaker
	transport http.RoundTripper
}

// New checks the options and returns the downstream. The name appears in errors and log lines.
func New(name string, options Options) (*Downstream, error) {
	options = options.withDefaults()
	if err := options.check(name); err != nil {
		return nil, fmt.Errorf("new downstream %q: %w", name, err)
	}
	d := &Downstream{name: name, options: options, transport: options.Transport}
	if d.transport == nil {
		d.transport = newTransport()
	}
	d.breaker = newBreaker(options.Breaker, d.log)
	return d, nil
}

// Name is the downstream's name.
func (d *Downstream) Name() string { return d.name }

// Options are those in force, defaults filled in.
func (d *Downstream) Options() Options { return d.options }

// Stats tells how the breaker is.
func (d *Downstream) Stats() Stats { return d.breaker.stats() }

func (d *Downstream) log(from, to State) {
	switch to {
	case Open:
		d.options.Logger.Warn("circuit breaker opened: calls fail at once", "downstream", d.name, "from", from.String(), "open", d.options.Breaker.Open)
	case Closed:
		d.options.Logger.Info("circuit breaker closed", "downstream", d.name)
	}
}

// Do calls f under the ladder, and again while it fails with an error that is not permanent: hand in a function that
// may be run twice, or state Retries: None. It returns f's last error, or one of this package.
//
// Every error that is not permanent counts against the downstream. So mark answers of a healthy one, such as "not found",
// as permanent, or hand in classifiers that do.
//
// Each attempt has a ctx that ends with its rung, and f must return when it does: f runs in the caller's goroutine, so
// nobody can take it away. For a connection that knows no ctx, take the deadline:
//
//	deadline, _ := ctx.Deadline()
//	err := conn.SetDeadline(deadline)
//
// An error that was classified RetryAfter above MaxWait is returned at once, for the job's curve.
func (d *Downstream) Do(ctx context.Context, f func(ctx context.Context) error) error {
	deadline := time.Now().Add(d.options.Total)
	total, stop := context.WithDeadlineCause(ctx, deadline, d.cause(RungTotal, d.options.Total))
	defer stop()
	for n := 1; ; n++ {
		again, err := d.once(ctx, total, n, f)
		if err == nil || !again {
			return err
		}
		wait, again := d.again(n, pawl.AfterOf(err), deadline)
		if !again {
			return err
		}
		if !pause(total, wait) {
			return d.abandoned(total, err)
		}
	}
}

// once makes one attempt and says whether another may follow.
func (d *Downstream) once(caller, total context.Context, n int, f func(ctx context.Context) error) (again bool, err error) {
	permit := d.breaker.acquire()
	if permit == nil {
		return false, d.refused()
	}
	defer permit.report(failure) // unless reported before: f panicked, or ended its goroutine
	ctx, cancel := context.WithTimeoutCause(total, d.options.Attempt, d.cause(RungAttempt, d.options.Attempt))
	defer cancel()
	err = pawl.Classify(f(ctx), d.options.Classifiers...)
	switch {
	case err == nil:
		permit.report(success)
		return false, nil
	case pawl.ChainHas(err, ErrOpen):
		permit.report(none) // a breaker within f: there was no call
		return false, err
	case isFinal(err):
		permit.report(success) // it was an answer
		return false, err
	case caller.Err() != nil:
		permit.report(none)
		return false, err
	}
	permit.report(failure)
	if timeout := timedOut(ctx, n, err); timeout != nil {
		err = timeout
	}
	return total.Err() == nil, err
}

func isFinal(err error) bool {
	class := pawl.ClassOf(err)
	return class == pawl.ClassPermanent || class == pawl.ClassPoison
}

// again says whether a retry follows failed attempt n, counted from 1, and after what wait; asked is what a Retry-After
// says. A wait is never cut short: what does not fit is no retry. Nor is there one where the breaker would refuse it.
func (d *Downstream) again(n int, asked time.Duration, deadline time.Time) (wait time.Duration, ok bool) {
	if n > d.options.Retries || asked > MaxWait || !d.breaker.closed() {
		return 0, false
	}
	wait = d.options.Delay << (n - 1)
	wait = min(wait+rand.N(wait/2+1), MaxWait)
	wait = max(wait, asked)
	return wait, time.Now().Add(wait).Before(deadline)
}

// pause reports false when ctx ended first.
func pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
