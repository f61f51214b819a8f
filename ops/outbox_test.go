package ops_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/ops"
)

// boxed is an outbox that stands so, or does not answer.
type boxed struct {
	pawl.Outbox
	stats pawl.OutboxStats
	err   error
	hangs bool
}

func (b boxed) Stats(ctx context.Context) (pawl.OutboxStats, error) {
	if b.hangs {
		<-ctx.Done()
		return pawl.OutboxStats{}, ctx.Err()
	}
	return b.stats, b.err
}

// One that hangs holds up the answer for as long as it may, and the others not at all.
func TestLookAtOutboxes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		looks := ops.LookAtOutboxes(t.Context(), map[string]pawl.Outbox{
			"c": boxed{hangs: true}, "a": boxed{stats: pawl.OutboxStats{Pending: 3}}, "b": boxed{hangs: true}, "d": boxed{err: errors.New("no answer")},
		}, time.Minute)
		if took := time.Since(began); took != time.Minute {
			t.Errorf("it took %s", took)
		}
		var names string
		for _, look := range looks {
			names += look.Name
		}
		if names != "abcd" || looks[0].Err != nil || looks[0].Stats.Pending != 3 || !errors.Is(looks[1].Err, context.DeadlineExceeded) ||
			!errors.Is(looks[2].Err, context.DeadlineExceeded) || looks[3].Err == nil {
			t.Errorf("%+v", looks)
		}
	})
}

func TestJudgeOutboxes(t *testing.T) {
	t.Parallel()
	late := func(pending int, oldest time.Duration) pawl.OutboxStats {
		return pawl.OutboxStats{Connections: []pawl.OutboxLane{{Connection: "default", Pending: pending, Oldest: oldest}, {Connection: "other", Pending: 7, Oldest: time.Second}}}
	}
	looks := []ops.OutboxLook{
		{Name: "down", Err: errors.New("no answer\nfrom db-2")},
		{Name: "late", Stats: late(2, time.Hour)},
		{Name: "late one", Stats: late(1, 11*time.Minute)},
		{Name: "paused", Stats: pawl.OutboxStats{Off: true, Why: "it moves (ada)"}},
		{Name: "well", Stats: late(5, 9*time.Minute)},
	}
	var s ops.Status
	s.JudgeOutboxes(looks, 0)
	want := ops.Status{
		Troubles: []ops.Trouble{
			{What: ops.OutboxUnread, Subject: "down", Text: "outbox down cannot be read: no answer; from db-2"},
			{What: ops.OutboxLate, Subject: "late", Text: "2 messages of outbox late to connection default are not dispatched, the oldest for 1h00m"},
			{What: ops.OutboxLate, Subject: "late one", Text: "1 message of outbox late one to connection default is not dispatched, the oldest for 11m"},
		},
		Notes: []ops.Trouble{{What: ops.OutboxPaused, Subject: "paused", Text: "outbox paused is paused, so its messages wait: it moves (ada)"}},
	}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Error(diff)
	}
	var strict ops.Status
	strict.JudgeOutboxes(looks, time.Millisecond)
	if n := len(strict.Troubles); n != 7 || !strings.Contains(strict.Troubles[6].Text, "7 messages of outbox well to connection other") {
		t.Errorf("%d troubles: %+v", n, strict.Troubles)
	}
}
