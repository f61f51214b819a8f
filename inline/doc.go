// Package inline runs jobs at once, inside the call that enqueues them: for tests, for small tools, and for work that
// must have happened when the call returns. It is a pawl.Enqueuer and no Store, since nothing waits in it.
//
//	jobs, err := inline.New(mux, inline.Config{DeadLetters: store})
//	_, err = Welcome.Enqueue(ctx, jobs, WelcomeArgs{UserID: 7}) // returns when the handler has
//
// A job gets one attempt, whatever its max tries say, and the call returns its handler's own error, so that errors.Is
// and errors.As hold. Where dead letters are configured, a failed attempt leaves one, and an operator can run it again
// later: that too runs at once.
//
// What needs a wait is refused with pawl.ErrUnsupported, and nothing runs: a delay, a run-at, a unique key for a period,
// and, in a handler, Job.Release. So is a kind that StartsOff, because there is no switch here that could be on. The other
// unique scopes last while a job waits or is unfinished; here none waits, so such a key changes nothing. An id is not
// remembered: enqueueing it again runs it again.
//
// There is no form of it for a transaction: the handler would run before the commit.
package inline
