// Package pawl says what a background job is and what the rules of its life are. Beside the standard library it needs
// UUIDs only; stores (sqlite, postgres), the inline connection (inline), the worker host (host) and operators' tools
// (ops) are packages beside it.
//
// Those who write jobs need Kind, Policy, the options of Enqueue, Mux, Job, and Permanent and its kin. Store,
// DeadLetters and what they speak of are for those who write stores and tools.
//
// # A job's life
//
// A service names a Kind once and shares it between the code that enqueues and the code that handles:
//
//	type WelcomeArgs struct{ UserID int64 `json:"user_id"` }
//
//	var Welcome = pawl.NewKind[WelcomeArgs]("email.welcome.v1", pawl.Policy{Timeout: 30 * time.Second})
//
// Enqueue stores a job and returns when it is durable. Handed a store's transaction, the job is part of it:
//
//	_, err := Welcome.Enqueue(ctx, store, WelcomeArgs{UserID: 7})
//
// Jobs wait in queues. The order of the queues' names is their priority: 1-critical before 2-default, where a job goes
// that says nothing, before 3-bulk; these three a host serves by default. InQueue chooses another, Delay and RunAt let a
// job wait, UniqueWhileWaiting and its kin drop what is there already.
//
// A worker host has a Mux that finds handlers by kind. It claims jobs under leased and fenced reservations, runs them,
// and settles what became of them:
//
//	mux := pawl.NewMux()
//	pawl.Handle(mux, Welcome, mailer.SendWelcome) // func(ctx, WelcomeArgs) error
//	h, err := host.New(store, mux, host.Config{})
//	err = h.Run(ctx) // until ctx is done, then it drains
//
// # Failure
//
// A handler that returns an error has its job retried on one bounded curve (Policy.Backoff). An error wrapped in
// Permanent ends the job at once, one in RetryAfter waits at least that long. Decide is the one function in which all
// of this is decided.
//
// A job that dies leaves a DeadLetter: its exact bytes, the evidence, the attempts before. Every sink is alerted once.
// An operator can redrive it as a fresh job; the letter is never overwritten.
//
// # Promises
//
// A job that was enqueued is at all times exactly one of waiting, scheduled, reserved, done, dead, or removed by an
// operator. Handlers run at least once, and not twice where max tries is 1; a transition is accepted once.
package pawl
