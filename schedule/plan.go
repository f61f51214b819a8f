package schedule

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/pawljobs/pawl"
)

// Of reads a schedule's timetable, with its bounds and its jitter.
func Of(s pawl.Schedule) (Timetable, error) {
	t, err := Parse(s.Spec, s.Zone)
	if err != nil {
		return Timetable{}, err
	}
	t.begin, t.end, t.jitter, t.name = s.From, s.Until, s.Jitter, s.Name
	if !s.From.IsZero() {
		t.from = ceilSecond(s.From)
	}
	return t, nil
}

// Zone is that in which its spec is read.
func (t Timetable) Zone() *time.Location { return t.zone }

func ceilSecond(t time.Time) int64 {
	unix := t.Unix()
	if t.Nanosecond() > 0 {
		unix++
	}
	return unix
}

// due is when a tick is acted on: later by a share of the jitter, drawn from the schedule's name and the tick.
func (t Timetable) due(tick time.Time) time.Time {
	if t.jitter <= 0 || tick.IsZero() {
		return tick
	}
	h := sha256.New()
	h.Write([]byte(t.name))
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(tick.UnixMilli())))
	share := float64(binary.BigEndian.Uint64(h.Sum(nil))>>11) / (1 << 53)
	return tick.Add(time.Duration(float64(t.jitter) * share)).Truncate(time.Millisecond)
}

// Plan is what is to be done about a schedule whose next tick may be due.
type Plan struct {
	Fire   []time.Time // ticks that get a job, oldest first
	Missed int         // ticks that get none since they are over; counted up to mostCounted
	Next   time.Time   // the next tick; zero: there are no more
	Due    time.Time   // when Next is to be acted on
}

// mostCounted bounds how many missed ticks are counted.
const mostCounted = 1000

// PlanAt decides at now about a schedule whose next tick, by what is stored, is next, to be acted on at due. It changes
// nothing.
func PlanAt(s pawl.Schedule, next, due, now time.Time) (Plan, error) {
	t, err := Of(s)
	if err != nil {
		return Plan{}, err
	}
	if due.After(now) {
		return Plan{Next: next, Due: due}, nil
	}
	latest := t.latestDue(next, now)
	if latest.After(next) {
		due = t.due(latest)
	}
	plan := Plan{Fire: t.upTo(next, latest, max(1, s.MaxMissed))}
	if s.Missed == pawl.MissedSkip && now.Sub(due) > pawl.MissedAfter {
		plan.Fire = nil
	}
	plan.Missed = t.count(next, latest) - len(plan.Fire)
	plan.Next = t.Next(latest)
	plan.Due = t.due(plan.Next)
	return plan, nil
}

// latestDue is the latest tick that is due at now: next, which is, or one after it. Next counts as a tick whatever the
// timetable says by now.
func (t Timetable) latestDue(next, now time.Time) time.Time {
	latest := next
	for back := time.Second; ; back *= 2 {
		from := now.Add(-back)
		all := !from.After(next)
		if all {
			from = next
		}
		found := false
		for tick := t.Next(from); !tick.IsZero() && !t.due(tick).After(now); tick = t.Next(tick) {
			latest, found = tick, true
		}
		if found || all {
			return latest
		}
	}
}

// upTo are the latest n ticks from next to latest, oldest first.
func (t Timetable) upTo(next, latest time.Time, n int) []time.Time {
	ticks := t.Latest(next, latest, n)
	if len(ticks) < n {
		ticks = append([]time.Time{next}, ticks...)
	}
	return ticks
}

// Latest are the latest n ticks after one time, up to and with another, oldest first.
func (t Timetable) Latest(after, until time.Time, n int) []time.Time {
	if earliest := until.AddDate(-100, 0, 0); after.Before(earliest) {
		after = earliest
	}
	for back := time.Second; n > 0; back *= 2 {
		from, ticks := until.Add(-back), []time.Time(nil)
		all := !from.After(after)
		if all {
			from = after
		}
		for tick := t.Next(from); !tick.IsZero() && !tick.After(until); tick = t.Next(tick) {
			ticks = append(ticks, tick)
		}
		if all || len(ticks) >= n {
			return ticks[max(0, len(ticks)-n):]
		}
	}
	return nil
}

// count is the number of ticks from next to latest, up to mostCounted.
func (t Timetable) count(next, latest time.Time) int {
	n := 1
	for tick := t.Next(next); n < mostCounted && !tick.IsZero() && !tick.After(latest); tick = t.Next(tick) {
		n++
	}
	return n
}
