// Package desktest is what the stores in SQL databases are tested for beside the promises of package storetest: what
// operators ask of them, on odd input, in numbers, and while something fails.
package desktest

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pawljobs/pawl"
)

// Store is what is tested.
type Store interface {
	pawl.Store
	pawl.Operator
	Close() error
}

// Tables is how tests get at the tables of a store behind its back. They are named without prefix or schema; "done" is
// the one to which finished jobs go.
type Tables interface {
	// Dump returns all that the tables hold, but for what a refused call may leave.
	Dump(t testing.TB) map[string][]string
	// Hide renames a table, so that statements about it fail; Show gives it back its name.
	Hide(t testing.TB, table string)
	Show(t testing.TB, table string)
	// Multiply gives every letter so many of its kind in all, each older than the one before by so much, and with
	// a text of its own. They need no evidence worth the name.
	Multiply(t testing.TB, by int, apart time.Duration)
}

// Desk is a store as an operator sits before it.
type Desk struct {
	testing.TB
	Store
	Tables Tables
	Many   int // how many deaths are many; 0: 20,000
}

// Opener makes a desk over a fresh, empty store, and closes the store after the test.
type Opener func(t testing.TB) Desk

// Run runs all tests.
func Run(t *testing.T, open Opener) {
	t.Run("pages stay small", func(t *testing.T) { pagesStaySmall(t, open) }) // alone: it measures what is allocated
	for name, check := range map[string]func(*testing.T, Opener){
		"cursors hold while letters come and go": cursorsHold,
		"malformed cursors":                      malformedCursors,
		"filters are data":                       filtersAreData,
		"text is found":                          textIsFound,
		"filters are checked":                    filtersAreChecked,
		"finer times than stored":                finerTimes,
		"many deaths":                            manyDeaths,
		"odd evidence":                           oddEvidence,
		"a letter without an id":                 letterWithoutID,
		"deaths in several transactions":         deathsInSeveralTransactions,
		"alerts of closed and forgotten letters": alertsOfClosedAndForgotten,
		"leases settled twice":                   leasesSettledTwice,
		"alerts claimed at once":                 alertsClaimedAtOnce,
		"redrives at once":                       redrivesAtOnce,
		"refused moves among many":               refusedMovesAmongMany,
		"a refused move leaves nothing":          refusedMoveLeavesNothing,
		"an outcome elsewhere is linked":         outcomeElsewhereIsLinked,
		"nothing is half done":                   nothingIsHalfDone,
		"a failed call leaves nothing":           failedCallLeavesNothing,
		"calls of a closed store":                callsOfAClosedStore,
		"calls whose context is done":            callsWhoseContextIsDone,
		"hosts":                                  hosts,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, open)
		})
	}
}

// Ada is an operator.
func Ada() pawl.By { return pawl.By{Who: "ada", Door: "cli", Why: "test"} }

// OK ends the test where there is an error.
func (d Desk) OK(what string, err error) {
	d.Helper()
	if err != nil {
		d.Fatalf("%s: %v", what, err)
	}
}

// Equal ends the test where two values differ.
func (d Desk) Equal(what string, got, want any) {
	d.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		d.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

// Invalid checks that an error names the field that it is about.
func (d Desk) Invalid(what string, err error, field string) {
	d.Helper()
	var fieldErr *pawl.FieldError
	if !errors.As(err, &fieldErr) || !errors.Is(err, pawl.ErrInvalid) || fieldErr.Field != field {
		d.Errorf("%s: error is %v, want one of field %q", what, err, field)
	}
}

// Letter is a death elsewhere.
func Letter(changes ...func(*pawl.DeadLetter)) pawl.DeadLetter {
	job := pawl.NewID()
	l := pawl.DeadLetter{
		ID: pawl.LetterID("default", job, 1), JobID: job, Connection: "default", Queue: "2-default", Kind: "mail.v1",
		Envelope: []byte("envelope"), ExceptionType: "*net.OpError", Message: "no answer", Detail: "stack", Attempts: 6,
		Reason: pawl.ReasonBudget, Fingerprint: "1-abc", Host: "host-a", Server: "io", Version: "v1",
	}
	for _, change := range changes {
		change(&l)
	}
	return l
}

// Letters are n deaths elsewhere.
func Letters(n int, changes ...func(*pawl.DeadLetter)) []pawl.DeadLetter {
	all := make([]pawl.DeadLetter, n)
	for i := range all {
		all[i] = Letter(changes...)
	}
	return all
}

// Record stores letters.
func (d Desk) Record(all ...pawl.DeadLetter) {
	d.Helper()
	_, err := d.RecordDeaths(d.Context(), all)
	d.OK("record deaths", err)
}

// Register opens a session of a host with these sinks.
func (d Desk) Register(sinks ...string) pawl.SessionID {
	d.Helper()
	session, err := d.OpenSession(d.Context(), pawl.HostInfo{Name: "host-a", Kinds: []string{workKind}, Sinks: sinks})
	d.OK("open session", err)
	return session
}

// walk lists page by page, with a step between two pages.
func (d Desk) walk(filter pawl.LetterFilter, limit int, between func(page int)) []pawl.ID {
	d.Helper()
	var all []pawl.ID
	page := pawl.Page{Limit: limit}
	for n := 0; ; n++ {
		found, err := d.Letters(d.Context(), filter, page)
		d.OK("list letters", err)
		for _, l := range found.Letters {
			all = append(all, l.ID)
		}
		if page.After = found.Next; found.Next == "" {
			return all
		}
		between(n)
	}
}

const workKind = "desk.work.v1"

// jobs are jobs on their way in.
func (d Desk) jobs(n int, options ...pawl.Option) []pawl.NewJob {
	d.Helper()
	kind := pawl.NewKind[json.RawMessage](workKind, pawl.Policy{})
	jobs := make([]pawl.NewJob, n)
	for i := range jobs {
		job, err := kind.New(context.Background(), d.Connection(), json.RawMessage(`{}`), options...)
		d.OK("make job", err)
		jobs[i] = job
	}
	return jobs
}

func (d Desk) enqueue(jobs ...pawl.NewJob) {
	d.Helper()
	_, err := d.Enqueue(d.Context(), jobs)
	d.OK("enqueue", err)
}
