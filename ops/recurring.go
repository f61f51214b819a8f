package ops

import (
	"context"
	"slices"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/schedule"
)

// readSchedules reads all of a store that keeps any.
func readSchedules(ctx context.Context, source StatusSource) (all []pawl.ScheduleView, err error) {
	store, ok := source.(pawl.Schedules)
	if !ok {
		return nil, nil
	}
	for page := (pawl.Page{Limit: 1000}); ; {
		found, err := store.Schedules(ctx, pawl.ScheduleFilter{}, page)
		if err != nil {
			return nil, err
		}
		all = append(all, found.Schedules...)
		if page.After = found.Next; page.After == "" {
			return all, nil
		}
	}
}

// judgeSchedules looks for recurring jobs that do not recur, or not well.
func (s *Status) judgeSchedules(live []pawl.HostView, wait time.Duration) {
	now := time.Now()
	for _, v := range s.Schedules {
		switch {
		case v.Paused:
			s.note(SchedulePaused, v.Name, "schedule %s is paused", v.Name)
			continue
		case v.Problem != "":
			s.trouble(ScheduleStuck, v.Name, "schedule %s cannot go on: %s", v.Name, firstRunes(v.Problem, 200))
			continue
		case v.Next.IsZero():
			continue // it has come to its end
		case now.Sub(v.DueAt) > pawl.MissedAfter:
			s.trouble(ScheduleLate, v.Name, "schedule %s has been due for %s, and no host has acted on it", v.Name, span(now.Sub(v.DueAt)))
		default:
			s.judgeSuccess(v, now.Add(-wait))
		}
		if !slices.ContainsFunc(live, func(h pawl.HostView) bool { return slices.Contains(h.Kinds, v.Kind) }) {
			tell := s.note
			if v.Next.Sub(now) < wait {
				tell = s.trouble
			}
			tell(ScheduleUnserved, v.Name, "schedule %s makes jobs of kind %s, which no live host has registered; its next tick is at %s",
				v.Name, v.Kind, v.Next.UTC().Format("2006-01-02 15:04 UTC"))
		}
		if v.Declared && len(v.Declarers) == 0 {
			s.note(ScheduleUndeclared, v.Name, "schedule %s was declared by code, and no live host's code declares it any more; it goes on", v.Name)
		}
	}
}

// judgeSuccess looks whether the last success of a schedule is older than it should be: a tick has passed since, some
// time ago, and its job neither waits nor runs; or two have.
func (s *Status) judgeSuccess(v pawl.ScheduleView, before time.Time) {
	t, err := schedule.Of(v.Schedule)
	if err != nil {
		return // the store says so when it is due
	}
	since := v.LastSuccess
	for _, begun := range []time.Time{v.CreatedAt, v.ChangedAt} {
		if begun.After(since) {
			since = begun
		}
	}
	passed := t.Latest(since, before.Add(-v.Jitter), 2)
	underWay := slices.Contains([]pawl.JobState{pawl.JobWaiting, pawl.JobScheduled, pawl.JobReserved}, v.LastState)
	if len(passed) == 0 || len(passed) == 1 && underWay {
		return
	}
	last := "has never succeeded"
	if !v.LastSuccess.IsZero() {
		last = "has not succeeded for " + span(time.Since(v.LastSuccess))
	}
	state := ""
	if v.LastState != "" {
		state = "; its last job is " + string(v.LastState)
	}
	s.trouble(ScheduleOverdue, v.Name, "schedule %s %s, though it was due at %s%s", v.Name, last,
		passed[len(passed)-1].UTC().Format("2006-01-02 15:04 UTC"), state)
}
