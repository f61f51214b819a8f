package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

// Hosts returns the sessions that have not ended, oldest first.
func (s *Store) Hosts(ctx context.Context) (hosts []pawl.HostView, err error) {
	err = s.view(ctx, func(x execer) error {
		hosts, err = selectRows(ctx, x, scanHost, `
			select id, info, opened_at, beat_at, busy, draining, quiet, unsettled from pawl_session where ended_at is null order by id`)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list hosts: %w", err)
	}
	return hosts, nil
}

func scanHost(rows *sql.Rows) (h pawl.HostView, err error) {
	return h, rows.Scan(&h.Session, jsonColumn{&h.HostInfo}, (*timeColumn)(&h.OpenedAt), (*timeColumn)(&h.BeatAt),
		&h.Busy, &h.Draining, &h.Quiet, &h.Unsettled)
}

// QuietHost asks a host to claim no more.
func (s *Store) QuietHost(ctx context.Context, session pawl.SessionID, by pawl.By) error {
	if err := desk.CheckBy(by); err != nil {
		return err
	}
	err := s.write(ctx, func(ctx context.Context, w *writer) error {
		quiet, live, err := selectOne(ctx, w, scanValue[bool], `select quiet from pawl_session where id = ? and ended_at is null`, int64(session))
		switch {
		case err != nil:
			return err
		case !live:
			return desk.NoHost(session)
		case quiet:
			return nil
		}
		if _, err := w.ExecContext(ctx, `update pawl_session set quiet = 1 where id = ?`, int64(session)); err != nil {
			return err
		}
		w.ready = true // it is to hear of it
		_, err = writeAudit(ctx, w, now(), by, desk.QuietEntry(session))
		return err
	})
	if err != nil {
		return fmt.Errorf("quiet host: %w", err)
	}
	return nil
}
