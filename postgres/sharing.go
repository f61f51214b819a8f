package postgres

import (
	"context"
	"sync/atomic"
)

// sharing lets the callers of a process share their work.
type sharing struct {
	turn   chan struct{} // holds a token while nobody is at it
	notify chan struct{}
	asked  atomic.Int64 // calls so far
	served atomic.Int64 // of them; written by whoever holds the token
}

func newSharing() *sharing {
	g := &sharing{turn: make(chan struct{}, 1), notify: make(chan struct{}, 1)}
	g.turn <- struct{}{}
	return g
}

// ask has the work done soon for what was committed by now.
func (g *sharing) ask() {
	g.asked.Add(1)
	poke(g.notify)
}

// do has the work done for what was committed by now.
func (g *sharing) do(ctx, background context.Context, work func(context.Context)) {
	g.asked.Add(1)
	g.await(ctx, background, work)
}

// await returns when the work has been done for all that was asked by now.
func (g *sharing) await(ctx, background context.Context, work func(context.Context)) {
	asked := g.asked.Load()
	if g.served.Load() >= asked {
		return
	}
	select {
	case <-g.turn:
	case <-ctx.Done():
		return
	case <-background.Done():
		return
	}
	defer func() { g.turn <- struct{}{} }()
	if g.served.Load() >= asked {
		return
	}
	serves := g.asked.Load()
	work(context.WithoutCancel(ctx))
	g.served.Store(serves)
}
