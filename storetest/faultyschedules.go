package storetest

import (
	"context"

	"github.com/pawljobs/pawl"
)

// recur is answer for a method of schedules.
func recur[T any](ctx context.Context, f *Faulty, method string, call func(pawl.Schedules) (T, error)) (T, error) {
	return answer(ctx, f, method, func() (T, error) {
		if f.schedules == nil {
			var none T
			return none, pawl.ErrUnsupported
		}
		return call(f.schedules)
	})
}

// recurring is recur for a method without a result.
func (f *Faulty) recurring(ctx context.Context, method string, call func(pawl.Schedules) error) error {
	_, err := recur(ctx, f, method, func(s pawl.Schedules) (struct{}, error) { return struct{}{}, call(s) })
	return err
}

func (f *Faulty) Schedules(ctx context.Context, filter pawl.ScheduleFilter, page pawl.Page) (pawl.SchedulePage, error) {
	return recur(ctx, f, "Schedules", func(s pawl.Schedules) (pawl.SchedulePage, error) { return s.Schedules(ctx, filter, page) })
}

func (f *Faulty) Schedule(ctx context.Context, name string) (pawl.ScheduleView, error) {
	return recur(ctx, f, "Schedule", func(s pawl.Schedules) (pawl.ScheduleView, error) { return s.Schedule(ctx, name) })
}

func (f *Faulty) AddSchedule(ctx context.Context, added pawl.Schedule, by pawl.By) error {
	return f.recurring(ctx, "AddSchedule", func(s pawl.Schedules) error { return s.AddSchedule(ctx, added, by) })
}

func (f *Faulty) SetSchedule(ctx context.Context, set pawl.Schedule, by pawl.By) error {
	return f.recurring(ctx, "SetSchedule", func(s pawl.Schedules) error { return s.SetSchedule(ctx, set, by) })
}

func (f *Faulty) DeleteSchedule(ctx context.Context, name string, by pawl.By) error {
	return f.recurring(ctx, "DeleteSchedule", func(s pawl.Schedules) error { return s.DeleteSchedule(ctx, name, by) })
}

func (f *Faulty) PauseSchedule(ctx context.Context, name string, paused bool, by pawl.By) error {
	return f.recurring(ctx, "PauseSchedule", func(s pawl.Schedules) error { return s.PauseSchedule(ctx, name, paused, by) })
}

func (f *Faulty) RunSchedule(ctx context.Context, name string, by pawl.By) (pawl.ID, error) {
	return recur(ctx, f, "RunSchedule", func(s pawl.Schedules) (pawl.ID, error) { return s.RunSchedule(ctx, name, by) })
}

func (f *Faulty) DeclareSchedules(ctx context.Context, session pawl.SessionID, schedules []pawl.Schedule) ([]pawl.Declared, error) {
	return answer(ctx, f, "DeclareSchedules", func() ([]pawl.Declared, error) {
		if f.declarations == nil {
			return nil, pawl.ErrUnsupported
		}
		return f.declarations.DeclareSchedules(ctx, session, schedules)
	})
}
