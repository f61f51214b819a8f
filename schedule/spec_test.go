package schedule_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/schedule"
)

var scheduleParse = schedule.Parse

func TestRefusals(t *testing.T) {
	t.Parallel()
	for spec, rule := range map[string]string{
		"":                        "must have 1 to 256 bytes",
		"   ":                     "must have 1 to 256 bytes",
		strings.Repeat("1,", 200): "must have 1 to 256 bytes",
		"61 * * * *":              `the minute field "61"`,
		"* 24 * * *":              `the hour field "24"`,
		"* * 0 * *":               `the day of month field "0"`,
		"* * 32 * *":              `the day of month field "32"`,
		"* * * 13 *":              `the month field "13"`,
		"* * * JAM *":             `the month field "JAM"`,
		"* * * * 8":               `the day of week field "8"`,
		"* * * * FRI#6":           `the day of week field "FRI#6"`,
		"60 * * * * *":            `the second field "60"`,
		"*/0 * * * *":             `the minute field "*/0"`,
		"1,,2 * * * *":            "a list must not have empty places",
		", * * * *":               "a list must not have empty places",
		"* * * *":                 "must have five fields",
		"* * * * * * *":           "must have five fields",
		"0 0 30 2 *":              "names no date that ever comes",
		"0 0 31 4,6,9,11 *":       "names no date that ever comes",
		"0 0 L-30 2 *":            "names no date that ever comes",
		"@fortnightly":            "must be @every",
		"@every":                  "must be @every",
		"@every soon":             "or an interval such as 90s",
		"every day":               "must have five fields",
		"0s":                      "an interval must be whole seconds",
		"@every 1500ms":           "an interval must be whole seconds",
		"-5m":                     "an interval must be whole seconds",
		"200000h":                 "an interval must be whole seconds",
		"TZ=UTC 0 0 * * *":        "must not name a zone",
		"H * * * *":               `the minute field "H"`,
		"0 0 15W * *":             `the day of month field "15W"`,
	} {
		_, err := schedule.Parse(spec, "")
		if !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), rule) {
			t.Errorf("%q: got %v, want %s", spec, err, rule)
		}
	}
	for _, zone := range []string{"Local", "Europe/Atlantis", "../etc/passwd", "CEST", "+02:00"} {
		if _, err := schedule.Parse("0 0 * * *", zone); !errors.Is(err, pawl.ErrInvalid) || !strings.Contains(err.Error(), "invalid zone") {
			t.Errorf("zone %q: %v", zone, err)
		}
	}
}

// What is not in the test of a year: seconds, names, the last days, the nth weekday, ranges past the end, macros,
// intervals.
func TestSpecs(t *testing.T) {
	t.Parallel()
	from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) // a Thursday
	for spec, want := range map[string]string{
		"*/20 * * * * *":    "2026-01-01T00:00:20Z 2026-01-01T00:00:40Z 2026-01-01T00:01:00Z",
		"15 30 4 * * *":     "2026-01-01T04:30:15Z 2026-01-02T04:30:15Z",
		"0 0 * feb MON":     "2026-02-02T00:00:00Z 2026-02-09T00:00:00Z",
		"0 0 * * 7":         "2026-01-04T00:00:00Z 2026-01-11T00:00:00Z",
		"0 0 * * FRI-MON":   "2026-01-02T00:00:00Z 2026-01-03T00:00:00Z 2026-01-04T00:00:00Z 2026-01-05T00:00:00Z 2026-01-09T00:00:00Z",
		"0 22-2/2 * * *":    "2026-01-01T02:00:00Z 2026-01-01T22:00:00Z 2026-01-02T00:00:00Z",
		"0 0 L * *":         "2026-01-31T00:00:00Z 2026-02-28T00:00:00Z 2026-03-31T00:00:00Z",
		"0 0 L-2 2 *":       "2026-02-26T00:00:00Z 2027-02-26T00:00:00Z 2028-02-27T00:00:00Z",
		"0 0 1,L * *":       "2026-01-31T00:00:00Z 2026-02-01T00:00:00Z",
		"0 0 * * FRI#2":     "2026-01-09T00:00:00Z 2026-02-13T00:00:00Z",
		"0 0 * * 5#L":       "2026-01-30T00:00:00Z 2026-02-27T00:00:00Z",
		"0 0 * * MON,FRI#1": "2026-01-02T00:00:00Z 2026-01-05T00:00:00Z 2026-01-12T00:00:00Z",
		"0 0 13 * FRI":      "2026-01-02T00:00:00Z 2026-01-09T00:00:00Z 2026-01-13T00:00:00Z",
		"0 0 29 2 *":        "2028-02-29T00:00:00Z 2032-02-29T00:00:00Z",
		"@yearly":           "2027-01-01T00:00:00Z 2028-01-01T00:00:00Z",
		"@Monthly":          "2026-02-01T00:00:00Z 2026-03-01T00:00:00Z",
		"@weekly":           "2026-01-04T00:00:00Z 2026-01-11T00:00:00Z",
		"@hourly":           "2026-01-01T01:00:00Z 2026-01-01T02:00:00Z",
		"@every 90s":        "2026-01-01T00:01:30Z 2026-01-01T00:03:00Z",
		" 6h ":              "2026-01-01T06:00:00Z 2026-01-01T12:00:00Z",
		"168h":              "2026-01-08T00:00:00Z 2026-01-15T00:00:00Z",
	} {
		timetable := parse(t, spec, "")
		var got []string
		for _, tick := range timetable.Upcoming(from, len(strings.Fields(want))) {
			got = append(got, tick.Format(time.RFC3339))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %v, want %s", spec, got, want)
		}
	}
}

// 29 February of a century that has none.
func TestFarLeapDay(t *testing.T) {
	t.Parallel()
	got := parse(t, "0 0 29 2 *", "").Next(time.Date(2096, 3, 1, 0, 0, 0, 0, time.UTC))
	if want := time.Date(2104, 2, 29, 0, 0, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Whatever is typed: it is refused by a field error, or has ticks that come one after the other.
func FuzzParse(f *testing.F) {
	for _, spec := range append(yearSpecs, "*/20 * * * * *", "0 0 L-2 2 FRI#2", "@every 90s", "@daily", "12h", "0 0 30 2 *", "22-2 * * * MON-FRI") {
		f.Add(spec, int64(1_772_000_000))
	}
	f.Fuzz(func(t *testing.T, spec string, unix int64) {
		timetable, err := schedule.Parse(spec, "America/New_York")
		if err != nil {
			if !errors.Is(err, pawl.ErrInvalid) {
				t.Fatalf("%q: %v", spec, err)
			}
			return
		}
		at := time.Unix(unix%8_000_000_000, 0)
		for range 5 {
			next := timetable.Next(at)
			if next.IsZero() {
				return
			}
			if !next.After(at) || next.Nanosecond() != 0 {
				t.Fatalf("%q: %s after %s", spec, next, at)
			}
			at = next
		}
	})
}
