package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

const (
	selectHosts = `select id, info, opened_at, beat_at, busy, draining, quiet, drain, unsettled from {s}.session where ended_at is null order by id`
	lockToQuiet = `select quiet, info from {s}.session where id = $1 and ended_at is null for update`
	quietHost   = `update {s}.session set quiet = true where id = $1`
	lockToDrain = `select drain, info from {s}.session where id = $1 and ended_at is null for update`
	drainHost   = `update {s}.session set drain = true where id = $1`
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
		&h.Busy, &h.Draining, &h.Quiet, &h.Drain, &h.Unsettled)
}

// QuietHost asks a host to claim no more.
func (s *Store) QuietHost(ctx context.Context, session pawl.SessionID, by pawl.By) error {
	if err := s.order(ctx, session, by, desk.Quiet, s.sql.desk.lockToQuiet, s.sql.desk.quietHost); err != nil {
		return fmt.Errorf("quiet host: %w", err)
	}
	return nil
}

// DrainHost asks a host to end.
func (s *Store) DrainHost(ctx context.Context, session pawl.SessionID, by pawl.By) error {
	if err := s.order(ctx, session, by, desk.Drain, s.sql.desk.lockToDrain, s.sql.desk.drainHost); err != nil {
		return fmt.Errorf("drain host: %w", err)
	}
	return nil
}

// ordered is what a host was asked before.
type ordered struct {
	already bool
	host    pawl.HostInfo
}

func scanOrdered(rows pgx.Rows) (o ordered, err error) {
	return o, rows.Scan(&o.already, jsonColumn{&o.host})
}

// order asks something of a host, once.
func (s *Store) order(ctx context.Context, session pawl.SessionID, by pawl.By, order desk.HostOrder, lock, set string) error {
	if err := desk.CheckBy(by); err != nil {
		return err
	}
	err := s.write(ctx, func(ctx context.Context, tx pgx.Tx) error {
		before, live, err := selectOne(ctx, tx, scanOrdered, lock, int64(session))
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
		if _, err := tx.Exec(ctx, set, int64(session)); err != nil {
			return err
		}
		_, err = s.writeAudit(ctx, tx, audited{by, order.Entry(session)})
		return err
	})
	if err == nil {
		s.waker.announce() // it is to hear of it
	}
	return err
}
