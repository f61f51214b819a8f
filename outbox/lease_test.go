package outbox_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/outbox"
)

// slow is a store in which every call waits to be let go.
type slow struct {
	faulty
	entered chan bool // gets a value from each call
	leave   chan bool // to be closed
}

func newSlow(target store) *slow {
	s := &slow{faulty: faulty{store: target}, entered: make(chan bool, 10), leave: make(chan bool)}
	s.set(func([]pawl.NewJob) error {
		s.entered <- true
		<-s.leave
		return nil
	})
	return s
}

// attempts counts the messages that so many claims count of.
func (b *business) attempts(t *testing.T, claims int) int {
	t.Helper()
	return b.number(t, `select count(*) from {t} where attempts = $1`, claims)
}

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
		slow := newSlow(target)
		jobs := newJobs(t, 3)
		b.write(t, jobs...)
		late := b.dispatcher(t, target, nil, slow)
		stop := start(t, late)
		<-slow.entered
		b.expire(t)
		start(t, b.dispatcher(t, target, nil, target))
		b.empty(t)
		slow.set(nil)
		close(slow.leave)
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
		slow := newSlow(target)
		jobs := newJobs(t, 25)
		b.write(t, jobs...)
		stop := start(t, b.dispatcher(t, target, func(c *outbox.DispatcherConfig) { c.Batch = 10 }, slow))
		<-slow.entered
		ended := make(chan bool)
		go func() { stop(); close(ended) }()
		time.Sleep(20 * time.Millisecond)
		close(slow.leave)
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

// One claim does not reach beyond another's, and what a dispatcher that vanished held is charged to that alone.
func TestClaimsStayApart(t *testing.T) {
	onEach(t, func(t *testing.T, b *business) {
		target := fileStore(t)
		slow := newSlow(target)
		jobs := newJobs(t, 10)
		b.write(t, jobs...)
		b.exec(t, `update {t} set locked_until = {now} + {hour} where seq = (select min(seq) from {t})`)
		stop := start(t, b.dispatcher(t, target, func(c *outbox.DispatcherConfig) { c.Batch = 4 }, slow))
		<-slow.entered
		until(t, "eight messages are claimed", func() bool { return b.number(t, `select count(*) from {l}`) == 2 })
		b.exec(t, `update {t} set locked_until = {now} - {hour}`)
		quick := &faulty{store: target}
		start(t, b.dispatcher(t, target, nil, quick))
		until(t, "two messages are dispatched", func() bool { return b.number(t, `select count(*) from {t} where status = 2 and attempts = 1`) == 2 })
		quick.mu.Lock()
		if len(quick.calls) != 2 || !slices.Equal(quick.calls[0], []pawl.ID{jobs[0].ID}) || !slices.Equal(quick.calls[1], []pawl.ID{jobs[9].ID}) {
			t.Errorf("handed in %v, want the first and the last", quick.calls)
		}
		quick.mu.Unlock()
		b.expire(t)
		b.empty(t)
		if once, twice := b.attempts(t, 1), b.attempts(t, 2); once != 2 || twice != 8 {
			t.Errorf("%d messages were claimed once and %d twice, want 2 and 8", once, twice)
		}
		slow.set(nil)
		close(slow.leave)
		stop()
		if n := b.number(t, `select count(*) from {l}`); n != 0 {
			t.Errorf("%d claims are left", n)
		}
	})
}

// A claim of several that ran out says nothing about a message that is claimed alone since others vanished with it.
func TestSuspectIsChargedAlone(t *testing.T) {
	onEach(t, func(t *testing.T, b *business) {
		target := fileStore(t)
		b.write(t, newJobs(t, 3)...)
		b.exec(t, `update {t} set attempts = 3, lost = 3 where seq = (select min(seq) from {t}) + 1`)
		b.exec(t, `insert into {l} (connection, first, last, claimed_by, locked_until)
select 'default', min(seq), max(seq), 'gone', {now} - {hour} from {t}`)
		start(t, b.dispatcher(t, target, nil, target))
		b.empty(t)
		if others, suspect := b.attempts(t, 2), b.attempts(t, 4); others != 2 || suspect != 1 {
			t.Errorf("%d others were charged and %d suspects not, want 2 and 1", others, suspect)
		}
	})
}

// Where rows are not kept a message that is written again is one again, and the store knows its id.
func TestRowsThatAreNotKept(t *testing.T) {
	onEach(t, func(t *testing.T, b *business) {
		target := &faulty{store: fileStore(t)}
		jobs, bad := newJobs(t, 3), newJob(t, 4)
		target.set(refusing(pawl.ErrUnsupported, bad))
		start(t, b.dispatcher(t, target, func(c *outbox.DispatcherConfig) { c.Keep, c.Tries = 0, 1 }, target))
		for range 2 {
			for i, result := range b.write(t, append(jobs, bad)...) {
				if result.Status != pawl.Accepted {
					t.Errorf("message %d: %v", i, result)
				}
			}
			until(t, "nothing is left in the box", func() bool { return b.number(t, `select count(*) from {t}`) == 0 })
		}
		same(t, "in the store", jobsOf(t, target), jobs)
		if letters := lettersOf(t, target); len(letters) != 1 {
			t.Errorf("%d letters, want 1", len(letters))
		}
	})
}

// Messages that wait lie between those that are handed in: they are left alone, however many these are.
func TestGapsAreLeftAlone(t *testing.T) {
	onEach(t, func(t *testing.T, b *business) {
		for name, every := range map[string]int{"few": 20, "many": 2} {
			for _, keep := range []time.Duration{0, time.Hour} {
				b.exec(t, `delete from {t}`)
				target := fileStore(t)
				b.write(t, newJobs(t, 60)...)
				waits := fmt.Sprintf(`(seq - (select min(seq) from {t})) %% %d = 1`, every)
				b.exec(t, `update {t} set locked_until = {now} + {hour} where `+waits)
				left := b.number(t, `select count(*) from {t} where `+waits)
				d := b.dispatcher(t, target, func(c *outbox.DispatcherConfig) { c.Keep = keep }, target)
				stop := start(t, d)
				until(t, "all that does not wait is dispatched", func() bool { return d.Counts().Dispatched == int64(60-left) })
				stop()
				if n := b.number(t, `select count(*) from {t} where ended_at is null and attempts = 0`); n != left {
					t.Errorf("%s gaps, keep %s: %d messages are left, want %d", name, keep, n, left)
				}
				if n := len(jobsOf(t, target)); n != 60-left {
					t.Errorf("%s gaps, keep %s: %d jobs, want %d", name, keep, n, 60-left)
				}
			}
		}
	})
}
