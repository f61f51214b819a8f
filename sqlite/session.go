package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
)

const (
	takeSession = `update pawl_counter set value = value + 1 where name = 'session' returning value`

	insertSession = `insert into pawl_session (id, name, info, opened_at, beat_at) values (?1, ?2, ?3, ?4, ?4)`
	seeKind       = `insert into pawl_kind (kind, seen_at) values (?1, ?2)
on conflict (kind) do update set seen_at = max(seen_at, excluded.seen_at)`

	selectSession = `select opened_at from pawl_session where id = ?1 and ended_at is null`

	renewSession = `update pawl_session set beat = beat + 1, beat_at = ?2, busy = ?3, draining = ?4, unsettled = ?5
where id = ?1 and ended_at is null returning quiet, drain`

	// Of the tokens in the list, those that are lost or asked to be cancelled.
	selectTroubled = `select t.key, j.seq is null
from json_each(?1) t left join pawl_job j on j.session = ?3 and j.token = t.value and +j.id = substr(?2, t.key * 16 + 1, 16)
where j.seq is null or j.cancel <> 0 order by t.key`

	writeProgress = `update pawl_job set progress = ?4 where session = ?1 and token = ?2 and +id = ?3`
	selectHeld    = `select id, token from pawl_job where session = ?1 order by token`
	selectOthers  = `select id, beat from pawl_session indexed by pawl_session_live where ended_at is null and id <> ?1 order by id`
	readSwitchNo  = `select value from pawl_counter where name = 'switches'`

	endSession = `update pawl_session set ended_at = ?2, busy = 0 where id = ?1 and ended_at is null`

	// What must not run twice and was started keeps its mark.
	giveBackHeld = `update pawl_job set seq = iif(seq > 0, seq - 4611686018427387904, seq), session = null, token = null, room = zeroblob(10),
attempt = attempt - 1, cancel = 0, progress = null, ready_at = ?2 where session = ?1` + notCancelled
)

// OpenSession starts a session, and registers the host's kinds and sinks.
func (s *Store) OpenSession(ctx context.Context, host pawl.HostInfo) (pawl.SessionID, error) {
	info, err := json.Marshal(host)
	if err != nil {
		return 0, fmt.Errorf("open session: %w", err)
	}
	var session int64
	var limited []string // kinds whose limit has changed
	err = s.write(ctx, func(ctx context.Context, w *writer) (err error) {
		at := now()
		if session, _, err = selectOne(ctx, w, scanValue[int64], takeSession); err != nil {
			return err
		}
		if _, err := w.ExecContext(ctx, insertSession, session, host.Name, string(info), at); err != nil {
			return err
		}
		for _, sink := range host.Sinks {
			if _, err := w.ExecContext(ctx, registerSink, sink, at); err != nil {
				return err
			}
		}
		if limited, err = register(ctx, w, host, at); err != nil {
			return fmt.Errorf("register limits: %w", err)
		}
		return seeKinds(ctx, w, host.Kinds, at)
	})
	if err == nil && len(limited) > 0 {
		err = s.giveKinds(ctx, limited...)
	}
	if err != nil {
		return 0, fmt.Errorf("open session: %w", err)
	}
	return pawl.SessionID(session), nil
}

// seeKinds notes that a host has registered the kinds.
func seeKinds(ctx context.Context, x execer, kinds []string, at int64) error {
	for _, kind := range kinds {
		if _, err := x.ExecContext(ctx, seeKind, kind, at); err != nil {
			return fmt.Errorf("register kind: %w", err)
		}
	}
	return nil
}

// readSession reports whether a session has not ended, and when it was opened.
func readSession(ctx context.Context, x execer, session pawl.SessionID) (openedAt int64, live bool, err error) {
	openedAt, live, err = selectOne(ctx, x, scanValue[int64], selectSession, int64(session))
	if err != nil {
		return 0, false, fmt.Errorf("read session: %w", err)
	}
	return openedAt, live, nil
}

func sessionLost(session pawl.SessionID) error {
	return fmt.Errorf("session %d: %w", session, pawl.ErrSessionLost)
}

// Beat renews the session.
func (s *Store) Beat(ctx context.Context, session pawl.SessionID, beat pawl.Beat) (pawl.BeatReply, error) {
	b := beating{session: int64(session), beat: beat}
	live := false
	err := s.write(ctx, func(ctx context.Context, w *writer) (err error) {
		b.x, b.at, b.reply = w, now(), pawl.BeatReply{}
		live, err = b.renew(ctx)
		return err
	})
	if err == nil && !live {
		err = sessionLost(session)
	}
	if err != nil {
		return pawl.BeatReply{}, fmt.Errorf("beat: %w", err)
	}
	return b.reply, nil
}

// beating is one beat under way.
type beating struct {
	x       execer
	session int64
	beat    pawl.Beat
	at      int64
	reply   pawl.BeatReply
}

func (b *beating) renew(ctx context.Context) (live bool, err error) {
	orders, live, err := selectOne(ctx, b.x, scanOrders, renewSession, b.session, b.at, b.beat.Busy, b.beat.Draining, b.beat.Unsettled)
	if err != nil || !live {
		return false, err
	}
	b.reply.Quiet, b.reply.Drain = orders[0], orders[1]
	b.reply.Now = time.UnixMilli(b.at).UTC()
	for _, step := range []func(context.Context) error{b.writeProgress, b.checkHeld, b.reconcile} {
		if err := step(ctx); err != nil {
			return false, err
		}
	}
	b.reply.Others, err = selectRows(ctx, b.x, func(rows *sql.Rows) (seen pawl.SeenSession, err error) {
		return seen, rows.Scan(&seen.ID, &seen.Beat)
	}, selectOthers, b.session)
	if err != nil {
		return false, fmt.Errorf("look at other sessions: %w", err)
	}
	b.reply.Switches, _, err = selectOne(ctx, b.x, scanValue[int64], readSwitchNo)
	return true, err
}

// scanOrders reads whether the host is asked to go quiet, and to drain.
func scanOrders(rows *sql.Rows) (orders [2]bool, err error) {
	return orders, rows.Scan(&orders[0], &orders[1])
}

func (b *beating) writeProgress(ctx context.Context) error {
	for _, p := range b.beat.Progress {
		text := fmt.Sprintf("%d %%", p.Percent)
		if p.Note != "" {
			text += " " + p.Note
		}
		if _, err := b.x.ExecContext(ctx, writeProgress, b.session, int64(p.Token), p.ID[:], text); err != nil {
			return fmt.Errorf("write progress: %w", err)
		}
	}
	return nil
}

// checkHeld finds what of the host's belongings are gone, or asked to be cancelled.
func (b *beating) checkHeld(ctx context.Context) error {
	held := b.beat.Held
	if len(held) == 0 {
		return nil
	}
	tokens, ids := reservationLists(held)
	type trouble struct {
		index int
		lost  bool
	}
	troubles, err := selectRows(ctx, b.x, func(rows *sql.Rows) (t trouble, err error) {
		return t, rows.Scan(&t.index, &t.lost)
	}, selectTroubled, tokens, ids, b.session)
	if err != nil {
		return fmt.Errorf("check reservations: %w", err)
	}
	for _, t := range troubles {
		if t.lost {
			b.reply.Lost = append(b.reply.Lost, held[t.index])
		} else {
			b.reply.Cancel = append(b.reply.Cancel, held[t.index])
		}
	}
	return nil
}

// reconcile finds what the session holds without the host's knowledge.
func (b *beating) reconcile(ctx context.Context) error {
	if !b.beat.Reconcile {
		return nil
	}
	known := make(map[pawl.Reservation]bool, len(b.beat.Held))
	for _, r := range b.beat.Held {
		known[r] = true
	}
	held, err := selectRows(ctx, b.x, func(rows *sql.Rows) (r pawl.Reservation, err error) {
		return r, rows.Scan((*idColumn)(&r.ID), &r.Token)
	}, selectHeld, b.session)
	if err != nil {
		return fmt.Errorf("reconcile: %w", err)
	}
	for _, r := range held {
		if !known[r] {
			b.reply.Found = append(b.reply.Found, r)
		}
	}
	return nil
}

// CloseSession ends the session and gives back what it holds. It can be repeated.
func (s *Store) CloseSession(ctx context.Context, session pawl.SessionID) error {
	err := s.write(ctx, func(ctx context.Context, w *writer) error {
		at := now()
		ended, err := finishSession(ctx, w, session, at, at)
		if err != nil || !ended {
			return err
		}
		if _, err := removeCancelled(ctx, w, s.config.History >= 0, at, selectCancelledHeld, int64(session)); err != nil {
			return err
		}
		given, err := change(ctx, w, giveBackHeld, int64(session), at)
		w.ready = w.ready || given > 0
		return err
	})
	if err != nil {
		return fmt.Errorf("close session: %w", err)
	}
	return nil
}

const selectInfo = `select info from pawl_session where id = ?1`

// finishSession ends a session; false when it had ended before, or never was. Its kinds were known until seen.
func finishSession(ctx context.Context, x execer, session pawl.SessionID, at, seen int64) (bool, error) {
	n, err := change(ctx, x, endSession, int64(session), at)
	if err != nil || n == 0 {
		return false, err
	}
	if _, err := x.ExecContext(ctx, freeMessages, int64(session), at); err != nil {
		return false, fmt.Errorf("free alerts: %w", err)
	}
	info, _, err := selectOne(ctx, x, scanValue[string], selectInfo, int64(session))
	if err != nil {
		return false, err
	}
	var host pawl.HostInfo
	if json.Unmarshal([]byte(info), &host) != nil {
		return true, nil // a damaged row must not keep its session's jobs from going on
	}
	return true, seeKinds(ctx, x, host.Kinds, seen)
}
