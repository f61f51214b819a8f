package sqlite

import (
	"context"

	"github.com/pawljobs/pawl"
)

// PruneLetters is not there yet.
func (s *Store) PruneLetters(context.Context, pawl.LetterFilter, pawl.By) (pawl.Pruned, error) {
	return pawl.Pruned{}, pawl.ErrUnsupported
}
