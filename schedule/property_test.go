package schedule_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// field draws one field of a cron spec.
func field(t *rapid.T, label string, low, high int) string {
	number := rapid.IntRange(low, high)
	part := rapid.Custom(func(t *rapid.T) string {
		switch a := number.Draw(t, "a"); rapid.IntRange(0, 4).Draw(t, "form") {
		case 0:
			return "*"
		case 1:
			return fmt.Sprintf("*/%d", rapid.IntRange(1, (high-low)/2).Draw(t, "step"))
		case 2:
			return fmt.Sprintf("%d-%d", a, rapid.IntRange(a, high).Draw(t, "b"))
		default:
			return fmt.Sprint(a)
		}
	})
	return strings.Join(rapid.SliceOfN(part, 1, 3).Draw(t, label), ",")
}

func cronSpec(t *rapid.T) string {
	spec := []string{field(t, "minute", 0, 59), field(t, "hour", 0, 23)}
	for _, f := range []struct {
		label     string
		low, high int
	}{{"day", 1, 31}, {"month", 1, 12}, {"weekday", 0, 6}} {
		text := "*"
		if rapid.IntRange(0, 3).Draw(t, f.label+" said") == 0 {
			text = field(t, f.label, f.low, f.high)
		}
		if strings.Contains(text, "*") { // a list with a star in it is a star
			text = "*"
		}
		spec = append(spec, text)
	}
	return strings.Join(spec, " ")
}

// changes are times around which zones change their clocks.
var changes = []struct {
	zone string
	at   time.Time
}{
	{"America/New_York", time.Date(2026, 3, 8, 7, 0, 0, 0, time.UTC)},
	{"America/New_York", time.Date(2026, 11, 1, 6, 0, 0, 0, time.UTC)},
	{"America/Santiago", time.Date(2026, 4, 5, 3, 0, 0, 0, time.UTC)},
	{"America/Santiago", time.Date(2026, 9, 6, 4, 0, 0, 0, time.UTC)},
	{"Australia/Lord_Howe", time.Date(2026, 4, 4, 15, 0, 0, 0, time.UTC)},
	{"Australia/Lord_Howe", time.Date(2026, 10, 3, 15, 30, 0, 0, time.UTC)},
	{"Asia/Kathmandu", time.Date(1985, 12, 31, 18, 30, 0, 0, time.UTC)},
	{"Pacific/Apia", time.Date(2011, 12, 30, 10, 0, 0, 0, time.UTC)},
	{"Africa/Casablanca", time.Date(2026, 2, 15, 2, 0, 0, 0, time.UTC)},
	{"UTC", time.Date(2026, 6, 30, 0, 0, 0, 0, time.UTC)},
}

// Around every change, for any spec: none is lost, none doubled, each comes after the one before, and it does not matter
// from where one asks.
func TestTicksOfAnySpec(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		change := rapid.SampledFrom(changes).Draw(t, "change")
		zone, err := time.LoadLocation(change.zone)
		if err != nil {
			t.Fatal(err)
		}
		spec := cronSpec(t)
		timetable, err := scheduleParse(spec, change.zone)
		if err != nil {
			t.Skip(spec, err) // 30 February
		}
		from, to := change.at.Add(-30*time.Hour), change.at.Add(30*time.Hour)
		got := all(timetable, from, to)
		for i := 1; i < len(got); i++ {
			if !got[i].After(got[i-1]) {
				t.Fatalf("%s in %s: %s comes after %s", spec, change.zone, got[i], got[i-1])
			}
		}
		if d := differ(got, newOracle(spec).ticks(from, to, zone), zone); d != "" {
			t.Fatalf("%s in %s: %s", spec, change.zone, d)
		}
		asked := from.Add(time.Duration(rapid.Int64Range(0, int64(60*time.Hour)).Draw(t, "asked")))
		for _, tick := range got {
			if tick.After(asked) {
				if next := timetable.Next(asked); !next.Equal(tick) {
					t.Fatalf("%s in %s: after %s comes %s, want %s", spec, change.zone, asked, next, tick)
				}
				break
			}
		}
	})
}
