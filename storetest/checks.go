package storetest

import (
	"errors"
	"fmt"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// What cases say of an answer. Each ends the test when it does not hold.

func (f *fixture) ok(what string, err error) {
	f.Helper()
	if err != nil {
		f.Fatalf("%s: %v", what, err)
	}
}

func (f *fixture) allOK(what string, errs []error, err error) {
	f.Helper()
	f.ok(what, err)
	for i, err := range errs {
		f.ok(fmt.Sprintf("%s: member %d", what, i), err)
	}
}

func (f *fixture) fails(what string, err, with error) {
	f.Helper()
	if !errors.Is(err, with) {
		f.Fatalf("%s: error is %v, want %v", what, err, with)
	}
}

// failsOne checks the answer to a batch of one.
func (f *fixture) failsOne(what string, errs []error, err, with error) {
	f.Helper()
	f.ok(what, err)
	if len(errs) != 1 {
		f.Fatalf("%s: %d results for a batch of one", what, len(errs))
	}
	f.fails(what, errs[0], with)
}

func (f *fixture) equal(what string, got, want any) {
	f.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		f.Fatalf("%s (-want +got):\n%s", what, diff)
	}
}

func (f *fixture) holds(what string, yes bool) {
	f.Helper()
	if !yes {
		f.Fatalf("does not hold: %s", what)
	}
}
