package schedule

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
)

// Bounds of schedules.
const (
	maxMissed     = 100
	defaultMissed = 10
	maxJitter     = 24 * time.Hour
	jitterLooks   = 100 // ticks whose distance bounds the jitter
)

// New is a schedule of jobs of a kind, as s says it, with these args. What s.Policy leaves out the kind's policy says.
// The error is a *pawl.FieldError.
func New[T any](kind pawl.Kind[T], args T, s pawl.Schedule) (pawl.Schedule, error) {
	made, err := kind.New(context.Background(), pawl.Connection{}, args)
	if err != nil {
		return pawl.Schedule{}, fmt.Errorf("schedule %s: %w", s.Name, err)
	}
	e, err := pawl.DecodeEnvelope(made.Envelope)
	if err != nil {
		return pawl.Schedule{}, fmt.Errorf("schedule %s: %w", s.Name, err)
	}
	s.Kind, s.Args, s.Policy = kind.Name(), e.Args, s.Policy.Over(kind.Policy())
	s = Complete(s)
	return s, Check(s)
}

// Remove is the declaration that takes away a schedule that code has declared before. It stays among the declarations
// for as long as a version may run that does not have it.
func Remove(name string) pawl.Schedule { return pawl.Schedule{Name: name, Removed: true} }

// Complete fills in the defaults of what is left out. Times are those that stores keep, in whole milliseconds.
func Complete(s pawl.Schedule) pawl.Schedule {
	s.Zone = cmp.Or(s.Zone, "UTC")
	s.Missed, s.Overlap = cmp.Or(s.Missed, pawl.MissedOnce), cmp.Or(s.Overlap, pawl.OverlapSkip)
	if s.Missed == pawl.MissedAll && s.MaxMissed == 0 {
		s.MaxMissed = defaultMissed
	}
	if len(s.Args) == 0 {
		s.Args = json.RawMessage("{}")
	}
	s.From, s.Until = stored(s.From), stored(s.Until)
	return s
}

func stored(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC().Truncate(time.Millisecond)
}

// Check refuses, with a *pawl.FieldError, a complete schedule that could never do what it says. A removal needs no
// more than a name.
func Check(s pawl.Schedule) error {
	if err := pawl.CheckName("schedule name", s.Name); err != nil || s.Removed {
		return err
	}
	if err := check(s); err != nil {
		return fmt.Errorf("schedule %s: %w", s.Name, err)
	}
	return nil
}

func check(s pawl.Schedule) error {
	if err := checkRules(s); err != nil {
		return err
	}
	t, err := Of(s)
	if err != nil {
		return err
	}
	if _, err := JobOf(pawl.Connection{}, s, time.Now()); err != nil {
		return err
	}
	return checkJitter(t, s.Jitter)
}

func checkRules(s pawl.Schedule) error {
	refuse := func(field string, value any, rule string) error {
		return &pawl.FieldError{Field: field, Value: value, Rule: rule}
	}
	switch s.Missed {
	case pawl.MissedOnce, pawl.MissedSkip:
		if s.MaxMissed != 0 {
			return refuse("max missed", s.MaxMissed, "must be left out unless missed is all")
		}
	case pawl.MissedAll:
		if s.MaxMissed < 1 || s.MaxMissed > maxMissed {
			return refuse("max missed", s.MaxMissed, fmt.Sprintf("must be from 1 to %d", maxMissed))
		}
		if s.Overlap != pawl.OverlapAllow {
			return refuse("missed", s.Missed, "must be once or skip unless overlap is allow: the second job would find the first one waiting")
		}
	default:
		return refuse("missed", s.Missed, "must be once, skip or all")
	}
	switch s.Overlap {
	case pawl.OverlapSkip, pawl.OverlapQueue, pawl.OverlapAllow:
	default:
		return refuse("overlap", s.Overlap, "must be skip, queue or allow")
	}
	for _, bound := range []struct {
		field string
		at    time.Time
	}{{"from", s.From}, {"until", s.Until}} {
		if year := bound.at.Year(); !bound.at.IsZero() && (year < 1970 || year > 9998) {
			return refuse(bound.field, bound.at, "must be a time from 1970 to 9998")
		}
	}
	if !s.Until.IsZero() && s.Until.Before(s.From) {
		return refuse("until", s.Until, "must not be before from")
	}
	return nil
}

// checkJitter refuses one that could move a tick behind the next.
func checkJitter(t Timetable, jitter time.Duration) error {
	if jitter < 0 || jitter > maxJitter {
		return &pawl.FieldError{Field: "jitter", Value: jitter, Rule: "must be at least 0 and at most 24 hours"}
	}
	if jitter == 0 {
		return nil
	}
	ticks := t.Upcoming(time.Now(), jitterLooks)
	for i := 1; i < len(ticks); i++ {
		if gap := ticks[i].Sub(ticks[i-1]); jitter >= gap {
			return &pawl.FieldError{Field: "jitter", Value: jitter, Rule: fmt.Sprintf("must be less than the time between two ticks: %s at times", gap)}
		}
	}
	return nil
}

// First is the next tick of a schedule that begins, or goes on, at now, and when it is acted on: after now, and after
// the last one that was run. The error says that there is none.
func First(s pawl.Schedule, now, last time.Time) (next, due time.Time, err error) {
	t, err := Of(s)
	if err != nil {
		return next, due, err
	}
	if last.After(now) {
		now = last
	}
	next = t.Next(now)
	switch {
	case !next.IsZero():
		return next, t.due(next), nil
	case !s.Until.IsZero():
		err = &pawl.FieldError{Field: "until", Value: s.Until, Rule: "must leave at least one tick after now"}
	default:
		err = &pawl.FieldError{Field: "spec", Value: s.Spec, Rule: "must have a tick after now"}
	}
	return next, due, fmt.Errorf("schedule %s: %w", s.Name, err)
}
