package resilience

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pawljobs/pawl"
)

// Options of a downstream. A zero field has its default; the zero Options are good.
type Options struct {
	// Attempt bounds one attempt: the connection, the request, and the response with its body. Default 20 s.
	Attempt time.Duration
	// Total bounds all attempts of one call and the waits between them, over redirects too. Default 90 s.
	Total time.Duration
	// Client is http.Client.Timeout. It only catches what the rungs beneath it do not. Default 120 s.
	Client time.Duration
	// Job is the shortest timeout of the kinds whose handlers make these calls. Default 4 minutes, as kinds have.
	Job time.Duration

	// Retries is how often a failed attempt is repeated within one call. Default 3; None for none.
	Retries int
	// Delay is the wait before the first retry; it doubles with each, and up to half of it is added at random. No
	// wait may be above MaxWait. Default 500 ms.
	Delay time.Duration
	// RetryAll repeats requests of every method. Default: only GET, HEAD, OPTIONS, TRACE, PUT, DELETE, and requests with
	// an Idempotency-Key header. A request with a body is repeated only if it has a GetBody.
	RetryAll bool
	// JobTries is the max tries of those kinds, named where a configuration is refused. Default 6.
	JobTries int

	// Breaker says when calls are refused without being made.
	Breaker Breaker
	// Classifiers are asked about errors that carry no class; what is permanent is not repeated, and does not count
	// against the downstream, since it was an answer. classify.Default() is meant. Default: none.
	Classifiers []pawl.Classifier
	// Transport makes the attempts of HTTP. Default: one like http.DefaultTransport with connections of its own, up to
	// 100 of which are kept idle.
	Transport http.RoundTripper
	// Logger gets a Warn when the breaker opens and an Info when it closes. Default slog.Default().
	Logger *slog.Logger
}

// Breaker says when a downstream counts as broken. A zero field has its default.
type Breaker struct {
	// FailureRatio of the attempts in the window at which the breaker opens, above 0 and at most 1. Default 0.1.
	FailureRatio float64
	// MinCalls is how many attempts the window must have seen before that. Default 100.
	MinCalls int
	// Window is how far back attempts count; at least twice Attempt, so that a hanging downstream is seen. Default 60 s.
	Window time.Duration
	// Open is how long calls are refused before one of them is let through as a probe. Default 5 s.
	Open time.Duration
}

const (
	// None, as Options.Retries, makes one attempt a call.
	None = -1
	// MaxWait is the longest wait inside a call, also where a Retry-After asks for more. Longer ones belong to the job's
	// retry curve.
	MaxWait = 5 * time.Second
)

// Small is a shorter ladder: attempt 15 s, total 50 s, client 60 s.
func Small() Options {
	return Options{Attempt: 15 * time.Second, Total: 50 * time.Second, Client: 60 * time.Second}
}

// SMTP is for sending mail: 30 s and no short retries, since a mail whose acceptance was not heard would be sent twice.
func SMTP() Options { return Options{Attempt: 30 * time.Second, Retries: None} }

func (o Options) withDefaults() Options {
	set(&o.Attempt, 20*time.Second)
	set(&o.Total, 90*time.Second)
	set(&o.Client, 120*time.Second)
	set(&o.Job, 4*time.Minute)
	set(&o.Retries, 3)
	set(&o.Delay, 500*time.Millisecond)
	set(&o.JobTries, pawl.DefaultPolicy().MaxTries)
	set(&o.Breaker.FailureRatio, 0.1)
	set(&o.Breaker.MinCalls, 100)
	set(&o.Breaker.Window, 60*time.Second)
	set(&o.Breaker.Open, 5*time.Second)
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

func set[T comparable](field *T, byDefault T) {
	var zero T
	if *field == zero {
		*field = byDefault
	}
}

func (o Options) check(name string) error {
	control := func(r rune) bool { return unicode.IsControl(r) }
	if name == "" || len(name) > 128 || !utf8.ValidString(name) || strings.ContainsFunc(name, control) {
		return &pawl.FieldError{Field: "name", Value: name, Rule: "must be 1-128 bytes of UTF-8 without control characters"}
	}
	for i, classify := range o.Classifiers {
		if classify == nil {
			return &pawl.FieldError{Field: fmt.Sprintf("Classifiers[%d]", i), Value: nil, Rule: "must be a function"}
		}
	}
	for _, check := range []func() error{o.checkLadder, o.checkRetries, o.Breaker.check} {
		if err := check(); err != nil {
			return err
		}
	}
	if o.Breaker.Window < 2*o.Attempt {
		return &pawl.FieldError{Field: "breaker window", Value: o.Breaker.Window, Rule: fmt.Sprintf(
			"must be at least twice the attempt timeout (%v): attempts that hang would leave it before they can be counted together", o.Attempt)}
	}
	return nil
}

// checkLadder compares each rung with the next.
func (o Options) checkLadder() error {
	rungs := []struct {
		name  string
		limit time.Duration
	}{{"attempt", o.Attempt}, {"total", o.Total}, {"client", o.Client}, {"job", o.Job}}
	for i, rung := range rungs {
		if rung.limit <= 0 {
			return &pawl.FieldError{Field: rung.name, Value: rung.limit, Rule: "must be greater than 0"}
		}
		if i > 0 && rungs[i-1].limit >= rung.limit {
			return &pawl.FieldError{Field: rungs[i-1].name, Value: rungs[i-1].limit, Rule: fmt.Sprintf(
				"the %s timeout must be shorter than the %s timeout (%v), which would cut it off", rungs[i-1].name, rung.name, rung.limit)}
		}
	}
	return nil
}

func (o Options) checkRetries() error {
	switch {
	case o.Retries < None:
		return &pawl.FieldError{Field: "retries", Value: o.Retries, Rule: "must be at least 1, or None"}
	case o.Delay < 0:
		return &pawl.FieldError{Field: "delay", Value: o.Delay, Rule: "must be greater than 0"}
	case o.JobTries < 0:
		return &pawl.FieldError{Field: "job tries", Value: o.JobTries, Rule: "must be at least 1"}
	}
	wait := o.Delay
	for retry := 1; retry <= o.Retries; retry++ {
		if wait > MaxWait {
			return &pawl.FieldError{Field: "delay", Value: o.Delay, Rule: fmt.Sprintf(
				"the wait before retry %d would be %v, above %v: two layers of long retries multiply, here to %d attempts x %d tries of the job = %d calls, "+
					"while a worker waits; leave long waits to the job's retry curve",
				retry, wait, MaxWait, o.Retries+1, o.JobTries, (o.Retries+1)*o.JobTries)}
		}
		wait *= 2
	}
	return nil
}

func (b Breaker) check() error {
	switch {
	case !(b.FailureRatio > 0 && b.FailureRatio <= 1):
		return &pawl.FieldError{Field: "breaker failure ratio", Value: b.FailureRatio, Rule: "must be above 0 and at most 1"}
	case b.MinCalls < 1:
		return &pawl.FieldError{Field: "breaker min calls", Value: b.MinCalls, Rule: "must be at least 1"}
	case b.Window <= 0:
		return &pawl.FieldError{Field: "breaker window", Value: b.Window, Rule: "must be greater than 0"}
	case b.Open <= 0:
		return &pawl.FieldError{Field: "breaker open", Value: b.Open, Rule: "must be greater than 0"}
	}
	return nil
}
