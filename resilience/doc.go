// Package resilience calls outside services so that a failing one costs bounded time, few connections and no worker for
// long: a ladder of timeouts, a few short retries, and a circuit breaker for each downstream.
//
//	cdn, err := resilience.NewClient("cdn", resilience.Options{})
//	response, err := cdn.Do(request.WithContext(ctx)) // an *http.Client like any other
//
// What is not HTTP has the same ladder around a function:
//
//	mail, err := resilience.New("mail", resilience.SMTP())
//	err = mail.Do(ctx, func(ctx context.Context) error { return send(ctx, message) })
//
// The rungs, from the inside out: an attempt (20 s, body included), all attempts of one call (90 s), the http.Client
// (120 s), the job (4 minutes). Each must be shorter than the next, which is checked when a client is made. Above
// them is the job's retry curve, which owns every wait that is longer than 5 s: a worker sleeps neither on a slow
// Retry-After nor on an open breaker, but gets an answer that sends the job there.
//
// Only what may be repeated is repeated: idempotent methods, requests with an Idempotency-Key, or all where
// Options.RetryAll says so. After the last attempt the caller gets the downstream's own answer, whatever its status;
// classify.Response makes an error of it.
//
// docs/retries.md draws the ladder and shows how its layers multiply.
package resilience
