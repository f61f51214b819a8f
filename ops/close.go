package ops

import (
	"context"
	"fmt"

	"github.com/pawljobs/pawl"
)

// Resolve closes an open letter: it was dealt with. A note that is not empty replaces the letter's.
func (d *Desk) Resolve(ctx context.Context, letter pawl.ID, by pawl.By, note string) error {
	return d.ResolveMany(ctx, []pawl.ID{letter}, by, note).Err()
}

// ResolveMany resolves each of the letters. One that is refused does not stop the others.
func (d *Desk) ResolveMany(ctx context.Context, letters []pawl.ID, by pawl.By, note string) Results {
	return d.moveAll(ctx, pawl.ActionResolve, letters, by, note)
}

// Discard closes an open letter: it is not worth dealing with.
func (d *Desk) Discard(ctx context.Context, letter pawl.ID, by pawl.By, note string) error {
	return d.DiscardMany(ctx, []pawl.ID{letter}, by, note).Err()
}

// DiscardMany discards each of the letters. One that is refused does not stop the others.
func (d *Desk) DiscardMany(ctx context.Context, letters []pawl.ID, by pawl.By, note string) Results {
	return d.moveAll(ctx, pawl.ActionDiscard, letters, by, note)
}

// Reopen makes a closed letter, or one whose redrive was cancelled, an open failure again.
func (d *Desk) Reopen(ctx context.Context, letter pawl.ID, by pawl.By, note string) error {
	return d.ReopenMany(ctx, []pawl.ID{letter}, by, note).Err()
}

// ReopenMany reopens each of the letters. One that is refused does not stop the others.
func (d *Desk) ReopenMany(ctx context.Context, letters []pawl.ID, by pawl.By, note string) Results {
	return d.moveAll(ctx, pawl.ActionReopen, letters, by, note)
}

// Note replaces the note of a letter, whatever its status.
func (d *Desk) Note(ctx context.Context, letter pawl.ID, by pawl.By, note string) error {
	return d.NoteMany(ctx, []pawl.ID{letter}, by, note).Err()
}

// NoteMany puts a note on each of the letters. One that is refused does not stop the others.
func (d *Desk) NoteMany(ctx context.Context, letters []pawl.ID, by pawl.By, note string) Results {
	return d.moveAll(ctx, pawl.ActionNote, letters, by, note)
}

func (d *Desk) moveAll(ctx context.Context, action pawl.Action, letters []pawl.ID, by pawl.By, note string) Results {
	by, err := acting(by)
	if err != nil {
		return refuseAll(letters, err)
	}
	out := make(Results, len(letters))
	for first := 0; first < len(letters); first += batch {
		part := letters[first:min(first+batch, len(letters))]
		moves := make([]pawl.Move, len(part))
		for i, letter := range part {
			moves[i] = pawl.Move{Letter: letter, Action: action, By: by, Note: note}
		}
		errs, err := d.letters.MoveLetters(ctx, moves)
		for i, letter := range part {
			out[first+i].Letter = letter
			switch {
			case err != nil:
				out[first+i].Err = fmt.Errorf("%s letter %s: %w", action, letter, err)
			case errs[i] != nil:
				out[first+i].Err = fmt.Errorf("%s: %w", action, errs[i])
			}
		}
	}
	return out
}

// Forget removes a letter and its evidence; that it was removed, and by whom, stays in the audit trail. The result is
// false when there was none.
func (d *Desk) Forget(ctx context.Context, letter pawl.ID, by pawl.By) (bool, error) {
	by, err := acting(by)
	if err != nil {
		return false, err
	}
	return d.letters.ForgetLetter(ctx, letter, by)
}

// ForgetMany removes each of the letters; the error of one that was not there is pawl.ErrNotFound.
func (d *Desk) ForgetMany(ctx context.Context, letters []pawl.ID, by pawl.By) Results {
	out := make(Results, len(letters))
	for i, letter := range letters {
		found, err := d.Forget(ctx, letter, by)
		if err == nil && !found {
			err = fmt.Errorf("forget letter %s: %w", letter, pawl.ErrNotFound)
		}
		out[i] = Result{Letter: letter, Err: err}
	}
	return out
}
