package postgres

import (
	"context"

	"github.com/pawljobs/pawl"
)

// Limits is not there yet.
func (s *Store) Limits(context.Context) ([]pawl.KindLimit, error) { return nil, pawl.ErrUnsupported }

// SetLimit is not there yet.
func (s *Store) SetLimit(context.Context, string, *pawl.Limit, pawl.By) error {
	return pawl.ErrUnsupported
}
