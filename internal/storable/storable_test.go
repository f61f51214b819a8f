package storable_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/storable"
)

// Whatever the text, it comes out valid, within its limit and marked where it was cut; and what was storable stays.
func TestText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOf(rapid.SampledFrom([]string{"a", "é", "\U0001F600", "\x00", "\xff", "\xf0\x9f"})).Draw(t, "text"), "")
		limit := rapid.IntRange(20, 60).Draw(t, "limit")
		got := storable.Text(text, limit)
		if !utf8.ValidString(got) || strings.Contains(got, "\x00") || len(got) > limit {
			t.Fatalf("%q became %q", text, got)
		}
		if storable.Check("text", text, limit) == nil && got != text {
			t.Fatalf("%q needed no change and became %q", text, got)
		}
		if len(text) > limit && !strings.HasSuffix(got, " … [cut]") {
			t.Fatalf("the cut of %q is not marked: %q", text, got)
		}
		if again := storable.Text(got, limit); again != got {
			t.Fatalf("%q became %q at a second time", got, again)
		}
	})
}

// Times that no clock shows do not keep a letter from being recorded.
func TestTimesOfALetter(t *testing.T) {
	t.Parallel()
	never := time.Unix(1<<60, 0)
	l := storable.Letter(pawl.DeadLetter{EnqueuedAt: never, StartedAt: time.Unix(5, 0), History: []pawl.AttemptRecord{{StartedAt: never}}})
	if _, err := json.Marshal(l); err != nil {
		t.Error(err)
	}
	if !l.EnqueuedAt.IsZero() || l.StartedAt.Unix() != 5 {
		t.Errorf("enqueued at %s, started at %s", l.EnqueuedAt, l.StartedAt)
	}
}
