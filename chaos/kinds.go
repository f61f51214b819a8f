//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/chaos/internal/proof"
)

// jobArgs is the number of a job; what its handler does follows from it.
type jobArgs struct {
	N int `json:"n"`
}

// spread picks a duration by the job's number.
func (a jobArgs) spread(from, to time.Duration) time.Duration {
	return from + time.Duration(a.N*7919%1000)*(to-from)/1000
}

// manyTries are more than the crashes that a job can survive.
const manyTries = 30

func policy(queue string, tries int, timeout time.Duration) pawl.Policy {
	return pawl.Policy{
		Queue: queue, MaxTries: tries, Timeout: timeout,
		Backoff: []time.Duration{100 * time.Millisecond, 200 * time.Millisecond, 400 * time.Millisecond},
	}
}

const (
	urgent   = "1-critical"
	ordinary = "2-default"
)

// The kinds of jobs.
var (
	short     = pawl.NewKind[jobArgs]("chaos.short.v1", policy(urgent, manyTries, time.Minute))
	long      = pawl.NewKind[jobArgs]("chaos.long.v1", policy(ordinary, manyTries, time.Minute))
	failing   = pawl.NewKind[jobArgs]("chaos.failing.v1", policy(ordinary, manyTries, time.Minute))
	permanent = pawl.NewKind[jobArgs]("chaos.permanent.v1", policy(ordinary, manyTries, time.Minute))
	exhausted = pawl.NewKind[jobArgs]("chaos.exhausted.v1", policy(ordinary, 3, time.Minute))
	stubborn  = pawl.NewKind[jobArgs]("chaos.stubborn.v1", policy(ordinary, manyTries, 300*time.Millisecond))
	once      = pawl.NewKind[jobArgs]("chaos.once.v1", policy(urgent, 1, time.Minute))
	parent    = pawl.NewKind[jobArgs]("chaos.parent.v1", policy(ordinary, manyTries, time.Minute))
	follow    = pawl.NewKind[jobArgs]("chaos.follow.v1", policy(ordinary, manyTries, time.Minute))
	crasher   = pawl.NewKind[jobArgs]("chaos.crasher.v1", policy(ordinary, manyTries, time.Minute))
)

// mix is how often the producer draws each kind.
var mix = []struct {
	kind   pawl.Kind[jobArgs]
	weight int
}{
	{short, 400}, {long, 160}, {failing, 80}, {permanent, 140}, {exhausted, 40}, {stubborn, 20}, {once, 100}, {parent, 80}, {crasher, 1},
}

// fates are what is to become of them.
var fates = map[string]proof.Kind{
	short.Name():   {Polite: true},
	long.Name():    {Polite: true},
	failing.Name(): {Polite: true},
	permanent.Name(): {
		Dead: true, Class: pawl.DeathPermanent, Reasons: []pawl.Reason{pawl.ReasonPermanent, pawl.ReasonExplicit},
	},
	exhausted.Name(): {
		Dead: true, Class: pawl.DeathExhausted, Reasons: []pawl.Reason{pawl.ReasonBudget, pawl.ReasonCrashed}, Tries: 3,
	},
	stubborn.Name(): {},
	once.Name():     {Polite: true, Once: true},
	parent.Name():   {},
	follow.Name():   {Polite: true, Ordered: true},
	crasher.Name():  {Dead: true, Class: pawl.DeathPoison, Reasons: []pawl.Reason{pawl.ReasonCrashLoop}},
}

// attempt is one run of a handler.
type attempt struct {
	w     *worker
	job   *pawl.Job
	args  jobArgs
	token int64
}

// effect is what the job is for.
func (a *attempt) effect() { a.note(proof.Effect, "") }

func (a *attempt) note(what, text string) {
	a.w.history.Write(proof.Event{What: what, Job: a.job.ID.String(), Kind: a.job.Kind, Token: a.token, Attempt: a.job.Attempt, Text: text})
}

// after waits for a time and then has the effect, unless ctx ends first.
func (a *attempt) after(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		a.effect()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (a *attempt) short(ctx context.Context) error {
	if err := a.after(ctx, a.args.spread(5*time.Millisecond, 60*time.Millisecond)); err != nil || a.args.N%4 != 0 {
		return err
	}
	return a.job.Delete(ctx)
}

// long is longer than a session lives.
func (a *attempt) long(ctx context.Context) error {
	return a.after(ctx, a.args.spread(intervals.DeadAfter+500*time.Millisecond, intervals.DeadAfter+2500*time.Millisecond))
}

func (a *attempt) failing(ctx context.Context) error {
	switch a.job.Attempt {
	case 1:
		return errors.New("not yet")
	case 2:
		return a.job.Release(ctx, 100*time.Millisecond)
	}
	return a.after(ctx, 20*time.Millisecond)
}

func (a *attempt) permanent(ctx context.Context) error {
	err := fmt.Errorf("job %d can never succeed", a.args.N)
	if a.args.N%3 == 0 {
		return a.job.Fail(ctx, err)
	}
	return pawl.Permanent(err)
}

func (a *attempt) exhausted(context.Context) error {
	if a.job.Attempt == 2 {
		panic("the second attempt panics")
	}
	return errors.New("never")
}

// stubborn ignores its ctx at its first attempt, until long after it was given up.
func (a *attempt) stubborn(context.Context) error {
	if a.job.Attempt == 1 {
		time.Sleep(2 * time.Second)
	}
	a.effect()
	return nil
}

func (a *attempt) once(ctx context.Context) error {
	return a.after(ctx, a.args.spread(100*time.Millisecond, 3*time.Second))
}

// parent enqueues another job together with a row of its own.
func (a *attempt) parent(ctx context.Context) error {
	next := pawl.NewID()
	a.w.history.Write(proof.Event{What: proof.Enqueue, Job: next.String(), Kind: follow.Name()})
	err := a.w.orders.Commit(ctx, next.String(), func(to pawl.Enqueuer) error {
		_, err := follow.Enqueue(ctx, to, a.args, pawl.WithID(next))
		return err
	})
	if err != nil {
		a.w.history.Write(proof.Event{What: proof.EnqueueUnknown, Job: next.String(), Text: err.Error()})
		return err
	}
	a.w.history.Write(proof.Event{What: proof.Enqueued, Job: next.String()})
	a.effect()
	return nil
}

func (a *attempt) follow(ctx context.Context) error { return a.after(ctx, 10*time.Millisecond) }

// crasher takes its process down.
func (a *attempt) crasher(ctx context.Context) error {
	a.w.kill(proof.Suicide)
	<-ctx.Done()
	return ctx.Err()
}

// kill is kill -9 by the process itself.
func (w *worker) kill(fault string) {
	w.history.Write(proof.Event{What: proof.Fault, Fault: fault, Target: w.Name})
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
}

// handle registers every kind.
func (w *worker) handle(mux *pawl.Mux) {
	for _, k := range []struct {
		kind pawl.Kind[jobArgs]
		do   func(*attempt, context.Context) error
	}{
		{short, (*attempt).short},
		{long, (*attempt).long},
		{failing, (*attempt).failing},
		{permanent, (*attempt).permanent},
		{exhausted, (*attempt).exhausted},
		{stubborn, (*attempt).stubborn},
		{once, (*attempt).once},
		{parent, (*attempt).parent},
		{follow, (*attempt).follow},
		{crasher, (*attempt).crasher},
	} {
		pawl.Handle(mux, k.kind, func(ctx context.Context, args jobArgs) error {
			job := pawl.FromContext(ctx)
			a := &attempt{w: w, job: job, args: args, token: w.recorder.tokenOf(job)}
			a.note(proof.Started, "")
			defer func() {
				cause := ""
				if err := context.Cause(ctx); err != nil {
					cause = err.Error()
				}
				a.note(proof.Left, cause)
			}()
			return k.do(a, ctx)
		})
	}
}
