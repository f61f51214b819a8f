package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/wire"
	"github.com/pawljobs/pawl/ops"
)

// splice keeps the new args byte for byte.
func (r redriving) splice() (body any, name string, raw json.RawMessage) {
	raw, r.Args = r.Args, nil
	return r, "args", raw
}

func againOf(o ops.RedriveOptions, act acting, dry bool) again {
	return again{o.Note, wire.Stamp(o.RetryUntil), wire.Millis(o.RetryFor), o.Confirmed, dry, act}
}

// Redrive is ops.Desk.Redrive.
func (c *Client) Redrive(ctx context.Context, letter pawl.ID, o ops.RedriveOptions) (pawl.ID, error) {
	act, err := actingOf(o.By)
	if err == nil {
		err = soundArgs(letter, o.Args)
	}
	if err != nil {
		return pawl.ID{}, err
	}
	answer, err := send(ctx, c, redriveRoute, redriving{ID: letter, again: againOf(o, act, false), Args: o.Args})
	return wentOnAs(answer, err)
}

// soundArgs refuses what cannot stand in a request.
func soundArgs(letter pawl.ID, args json.RawMessage) error {
	if args == nil || json.Valid(args) {
		return nil
	}
	return fmt.Errorf("redrive: letter %s: %w", letter, &pawl.FieldError{Field: "args", Value: cutText(string(args), 60), Rule: "must be one valid JSON value"})
}

// wentOnAs is the job of a letter, which a refusal may name too.
func wentOnAs(answer letterActed, err error) (pawl.ID, error) {
	var refused *Error
	if errors.As(err, &refused) {
		return refused.JobID, err
	}
	return pawl.ID(answer.JobID), err
}

// CheckRedrive is ops.Desk.CheckRedrive.
func (c *Client) CheckRedrive(ctx context.Context, letter pawl.ID, o ops.RedriveOptions) error {
	return c.checkRedrive(ctx, letter, o, false)
}

// CheckRedriveMany is ops.Desk.CheckRedriveMany.
func (c *Client) CheckRedriveMany(ctx context.Context, letter pawl.ID, o ops.RedriveOptions) error {
	return c.checkRedrive(ctx, letter, o, true)
}

func (c *Client) checkRedrive(ctx context.Context, letter pawl.ID, o ops.RedriveOptions, many bool) error {
	if err := soundArgs(letter, o.Args); err != nil {
		return err
	}
	answer, err := send(ctx, c, redriveRoute, redriving{ID: letter, again: againOf(o, acting{}, true), Args: o.Args, Many: many})
	if err == nil {
		err = answer.Problem.err()
	}
	return err
}

// RedriveMany is ops.Desk.RedriveMany. It takes several requests for many.
func (c *Client) RedriveMany(ctx context.Context, letters []pawl.ID, o ops.RedriveOptions) ops.Results {
	act, err := actingOf(o.By)
	if err == nil && o.Args != nil {
		err = &pawl.FieldError{Field: "args", Value: string(o.Args), Rule: "must be given for one letter only"}
	}
	return inParts(letters, err, func(part []pawl.ID) (letterActs, error) {
		return send(ctx, c, redriveManyRoute, redrivingMany{part, againOf(o, act, false)})
	})
}

// Retry is ops.Desk.Retry.
func (c *Client) Retry(ctx context.Context, letter pawl.ID, o ops.RetryOptions) (pawl.ID, error) {
	act, err := actingOf(o.By)
	if err != nil {
		return pawl.ID{}, err
	}
	return wentOnAs(send(ctx, c, retryRoute, retrying{letter, retryOnce{o.Note, o.Confirmed, false, act}}))
}

// CheckRetry is ops.Desk.CheckRetry.
func (c *Client) CheckRetry(ctx context.Context, letter pawl.ID, o ops.RetryOptions) error {
	answer, err := send(ctx, c, retryRoute, retrying{letter, retryOnce{o.Note, o.Confirmed, true, acting{}}})
	if err == nil {
		err = answer.Problem.err()
	}
	return err
}

// RetryMany is ops.Desk.RetryMany. It takes several requests for many.
func (c *Client) RetryMany(ctx context.Context, letters []pawl.ID, o ops.RetryOptions) ops.Results {
	act, err := actingOf(o.By)
	return inParts(letters, err, func(part []pawl.ID) (letterActs, error) {
		return send(ctx, c, retryManyRoute, retryingMany{part, retryOnce{o.Note, o.Confirmed, false, act}})
	})
}

// ResolveMany is ops.Desk.ResolveMany. It takes several requests for many.
func (c *Client) ResolveMany(ctx context.Context, letters []pawl.ID, by pawl.By, note string) ops.Results {
	return c.close(ctx, resolveRoute, letters, by, note)
}

// DiscardMany is ops.Desk.DiscardMany. It takes several requests for many.
func (c *Client) DiscardMany(ctx context.Context, letters []pawl.ID, by pawl.By, note string) ops.Results {
	return c.close(ctx, discardRoute, letters, by, note)
}

// ReopenMany is ops.Desk.ReopenMany. It takes several requests for many.
func (c *Client) ReopenMany(ctx context.Context, letters []pawl.ID, by pawl.By, note string) ops.Results {
	return c.close(ctx, reopenRoute, letters, by, note)
}

// NoteMany is ops.Desk.NoteMany. It takes several requests for many.
func (c *Client) NoteMany(ctx context.Context, letters []pawl.ID, by pawl.By, note string) ops.Results {
	return c.close(ctx, noteRoute, letters, by, note)
}

// ForgetMany is ops.Desk.ForgetMany. It takes several requests for many.
func (c *Client) ForgetMany(ctx context.Context, letters []pawl.ID, by pawl.By) ops.Results {
	act, err := actingOf(by)
	return inParts(letters, err, func(part []pawl.ID) (letterActs, error) {
		return send(ctx, c, forgetManyRoute, forgetting{part, act})
	})
}

func (c *Client) close(ctx context.Context, e endpoint[closing, letterActs], letters []pawl.ID, by pawl.By, note string) ops.Results {
	act, err := actingOf(by)
	return inParts(letters, err, func(part []pawl.ID) (letterActs, error) {
		return send(ctx, c, e, closing{part, note, act})
	})
}

// inParts asks for so many letters at a time. Where a request fails, all of its letters have that error.
func inParts(letters []pawl.ID, err error, ask func(part []pawl.ID) (letterActs, error)) ops.Results {
	out := make(ops.Results, len(letters))
	for first := 0; first < len(letters); first += moveAtOnce {
		part := letters[first:min(first+moveAtOnce, len(letters))]
		var answer letterActs
		failure := err
		if failure == nil {
			if answer, failure = ask(part); failure == nil && len(answer.Results) != len(part) {
				failure = shortAnswer(len(answer.Results), len(part))
			}
		}
		for i, letter := range part {
			out[first+i] = ops.Result{Letter: letter, Err: failure}
			if failure == nil {
				out[first+i].Job, out[first+i].Err = pawl.ID(answer.Results[i].JobID), answer.Results[i].Problem.err()
			}
		}
	}
	return out
}

// Resolve is ops.Desk.Resolve.
func (c *Client) Resolve(ctx context.Context, letter pawl.ID, by pawl.By, note string) error {
	return c.ResolveMany(ctx, []pawl.ID{letter}, by, note).Err()
}

// Discard is ops.Desk.Discard.
func (c *Client) Discard(ctx context.Context, letter pawl.ID, by pawl.By, note string) error {
	return c.DiscardMany(ctx, []pawl.ID{letter}, by, note).Err()
}

// Reopen is ops.Desk.Reopen.
func (c *Client) Reopen(ctx context.Context, letter pawl.ID, by pawl.By, note string) error {
	return c.ReopenMany(ctx, []pawl.ID{letter}, by, note).Err()
}

// Note is ops.Desk.Note.
func (c *Client) Note(ctx context.Context, letter pawl.ID, by pawl.By, note string) error {
	return c.NoteMany(ctx, []pawl.ID{letter}, by, note).Err()
}

// Forget is ops.Desk.Forget.
func (c *Client) Forget(ctx context.Context, letter pawl.ID, by pawl.By) (bool, error) {
	return c.ForgetLetter(ctx, letter, by)
}

// Prune is ops.Desk.Prune.
func (c *Client) Prune(ctx context.Context, f pawl.LetterFilter, o ops.PruneOptions) (ops.PruneReport, error) {
	return c.desk.Prune(ctx, f, o)
}

// StartOperation is ops.Desk.StartOperation.
func (c *Client) StartOperation(ctx context.Context, o pawl.NewOperation) (pawl.Operation, error) {
	return c.desk.StartOperation(ctx, o)
}

// ControlOperation is ops.Desk.ControlOperation.
func (c *Client) ControlOperation(ctx context.Context, id pawl.ID, action pawl.Action, by pawl.By) error {
	return c.desk.ControlOperation(ctx, id, action, by)
}

// RehearseOperation is ops.Desk.RehearseOperation.
func (c *Client) RehearseOperation(ctx context.Context, o pawl.NewOperation, each func(ops.Result)) (int, error) {
	return c.desk.RehearseOperation(ctx, o, each)
}

// RunOperation is ops.Desk.RunOperation: it watches, and the server's host runs the operation.
func (c *Client) RunOperation(ctx context.Context, id pawl.ID, o ops.RunOptions) (pawl.Operation, error) {
	return c.desk.RunOperation(ctx, id, o)
}
