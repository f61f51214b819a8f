package pawl

import "time"

// Outcome is what becomes of an attempt: Done, Retry, Release, GiveBack or Dead. It holds durations, never times: the
// store adds its own clock.
type Outcome interface{ outcome() }

type (
	// Done acknowledges: the job has ended well.
	Done struct{}
	// Retry waits and tries again. The attempt counts.
	Retry struct{ After time.Duration }
	// Release puts the job back because its handler asked for it. The attempt counts.
	Release struct{ After time.Duration }
	// GiveBack puts the job at the front of its queue as if it had not been claimed: no attempt counts. Interrupted
	// counts a requeue by a shutdown.
	GiveBack struct{ Interrupted bool }
	// Dead ends the job; a letter records it.
	Dead struct {
		Class  DeathClass
		Reason Reason
	}
)

func (Done) outcome()     {}
func (Retry) outcome()    {}
func (Release) outcome()  {}
func (GiveBack) outcome() {}
func (Dead) outcome()     {}

// Ending is how an attempt came to its end.
type Ending string

const (
	EndReturned    Ending = "returned"    // the handler returned, well or with an error
	EndPanicked    Ending = "panicked"    // the handler panicked
	EndTimedOut    Ending = "timed out"   // the job's timeout passed and the handler returned an error or not at all
	EndInterrupted Ending = "interrupted" // the handler returned after the shutdown had cancelled its ctx
	EndCutOff      Ending = "cut off"     // the shutdown ended before the handler returned
	EndCrashed     Ending = "crashed"     // the host died; recorded by whoever recovered the job
	EndReleased    Ending = "released"    // the handler put the job back
	EndCancelled   Ending = "cancelled"   // the handler returned an error, or not at all, after an operator had cancelled the job
)

// Facts are what Decide knows beside the policy and the error.
type Facts struct {
	Job      ID     // seeds the jitter
	Attempt  int    // counted from 1
	Crashes  int    // processes that died while they ran this job
	Started  bool   // at Admit: an earlier reservation left a start mark
	Last     Ending // at Admit: how the attempt before ended, if there was one
	Ending   Ending // at Decide: how this one did
	Now      time.Time
	Deadline time.Time // zero: none
}

// Admit decides, before the handler runs, whether it may: dead reports that the job dies without a run.
func Admit(p Policy, f Facts) (death Dead, dead bool) {
	switch {
	case f.Crashes >= CrashLimit:
		return Dead{DeathPoison, ReasonCrashLoop}, true
	case f.Started && p.MaxTries == 1:
		return Dead{DeathExhausted, ReasonLost}, true
	case f.Attempt > p.MaxTries:
		return Dead{DeathExhausted, exhaustedBy(f.Last)}, true
	case !f.Deadline.IsZero() && !f.Now.Before(f.Deadline):
		return Dead{DeathExhausted, ReasonDeadline}, true
	}
	return Dead{}, false
}

// Decide is the one place where retry or death is decided. It is pure: the same inputs give the same outcome.
//
// An attempt that returned nil is Done. One that a shutdown cut short goes back uncounted unless its error says
// permanent; with max tries 1 it dies instead, since it must not run again. One that an operator cancelled goes back
// whatever its error says: the store knows of the cancel and removes the job. Poison and permanent errors die at once.
// Everything else is retried while a try is left and the next one would start before the deadline.
func Decide(p Policy, f Facts, err error) Outcome {
	if f.Ending == EndCutOff {
		if p.MaxTries == 1 {
			return Dead{DeathExhausted, ReasonLost}
		}
		return GiveBack{Interrupted: true}
	}
	if err == nil {
		return Done{}
	}
	if f.Ending == EndCancelled {
		return GiveBack{}
	}
	said := look(err)
	switch {
	case said.class == ClassPoison:
		return Dead{DeathPoison, said.reason}
	case said.class == ClassPermanent:
		return Dead{DeathPermanent, ReasonPermanent}
	case f.Ending == EndInterrupted && p.MaxTries == 1:
		return Dead{DeathExhausted, ReasonInterrupted}
	case f.Ending == EndInterrupted:
		return GiveBack{Interrupted: true}
	case f.Attempt >= p.MaxTries:
		return Dead{DeathExhausted, exhaustedBy(f.Ending)}
	}
	after := max(p.delay(f.Job, f.Attempt), said.after)
	if !f.Deadline.IsZero() && !f.Now.Add(after).Before(f.Deadline) {
		return Dead{DeathExhausted, ReasonDeadline}
	}
	return Retry{After: after}
}

// exhaustedBy names what used up the last try.
func exhaustedBy(last Ending) Reason {
	switch last {
	case EndTimedOut:
		return ReasonTimeout
	case EndCrashed:
		return ReasonCrashed
	}
	return ReasonBudget
}
