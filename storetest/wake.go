package storetest

import (
	"errors"
	"sync"
	"time"

	"github.com/pawljobs/pawl"
)

// A wake-up is a hint, and may come for nothing; but after a job has become ready a value is there to be received.
func wakePromises() []promise {
	return []promise{
		{name: "whatever makes a job ready, or a host has to hear of, wakes", check: wakes},
		{name: "an enqueue through another handle wakes", check: wakesElsewhere},
		{name: "every waiter is woken", check: wakesAll},
		{name: "the last wake-up is never lost", check: lastWake},
	}
}

func drain(wake <-chan struct{}) {
	for {
		select {
		case <-wake:
		default:
			return
		}
	}
}

func (f *fixture) awaken(wake <-chan struct{}, by string) {
	f.Helper()
	select {
	case _, open := <-wake:
		f.holds("the channel stays open until ctx is done", open)
	case <-time.After(patience / 3):
		f.Fatalf("%s woke nobody", by)
	}
}

func wakes(f *fixture) {
	wake, err := f.store.Wake(f.ctx)
	f.ok("wake", err)
	session := f.host("a")
	claimed := func() pawl.ClaimedJob { f.Helper(); return f.claimOne(session) }
	after := func(by string, event func()) {
		f.Helper()
		drain(wake)
		event()
		f.awaken(wake, by)
	}
	after("an enqueue", func() { f.put() })
	job := claimed()
	after("a retry without a wait", func() { f.settle(session, end(job, pawl.Retry{})); f.sweep(session) })
	job = claimed()
	after("a give-back", func() { f.settle(session, end(job, pawl.GiveBack{})) })
	claimed()
	after("a closed session", func() { f.closeSession(session) })
	session = f.host("b")
	claimed()
	observer := f.host("c")
	after("a recovery", func() { f.kill(observer, session) })
	session = observer
	job = claimed()
	f.settle(session, end(job, pawl.Retry{After: time.Hour}))
	f.pass(2 * time.Hour)
	after("a job that is due", func() { f.sweep(session) })
	job = claimed()
	after("a follow-up", func() {
		f.settle(session, pawl.Settlement{Reservation: job.Reservation, Outcome: pawl.Done{}, Enqueue: []pawl.NewJob{f.job()}})
	})
	letter := f.die(session, claimed())
	after("a redrive", func() { f.redrive(letter) })
	f.ok("switch off", f.store.SwitchKind(f.ctx, pawl.KindSwitch{Kind: workKind}, operator("off")))
	after("a kind that is switched on", func() {
		f.ok("switch on", f.store.SwitchKind(f.ctx, pawl.KindSwitch{Kind: workKind, On: true}, operator("on")))
	})
	f.ok("pause", f.store.PauseQueue(f.ctx, pawl.QueuePause{Queue: normal, Paused: true}, operator("pause")))
	after("a queue that is resumed", func() {
		f.ok("resume", f.store.PauseQueue(f.ctx, pawl.QueuePause{Queue: normal}, operator("resume")))
	})
	job = claimed()
	after("a cancel of a running job", func() { f.cancelled(pawl.JobReserved, job.ID) })
	after("a host that is to go quiet", func() { f.ok("quiet", f.store.QuietHost(f.ctx, session, operator("quiet"))) })
	after("a host that is to drain", func() { f.ok("drain", f.store.DrainHost(f.ctx, session, operator("drain"))) })
}

func wakesElsewhere(f *fixture) {
	other := f.elsewhere()
	wake, err := other.store.Wake(f.ctx)
	f.ok("wake", err)
	for range 3 {
		drain(wake)
		f.put()
		f.awaken(wake, "an enqueue through another handle")
	}
	job := f.claimOne(f.host("a"))
	drain(wake)
	f.cancelled(pawl.JobReserved, job.ID)
	f.awaken(wake, "a cancel through another handle")
}

func wakesAll(f *fixture) {
	var waiters []<-chan struct{}
	for range 3 {
		wake, err := f.store.Wake(f.ctx)
		f.ok("wake", err)
		drain(wake)
		waiters = append(waiters, wake)
	}
	f.put()
	for _, wake := range waiters {
		f.awaken(wake, "an enqueue")
	}
}

// A worker that claims until nothing is left and then sleeps until it is woken, without any poll, gets every job.
func lastWake(f *fixture) {
	const producers, each = 4, 25
	session := f.host("a")
	wake, err := f.store.Wake(f.ctx)
	f.ok("wake", err)
	var group sync.WaitGroup
	errs := make([]error, producers)
	for n := range producers {
		jobs := make([]pawl.NewJob, each)
		for i := range jobs {
			jobs[i] = f.job()
		}
		group.Go(func() {
			for _, job := range jobs {
				_, err := f.store.Enqueue(f.ctx, []pawl.NewJob{job})
				errs[n] = errors.Join(errs[n], err)
			}
		})
	}
	defer group.Wait()
	for got := 0; got < producers*each; {
		f.awaken(wake, "an enqueue")
		got += len(f.claim(session, producers*each))
	}
	group.Wait()
	f.ok("enqueue", errors.Join(errs...))
}
