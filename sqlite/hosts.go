package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/pawljobs/pawl"
)

// Hosts returns the sessions that have not ended, oldest first.
func (s *Store) Hosts(ctx context.Context) (hosts []pawl.HostView, err error) {
	err = s.view(ctx, func(x execer) error {
		hosts, err = selectRows(ctx, x, scanHost, `
			select id, info, opened_at, beat_at, busy, draining from pawl_session where ended_at is null order by id`)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list hosts: %w", err)
	}
	return hosts, nil
}

func scanHost(rows *sql.Rows) (h pawl.HostView, err error) {
	return h, rows.Scan(&h.Session, jsonColumn{&h.HostInfo}, (*timeColumn)(&h.OpenedAt), (*timeColumn)(&h.BeatAt),
		&h.Busy, &h.Draining)
}
