//go:build linux

package main

import (
	"context"
	"syscall"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/chaos/internal/proof"
)

// How long the end may take.
const (
	drainLimit = 90 * time.Second
	restLimit  = 20 * time.Second
)

// rest lets the hosts work off what is left, sees that they come to rest, stops them and reads what the store contains.
func (a *arena) rest(ctx context.Context) (proof.Final, error) {
	a.faults.Wait()
	a.producer.finish()
	if err := await(ctx, a.producer.exited, a.producer, restLimit); err != nil && !a.producer.gone() {
		return proof.Final{}, err
	}
	a.until(ctx, "places without a host", restLimit, 0, a.missing)
	a.until(ctx, "jobs that were not worked off", drainLimit, 0, a.unfinished)
	a.until(ctx, "alerts that were not delivered", 5*time.Second, -1, a.undelivered)
	a.compareWithBaseline(ctx)
	if err := a.stopHosts(ctx); err != nil {
		return proof.Final{}, err
	}
	if err := a.deliverRest(ctx); err != nil {
		return proof.Final{}, err
	}
	if a.db != nil {
		a.until(ctx, "connections to the database", restLimit, 0, func(ctx context.Context) (int, error) { return a.db.connections(ctx) })
		a.until(ctx, "connections that are relayed", restLimit, 0, a.relayed)
	}
	return a.read(ctx)
}

// until waits until what count says is at most limit. What is left is a condition for the checker, unless limit is
// negative: then 0 is waited for, and missing it is no matter.
func (a *arena) until(ctx context.Context, what string, patience time.Duration, limit int, count func(context.Context) (int, error)) {
	n, err := 0, error(nil)
	for deadline := time.Now().Add(patience); ; {
		n, err = count(ctx)
		if err == nil && n <= max(limit, 0) || time.Now().After(deadline) || !pause(ctx, 50*time.Millisecond) {
			break
		}
	}
	if err != nil {
		n, what = max(n, limit+1), what+" ("+err.Error()+")"
	}
	if limit >= 0 {
		a.history.Write(proof.Event{What: proof.Condition, Kind: what, N: n, Limit: limit})
	}
}

// missing counts the places whose host is not at work.
func (a *arena) missing(context.Context) (n int, err error) {
	for _, s := range a.slots {
		if p := s.current(); !closed(p.ready) || p.gone() {
			n++
		}
	}
	return n, nil
}

func (a *arena) unfinished(ctx context.Context) (n int, err error) {
	queues, err := a.store.Queues(ctx)
	for _, q := range queues {
		n += q.Waiting + q.Scheduled + q.Reserved
	}
	return n, err
}

func (a *arena) undelivered(ctx context.Context) (n int, err error) {
	sinks, err := a.store.Sinks(ctx)
	for _, sink := range sinks {
		n += sink.Pending
	}
	return n, err
}

func (a *arena) relayed(context.Context) (n int, err error) {
	for _, link := range a.links {
		n += link.open()
	}
	return n, nil
}

// compareWithBaseline looks at hosts that have nothing to do.
func (a *arena) compareWithBaseline(ctx context.Context) {
	for _, s := range a.slots {
		a.until(ctx, "goroutines of "+s.current().name, restLimit, a.baseline, func(ctx context.Context) (int, error) {
			r, err := pulse(ctx, s.current())
			return r.Goroutines, err
		})
	}
	if a.db != nil {
		a.until(ctx, "connections in rest", restLimit, hosts*(conns+1+orderConns), a.relayed)
	}
}

// stopHosts sends SIGTERM to every host and waits.
func (a *arena) stopHosts(ctx context.Context) error {
	close(a.winddown)
	for _, s := range a.slots {
		s.current().end(proof.ByTerm, syscall.SIGTERM)
	}
	for _, s := range a.slots {
		p := s.current()
		if err := await(ctx, p.exited, p, restLimit); err != nil && !p.gone() {
			return err
		}
	}
	for _, s := range a.slots {
		<-s.kept
	}
	return nil
}

// deliverRest has one more host deliver what is under the lease of claims whose reply was lost: these ended with
// their sessions.
func (a *arena) deliverRest(ctx context.Context) error {
	if n, err := a.undelivered(ctx); err != nil || n == 0 {
		return err
	}
	s := a.slots[0]
	if err := a.fill(s); err != nil {
		return err
	}
	p := s.current()
	if err := await(ctx, p.ready, p, restLimit); err != nil {
		return err
	}
	a.until(ctx, "alerts that were never delivered", restLimit, 0, a.undelivered)
	p.end(proof.ByTerm, syscall.SIGTERM)
	if err := await(ctx, p.exited, p, restLimit); err != nil && !p.gone() {
		return err
	}
	return nil
}

// read fetches all that the store contains.
func (a *arena) read(ctx context.Context) (final proof.Final, err error) {
	for page := (pawl.Page{Limit: 1000}); ; {
		part, err := a.store.Jobs(ctx, pawl.JobFilter{}, page)
		if err != nil {
			return final, err
		}
		final.Jobs = append(final.Jobs, part.Jobs...)
		if page.After = part.Next; page.After == "" {
			break
		}
	}
	for page := (pawl.Page{Limit: 1000}); ; {
		part, err := a.store.Letters(ctx, pawl.LetterFilter{}, page)
		if err != nil {
			return final, err
		}
		final.Letters = append(final.Letters, part.Letters...)
		if page.After = part.Next; page.After == "" {
			break
		}
	}
	if final.Sinks, err = a.store.Sinks(ctx); err != nil {
		return final, err
	}
	final.Orders, err = a.orders.List(ctx)
	return final, err
}
