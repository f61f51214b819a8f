package schedule

import (
	"time"
)

// Ticks end before the year 10000, which no store can keep.
var lastSecond = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC).Unix()

// Next is the first tick after a time; the zero time where there is none.
func (t Timetable) Next(after time.Time) time.Time {
	unix := after.Unix() // rounds down, also before 1970
	if !t.begin.IsZero() {
		unix = max(unix, ceilSecond(t.begin)-1)
	}
	var next int64
	ok := true
	switch {
	case unix >= lastSecond || t.zone == nil:
		return time.Time{}
	case t.every > 0:
		next = t.from + (floorDiv(unix-t.from, t.every)+1)*t.every
	case t.cron.aroundTheClock():
		next, ok = t.nextElapsed(unix)
	default:
		next, ok = t.nextOnWall(unix)
	}
	tick := time.Unix(next, 0).UTC()
	if !ok || next >= lastSecond || !t.end.IsZero() && tick.After(t.end) {
		return time.Time{}
	}
	return tick
}

// Upcoming are the first n ticks after a time; fewer where there are no more.
func (t Timetable) Upcoming(after time.Time, n int) []time.Time {
	var ticks []time.Time
	for len(ticks) < n {
		after = t.Next(after)
		if after.IsZero() {
			break
		}
		ticks = append(ticks, after)
	}
	return ticks
}

// nextOnWall is the first instant after one at which the clock first shows a time that fits, or has just gone past it.
func (t Timetable) nextOnWall(after int64) (int64, bool) {
	wall, ok := t.cron.next(t.shown(after) + 1)
	if !ok {
		return 0, false
	}
	return t.reaches(wall), true
}

// nextElapsed is the first instant after one at which the clock shows a time that fits.
func (t Timetable) nextElapsed(after int64) (int64, bool) {
	at := after + 1
	for at < lastSecond {
		offset, _, end := t.period(at)
		wall, ok := t.cron.next(at + offset)
		if !ok {
			return 0, false
		}
		if next := wall - offset; end == 0 || next < end {
			return next, true
		}
		at = end
	}
	return 0, false
}

// period is the time around an instant in which the zone's offset from UTC stays the same, from start to before end;
// 0 where it has no bound.
func (t Timetable) period(at int64) (offset, start, end int64) {
	instant := time.Unix(at, 0).In(t.zone)
	from, to := instant.ZoneBounds()
	_, seconds := instant.Zone()
	if !from.IsZero() {
		start = from.Unix()
	}
	if !to.IsZero() {
		end = to.Unix()
	}
	return int64(seconds), start, end
}

// backAndForth is longer than any clock is put back, and shorter than the time until it is put forward again.
const backAndForth = 30 * 60 * 60

// shown is the latest time that the clock has shown up to an instant: where it was put back lately, that is not the
// present one.
func (t Timetable) shown(at int64) int64 {
	offset, start, _ := t.period(at)
	latest := at + offset
	for start != 0 && at-start < backAndForth {
		before := start - 1
		offset, start, _ = t.period(before)
		latest = max(latest, before+offset)
	}
	return latest
}

// reaches is the first instant at which the clock shows this time or a later one.
func (t Timetable) reaches(wall int64) int64 {
	year, month, day := time.Unix(wall, 0).UTC().Date()
	at := time.Date(year, month, day, 0, 0, 0, 0, t.zone).Unix() - backAndForth
	for {
		offset, start, end := t.period(at)
		reached := max(wall-offset, start)
		if end == 0 || reached < end {
			return reached
		}
		at = end
	}
}
