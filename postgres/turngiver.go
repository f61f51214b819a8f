package postgres

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawljobs/pawl"
)

// turnGiver lets the callers of a process share their work.
type turnGiver struct {
	turn   chan struct{} // holds a token while nobody gives turns
	notify chan struct{}
	asked  atomic.Int64 // calls so far
	served atomic.Int64 // of them; written by whoever holds the token
}

func newTurnGiver() *turnGiver {
	g := &turnGiver{turn: make(chan struct{}, 1), notify: make(chan struct{}, 1)}
	g.turn <- struct{}{}
	return g
}

// ask has turns given soon for what was committed by now.
func (g *turnGiver) ask() {
	g.asked.Add(1)
	poke(g.notify)
}

// runTurns gives turns until the store is closed.
func (s *Store) runTurns() {
	for {
		select {
		case <-s.turns.notify:
			s.awaitTurns(s.background)
		case <-s.background.Done():
			return
		}
	}
}

// giveTurns gives turns for what was committed by now. Where that fails, the sweeps of any host go on with it.
func (s *Store) giveTurns(ctx context.Context) {
	s.turns.asked.Add(1)
	s.awaitTurns(ctx)
}

// awaitTurns returns when turns have been given for all that was asked by now.
func (s *Store) awaitTurns(ctx context.Context) {
	g := s.turns
	asked := g.asked.Load()
	if g.served.Load() >= asked {
		return
	}
	select {
	case <-g.turn:
	case <-ctx.Done():
		return
	case <-s.background.Done():
		return
	}
	defer func() { g.turn <- struct{}{} }()
	if g.served.Load() >= asked {
		return
	}
	serves := g.asked.Load()
	if err := s.giveAll(context.WithoutCancel(ctx), nil); err != nil && s.background.Err() == nil {
		s.config.Logger.Warn("turns could not be given; a sweep does it", "error", err)
	}
	g.served.Store(serves)
}

// giveAll gives turns until nothing is left to be looked at. started are jobs whose start is to be counted.
func (s *Store) giveAll(ctx context.Context, started idList) error {
	for more := true; more; {
		var t giving
		err := s.run(ctx, func(ctx context.Context, conn *pgxpool.Conn) error {
			t = giving{store: s, conn: conn, limits: map[int32]pawl.Limit{}, dirty: map[lines]bool{}}
			return t.run(ctx, started) // where it fails, the pool closes the connection, and so the transaction
		})
		if err != nil {
			return fmt.Errorf("give turns: %w", err)
		}
		if started, more = nil, t.more; t.made > 0 {
			s.waker.signal()
		}
	}
	return nil
}
