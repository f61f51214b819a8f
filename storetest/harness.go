package storetest

import (
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
)

// Store is what the suite asks: the store that hosts work on and all that operators do to it.
type Store interface {
	pawl.Store
	pawl.Operator
	pawl.OperationWork
	pawl.Declarations
}

// Options vary how a store is opened. The zero value is a store as its users get it.
type Options struct {
	Connection string        // its name; "" is "default"
	Policy     pawl.Policy   // what its jobs inherit
	NoHistory  bool          // keep no finished jobs
	Retention  time.Duration // of closed letters; 0: for ever
}

// Tx is a transaction of the caller's, with jobs enqueued in it.
type Tx struct {
	pawl.Enqueuer
	Commit   func() error
	Rollback func() error
}

// Harness is how the suite gets at a store. Its functions end the test themselves when they fail, and clean up
// through t.Cleanup.
type Harness struct {
	// Open makes a fresh, empty store that no other test sees.
	Open func(t testing.TB, options Options) Store
	// Reopen opens a second handle on the database of store, as another process would. Without it the cases that
	// need one are skipped.
	Reopen func(t testing.TB, store Store) Store
	// Backdate moves every time that the store has stored into the past, as if that much time had gone by: enqueue
	// and ready times, due times, beats, leases, deaths, ends of switches, keys and remembered ids.
	Backdate func(t testing.TB, store Store, by time.Duration)
	// Begin starts a transaction on the database of store. Without it the cases that need one are skipped.
	Begin func(t testing.TB, store Store) Tx
	// Only are the groups of cases to run; none: all of them.
	Only []string
}

// promise is one case.
type promise struct {
	name    string
	options Options
	check   func(f *fixture)
}

// group is the promises on one subject.
type group struct {
	name     string
	promises []promise
}

func groups() []group {
	return []group{
		{"Enqueue", enqueuePromises()},
		{"Transaction", transactionPromises()},
		{"IDs", idPromises()},
		{"Unique", uniquePromises()},
		{"Unique ends", keyEndPromises()},
		{"Other jobs", otherJobPromises()},
		{"Lines", linePromises()},
		{"Limits", limitPromises()},
		{"Batches", batchPromises()},
		{"Batch lists", batchListPromises()},
		{"Payload", payloadPromises()},
		{"Claim", claimPromises()},
		{"Order", orderPromises()},
		{"Schedule", schedulePromises()},
		{"Recurring", recurringPromises()},
		{"Timetables", timetablePromises()},
		{"Wake", wakePromises()},
		{"Fence", fencePromises()},
		{"Settle", settlePromises()},
		{"History", historyPromises()},
		{"Session", sessionPromises()},
		{"Start", startPromises()},
		{"Crash", crashPromises()},
		{"Orphans", orphanPromises()},
		{"Verdict", verdictPromises()},
		{"Death", deathPromises()},
		{"Letters", letterPromises()},
		{"Groups", letterGroupPromises()},
		{"Moves", movePromises()},
		{"Prune", prunePromises()},
		{"Erase", erasePromises()},
		{"Redrive", redrivePromises()},
		{"Operations", operationPromises()},
		{"Operation work", operationWorkPromises()},
		{"Alerts", alertPromises()},
		{"Storms", stormPromises()},
		{"Late alerts", latePromises()},
		{"Controls", controlPromises()},
		{"Asked", askPromises()},
		{"Jobs", jobPromises()},
		{"Cancel", cancelPromises()},
		{"JobActs", jobActPromises()},
		{"Acts", actPromises()},
	}
}

// run lets a case that panics, on an answer of a shape that it did not expect, fail alone.
func (p promise) run(t *testing.T, h Harness) {
	defer func() {
		if value := recover(); value != nil {
			t.Fatalf("the case panicked: %v\n%s", value, debug.Stack())
		}
	}()
	p.check(newFixture(t, h, p.options))
}

// mostAtOnce bounds how many cases, and so how many stores, are open at a time.
const mostAtOnce = 8

// Run checks every promise, each in a subtest of its own with a store of its own. They run in parallel.
func Run(t *testing.T, h Harness) {
	if h.Open == nil || h.Backdate == nil {
		t.Fatal("storetest: a Harness needs Open and Backdate")
	}
	groups := groups()
	for _, name := range h.Only {
		if !slices.ContainsFunc(groups, func(g group) bool { return g.name == name }) {
			t.Fatalf("storetest: there is no group %q", name)
		}
	}
	slots := make(chan struct{}, min(mostAtOnce, runtime.GOMAXPROCS(0)))
	for _, g := range groups {
		if len(h.Only) > 0 && !slices.Contains(h.Only, g.name) {
			continue
		}
		t.Run(g.name, func(t *testing.T) {
			t.Parallel()
			for _, p := range g.promises {
				t.Run(p.name, func(t *testing.T) {
					t.Parallel()
					slots <- struct{}{}
					t.Cleanup(func() { <-slots })
					p.run(t, h)
				})
			}
		})
	}
}
