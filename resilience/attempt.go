package resilience

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/reply"
)

// Fixed limits of reading a response that is retried, so that its connection can be used again.
const (
	maxDrained   = 64 << 10
	maxDrainTime = time.Second
)

// attempt is one request on its way, until the body of its response has been read.
type attempt struct {
	ctx, caller context.Context
	number      int
	permit      *permit
	cancel      context.CancelFunc

	response *http.Response
	err      error
	failed   bool          // worth another attempt
	asked    time.Duration // Retry-After
}

// end reports the attempt to the breaker and frees what it holds. The first report counts.
func (a *attempt) end(v verdict) {
	a.permit.report(v)
	a.cancel()
}

// judgeResponse decides what the status says. A good one is not counted before its body has arrived.
func (a *attempt) judgeResponse() {
	status := a.response.StatusCode
	a.failed = reply.Class(status) == pawl.ClassTransient
	a.asked, _ = reply.RetryAfter(a.response.Header, time.Now())
	switch {
	case status == http.StatusLocked || status == http.StatusTooEarly:
		a.permit.report(success) // about one resource, or one connection
	case a.failed:
		a.permit.report(failure)
	}
}

// reason is the attempt's failure as an error.
func (a *attempt) reason() error {
	if a.err != nil {
		return a.err
	}
	return pawl.Transient(fmt.Errorf("status %d", a.response.StatusCode))
}

// deliver hands the attempt's answer to the caller; stop is called when all of it has been read.
func (a *attempt) deliver(request *http.Request, stop func()) (*http.Response, error) {
	if a.err != nil {
		stop()
		return nil, a.err
	}
	response := a.response
	response.Request = request
	end := func(v verdict) {
		a.end(v)
		stop()
	}
	switch {
	case response.StatusCode == http.StatusSwitchingProtocols: // the body is a connection that outlives the attempt
		end(success)
	case response.Body == nil || response.Body == http.NoBody:
		end(success)
	default:
		response.Body = &body{inner: response.Body, attempt: a, end: end}
	}
	return response, nil
}

// discard reads what is left of a response, so that its connection can be used again, and closes it.
func (a *attempt) discard() {
	if a.err != nil {
		return
	}
	defer a.end(success) // unless reported before
	if a.response.Body == nil {
		return
	}
	hurry := time.AfterFunc(maxDrainTime, a.cancel)
	defer hurry.Stop()
	_, _ = io.Copy(io.Discard, io.LimitReader(a.response.Body, maxDrained)) // of an answer that is thrown away
	_ = a.response.Body.Close()
}

// body is a response's body under the timeouts of its attempt.
type body struct {
	inner   io.ReadCloser
	attempt *attempt
	end     func(verdict)
	mu      sync.Mutex
	over    bool
}

// Read turns the end of one of our rungs into a *TimeoutError.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.inner.Read(p)
	switch {
	case err == nil:
		return n, nil
	case err == io.EOF:
		b.finish(success)
		return n, err
	case b.finished(): // closed by the caller meanwhile
		return n, err
	case b.attempt.caller.Err() != nil:
		b.finish(none)
		return n, err
	}
	if timeout := timedOut(b.attempt.ctx, b.attempt.number, err); timeout != nil {
		err = timeout
	}
	b.finish(failure)
	return n, err
}

// Close ends a Read that is under way.
func (b *body) Close() error {
	b.finish(success)
	return b.inner.Close()
}

func (b *body) finish(v verdict) {
	b.mu.Lock()
	b.over = true
	b.mu.Unlock()
	b.end(v)
}

func (b *body) finished() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.over
}
