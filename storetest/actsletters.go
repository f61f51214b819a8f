package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
)

// moveAct is an act on a letter by a move.
func moveAct(a act, before []pawl.Action, m pawl.Move) act {
	a.action, a.on, a.none = m.Action, "letter", pawl.ErrNotFound
	on := func(f *fixture, letter pawl.DeadLetter) deed {
		pushes := make(chan *pawl.NewJob, 4) // each redrive of it has a job of its own
		for range cap(pushes) {
			pushes <- f.pushOf(letter, m.Action)
		}
		return deed{
			do: func(s Store) error {
				m := m
				m.Letter, m.By = letter.ID, operator("table")
				if m.To() == pawl.StatusRedriven {
					m.Push = <-pushes
				}
				errs, err := s.MoveLetters(f.ctx, []pawl.Move{m})
				return errors.Join(append(errs, err)...)
			},
			look: func() string { return f.stateOfLetter(letter.ID) },
		}
	}
	a.lacking = func(f *fixture) deed { return on(f, f.looseLetter()) }
	a.begin = func(f *fixture) deed {
		letter := f.looseLetter()
		f.record(letter)
		for _, action := range before {
			move := pawl.Move{Letter: letter.ID, Action: action}
			if move.To() == pawl.StatusRedriven {
				move.NewJob = pawl.NewID() // in another connection
			}
			f.move(move)
		}
		return on(f, letter)
	}
	return a
}

// stateOfLetter says all that acts change of a letter.
func (f *fixture) stateOfLetter(id pawl.ID) string {
	f.Helper()
	letter, err := f.store.Letter(f.ctx, id)
	if errors.Is(err, pawl.ErrNotFound) {
		return "gone"
	}
	f.ok("letter", err)
	jobs, its := 0, "no"
	for _, job := range f.jobs(pawl.JobFilter{}) {
		if job.Letter == id {
			jobs++
			if job.ID == letter.NewJobID {
				its = "its"
			}
		}
	}
	erased := ""
	if !letter.ErasedAt.IsZero() {
		erased = ", erased"
	}
	return fmt.Sprintf("%s %s%s, %s job of %d%s", letter.Status, letter.Outcome, letter.Note, its, jobs, erased)
}

const (
	openLetter    = "dead , no job of 0"
	pendingLetter = "redriven pending, no job of 0"
	pushedLetter  = "redriven pending, its job of 1"
)

func letterActs() []act {
	open := []pawl.Action(nil)
	return []act{
		moveAct(act{from: openLetter, to: pushedLetter, again: pawl.ErrAlreadyRedriven}, open, pawl.Move{Action: pawl.ActionRedrive}),
		moveAct(act{from: openLetter, to: pushedLetter, again: pawl.ErrAlreadyRedriven}, open, pawl.Move{Action: pawl.ActionRetry}),
		moveAct(act{from: openLetter, to: "resolved , no job of 0", again: pawl.ErrConflict}, open, pawl.Move{Action: pawl.ActionResolve}),
		moveAct(act{from: openLetter, to: "discarded , no job of 0", again: pawl.ErrConflict}, open, pawl.Move{Action: pawl.ActionDiscard}),
		moveAct(act{from: "resolved , no job of 0", to: openLetter, again: pawl.ErrConflict},
			[]pawl.Action{pawl.ActionResolve}, pawl.Move{Action: pawl.ActionReopen}),
		moveAct(act{from: openLetter, to: "dead seen, no job of 0", repeats: true}, open, pawl.Move{Action: pawl.ActionNote, Note: "seen"}),
		moveAct(act{from: pendingLetter, to: "resolved succeeded, no job of 0", again: pawl.ErrConflict},
			[]pawl.Action{pawl.ActionRedrive}, pawl.Move{Action: pawl.ActionOutcome, Outcome: pawl.RedriveSucceeded}),
		onLetter(act{action: pawl.ActionForget, from: openLetter, to: "gone"}, func(f *fixture, s Store, letter pawl.ID) error {
			there, err := s.ForgetLetter(f.ctx, letter, operator("table"))
			return nothing(there, err)
		}),
	}
}

// nothing is the answer of a call that says whether there was something to do.
func nothing(some bool, err error) error {
	if err == nil && !some {
		return errNothing
	}
	return err
}

// onLetter is an act that takes one letter's id and finds nothing where there is none, or it has been done.
func onLetter(a act, do func(f *fixture, s Store, letter pawl.ID) error) act {
	a.on, a.none, a.again = "letter", errNothing, errNothing
	on := func(f *fixture, id pawl.ID) deed {
		return deed{
			do:   func(s Store) error { return do(f, s, id) },
			look: func() string { return f.stateOfLetter(id) },
		}
	}
	a.lacking = func(f *fixture) deed { return on(f, pawl.NewID()) }
	a.begin = func(f *fixture) deed {
		letter := f.looseLetter(func(l *pawl.DeadLetter) { l.Fingerprint = l.ID.String() }) // a group of its own
		f.record(letter)
		return on(f, letter.ID)
	}
	return a
}

func bulkActs() []act {
	prune := onLetter(act{action: pawl.ActionPrune, from: openLetter, to: "gone"}, func(f *fixture, s Store, letter pawl.ID) error {
		filter := pawl.LetterFilter{Status: []pawl.Status{pawl.StatusDead}, StatusBefore: f.soon(), Fingerprint: letter.String()}
		done, err := s.PruneLetters(f.ctx, filter, operator("table"))
		return nothing(done.Removed > 0, err)
	})
	erase := onLetter(act{action: pawl.ActionErase, from: openLetter, to: openLetter + ", erased"}, func(f *fixture, s Store, letter pawl.ID) error {
		done, err := s.EraseArgs(f.ctx, pawl.Erase{IDs: []pawl.ID{letter}, By: operator("table")})
		return nothing(done.All() > 0, err)
	})
	prune.repeats, erase.repeats = true, true // that it was asked for is in the trail, whatever it found
	erase.both = true
	return []act{prune, erase, clearAct()}
}

func clearAct() act {
	on := func(f *fixture, jobs int) deed {
		queue := "9-" + pawl.NewID().String()
		if jobs > 0 {
			f.puts(jobs, pawl.InQueue(queue))
		}
		return deed{
			do: func(s Store) error {
				n, err := s.ClearQueue(f.ctx, queue, operator("table"))
				return nothing(n > 0, err)
			},
			look: func() string {
				states := map[pawl.JobState]int{}
				for _, job := range f.jobs(pawl.JobFilter{Queue: queue}) {
					states[job.State]++
				}
				return fmt.Sprint(states)
			},
		}
	}
	return act{
		action: pawl.ActionClear, on: "queue", from: "map[waiting:2]", to: "map[removed:2]", none: errNothing, again: errNothing, repeats: true,
		begin: func(f *fixture) deed { return on(f, 2) }, lacking: func(f *fixture) deed { return on(f, 0) },
	}
}

// jobAct is an act on one job.
func jobAct(a act, delay time.Duration, do func(f *fixture, s Store, id pawl.ID) error) act {
	a.on, a.none, a.again = "job", pawl.ErrNotFound, pawl.ErrConflict
	on := func(f *fixture, id pawl.ID) deed {
		return deed{do: func(s Store) error { return do(f, s, id) }, look: func() string { return string(f.state(id)) }}
	}
	a.lacking = func(f *fixture) deed { return on(f, pawl.NewID()) }
	a.begin = func(f *fixture) deed { return on(f, f.put(pawl.Delay(delay))) }
	return a
}

func jobActs() []act {
	const waiting, scheduled, removed = string(pawl.JobWaiting), string(pawl.JobScheduled), string(pawl.JobRemoved)
	return []act{
		jobAct(act{action: pawl.ActionCancel, from: waiting, to: removed}, 0, func(f *fixture, s Store, id pawl.ID) error {
			done, err := s.CancelJobs(f.ctx, []pawl.ID{id}, operator("table"))
			for _, d := range done {
				err = errors.Join(err, d.Err)
			}
			return err
		}),
		jobAct(act{action: pawl.ActionRunNow, from: scheduled, to: waiting}, time.Hour, func(f *fixture, s Store, id pawl.ID) error {
			errs, err := s.RunJobsNow(f.ctx, []pawl.ID{id}, operator("table"))
			return errors.Join(append(errs, err)...)
		}),
		jobAct(act{action: pawl.ActionDelete, from: waiting, to: removed}, 0, func(f *fixture, s Store, id pawl.ID) error {
			errs, err := s.DeleteJobs(f.ctx, []pawl.ID{id}, operator("table"))
			return errors.Join(append(errs, err)...)
		}),
	}
}
