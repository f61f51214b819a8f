package ops

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/pawljobs/pawl"
)

// What is moved in one call of the store, and so held in memory, is bounded in letters and in bytes of their envelopes.
const (
	batch      = 500
	batchBytes = 8 << 20
)

// followUp is the time that is left for what has to be written after a job was handed over, also when the caller has
// gone by then.
const followUp = 10 * time.Second

// Desk works on the letters of one store. Make one with New; it may be used by several goroutines.
type Desk struct {
	letters     pawl.DeadLetters
	connections map[string]pawl.Enqueuer
}

// New returns a desk for these letters. The connections are where their jobs can be put back, each under the name by
// which it calls itself; the store of the letters needs no mention.
func New(letters pawl.DeadLetters, connections map[string]pawl.Enqueuer) (*Desk, error) {
	if letters == nil {
		return nil, &pawl.FieldError{Field: "letters", Value: "nil", Rule: "must be a store of dead letters"}
	}
	for _, name := range slices.Sorted(maps.Keys(connections)) {
		if connections[name] == nil || connections[name].Connection().Name != name {
			return nil, &pawl.FieldError{Field: "connection", Value: name, Rule: "must be listed under the name that its Connection method gives"}
		}
	}
	return &Desk{letters: letters, connections: maps.Clone(connections)}, nil
}

// Result is what became of one letter in a call for many.
type Result struct {
	Letter pawl.ID
	Job    pawl.ID // that it went on as; zero when it did not
	Err    error
}

// Results are in the order of the ids that were given.
type Results []Result

// Err joins the errors of all letters; nil when there is none.
func (r Results) Err() error {
	errs := make([]error, len(r))
	for i, result := range r {
		errs[i] = result.Err
	}
	return errors.Join(errs...)
}

// target returns where the letter's job goes back to; shared says that the letters live in the same store.
func (d *Desk) target(letter pawl.DeadLetter) (to pawl.Enqueuer, shared bool, err error) {
	if to, ok := d.connections[letter.Connection]; ok {
		return to, same(to, d.letters), nil
	}
	if own, ok := d.letters.(pawl.Enqueuer); ok && own.Connection().Name == letter.Connection {
		return own, true, nil
	}
	return nil, false, fmt.Errorf("letter %s: connection %q is not known here: %w", letter.ID, letter.Connection, pawl.ErrRedriveRefused)
}

func same(to pawl.Enqueuer, letters pawl.DeadLetters) bool {
	return reflect.TypeOf(to).Comparable() && any(to) == any(letters)
}

// acting checks who acts. The door is "library" unless another one says its name.
func acting(by pawl.By) (pawl.By, error) {
	if by.Who == "" {
		return by, &pawl.FieldError{Field: "who", Value: "", Rule: "must name who acts: it goes into the audit trail"}
	}
	if by.Door == "" {
		by.Door = "library"
	}
	return by, nil
}

// itself is how Pawl signs what it writes on its own account.
func itself(why string) pawl.By { return pawl.By{Who: "pawl", Door: "pawl", Why: why} }

// afterwards is a ctx for what must be written even if the caller has gone.
func afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), followUp)
}

func refuseAll(ids []pawl.ID, err error) Results {
	out := make(Results, len(ids))
	for i, id := range ids {
		out[i] = Result{Letter: id, Err: err}
	}
	return out
}
