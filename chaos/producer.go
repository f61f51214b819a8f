//go:build linux

package main

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/chaos/internal/proof"
)

// rate is how many jobs are handed in a second.
const rate = 25

// producer is the process that hands in jobs.
type producer struct {
	*child
	store engine
	calls chan []pawl.NewJob
	ctx   context.Context // until it is told to finish
}

// produce hands in jobs until it is told to finish, in calls of one or a few, several at a time.
func produce(ctx context.Context, c *child) (err error) {
	store, orders, err := patiently(ctx, c.task, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	defer orders.Close()
	going, finish := context.WithCancel(ctx)
	defer finish()
	p := &producer{child: c, store: store, calls: make(chan []pawl.NewJob), ctx: ctx}
	go c.obey(func(order command) {
		if order.Finish {
			finish()
		}
	})
	c.say(reply{Ready: true})

	var callers sync.WaitGroup
	for i := range 6 {
		random := rand.New(rand.NewPCG(c.Seed, uint64(i)+1))
		callers.Go(func() {
			for jobs := range p.calls {
				p.enqueue(jobs, random)
			}
		})
	}
	err = p.draw(going)
	close(p.calls)
	callers.Wait()
	return err
}

// draw makes jobs by the mix, at the rate.
func (p *producer) draw(ctx context.Context) error {
	random := rand.New(rand.NewPCG(p.Seed, 0))
	all := 0
	for _, m := range mix {
		all += m.weight
	}
	for n := 0; pause(ctx, time.Second/rate); {
		pick, at := random.IntN(all), 0
		for pick >= mix[at].weight {
			pick -= mix[at].weight
			at++
		}
		jobs := make([]pawl.NewJob, 1)
		if random.IntN(20) == 0 && mix[at].weight > 1 {
			jobs = make([]pawl.NewJob, 1+random.IntN(5))
		}
		for i := range jobs {
			n++
			var err error
			if jobs[i], err = mix[at].kind.New(ctx, p.store.Connection(), jobArgs{n}); err != nil {
				return err
			}
		}
		select {
		case p.calls <- jobs:
		case <-ctx.Done():
		}
	}
	return nil
}

// enqueue hands in jobs. Where the outcome is unknown, most callers repeat the call under the same ids until they know,
// and some leave it at that.
func (p *producer) enqueue(jobs []pawl.NewJob, random *rand.Rand) {
	note := func(what, text string) {
		for _, job := range jobs {
			p.history.Write(proof.Event{What: what, Job: job.ID.String(), Kind: job.Kind, Text: text})
		}
	}
	note(proof.Enqueue, "")
	for p.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(p.ctx, intervals.Call)
		results, err := p.store.Enqueue(ctx, jobs)
		cancel()
		if err == nil {
			note(proof.Enqueued, results[0].Status.String())
			return
		}
		note(proof.EnqueueUnknown, err.Error())
		if random.IntN(10) == 0 || !pause(p.ctx, 100*time.Millisecond) {
			return
		}
	}
}
