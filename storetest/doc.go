// Package storetest defines what a Pawl store is: a store is what passes here.
//
// The author of a store gives a Harness and calls Run from an ordinary test:
//
//	func TestConformance(t *testing.T) {
//		storetest.Run(t, storetest.Harness{
//			Open:     func(t testing.TB, o storetest.Options) storetest.Store { … }, // fresh and empty
//			Reopen:   func(t testing.TB, s storetest.Store) storetest.Store { … },   // second handle, same database
//			Backdate: func(t testing.TB, s storetest.Store, by time.Duration) { … }, // by has passed
//			Begin:    func(t testing.TB, s storetest.Store) storetest.Tx { … },      // the caller's own transaction
//		})
//	}
//
//	func TestModel(t *testing.T) { storetest.RunModel(t, harness) }
//
// Every case is named after the promise that it checks, and cases about one subject lie in one file, so the package
// can be read as the store's contract: enqueue.go, claim.go and order.go for the way in and out, fence.go and settle.go
// for the end of reservations, session.go, start.go and crash.go for what becomes of jobs whose host died, death.go,
// letters.go, moves.go, redrive.go and alerts.go for the dead, controls.go and jobs.go for operators, and acts.go is the table of
// what becomes of each of their operations in each trouble. Where the
// contract left a detail open, the case's comment says what was chosen.
//
// Time is the store's own, so the suite never sleeps: it asks the harness to move every stored time into the past
// (Backdate), which is the same as if that much time had gone by.
//
// RunModel drives a store through random lives of jobs and compares it, step by step, with a small reference model.
//
// Faulty wraps any store and lets one chosen call fail, before the store saw it or after the store has committed it.
// It is for tests of what stands on a store, such as a host.
package storetest
