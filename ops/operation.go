package ops

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawljobs/pawl"
)

// StartOperation begins an act on many letters: the set is frozen in the store, and whoever runs the operation, this
// program or another, deals with it from there. Where they are picked by a filter without a status, a redrive, resolve and
// discard take open failures, and a reopen closed ones. The operation's id is made here unless it is given.
//
// Errors are those of pawl.Operations.CreateOperation: pawl.ErrNotFound when no letter matches, pawl.ErrConflict when they
// are not as many as expected, pawl.ErrInvalid; and pawl.ErrUnsupported where the letters' store keeps no operations.
func (d *Desk) StartOperation(ctx context.Context, o pawl.NewOperation) (pawl.Operation, error) {
	operations, err := d.operations()
	if err != nil {
		return pawl.Operation{}, err
	}
	if o, err = complete(o); err != nil {
		return pawl.Operation{}, err
	}
	started, err := operations.CreateOperation(ctx, o)
	if err == nil || refused(err) {
		return started, err
	}
	after, cancel := afterwards(ctx)
	defer cancel()
	if started, lost := operations.Operation(after, o.ID); lost == nil { // the reply was lost alone
		return started, nil
	}
	return pawl.Operation{}, err
}

// complete fills in what an operation that is to begin leaves open.
func complete(o pawl.NewOperation) (pawl.NewOperation, error) {
	by, err := acting(o.By)
	if err != nil {
		return o, err
	}
	if o.By = by; o.ID.IsZero() {
		o.ID = pawl.NewID()
	}
	if len(o.Filter.Status) > 0 || len(o.Letters) > 0 {
		return o, nil
	}
	o.Filter.Status = []pawl.Status{pawl.StatusDead}
	if o.Action == pawl.ActionReopen {
		o.Filter.Status = []pawl.Status{pawl.StatusResolved, pawl.StatusDiscarded}
	}
	return o, nil
}

// ControlOperation pauses, resumes or stops an operation (pawl.ActionPause, pawl.ActionResume, pawl.ActionStop), whoever
// runs it: that is obeyed within a second.
func (d *Desk) ControlOperation(ctx context.Context, id pawl.ID, action pawl.Action, by pawl.By) error {
	operations, err := d.operations()
	if err != nil {
		return err
	}
	if by, err = acting(by); err != nil {
		return err
	}
	refusals, err := operations.ControlOperations(ctx, []pawl.ID{id}, action, by)
	if err == nil {
		err = refusals[0]
	}
	if err != nil {
		return fmt.Errorf("%s: %w", action, err)
	}
	return nil
}

// RehearseOperation tells each what StartOperation and RunOperation would do with every letter that matches now, in their
// order, and returns how many there are. It changes nothing, and holds a page of letters at a time. Errors as those of
// StartOperation; what only the jobs' store knows, such as the holder of a unique key, shows when it is done.
func (d *Desk) RehearseOperation(ctx context.Context, o pawl.NewOperation, each func(Result)) (matched int, err error) {
	if o, err = complete(o); err != nil {
		return 0, err
	}
	if len(o.Letters) > 0 {
		for _, id := range o.Letters {
			each(Result{Letter: id, Err: d.rehearse(ctx, o, id)})
		}
		return len(o.Letters), nil
	}
	o.Filter.OldestFirst = true
	for page := (pawl.Page{Limit: 1000}); ; {
		found, err := d.letters.Letters(ctx, o.Filter, page)
		if err != nil {
			return matched, fmt.Errorf("list letters: %w", err)
		}
		for _, letter := range found.Letters {
			if o.Options.Cap > 0 && matched == o.Options.Cap {
				return matched, nil
			}
			matched++
			each(Result{Letter: letter.ID, Err: d.rehearse(ctx, o, letter.ID)})
		}
		if page.After = found.Next; found.Next == "" {
			return matched, ctx.Err()
		}
	}
}

func (d *Desk) rehearse(ctx context.Context, o pawl.NewOperation, id pawl.ID) error {
	letter, err := d.letters.Letter(ctx, id)
	switch {
	case err != nil:
	case o.Action == pawl.ActionRedrive:
		_, err = d.planRedriveOf(letter, redriveOptions(o.Options, o.By), true)
	default:
		err = pawl.Move{Letter: id, Action: o.Action}.Allowed(letter.Status, letter.Outcome, letter.NewJobID)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", o.Action, err)
	}
	return nil
}

func redriveOptions(o pawl.OperationOptions, by pawl.By) RedriveOptions {
	return RedriveOptions{By: by, Note: o.Note, RetryFor: o.RetryFor, RetryUntil: o.RetryUntil, Confirmed: o.Confirmed}
}

func (d *Desk) operations() (pawl.Operations, error) {
	if operations, ok := d.letters.(pawl.Operations); ok {
		return operations, nil
	}
	return nil, fmt.Errorf("operations on many letters: %w", pawl.ErrUnsupported)
}

// refused tells what is wrong with a request from what is wrong with the store.
func refused(err error) bool {
	for _, of := range []error{
		pawl.ErrNotFound, pawl.ErrConflict, pawl.ErrAlreadyRedriven, pawl.ErrRedriveRefused, pawl.ErrConfirm, pawl.ErrInvalid,
		pawl.ErrUnsupported,
	} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}
