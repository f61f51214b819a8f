package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

const (
	selectHosts = `select id, info, opened_at, beat_at, busy, draining, quiet, unsettled from {s}.session where ended_at is null order by id`
	lockHost    = `select quiet from {s}.session where id = $1 and ended_at is null for update`
	quietHost   = `update {s}.session set quiet = true where id = $1`
)

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
		&h.Busy, &h.Draining, &h.Quiet, &h.Unsettled)
}

// QuietHost asks a host to claim no more.
func (s *Store) QuietHost(ctx context.Context, session pawl.SessionID, by pawl.By) error {
	if err := desk.CheckBy(by); err != nil {
		return err
	}
	err := s.write(ctx, func(ctx context.Context, tx pgx.Tx) error {
		quiet, live, err := selectOne(ctx, tx, scanValue[bool], s.sql.desk.lockHost, int64(session))
		switch {
		case err != nil:
			return err
		case !live:
			return desk.NoHost(session)
		case quiet:
			return nil
		}
		if _, err := tx.Exec(ctx, s.sql.desk.quietHost, int64(session)); err != nil {
			return err
		}
		_, err = s.writeAudit(ctx, tx, audited{by, desk.QuietEntry(session)})
		return err
	})
	if err != nil {
		return fmt.Errorf("quiet host: %w", err)
	}
	s.waker.announce() // it is to hear of it
	return nil
}
