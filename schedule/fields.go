package schedule

import (
	"time"

	"github.com/netresearch/go-cron"
)

// fields are those of a cron spec, as bits.
type fields struct {
	second, minute, hour, day, month, weekday uint64

	last    []int    // days before the last one of a month; 0 is the last
	nth     [][2]int // weekday, and its place in the month from 1 on; -1 is the last
	dayStar bool     // the day of month is *
	dowStar bool     // the day of week is *
}

const (
	starBit  = 1 << 63
	allHours = 1<<24 - 1
)

func newFields(s *cron.SpecSchedule) fields {
	f := fields{
		second: s.Second &^ starBit, minute: s.Minute &^ starBit, hour: s.Hour &^ starBit,
		day: s.Dom &^ starBit, month: s.Month &^ starBit, weekday: cron.NormalizeDOW(s.Dow &^ starBit),
		dayStar: s.Dom&starBit != 0, dowStar: s.Dow&starBit != 0,
	}
	for _, c := range s.DomConstraints {
		f.last = append(f.last, c.N) // 0 with L
	}
	for _, c := range s.DowConstraints {
		f.nth = append(f.nth, [2]int{c.Weekday, c.N})
	}
	return f
}

// aroundTheClock says that the spec follows elapsed time.
func (f *fields) aroundTheClock() bool { return f.hour == allHours }

// searchDays bounds the search for a date: 29 February is at most 8 years away, and two day fields that both say
// something ask for less than either.
const searchDays = 9 * 366

const daySeconds = 24 * 60 * 60

// next is the first time on the wall, in seconds as if it were UTC, that fits and is not before from.
func (f *fields) next(from int64) (int64, bool) {
	day := floorDiv(from, daySeconds)
	rest := from - day*daySeconds
	for range searchDays {
		if f.onDay(day) {
			if second, ok := f.inDay(rest); ok {
				return day*daySeconds + second, true
			}
		}
		day, rest = day+1, 0
	}
	return 0, false
}

// inDay is the first second of a day that fits and is not before from.
func (f *fields) inDay(from int64) (int64, bool) {
	h, m, s := int(from/3600), int(from/60%60), int(from%60)
	for ; h < 24; h, m, s = h+1, 0, 0 {
		if f.hour>>h&1 == 0 {
			continue
		}
		for ; m < 60; m, s = m+1, 0 {
			if f.minute>>m&1 == 0 {
				continue
			}
			for ; s < 60; s++ {
				if f.second>>s&1 == 1 {
					return int64(h*3600 + m*60 + s), true
				}
			}
		}
	}
	return 0, false
}

// onDay reports whether a day fits, counted from 1970-01-01.
func (f *fields) onDay(day int64) bool {
	t := time.Unix(day*daySeconds, 0).UTC()
	year, month, date := t.Date()
	if f.month>>month&1 == 0 {
		return false
	}
	length := time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC).Day()
	byDate, byWeekday := f.day>>date&1 == 1, f.weekday>>t.Weekday()&1 == 1
	for _, before := range f.last {
		byDate = byDate || date == length-before
	}
	for _, n := range f.nth {
		byWeekday = byWeekday || int(t.Weekday()) == n[0] && ((date-1)/7+1 == n[1] || n[1] < 0 && date+7 > length)
	}
	if f.dayStar || f.dowStar {
		return byDate && byWeekday
	}
	return byDate || byWeekday
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
