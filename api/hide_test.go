package api

import (
	"testing"

	"github.com/pawljobs/pawl/ops"
)

// What a trouble quotes is hidden where the thing itself hides it.
func TestStatusQuotesNothingHidden(t *testing.T) {
	t.Parallel()
	for what, hides := range map[ops.What]bool{ops.OpenFailures: true, ops.AlertsLate: true, ops.ScheduleStuck: true, ops.NoHost: false} {
		s := ops.Status{Troubles: []ops.Trouble{{What: what, Text: "it says ada@example.org"}}}
		hideStatus(&s)
		if (s.Troubles[0].Text == mask) != hides {
			t.Errorf("%s says %q", what, s.Troubles[0].Text)
		}
	}
}
