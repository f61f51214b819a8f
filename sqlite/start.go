package sqlite

import (
	"context"
	"fmt"

	"github.com/pawljobs/pawl"
)

// The mark is the token of the reservation that left it first: a give-back wipes its own mark and keeps an earlier one.
const markStarted = `update pawl_job set started = iif(started = 0, token, started) where session = ?1 and token = ?2 and +id = ?3`

// Start writes the start marks of jobs that must not run twice.
func (s *Store) Start(ctx context.Context, session pawl.SessionID, reservations []pawl.Reservation) ([]error, error) {
	results, err := s.fenced(ctx, session, reservations, func(ctx context.Context, w *writer, i int) (int64, error) {
		r := reservations[i]
		return change(ctx, w, markStarted, int64(session), int64(r.Token), r.ID[:])
	})
	if err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	return results, nil
}

// fenced runs a statement for each reservation, all in one transaction. Those that changed no row, and all of a session
// that has ended, are lost.
func (s *Store) fenced(ctx context.Context, session pawl.SessionID, reservations []pawl.Reservation, one func(ctx context.Context, w *writer, i int) (int64, error)) ([]error, error) {
	if len(reservations) == 0 {
		return nil, nil
	}
	results := make([]error, len(reservations))
	err := s.write(ctx, func(ctx context.Context, w *writer) error {
		_, live, err := readSession(ctx, w, session)
		if err != nil {
			return err
		}
		for i, r := range reservations {
			changed := int64(0)
			if live {
				if changed, err = one(ctx, w, i); err != nil {
					return err
				}
			}
			results[i] = nil
			if changed == 0 {
				results[i] = pawl.LeaseLost(r)
			}
		}
		return nil
	})
	return results, err
}
