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
			select id, info, opened_at, beat_at, busy, draining, quiet, drain, unsettled from pawl_session where ended_at is null order by id`)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list hosts: %w", err)
	}
	return hosts, nil
}

func scanHost(rows *sql.Rows) (h pawl.HostView, err error) {
	return h, rows.Scan(&h.Session, jsonColumn{&h.HostInfo}, (*timeColumn)(&h.OpenedAt), (*timeColumn)(&h.BeatAt),
		&h.Busy, &h.Draining, &h.Quiet, &h.Drain, &h.Unsettled)
}

const (
	selectQuiet = `select quiet, info from pawl_session where id = ? and ended_at is null`
	setQuiet    = `update pawl_session set quiet = 1 where id = ?`
	selectDrain = `select drain, info from pawl_session where id = ? and ended_at is null`
	setDrain    = `update pawl_session set drain = 1 where id = ?`
)

// QuietHost asks a host to claim no more.
func (s *Store) QuietHost(ctx context.Context, session pawl.SessionID, by pawl.By) error {
	if err := s.order(ctx, session, by, desk.Quiet, selectQuiet, setQuiet); err != nil {
		return fmt.Errorf("quiet host: %w", err)
	}
	return nil
}

// DrainHost asks a host to end.
func (s *Store) DrainHost(ctx context.Context, session pawl.SessionID, by pawl.By) error {
	if err := s.order(ctx, session, by, desk.Drain, selectDrain, setDrain); err != nil {
		return fmt.Errorf("drain host: %w", err)
	}
	return nil
}

// ordered is what a host was asked before.
type ordered struct {
	already bool
	host    pawl.HostInfo
}

func scanOrdered(rows *sql.Rows) (o ordered, err error) {
	return o, rows.Scan(&o.already, jsonColumn{&o.host})
}

// order asks something of a host, once.
func (s *Store) order(ctx context.Context, session pawl.SessionID, by pawl.By, order desk.HostOrder, read, set string) error {
	if err := desk.CheckBy(by); err != nil {
		return err
	}
	return s.write(ctx, func(ctx context.Context, w *writer) error {
		before, live, err := selectOne(ctx, w, scanOrdered, read, int64(session))
		switch {
		case err != nil:
			return err
		case !live:
			return desk.NoHost(session)
		case before.already:
			return nil
		}
		if err := order.Check(before.host); err != nil {
			return err
		}
		if _, err := w.ExecContext(ctx, set, int64(session)); err != nil {
			return err
		}
		w.ready = true // it is to hear of it
		_, err = writeAudit(ctx, w, now(), by, order.Entry(session))
		return err
	})
}
