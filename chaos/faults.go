//go:build linux

package main

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/pawljobs/pawl/chaos/internal/proof"
)

// perform has jobs handed in for the plan's time and does what it says, each fault beside the ones before.
func (a *arena) perform(ctx context.Context) (err error) {
	a.producer, err = spawn(task{
		Role: producerRole, Name: "producer", Folder: a.folder, Store: a.plan.Store, URL: a.url(hosts), Seed: a.plan.Seed,
	}, a.history)
	if err != nil {
		return err
	}
	if err := await(ctx, a.producer.ready, a.producer, 30*time.Second); err != nil {
		return err
	}
	var at time.Duration
	for _, step := range a.plan.Steps { // by their distances: after a freeze they are not made up for
		if err := a.sleep(ctx, step.At-at); err != nil {
			return err
		}
		at = step.At
		a.faults.Go(func() { a.do(ctx, step) })
	}
	return a.sleep(ctx, a.plan.Span-at)
}

// sleep waits, unless the run fails.
func (a *arena) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case err := <-a.fatal:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// begin notes a fault and returns what notes its end.
func (a *arena) begin(fault, target string) (over func()) {
	a.numbers.Lock()
	a.number++
	n := a.number
	a.numbers.Unlock()
	a.history.Write(proof.Event{What: proof.Fault, N: n, Fault: fault, Target: target})
	return func() { a.history.Write(proof.Event{What: proof.Healed, N: n}) }
}

// do brings a fault about.
func (a *arena) do(ctx context.Context, step Step) {
	switch {
	case step.Fault == proof.Restart:
		a.restart(ctx, step)
		return
	case step.Slot == hosts:
		a.disconnect(ctx, step, a.links[hosts], a.producer, a.producer.name)
		return
	}
	s, p := a.pick(ctx, step.Slot)
	if p == nil {
		return
	}
	defer func() {
		s.mu.Lock()
		s.busy = false
		s.mu.Unlock()
	}()
	switch step.Fault {
	case proof.Kill, proof.KillInSettle:
		a.kill(ctx, step, s, p)
	case proof.Stop:
		over := a.begin(proof.Stop, p.name)
		p.signal(syscall.SIGSTOP)
		pause(ctx, step.Hold)
		over() // it cannot do anything before that is written down
		p.signal(syscall.SIGCONT)
	case proof.Term:
		a.term(ctx, p)
	case proof.FailedSettle:
		p.send(command{Settle: map[bool]string{true: "before", false: "after"}[step.Before]})
		pause(ctx, time.Second)
	default:
		a.disconnect(ctx, step, a.links[s.n], p, s.prefix())
	}
}

// pick finds a host that is at work and lets no other fault have it: the one of the slot, or the next that there is.
func (a *arena) pick(ctx context.Context, n int) (*slot, *process) {
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); {
		for i := range a.slots {
			s := a.slots[(n+i)%len(a.slots)]
			s.mu.Lock()
			free := !s.busy && closed(s.process.ready) && !s.process.gone()
			s.busy = s.busy || free
			p := s.process
			s.mu.Unlock()
			if free {
				return s, p
			}
		}
		if !pause(ctx, 50*time.Millisecond) {
			break
		}
	}
	return nil, nil
}

func (a *arena) kill(ctx context.Context, step Step, s *slot, p *process) {
	s.mu.Lock()
	s.away = step.Hold
	s.mu.Unlock()
	if step.Fault == proof.KillInSettle { // it kills itself, and notes that
		p.send(command{Die: &step.Aim})
		if await(ctx, p.exited, p, 4*time.Second) == nil || p.gone() || ctx.Err() != nil {
			return
		}
	}
	a.begin(proof.Kill, p.name)
	p.end(proof.ByKill, syscall.SIGKILL)
	<-p.exited
}

func (a *arena) term(ctx context.Context, p *process) {
	over := a.begin(proof.Term, p.name)
	defer over()
	p.end(proof.ByTerm, syscall.SIGTERM)
	if await(ctx, p.exited, p, drain.Host+3*time.Second) == nil || p.gone() || ctx.Err() != nil {
		return
	}
	a.history.Write(proof.Event{What: proof.Condition, Kind: "processes that did not stop:", Target: p.name, N: 1})
	p.end(proof.ByKill, syscall.SIGKILL)
	<-p.exited
}

// disconnect spoils the way to the database of a process, and of those that follow it meanwhile.
func (a *arena) disconnect(ctx context.Context, step Step, link *proxy, p *process, target string) {
	var over func()
	switch step.Fault {
	case proof.Cut:
		over = a.begin(proof.Cut, target)
		link.cutAll()
	case proof.Blackhole:
		over = a.begin(proof.Blackhole, target)
		link.stall()
	case proof.HeldCommit:
		awaitCommit(ctx, p, link.holdCommit)
		over = a.begin(proof.HeldCommit, target)
		link.stall()
	case proof.CutInCommit:
		awaitCommit(ctx, p, link.loseCommit)
		over = a.begin(proof.CutInCommit, target)
		link.cutAll()
	}
	pause(ctx, step.Hold)
	link.restore()
	over()
}

// awaitCommit waits until a link has met a commit, if it can be, one that records a death.
func awaitCommit(ctx context.Context, p *process, arm func(func())) {
	timer := time.NewTimer(8 * time.Second)
	defer timer.Stop()
	select {
	case <-p.settles: // of an earlier one
	default:
	}
	p.send(command{Hold: true})
	select {
	case <-p.settles:
	case <-timer.C:
	case <-ctx.Done():
	}
	met := make(chan struct{})
	arm(func() { close(met) })
	p.send(command{Go: true})
	timer.Reset(2 * time.Second)
	select {
	case <-met:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// restart takes the database down without a shutdown and starts it again.
func (a *arena) restart(ctx context.Context, step Step) {
	over := a.begin(proof.Restart, "")
	defer over()
	a.db.crash()
	pause(ctx, step.Hold)
	if err := a.db.start(ctx); err != nil {
		a.fail(fmt.Errorf("restart postgresql: %w", err))
	}
}
