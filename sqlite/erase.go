package sqlite

import (
	"context"

	"github.com/pawljobs/pawl"
)

// EraseArgs is not there yet.
func (s *Store) EraseArgs(context.Context, pawl.Erase) (pawl.Erased, error) {
	return pawl.Erased{}, pawl.ErrUnsupported
}
