package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
)

const selectHosts = `select id, info, opened_at, beat_at, busy, draining from {s}.session where ended_at is null order by id`

// Hosts returns the sessions that have not ended, oldest first.
func (s *Store) Hosts(ctx context.Context) (hosts []pawl.HostView, err error) {
	err = s.view(ctx, func(ctx context.Context, q querier) error {
		hosts, err = selectRows(ctx, q, scanHost, s.sql.desk.selectHosts)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list hosts: %w", err)
	}
	return hosts, nil
}

func scanHost(rows pgx.Rows) (h pawl.HostView, err error) {
	return h, rows.Scan((*int64)(&h.Session), jsonColumn{&h.HostInfo}, (*timeColumn)(&h.OpenedAt), (*timeColumn)(&h.BeatAt),
		&h.Busy, &h.Draining)
}
