package postgres

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

const (
	openSession = `insert into {s}.session (name, info, kinds) values ($1, $2, $3) returning id`
	seeKinds    = `insert into {s}.kind (name, seen_at) select k, now() from unnest($1::int[]) k
on conflict (name) do update set seen_at = greatest(kind.seen_at, excluded.seen_at)`

	renewSession = `update {s}.session set beat = beat + 1, beat_at = now(), busy = $2, draining = $3, epoch = epoch + $4::bool::int, unsettled = $5
where id = $1 and ended_at is null returning now(), coalesce((select max(version) from {s}.switch), 0), epoch, quiet, drain`
	selectOthers = `select id, beat from {s}.session where ended_at is null and id <> $1 order by id`

	// Of the reservations, those that are lost or asked to be cancelled.
	selectTroubled = `select t.n, j.id is null from unnest($2::uuid[], $3::bigint[]) with ordinality t (id, claim, n)
left join {s}.job j on j.id = t.id and j.claim = t.claim and j.holder = $1
where j.id is null or j.flags & 8 <> 0 order by t.n`
	writeProgress = `update {s}.job j set progress = t.progress
from unnest($2::uuid[], $3::bigint[], $4::text[]) t (id, claim, progress)
where j.id = t.id and j.claim = t.claim and j.holder = $1`
	selectHeld = `select id, claim from {s}.job where run_at is null and holder = $1
union all
select id, claim from {s}.job where run_at <= now() and holder = $1`
)

// OpenSession starts a session, and registers the host's kinds and sinks. The session is to be used through this handle.
func (s *Store) OpenSession(ctx context.Context, host pawl.HostInfo) (pawl.SessionID, error) {
	s.hosted.Store(true)
	info, err := json.Marshal(host)
	if err == nil {
		err = s.number(ctx, host.Kinds, nil)
	}
	if err != nil {
		return 0, fmt.Errorf("open session: %w", err)
	}
	if err := s.registerLimits(ctx, host); err != nil {
		return 0, fmt.Errorf("open session: register limits: %w", err)
	}
	kinds := s.names.of(host.Kinds)
	slices.Sort(kinds)
	sinks := append([]string{}, host.Sinks...)
	slices.Sort(sinks)
	var session int64
	err = s.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		batch := &pgx.Batch{}
		batch.Queue(s.sql.openSession, host.Name, string(info), kinds).QueryRow(func(row pgx.Row) error { return row.Scan(&session) })
		batch.Queue(s.sql.seeKinds, slices.Compact(kinds))
		if len(sinks) > 0 {
			batch.Queue(s.sql.desk.registerSinks, slices.Compact(sinks), desk.SinkNoted)
		}
		return conn.SendBatch(ctx, batch).Close()
	})
	if err != nil {
		return 0, fmt.Errorf("open session: %w", err)
	}
	s.held.open(pawl.SessionID(session))
	return pawl.SessionID(session), nil
}

// Beat renews the session.
func (s *Store) Beat(ctx context.Context, session pawl.SessionID, beat pawl.Beat) (pawl.BeatReply, error) {
	var reply pawl.BeatReply
	live := false
	err := s.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
		b := beating{store: s, session: int64(session), beat: beat}
		err := b.run(ctx, conn)
		reply, live = b.reply, b.live
		if err == nil && live {
			s.held.begin(session, b.epoch)
		}
		return err
	})
	if err == nil && !live {
		err = sessionLost(session)
	}
	if err != nil {
		return pawl.BeatReply{}, fmt.Errorf("beat: %w", err)
	}
	return reply, nil
}

// beating is one beat under way: all its statements go in one round trip and one transaction.
type beating struct {
	store   *Store
	session int64
	beat    pawl.Beat
	batch   pgx.Batch
	reply   pawl.BeatReply
	live    bool
	epoch   int64
}

func (b *beating) run(ctx context.Context, q querier) error {
	b.batch.Queue(b.store.sql.renewSession, b.session, b.beat.Busy, b.beat.Draining, b.beat.Reconcile, b.beat.Unsettled).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{&b.reply.Now, &b.reply.Switches, &b.epoch, &b.reply.Quiet, &b.reply.Drain}, func() error {
			b.live, b.reply.Now = true, b.reply.Now.UTC()
			return nil
		})
		return err
	})
	b.writeProgress()
	b.checkHeld()
	b.reconcile()
	b.batch.Queue(b.store.sql.selectOthers, b.session).Query(func(rows pgx.Rows) error {
		var seen pawl.SeenSession
		_, err := pgx.ForEachRow(rows, []any{&seen.ID, &seen.Beat}, func() error {
			b.reply.Others = append(b.reply.Others, seen)
			return nil
		})
		return err
	})
	return q.SendBatch(ctx, &b.batch).Close()
}

func (b *beating) writeProgress() {
	if len(b.beat.Progress) == 0 {
		return
	}
	latest := map[pawl.Reservation]string{}
	for _, p := range b.beat.Progress {
		text := strconv.Itoa(p.Percent) + " %"
		if p.Note != "" {
			text += " " + p.Note
		}
		latest[p.Reservation] = text
	}
	var ids idList
	var claims []int64
	var texts []string
	for _, reservation := range slices.SortedFunc(maps.Keys(latest), byID) {
		ids, claims, texts = append(ids, reservation.ID), append(claims, int64(reservation.Token)), append(texts, latest[reservation])
	}
	b.batch.Queue(b.store.sql.writeProgress, b.session, ids, claims, texts)
}

// checkHeld finds what of the host's belongings are gone, or asked to be cancelled.
func (b *beating) checkHeld() {
	held := b.beat.Held
	if len(held) == 0 {
		return
	}
	ids, claims := reservationLists(held)
	b.batch.Queue(b.store.sql.selectTroubled, b.session, ids, claims).Query(func(rows pgx.Rows) error {
		var n int
		var lost bool
		_, err := pgx.ForEachRow(rows, []any{&n, &lost}, func() error {
			if lost {
				b.reply.Lost = append(b.reply.Lost, held[n-1])
			} else {
				b.reply.Cancel = append(b.reply.Cancel, held[n-1])
			}
			return nil
		})
		return err
	})
}

// reconcile finds what the session holds without the host's knowledge.
func (b *beating) reconcile() {
	if !b.beat.Reconcile {
		return
	}
	known := make(map[pawl.Reservation]bool, len(b.beat.Held))
	for _, r := range b.beat.Held {
		known[r] = true
	}
	b.batch.Queue(b.store.sql.selectHeld, b.session).Query(func(rows pgx.Rows) error {
		var r pawl.Reservation
		_, err := pgx.ForEachRow(rows, []any{(*idColumn)(&r.ID), &r.Token}, func() error {
			if !known[r] {
				b.reply.Found = append(b.reply.Found, r)
			}
			return nil
		})
		return err
	})
}

// byID is the order in which rows of jobs are locked, whatever is done to them: statements that lock some of the same then
// wait for each other, and never crosswise.
func byID(a, b pawl.Reservation) int {
	return cmp.Or(bytes.Compare(a.ID[:], b.ID[:]), cmp.Compare(a.Token, b.Token))
}

func reservationLists(reservations []pawl.Reservation) (ids idList, claims []int64) {
	ids, claims = make(idList, len(reservations)), make([]int64, len(reservations))
	for i, r := range reservations {
		ids[i], claims[i] = r.ID, int64(r.Token)
	}
	return ids, claims
}

const (
	closeSession = `update {s}.session set ended_at = now(), busy = 0, closed = true where id = $1 and ended_at is null returning id`
	seeKindsOf   = `update {s}.kind k set seen_at = greatest(k.seen_at, case when s.closed then s.ended_at else s.beat_at end)
from {s}.session s where s.id = any ($1::bigint[]) and k.name = any (s.kinds)`
)

// CloseSession ends the session and gives back what it holds. It can be repeated. What this handle does not know to be
// held, since the reply of a claim was lost, is searched for by the sweeps of any host.
func (s *Store) CloseSession(ctx context.Context, session pawl.SessionID) error {
	select {
	case <-s.claims.turn: // a claim under way is waited for
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-s.background.Done():
		return pawl.ErrClosed
	}
	held, known := s.held.all(session)
	err := s.closeHolding(ctx, session, held, known)
	s.claims.turn <- struct{}{}
	if err == nil {
		s.held.close(session)
		if len(held) > 0 {
			s.claims.fronts.Add(1)
			s.waker.announce()
			s.giveIfAny(ctx)
		}
		if !known {
			_, _, err = s.recoverFor(ctx, claimTime, int(^uint(0)>>1))
		}
	}
	if err != nil {
		return fmt.Errorf("close session: %w", err)
	}
	return nil
}

func (s *Store) closeHolding(ctx context.Context, session pawl.SessionID, held []pawl.Reservation, known bool) error {
	ids, claims := reservationLists(held)
	ways, afters, sides := make([]int16, len(held)), make([]int64, len(held)), make([]int16, len(held))
	for i := range ways {
		ways[i] = backClosed
	}
	slots := s.slotsOrNone(ctx)
	return s.write(ctx, func(ctx context.Context, tx pgx.Tx) error {
		var id int64
		err := tx.QueryRow(ctx, s.sql.closeSession, int64(session)).Scan(&id)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := s.removeCancelled(ctx, tx, id, ids, claims, nil, slots); err != nil {
			return fmt.Errorf("remove cancelled jobs: %w", err)
		}
		batch := &pgx.Batch{}
		batch.Queue(s.sql.seeKindsOf, []int64{id})
		if len(held) > 0 {
			batch.Queue(s.sql.putBack, ids, claims, id, ways, afters, sides)
		}
		if known {
			batch.Queue(s.sql.moveScan, id, true, 0, 0, nil)
		}
		return tx.SendBatch(ctx, batch).Close()
	})
}
