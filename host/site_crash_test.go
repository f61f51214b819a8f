package host_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
)

// A process is killed while it runs jobs with max tries 1: each dies with its outcome unknown, and none runs a second
// time. One that is killed between its claim and the start mark has run nothing: its jobs run once. (Case 3.)
func TestKilledWithMaxTriesOne(t *testing.T) {
	t.Run("while they run", func(t *testing.T) {
		onBoth(t, func(s *site) {
			s.handle(func(context.Context, *pawl.Job, workArgs) error { return errors.New("a second run") })
			ids := s.put(once, 5)
			victim := s.process("victim", "work", 5)
			for range ids {
				come(s, "a start", victim.events)
			}
			victim.kill()
			h := s.start("heir", 5)
			s.ended(ids, pawl.JobDead, 2) // the claim that buries it counts
			h.stop()
			s.equal("runs here", s.runs.count(), 0)
			for _, id := range ids {
				letter := s.letterOf(id)
				s.equal("letter", words(letter.Class, letter.Reason, letter.Reason.OutcomeUnknown()), "transient-exhausted lost true")
			}
		})
	})
	t.Run("before the start", func(t *testing.T) {
		onBoth(t, func(s *site) {
			s.handle(func(context.Context, *pawl.Job, workArgs) error { return nil })
			ids := s.put(once, 5)
			victim := s.process("victim", "unmarked", 5)
			s.equal("event", come(s, "a claim", victim.events), "claimed")
			s.until("all claimed", func() bool { return s.reserved() == 5 })
			victim.kill()
			h := s.start("heir", 5)
			s.ended(ids, pawl.JobDone, 1)
			s.ran(ids, 1)
			h.stop()
		})
	})
}

// A host that stops when it is empty, alone on the store, works off what a killed one held, and then ends.
func TestStopWhenEmptyAfterAKill(t *testing.T) {
	onBoth(t, func(s *site) {
		s.handle(func(context.Context, *pawl.Job, workArgs) error { return nil })
		ids := s.put(work, 5)
		victim := s.process("victim", "work", 5)
		for range ids {
			come(s, "a start", victim.events)
		}
		victim.kill()
		config := s.config("heir", 5)
		config.StopWhenEmpty = true
		h := s.startOn(s.open(), config)
		come(s, "the end of the host", h.ended)
		s.ended(ids, pawl.JobDone, 2)
		h.stop()
	})
}

func (s *site) reserved() (n int) {
	s.Helper()
	queues, err := s.store.Queues(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	for _, queue := range queues {
		n += queue.Reserved
	}
	return n
}

// A process is killed with all its workers busy: all its jobs run again within seconds on the hosts that are left, each
// once, and these have all their workers back afterwards. (Case 8.)
func TestKilledWithAllWorkersBusy(t *testing.T) {
	onBoth(t, func(s *site) {
		const jobs = 20
		open := make(chan struct{})
		s.handle(func(_ context.Context, job *pawl.Job, _ workArgs) error {
			if job.Kind == work.Name() {
				<-open
			}
			return nil
		})
		ids := s.put(work, jobs)
		victim := s.process("victim", "work", jobs)
		var starts, want []string
		for _, id := range ids {
			starts, want = append(starts, come(s, "a start", victim.events)), append(want, fmt.Sprint(id, " 1"))
		}
		slices.Sort(starts)
		slices.Sort(want)
		s.equal("what the victim runs", starts, want)
		left := []*worker{s.start("left-1", jobs/2), s.start("left-2", jobs/2)}
		s.until("both hosts", func() bool { return left[0].Ready() && left[1].Ready() })
		victim.kill()
		killed := time.Now()
		s.until("every job running again", func() bool { return left[0].Stats().Running+left[1].Stats().Running == jobs })
		if took := time.Since(killed); took > 15*time.Second {
			t.Errorf("they run again after %s", took)
		}
		close(open)
		s.ended(ids, pawl.JobDone, 2)
		s.ran(ids, 2)
		s.ended(s.put(once, jobs), pawl.JobDone, 1)
		s.until("the sweeps that recovered them have said so", func() bool {
			return left[0].Stats().Recovered+left[1].Stats().Recovered == jobs
		})
		for _, h := range left {
			h.stop()
		}
	})
}

// A host that lost its store is replaced by one of the same name and process id, as in a container that was restarted.
// The orphans run again, each once. What the old one still does is refused when it comes back: what runs is told, and
// what ended meanwhile finds its reservation gone. (Case 9.)
func TestRestartedUnderTheSameName(t *testing.T) {
	onBoth(t, func(s *site) {
		const jobs = 10
		begun, silent, open, causes := make(chan pawl.ID, 99), make(chan struct{}), make(chan struct{}), make(chan error, 99)
		s.handle(func(ctx context.Context, job *pawl.Job, args workArgs) error {
			begun <- job.ID
			switch {
			case job.Attempt > 1:
				<-open
			case args.N%2 == 0:
				<-silent
			default:
				<-ctx.Done()
				causes <- context.Cause(ctx)
			}
			return nil // the work was done all the same
		})
		link := newOutage(s.open())
		old := s.startOn(link, s.config("twin", jobs))
		ids := s.put(work, jobs)
		for range ids {
			come(s, "a start", begun)
		}
		session := old.Stats().Session
		link.down.Store(true)
		restarted := s.start("twin", jobs)
		for range ids {
			come(s, "a second start", begun)
		}
		s.equal("sessions differ", restarted.Stats().Session != session, true)
		close(silent)
		s.until("half of them to be recorded", func() bool { return old.Stats().Settling == jobs/2 })
		link.down.Store(false)
		for range jobs / 2 {
			if err := come(s, "the cause", causes); !errors.Is(err, pawl.ErrLeaseLost) {
				t.Errorf("cause %v", err)
			}
		}
		s.until("the refusals", func() bool { return old.Stats().Settling == 0 })
		close(open)
		s.ended(ids, pawl.JobDone, 2)
		s.ran(ids, 1, 2)
		restarted.stop()
		s.equal("acknowledged by the new host", restarted.Stats().Succeeded, jobs)
		s.until("the old host under a new session", old.Ready)
		old.stop()
	})
}

// A job takes its process down, time and again, beside a hundred good ones: it is poison after its third crash, and all
// the others succeed although they ran beside it. (Case 10.)
func TestJobThatExits(t *testing.T) {
	onBoth(t, func(s *site) {
		const good = 100
		ids := s.put(work, good+1, pawl.MaxTries(6))
		bad, ids := ids[0], ids[1:]
		for n := range 3 {
			p := s.process(fmt.Sprint("victim-", n), "bomb", good+1)
			p.wait()
			s.equal("status", p.command.ProcessState.ExitCode(), 3)
		}
		p := s.process("survivor", "bomb", good+1)
		s.ended([]pawl.ID{bad}, pawl.JobDead, 4) // the claim that buries it counts
		s.ended(ids, pawl.JobDone, 3)
		letter := s.letterOf(bad)
		s.equal("letter", words(letter.Class, letter.Reason), "poison crash loop")
		for n := range 3 {
			name := fmt.Sprint("victim-", n)
			if !slices.ContainsFunc(letter.History, func(r pawl.AttemptRecord) bool { return r.Host == name && r.Ending == pawl.EndCrashed }) {
				t.Errorf("the letter does not name %s: %+v", name, letter.History)
			}
		}
		page, err := s.store.Letters(s.Context(), pawl.LetterFilter{}, pawl.Page{})
		s.equal("letters", words(len(page.Letters), err), "1 <nil>")
		p.kill()
	})
}
