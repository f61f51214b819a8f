package ops

import (
	"context"
	"fmt"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

// PruneOptions say who prunes, and how carefully.
type PruneOptions struct {
	By pawl.By
	// Expect, unless 0, is how many letters there have to be: with any other number nothing is done (pawl.ErrConflict).
	Expect int
	// DryRun counts, and changes nothing.
	DryRun bool
}

// PruneReport is what became of letters that were to be pruned.
type PruneReport struct {
	Letters int // that the filter matched
	pawl.Pruned
}

// Prune removes the letters that a filter matches, and their evidence; its Status and StatusBefore must be given: open failures
// go only where pawl.StatusDead is named. Letters that are still needed are kept. After an error the report says how many
// have gone; doing it again removes the rest.
func (d *Desk) Prune(ctx context.Context, filter pawl.LetterFilter, o PruneOptions) (PruneReport, error) {
	by, err := acting(o.By)
	if err != nil {
		return PruneReport{}, err
	}
	if err := desk.CheckPrune(filter, by); err != nil {
		return PruneReport{}, err
	}
	if o.Expect < 0 {
		return PruneReport{}, &pawl.FieldError{Field: "expect", Value: o.Expect, Rule: "must not be negative"}
	}
	n, err := d.letters.CountLetters(ctx, filter)
	switch report := (PruneReport{Letters: n}); {
	case err != nil:
		return PruneReport{}, fmt.Errorf("count letters to prune: %w", err)
	case o.Expect != 0 && o.Expect != n:
		return report, fmt.Errorf("there are %s, and %d were expected: %w", some(n, "letter"), o.Expect, pawl.ErrConflict)
	case o.DryRun:
		return report, nil
	default:
		report.Pruned, err = d.letters.PruneLetters(ctx, filter, by)
		return report, err
	}
}
