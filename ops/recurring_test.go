package ops_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/ops"
	"github.com/pawljobs/pawl/schedule"
)

// recurring are answers of a store that keeps schedules; those beyond the first come on a second page.
type recurring struct {
	*answers
	pawl.Schedules
	views []pawl.ScheduleView
}

type keeper struct {
	recurring
}

func (k keeper) Schedules(_ context.Context, _ pawl.ScheduleFilter, page pawl.Page) (pawl.SchedulePage, error) {
	if err := k.ask(); err != nil {
		return pawl.SchedulePage{}, err
	}
	if page.After == "" && len(k.views) > 1 {
		return pawl.SchedulePage{Schedules: k.views[:1], Next: "more"}, nil
	}
	return pawl.SchedulePage{Schedules: k.views[min(len(page.After), 1):]}, nil
}

func TestStatusOfSchedules(t *testing.T) {
	t.Parallel()
	now := time.Now()
	hourly := func(change func(v *pawl.ScheduleView)) pawl.ScheduleView {
		v := pawl.ScheduleView{
			Schedule:  schedule.Complete(pawl.Schedule{Name: "s", Spec: "1h", Kind: "k", From: now.Add(-30 * time.Minute).Add(-1000 * time.Hour)}),
			CreatedAt: now.Add(-900 * time.Hour), ChangedAt: now.Add(-900 * time.Hour), LastSuccess: now.Add(-25 * time.Minute),
			LastState: pawl.JobDone, Next: now.Add(30 * time.Minute), DueAt: now.Add(30 * time.Minute),
		}
		change(&v)
		return v
	}
	served := []pawl.HostView{hostOf("q", "k")}
	for name, c := range map[string]struct {
		view            pawl.ScheduleView
		hosts           []pawl.HostView
		troubles, notes []ops.What
		text            string
	}{
		"well":              {hourly(func(*pawl.ScheduleView) {}), served, nil, nil, ""},
		"paused":            {hourly(func(v *pawl.ScheduleView) { v.Paused, v.LastSuccess = true, time.Time{} }), served, nil, []ops.What{ops.SchedulePaused}, ""},
		"ended":             {hourly(func(v *pawl.ScheduleView) { v.Next, v.LastSuccess = time.Time{}, time.Time{} }), nil, nil, nil, ""},
		"stuck":             {hourly(func(v *pawl.ScheduleView) { v.Problem = "invalid spec" }), served, []ops.What{ops.ScheduleStuck}, nil, "schedule s cannot go on: invalid spec"},
		"late":              {hourly(func(v *pawl.ScheduleView) { v.DueAt = now.Add(-2 * time.Minute) }), served, []ops.What{ops.ScheduleLate}, nil, "has been due for 2m"},
		"due just now":      {hourly(func(v *pawl.ScheduleView) { v.DueAt = now.Add(-2 * time.Second) }), served, nil, nil, ""},
		"died":              {hourly(func(v *pawl.ScheduleView) { v.LastSuccess, v.LastState = now.Add(-85*time.Minute), pawl.JobDead }), served, []ops.What{ops.ScheduleOverdue}, nil, "has not succeeded for 1h25m"},
		"runs":              {hourly(func(v *pawl.ScheduleView) { v.LastSuccess, v.LastState = now.Add(-85*time.Minute), pawl.JobReserved }), served, nil, nil, ""},
		"runs for too long": {hourly(func(v *pawl.ScheduleView) { v.LastSuccess, v.LastState = now.Add(-145*time.Minute), pawl.JobReserved }), served, []ops.What{ops.ScheduleOverdue}, nil, "its last job is reserved"},
		"never":             {hourly(func(v *pawl.ScheduleView) { v.LastSuccess, v.LastState = time.Time{}, "" }), served, []ops.What{ops.ScheduleOverdue}, nil, "has never succeeded"},
		"new": {hourly(func(v *pawl.ScheduleView) {
			v.LastSuccess, v.LastState, v.CreatedAt, v.ChangedAt = time.Time{}, "", now, now
		}), served, nil, nil, ""},
		"resumed": {hourly(func(v *pawl.ScheduleView) {
			v.LastSuccess, v.ChangedAt = now.Add(-100*time.Hour), now.Add(-time.Minute)
		}), served, nil, nil, ""},
		"unserved, for later": {hourly(func(*pawl.ScheduleView) {}), []pawl.HostView{hostOf("q", "other")}, nil, []ops.What{ops.ScheduleUnserved}, ""},
		"unserved, soon":      {hourly(func(v *pawl.ScheduleView) { v.Next = now.Add(time.Minute) }), nil, []ops.What{ops.ScheduleUnserved}, nil, "of kind k, which no live host has registered"},
		"undeclared":          {hourly(func(v *pawl.ScheduleView) { v.Declared = true }), served, nil, []ops.What{ops.ScheduleUndeclared}, ""},
	} {
		source := keeper{recurring{answers: &answers{sinks: []pawl.SinkView{{Name: "mail"}}, hosts: c.hosts}, views: []pawl.ScheduleView{hourly(func(v *pawl.ScheduleView) { v.Name, v.Kind = "other", "k" }), c.view}}}
		if c.hosts == nil || !slices.Contains(c.hosts[0].Kinds, "k") {
			source.views = source.views[1:]
		}
		status, err := ops.ReadStatus(t.Context(), source, ops.StatusOptions{})
		if err != nil {
			t.Fatal(name, err)
		}
		if got := whats(status.Troubles); !slices.Equal(got, c.troubles) {
			t.Errorf("%s: troubles %v", name, status.Troubles)
		}
		if got := whats(status.Notes); !slices.Equal(got, c.notes) {
			t.Errorf("%s: notes %v", name, status.Notes)
		}
		if c.text != "" && !strings.Contains(status.Troubles[0].Text, c.text) {
			t.Errorf("%s: %s", name, status.Troubles[0].Text)
		}
	}
}
