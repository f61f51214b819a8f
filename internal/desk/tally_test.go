package desk_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

// Whatever the order in which deaths are read and however far apart they lie, the counts are those of counting them at once.
func TestTally(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 9, 17, 4, 5, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		reach := rapid.SampledFrom([]time.Duration{time.Minute, time.Hour, 24 * time.Hour, 90 * 24 * time.Hour, 80000 * time.Hour}).Draw(t, "reach")
		var deaths []time.Time
		names := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 40).Draw(t, "groups")
		for range names {
			before := rapid.Int64Range(0, int64(reach/time.Millisecond)).Draw(t, "before")
			deaths = append(deaths, now.Add(-time.Duration(before)*time.Millisecond))
		}
		var filter pawl.LetterFilter
		if rapid.Bool().Draw(t, "since") {
			filter.Since = slices.MinFunc(deaths, time.Time.Compare).Add(-time.Duration(rapid.Int64Range(0, int64(reach)).Draw(t, "earlier")))
		}
		tally := desk.NewTally(filter, now)
		for i, at := range deaths {
			tally.Add([]byte(names[i]), at.UnixMilli(), 1)
		}
		got := tally.Groups(10)
		if got.Letters != len(deaths) {
			t.Fatalf("%d letters, want %d", got.Letters, len(deaths))
		}
		from := filter.Since
		if from.IsZero() {
			from = slices.MinFunc(deaths, time.Time.Compare)
		}
		if got.From.After(from) || from.Sub(got.From) >= got.Width || got.From.UnixMilli()%got.Width.Milliseconds() != 0 {
			t.Fatalf("counts of %s begin at %s, the first death is at %s", got.Width, got.From, from)
		}
		for _, group := range got.Groups {
			want := make([]int, now.Sub(got.From)/got.Width+1)
			if len(want) > pawl.CountSpans {
				t.Fatalf("%d spans of %s", len(want), got.Width)
			}
			for i, at := range deaths {
				if names[i] == group.Fingerprint {
					want[at.Sub(got.From)/got.Width]++
				}
			}
			if !slices.Equal(group.Counts, want) {
				t.Fatalf("counts of %s by %s: %v, want %v", group.Fingerprint, got.Width, group.Counts, want)
			}
		}
	})
}

// The width is the least with which the spans are few enough.
func TestTallyWidth(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	now := time.Date(2026, 3, 9, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct{ since, want time.Duration }{
		{0, time.Minute},
		{31 * time.Minute, time.Minute},
		{32 * time.Minute, 5 * time.Minute},
		{3 * time.Hour, 15 * time.Minute},
		{24 * time.Hour, time.Hour},
		{3 * day, 3 * time.Hour},
		{7 * day, 6 * time.Hour},
		{14 * day, 12 * time.Hour},
		{30 * day, day},
		{90 * day, 7 * day},
		{365 * day, 28 * day},
		{10 * 365 * day, 364 * day},
	} {
		t.Run(fmt.Sprint(c.since), func(t *testing.T) {
			t.Parallel()
			tally := desk.NewTally(pawl.LetterFilter{Since: now.Add(-c.since)}, now)
			tally.Add([]byte("g"), now.UnixMilli(), 2)
			if got := tally.Groups(1); got.Width != c.want || got.Groups[0].Counts[len(got.Groups[0].Counts)-1] != 2 {
				t.Errorf("%+v, want width %s", got, c.want)
			}
		})
	}
	// Bounds that no letter's time is near to.
	for _, filter := range []pawl.LetterFilter{
		{Since: time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC)}, {Since: now.Add(time.Hour)}, {Until: now.Add(-time.Hour)}, {Until: now.Add(99 * 365 * day)},
	} {
		tally := desk.NewTally(filter, now)
		tally.Add([]byte("g"), now.UnixMilli(), 1)
		if got := tally.Groups(1); got.Groups[0].Letters != 1 || len(got.Groups[0].Counts) > pawl.CountSpans {
			t.Errorf("%+v: %+v", filter, got)
		}
	}
}
