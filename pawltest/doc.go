// Package pawltest helps to test code that enqueues jobs, and the handlers that run them, on a real store.
//
// A test opens a store of its own with Open, or takes one that it has, such as a PostgreSQL store in a schema of the test.
//
//   - Enqueued says which jobs of a kind were enqueued and have not ended, with their args, also inside a transaction that
//     the test goes on to roll back.
//   - Drain runs what is ready, and what that enqueues in its turn, until nothing is, and returns when all of it is recorded.
//   - DrainAll also waits for delays and retries. Inside [testing/synctest.Test] that takes no time: the clock of the
//     SQLite store is virtual there too, so a job's four hours of retries are over in milliseconds.
//   - EnqueuedAfter says which jobs follow batches that are open, and EnqueuedIn the members of one. Drain runs both; RunAfter
//     runs what follows members that have ended in whatever way.
//   - Run enqueues one job, runs it to its end, and says how it ended.
package pawltest
