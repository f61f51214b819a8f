package schedule_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl/schedule"
)

// The zones that tests go through: changes by an hour on either half of the globe, at midnight, by half an hour, a
// quarter-hour offset without changes, and none.
var zones = []string{"America/New_York", "America/Santiago", "Australia/Lord_Howe", "Asia/Kathmandu", "UTC"}

// oracle finds ticks in another way than the package: it goes through every minute and looks at the clock. Its specs
// have five fields of *, numbers, ranges, steps and lists, and the macros it is given are written out.
type oracle struct {
	minute, hour, day, month, weekday map[int]bool
	dayStar, weekdayStar, everyHour   bool
}

func newOracle(spec string) oracle {
	f := strings.Fields(spec)
	o := oracle{
		minute: numbers(f[0], 0, 59), hour: numbers(f[1], 0, 23), day: numbers(f[2], 1, 31),
		month: numbers(f[3], 1, 12), weekday: numbers(f[4], 0, 6), dayStar: f[2] == "*", weekdayStar: f[4] == "*",
	}
	o.everyHour = len(o.hour) == 24
	return o
}

func numbers(text string, low, high int) map[int]bool {
	set := map[int]bool{}
	for _, part := range strings.Split(text, ",") {
		bounds, stepText, stepped := strings.Cut(part, "/")
		step, from, to := 1, low, high
		if stepped {
			step, _ = strconv.Atoi(stepText)
		}
		if bounds != "*" {
			a, b, isRange := strings.Cut(bounds, "-")
			from, _ = strconv.Atoi(a)
			to = from
			if isRange {
				to, _ = strconv.Atoi(b)
			} else if stepped {
				to = high
			}
		}
		for n := from; n <= to; n += step {
			set[n] = true
		}
	}
	return set
}

// fits looks at a time on the wall.
func (o oracle) fits(wall time.Time) bool {
	day, weekday := o.day[wall.Day()], o.weekday[int(wall.Weekday())]
	onDay := day && weekday
	if !o.dayStar && !o.weekdayStar {
		onDay = day || weekday
	}
	return o.minute[wall.Minute()] && o.hour[wall.Hour()] && o.month[int(wall.Month())] && onDay
}

// wall is what the clock shows at an instant, as if it were UTC.
func wall(at time.Time, zone *time.Location) time.Time {
	_, offset := at.In(zone).Zone()
	return at.Add(time.Duration(offset) * time.Second)
}

// ticks are those after from, until to. Where the hour is *, a tick is whenever the clock shows a minute that fits; else
// when it first shows, or jumps past, one that it has not shown before.
func (o oracle) ticks(from, to time.Time, zone *time.Location) (ticks []time.Time) {
	seen := wall(from.Add(-48*time.Hour), zone)
	for at := from.Add(-48 * time.Hour); !at.After(to); at = at.Add(time.Minute) {
		now := wall(at, zone)
		tick := o.fits(now)
		if !o.everyHour {
			tick = false
			for shown := seen.Add(time.Minute); !shown.After(now); shown = shown.Add(time.Minute) {
				tick = tick || o.fits(shown)
			}
			if now.After(seen) {
				seen = now
			}
		}
		if tick && at.After(from) {
			ticks = append(ticks, at)
		}
	}
	return ticks
}

// all are the timetable's own ticks.
func all(timetable schedule.Timetable, from, to time.Time) (ticks []time.Time) {
	for at := timetable.Next(from); !at.IsZero() && !at.After(to); at = timetable.Next(at) {
		ticks = append(ticks, at)
	}
	return ticks
}

func parse(t testing.TB, spec, zone string) schedule.Timetable {
	t.Helper()
	timetable, err := schedule.Parse(spec, zone)
	if err != nil {
		t.Fatalf("%s in %s: %v", spec, zone, err)
	}
	return timetable
}

func load(t testing.TB, name string) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// differ says where two lists of ticks first differ, or "".
func differ(got, want []time.Time, zone *time.Location) string {
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || !got[i].Equal(want[i]) {
			show := func(ticks []time.Time) string {
				var out []string
				for _, tick := range ticks[min(i, len(ticks)):min(i+3, len(ticks))] {
					out = append(out, tick.In(zone).Format(time.RFC3339))
				}
				return fmt.Sprint(out)
			}
			return fmt.Sprintf("tick %d of %d, %d wanted: got %s…, want %s…", i, len(got), len(want), show(got), show(want))
		}
	}
	return ""
}

// A year holds both changes of every zone that has them.
var (
	yearBegin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	yearEnd   = time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
)

var yearSpecs = []string{
	"30 2 * * *", "0 0 * * *", "30 1 * * *", "15 1 * * *", "45 1 * * *", "0 3 * * *", "59 23 * * *",
	"0 * * * *", "15 * * * *", "45 * * * *", "*/15 * * * *", "* * * * *", "*/7 * * * *", "30 * * * 0",
	"0 */2 * * *", "0 1-23/2 * * *", "*/15 0-6 * * *", "*/15 2 * * *", "0,30 1,2,3 * * *", "* 2 * * *",
	"0 9 * * 1-5", "0 9 1 * 1", "0 0 13 * 5", "30 2 29 2 *", "0 0 31 * *", "0 0 8 3 *", "30 2 8 3 *", "0 0 6 9 *", "0 12 1,15 */3 *",
}

// Case 30: 02:30 on both days on which clocks change, hourly over both, a zone that changes by half an hour; and more,
// each in every zone for a whole year, against a walk through its minutes.
func TestCase30EveryMinuteOfAYear(t *testing.T) {
	t.Parallel()
	for _, name := range zones {
		zone := load(t, name)
		for _, spec := range yearSpecs {
			t.Run(name+"/"+strings.ReplaceAll(spec, "/", "÷"), func(t *testing.T) {
				t.Parallel()
				got, want := all(parse(t, spec, name), yearBegin, yearEnd), newOracle(spec).ticks(yearBegin, yearEnd, zone)
				if d := differ(got, want, zone); d != "" {
					t.Error(d)
				}
				if len(want) == 0 && !strings.Contains(spec, "29 2") {
					t.Error("no ticks: does the test still see any?")
				}
			})
		}
	}
}

// The examples of the documentation, by hand.
func TestCase30ByHand(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		spec, zone, day string
		want            string // on the wall, with the offset from UTC
	}{
		{"30 2 * * *", "America/New_York", "2026-03-08", "03:00-04:00"},
		{"30 2 * * *", "America/New_York", "2026-11-01", "02:30-05:00"},
		{"30 1 * * *", "America/New_York", "2026-11-01", "01:30-04:00"},
		{"15 * * * *", "America/New_York", "2026-03-08", "00:15-05:00 01:15-05:00 03:15-04:00 04:15-04:00"},
		{"15 * * * *", "America/New_York", "2026-11-01", "00:15-04:00 01:15-04:00 01:15-05:00 02:15-05:00"},
		{"0 */2 * * *", "America/New_York", "2026-03-08", "00:00-05:00 03:00-04:00 04:00-04:00 06:00-04:00"},
		{"*/15 2 * * *", "America/New_York", "2026-03-08", "03:00-04:00"},
		{"@daily", "America/Santiago", "2026-09-06", "01:00-03:00"},
		{"@daily", "America/Santiago", "2026-04-05", "00:00-04:00"},
		{"30 23 * * *", "America/Santiago", "2026-04-04", "23:30-03:00"},
		{"15 2 * * *", "Australia/Lord_Howe", "2026-10-04", "02:30+11:00"},
		{"45 1 * * *", "Australia/Lord_Howe", "2026-04-05", "01:45+11:00"},
		{"*/30 * * * *", "Australia/Lord_Howe", "2026-10-04", "00:00+10:30 00:30+10:30 01:00+10:30 01:30+10:30 02:30+11:00"},
		{"45 * * * *", "Australia/Lord_Howe", "2026-04-05", "00:45+11:00 01:45+11:00 01:45+10:30 02:45+10:30"},
		{"0 9 30 12 *", "Pacific/Apia", "2011-12-31", "00:00+14:00"}, // the day before was skipped
		{"15 0 * * *", "Asia/Kathmandu", "2026-06-01", "00:15+05:45"},
	} {
		zone := load(t, row.zone)
		day, err := time.ParseInLocation("2006-01-02", row.day, zone)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for at := parse(t, row.spec, row.zone).Next(day.Add(-time.Second)); len(got) < len(strings.Fields(row.want)); at = parse(t, row.spec, row.zone).Next(at) {
			got = append(got, at.In(zone).Format("15:04-07:00"))
			if at.In(zone).Format("2006-01-02") != row.day {
				t.Errorf("%s in %s: %s is on another day than %s", row.spec, row.zone, at.In(zone), row.day)
			}
		}
		if !slices.Equal(got, strings.Fields(row.want)) {
			t.Errorf("%s in %s on %s: got %v, want %s", row.spec, row.zone, row.day, got, row.want)
		}
	}
}

// A day of 23 hours has 23 hourly ticks and one of 25 has 25, an hour apart each.
func TestCase30HourlyIsHourly(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"America/New_York", "America/Santiago", "Asia/Kathmandu", "UTC"} {
		ticks := all(parse(t, "15 * * * *", name), yearBegin, yearEnd)
		for i := 1; i < len(ticks); i++ {
			if gap := ticks[i].Sub(ticks[i-1]); gap != time.Hour {
				t.Errorf("%s: %s after the tick at %s", name, gap, ticks[i-1])
			}
		}
	}
	ticks := all(parse(t, "*/15 * * * *", "Australia/Lord_Howe"), yearBegin, yearEnd)
	for i := 1; i < len(ticks); i++ {
		if gap := ticks[i].Sub(ticks[i-1]); gap != 15*time.Minute {
			t.Errorf("Lord Howe: %s after the tick at %s", gap, ticks[i-1])
		}
	}
}

// Asked in the second pass of a repeated hour, what was in the first is over.
func TestCase30AskedInTheSecondPass(t *testing.T) {
	t.Parallel()
	second := time.Date(2026, 11, 1, 6, 10, 0, 0, time.UTC) // 01:10 for the second time
	want := time.Date(2026, 11, 2, 6, 30, 0, 0, time.UTC)   // 01:30 of the next day
	if got := parse(t, "30 1 * * *", "America/New_York").Next(second); !got.Equal(want) {
		t.Errorf("got %s, want %s", got, want)
	}
}
