package desk_test

import (
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
)

func TestWindowStep(t *testing.T) {
	t.Parallel()
	rule := pawl.Storm{}.OrDefault()
	begun := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	now := begun.Add(30 * time.Second)
	ended := begun.Add(time.Minute)
	for name, c := range map[string]struct {
		window      desk.Window
		now         time.Time
		fresh, room int
		want        desk.WindowStep
	}{
		"nothing":              {desk.Window{begun, 3, true}, ended, 0, 4, desk.WindowStep{Next: desk.Window{begun, 3, true}}},
		"the first of all":     {desk.Window{}, now, 1, 4, desk.WindowStep{Next: desk.Window{now, 1, false}, Singles: 1}},
		"one more":             {desk.Window{begun, 3, false}, now, 1, 4, desk.WindowStep{Next: desk.Window{begun, 4, false}, Singles: 1}},
		"no room":              {desk.Window{begun, 3, false}, now, 9, 0, desk.WindowStep{Next: desk.Window{begun, 3, false}}},
		"more due than room":   {desk.Window{begun, 3, false}, now, 9, -2, desk.WindowStep{Next: desk.Window{begun, 3, false}}},
		"the last single":      {desk.Window{begun, 29, false}, now, 1, 4, desk.WindowStep{Next: desk.Window{begun, 30, false}, Singles: 1}},
		"one too many":         {desk.Window{begun, 29, false}, now, 2, 4, desk.WindowStep{Next: desk.Window{begun, 30, true}, Singles: 1}},
		"many at once":         {desk.Window{}, now, 31, 4, desk.WindowStep{Next: desk.Window{now, 4, true}, Singles: 4}},
		"in the storm":         {desk.Window{begun, 30, true}, now, 31, 4, desk.WindowStep{Next: desk.Window{begun, 30, true}}},
		"begun before it":      {desk.Window{begun, 2, true}, begun.Add(-time.Second), 31, 4, desk.WindowStep{Next: desk.Window{begun, 6, true}, Singles: 4}},
		"its last moment":      {desk.Window{begun, 30, true}, ended.Add(-1), 31, 4, desk.WindowStep{Next: desk.Window{begun, 30, true}}},
		"its end":              {desk.Window{begun, 30, true}, ended, 30, 4, desk.WindowStep{Next: desk.Window{Since: ended}, Digest: true}},
		"its end, no room":     {desk.Window{begun, 30, true}, ended, 30, 0, desk.WindowStep{Next: desk.Window{Since: ended}, Digest: true}},
		"it goes on":           {desk.Window{begun, 30, true}, ended, 31, 4, desk.WindowStep{Next: desk.Window{ended, 30, true}, Digest: true}},
		"a quiet window's end": {desk.Window{begun, 30, false}, ended, 2, 4, desk.WindowStep{Next: desk.Window{ended, 2, false}, Singles: 2}},
		"a clock set back":     {desk.Window{begun, 30, false}, begun.Add(-time.Hour), 2, 4, desk.WindowStep{Next: desk.Window{begun.Add(-time.Hour), 2, false}, Singles: 2}},
	} {
		if got := c.window.Step(c.now, c.fresh, c.room, rule); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
}
