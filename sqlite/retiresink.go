package sqlite

import (
	"context"
	"fmt"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

const (
	registerSink = `insert into pawl_sink (name, seen_at) values (?1, ?2)
on conflict (name) do update set seen_at = excluded.seen_at, retired_at = null`

	anyStaleSink = `select exists (select 1 from pawl_sink where retired_at is null and seen_at < ?1)`
	selectInfos  = `select info from pawl_session indexed by pawl_session_live where ended_at is null`
	noteSinks    = `update pawl_sink set seen_at = ?1 where retired_at is null and seen_at < ?2
and (seen_at = 0 or name in (select value from json_each(?3)))`
	retireSinks = `update pawl_sink set retired_at = ?1 where retired_at is null and seen_at < ?2
and exists (select 1 from pawl_session where id = ?3 and ended_at is null and opened_at <= ?4) returning name`
)

// retireSinks notes which sinks hosts have, and retires those that none has had for long. What one was not told of is kept,
// for a host that brings it back. Most sweeps only look.
func (s *Store) retireSinks(ctx context.Context, request pawl.SweepRequest, _ *pawl.SweepReport) error {
	stale := false
	err := s.view(ctx, func(x execer) (err error) {
		stale, _, err = selectOne(ctx, x, scanValue[bool], anyStaleSink, now()-desk.SinkNoted.Milliseconds())
		return err
	})
	if err != nil || !stale {
		return err
	}
	return s.write(ctx, func(ctx context.Context, w *writer) error { return noteAndRetire(ctx, w, request.Session, now()) })
}

func noteAndRetire(ctx context.Context, x execer, session pawl.SessionID, at int64) error {
	infos, err := selectRows(ctx, x, scanValue[string], selectInfos)
	if err != nil {
		return err
	}
	held, err := jsonArray(desk.SinksOf(infos))
	if err != nil {
		return err
	}
	if _, err := x.ExecContext(ctx, noteSinks, at, at-desk.SinkNoted.Milliseconds(), held); err != nil {
		return err
	}
	retired, err := selectRows(ctx, x, scanValue[string], retireSinks,
		at, at-desk.SinkUnseen.Milliseconds(), int64(session), at-desk.SinkWatch.Milliseconds())
	if err != nil {
		return err
	}
	for _, sink := range retired {
		view, err := sinkView(ctx, x, sink, at)
		if err != nil {
			return fmt.Errorf("count alerts of sink %s: %w", sink, err)
		}
		by, entry := desk.RetiredEntry(sink, view.Pending)
		if _, err := writeAudit(ctx, x, at, by, entry); err != nil {
			return err
		}
	}
	return nil
}
