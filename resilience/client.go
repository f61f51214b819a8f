package resilience

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/reply"
)

// NewClient returns an *http.Client under a ladder and a breaker of its own. Of gives the Downstream behind it.
func NewClient(name string, options Options) (*http.Client, error) {
	d, err := New(name, options)
	if err != nil {
		return nil, err
	}
	return d.Client(), nil
}

// Client returns an *http.Client that calls the downstream. Several of one Downstream share its breaker and
// connections, and each may have a Jar and a CheckRedirect of its own.
//
// The ladder covers a response's body too: read and close it as always, within the attempt's time.
func (d *Downstream) Client() *http.Client {
	return &http.Client{Transport: &transport{d}, Timeout: d.options.Client}
}

// Of returns the Downstream of a client that this package made, nil for any other.
func Of(client *http.Client) *Downstream {
	if client == nil {
		return nil
	}
	if t, ok := client.Transport.(*transport); ok {
		return t.Downstream
	}
	return nil
}

// newTransport is http.DefaultTransport with connections of its own, kept for as many calls at a time as a host has
// workers, and more.
func newTransport() http.RoundTripper {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok { // somebody has replaced it, by one that traces, for example
		return http.DefaultTransport
	}
	t = t.Clone()
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 100, 100
	return t
}

type transport struct{ *Downstream }

// CloseIdleConnections is what http.Client.CloseIdleConnections calls.
func (t *transport) CloseIdleConnections() {
	if closer, ok := t.transport.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

// budgetKey is the context key of a call's total deadline.
type budgetKey struct{}

// budget returns when the call's total is over. A request that follows a redirect has that of the first one.
func (t *transport) budget(request *http.Request) time.Time {
	if before := request.Response; before != nil && before.Request != nil {
		if deadline, ok := before.Request.Context().Value(budgetKey{}).(time.Time); ok {
			return deadline
		}
	}
	return time.Now().Add(t.options.Total)
}

// RoundTrip makes one attempt and perhaps others.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	deadline := t.budget(request)
	known := context.WithValue(request.Context(), budgetKey{}, deadline)
	total, stop := context.WithDeadlineCause(known, deadline, t.cause(RungTotal, t.options.Total))
	delivered := false
	defer func() {
		if !delivered {
			stop()
		}
	}()
	next := request
	for n := 1; ; n++ {
		a := t.attempt(total, next, n)
		var wait time.Duration
		again := a.failed && t.repeatable(request)
		if again {
			wait, again = t.again(n, a.asked, deadline)
		}
		if again {
			next, again = replay(request)
		}
		if !again {
			delivered = true
			return a.deliver(request.WithContext(known), stop)
		}
		a.discard()
		if !pause(total, wait) {
			closeBody(next)
			return nil, t.abandoned(total, a.reason())
		}
	}
}

// repeatable reports whether a request may be sent twice, and can be.
func (t *transport) repeatable(request *http.Request) bool {
	if request.Body != nil && request.Body != http.NoBody && request.GetBody == nil {
		return false
	}
	if t.options.RetryAll || request.Header.Get("Idempotency-Key") != "" {
		return true
	}
	switch request.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true // RFC 9110, 9.2.2
	}
	return false
}

// replay returns the request with a fresh body.
func replay(request *http.Request) (*http.Request, bool) {
	if request.GetBody == nil || request.Body == nil || request.Body == http.NoBody {
		return request, true
	}
	body, err := request.GetBody()
	if err != nil {
		return nil, false // the answer that there is stands
	}
	again := request.WithContext(request.Context())
	again.Body = body
	return again, true
}

func closeBody(request *http.Request) {
	if request.Body != nil {
		_ = request.Body.Close()
	}
}

// attempt sends a request once, if the breaker lets it. The request's body is closed in any case.
func (t *transport) attempt(total context.Context, request *http.Request, n int) *attempt {
	permit := t.breaker.acquire()
	if permit == nil {
		closeBody(request)
		return &attempt{err: t.refused()}
	}
	caller := request.Context()
	ctx, cancel := context.WithTimeoutCause(total, t.options.Attempt, t.cause(RungAttempt, t.options.Attempt))
	a := &attempt{ctx: ctx, caller: caller, number: n, permit: permit, cancel: cancel}
	returned := false
	defer func() {
		if !returned { // the transport panicked, or ended its goroutine
			a.end(failure)
		}
	}()
	a.response, a.err = t.transport.RoundTrip(request.WithContext(ctx))
	returned = true
	if a.response == nil && a.err == nil {
		a.err = errNothing
	}
	if a.err != nil {
		t.judgeError(a)
	} else {
		a.judgeResponse()
	}
	return a
}

var errNothing = errors.New("the transport returned neither a response nor an error")

// judgeError decides what an attempt without a response says.
func (t *transport) judgeError(a *attempt) {
	switch said := pawl.Classify(a.err, t.options.Classifiers...); {
	case a.caller.Err() != nil:
		a.end(none)
	case isFinal(said), reply.Malformed(a.err):
		a.end(none) // the request's own fault
	default:
		if timeout := timedOut(a.ctx, a.number, a.err); timeout != nil {
			a.err = timeout
		}
		a.failed = true
		a.end(failure)
	}
}
