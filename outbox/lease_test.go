package outbox_test

import (
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/outbox"
)

// Several dispatchers share the work; each message is claimed once.
func TestSeveralDispatchers(t *testing.T) {
	onEach(t, func(t *testing.T, b *business) {
		target := fileStore(t)
		jobs := newJobs(t, 2000)
		for i := 0; i < len(jobs); i += 500 {
			b.write(t, jobs[i:i+500]...)
		}
		var all []*outbox.Dispatcher
		for range 4 {
			d := b.dispatcher(t, target, func(c *outbox.DispatcherConfig) { c.Batch = 37 }, target)
			all = append(all, d)
			start(t, d)
		}
		b.empty(t)
		if n := b.number(t, `select count(*) from {t} where status = 2 and attempts = 1`); n != len(jobs) {
			t.Errorf("%d messages were claimed once, want %d", n, len(jobs))
		}
		if ids := jobsOf(t, target); len(ids) != len(jobs) {
			t.Errorf("%d jobs, want %d", len(ids), len(jobs))
		}
		until(t, "all is counted", func() bool {
			sum := int64(0)
			for _, d := range all {
				sum += d.Counts().Dispatched
			}
			return sum == int64(len(jobs))
		})
	})
}

// What a dispatcher that hangs does after its lease changes nothing.
func TestLeaseThatRanOut(t *testing.T) {
	onEach(t, func(t *testing.T, b *business) {
		target := fileStore(t)
		entered, leave := make(chan bool), make(chan bool)
		slow := &faulty{store: target}
		slow.set(func([]pawl.NewJob) error {
			entered <- true
			<-leave
			return nil
		})
		jobs := newJobs(t, 3)
		b.write(t, jobs...)
		late := b.dispatcher(t, target, nil, slow)
		stop := start(t, late)
		<-entered
		b.expire(t)
		start(t, b.dispatcher(t, target, nil, target))
		b.empty(t)
		slow.set(nil)
		close(leave)
		stop()
		if n := b.number(t, `select count(*) from {t} where status = 2 and attempts = 2`); n != 3 {
			t.Errorf("%d messages are marked, want 3", n)
		}
		same(t, "in the store", jobsOf(t, target), jobs)
	})
}

// Whoever is to end finishes what it has begun.
func TestStopWhileHandingIn(t *testing.T) {
	onEach(t, func(t *testing.T, b *business) {
		target := fileStore(t)
		entered, leave := make(chan bool, 10), make(chan bool)
		slow := &faulty{store: target}
		slow.set(func([]pawl.NewJob) error {
			entered <- true
			<-leave
			return nil
		})
		jobs := newJobs(t, 25)
		b.write(t, jobs...)
		stop := start(t, b.dispatcher(t, target, func(c *outbox.DispatcherConfig) { c.Batch = 10 }, slow))
		<-entered
		ended := make(chan bool)
		go func() { stop(); close(ended) }()
		time.Sleep(20 * time.Millisecond)
		close(leave)
		<-ended
		done := b.number(t, `select count(*) from {t} where status = 2`)
		left := b.number(t, `select count(*) from {t} where status = 0 and attempts = 0`)
		if done < 10 || done+left != 25 {
			t.Errorf("%d are dispatched and %d given back", done, left)
		}
		if ids := jobsOf(t, target); len(ids) != done {
			t.Errorf("%d jobs, want %d", len(ids), done)
		}
	})
}
