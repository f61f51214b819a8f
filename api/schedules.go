package api

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/wire"
	"github.com/pawljobs/pawl/schedule"
)

// The routes of recurring jobs.
var (
	schedulesRoute = to[schedulesQuery, schedulePage](route{
		name: "Schedules", path: "/schedules", needs: RoleViewer,
		doc: "List schedules, by name, without their latest jobs.",
	})
	scheduleRoute = to[schedulePath, wire.Schedule](route{
		name: "Schedule", path: "/schedules/{schedule}", needs: RoleViewer,
		doc: "Look at one schedule and its latest jobs.",
	})
	addScheduleRoute = to[addingSchedule, none](route{
		name: "AddSchedule", method: http.MethodPost, path: "/schedules", needs: RoleOperator,
		doc: "Add a schedule. Its first tick is the first after now.",
	})
	setScheduleRoute = to[settingSchedule, none](route{
		name: "SetSchedule", method: http.MethodPut, path: "/schedules/{schedule}", needs: RoleOperator,
		doc: "Replace what a schedule says, whole. One that the code of a live host declares is refused.",
	})
	deleteScheduleRoute = to[scheduleAct, none](route{
		name: "DeleteSchedule", method: http.MethodPost, path: "/schedules/{schedule}/delete", needs: RoleOperator,
		doc: "Remove a schedule for good; its jobs stay. One that the code of a live host declares is refused.",
	})
	pauseScheduleRoute = to[pausingSchedule, none](route{
		name: "PauseSchedule", method: http.MethodPut, path: "/schedules/{schedule}/pause", needs: RoleOperator,
		doc: "Let the ticks of a schedule pass without a job, or go on with the first after now.",
	})
	runScheduleRoute = to[scheduleAct, scheduleRun](route{
		name: "RunSchedule", method: http.MethodPost, path: "/schedules/{schedule}/run-now", needs: RoleOperator,
		doc: "Enqueue a job of a schedule now, beside its ticks and also while it is paused.",
	})
	ticksRoute = to[ticksQuery, ticks](route{
		name: "Ticks", path: "/schedule-ticks", needs: RoleViewer,
		doc: "Say when the next ticks are: of a schedule, whether it is paused or not, or of a spec that is only tried.",
	})
)

type schedulesQuery struct {
	Kind   string `query:"kind" doc:"of this kind"`
	Prefix string `query:"prefix" doc:"whose name begins so"`
	paging
}

type schedulePage struct {
	Schedules []wire.Schedule `json:"schedules" doc:"this page"`
	Next      wire.Text       `json:"next" doc:"where the next page begins; null on the last"`
}

type schedulePath struct {
	Schedule string `path:"schedule" json:"-" doc:"its name"`
}

type scheduleAct struct {
	Schedule string `path:"schedule" json:"-" doc:"its name"`
	acting
}

type addingSchedule struct {
	Name string `json:"name" doc:"1 to 128 bytes"`
	wire.NewSchedule
	acting
}

type settingSchedule struct {
	Schedule string `path:"schedule" json:"-" doc:"its name"`
	wire.NewSchedule
	acting
}

// splice keeps the args byte for byte.
func (a addingSchedule) splice() (body any, name string, raw json.RawMessage) {
	raw, a.Args = a.Args, nil
	return a, "args", raw
}

func (s settingSchedule) splice() (body any, name string, raw json.RawMessage) {
	raw, s.Args = s.Args, nil
	return s, "args", raw
}

type pausingSchedule struct {
	Schedule string `path:"schedule" json:"-" doc:"its name"`
	Paused   *bool  `json:"paused" doc:"true pauses, false resumes"`
	acting
}

type scheduleRun struct {
	JobID pawl.ID `json:"job_id" doc:"of the new job"`
}

type ticksQuery struct {
	Schedule string `query:"schedule" doc:"the schedule's name; or a spec is given"`
	Spec     string `query:"spec" doc:"cron fields, @daily or its like, or an interval"`
	Zone     string `query:"zone" doc:"with spec: the time zone; default UTC"`
	Count    *int   `query:"count" doc:"how many: 1 to 1000, default 10"`
}

type ticks struct {
	Ticks []wire.Tick `json:"ticks" doc:"the next ones; fewer than count where there are no more"`
}

func schedulesTable() []served {
	return []served{
		on(schedulesRoute, (*Handler).schedules),
		on(scheduleRoute, (*Handler).schedule),
		on(addScheduleRoute, (*Handler).addSchedule),
		on(setScheduleRoute, (*Handler).setSchedule),
		on(deleteScheduleRoute, (*Handler).deleteSchedule),
		on(pauseScheduleRoute, (*Handler).pauseSchedule),
		on(runScheduleRoute, (*Handler).runSchedule),
		on(ticksRoute, (*Handler).ticks),
	}
}

func (h *Handler) schedules(ctx context.Context, c call, in schedulesQuery) (schedulePage, error) {
	page, err := h.store.Schedules(ctx, pawl.ScheduleFilter{Kind: in.Kind, Prefix: in.Prefix}, in.page())
	out := schedulePage{wire.Each(page.Schedules, wire.ScheduleOf), wire.Text(page.Next)}
	for i := range out.Schedules {
		c.hideSchedule(&out.Schedules[i])
	}
	return out, err
}

func (h *Handler) schedule(ctx context.Context, c call, in schedulePath) (wire.Schedule, error) {
	view, err := h.store.Schedule(ctx, in.Schedule)
	out := wire.ScheduleOf(view)
	c.hideSchedule(&out)
	return out, err
}

// hideSchedule keeps args and errors from those who shall not see any.
func (c call) hideSchedule(s *wire.Schedule) {
	if c.hide {
		s.Args, s.ArgsBase64, s.Problem = json.RawMessage("null"), []byte{}, hidden(s.Problem)
	}
}

func (h *Handler) addSchedule(ctx context.Context, c call, in addingSchedule) (none, error) {
	added, err := in.NewSchedule.Schedule(in.Name)
	if err != nil {
		return none{}, err
	}
	return none{}, h.store.AddSchedule(ctx, added, c.by(in.acting))
}

func (h *Handler) setSchedule(ctx context.Context, c call, in settingSchedule) (none, error) {
	set, err := in.NewSchedule.Schedule(in.Schedule)
	if err != nil {
		return none{}, err
	}
	return none{}, h.store.SetSchedule(ctx, set, c.by(in.acting))
}

func (h *Handler) deleteSchedule(ctx context.Context, c call, in scheduleAct) (none, error) {
	return none{}, h.store.DeleteSchedule(ctx, in.Schedule, c.by(in.acting))
}

func (h *Handler) pauseSchedule(ctx context.Context, c call, in pausingSchedule) (none, error) {
	if in.Paused == nil {
		return none{}, &pawl.FieldError{Field: "paused", Value: "", Rule: "must be given"}
	}
	return none{}, h.store.PauseSchedule(ctx, in.Schedule, *in.Paused, c.by(in.acting))
}

func (h *Handler) runSchedule(ctx context.Context, c call, in scheduleAct) (scheduleRun, error) {
	id, err := h.store.RunSchedule(ctx, in.Schedule, c.by(in.acting))
	return scheduleRun{id}, err
}

const (
	defaultTicks = 10
	maxTicks     = 1000
)

func (h *Handler) ticks(ctx context.Context, _ call, in ticksQuery) (ticks, error) {
	count := defaultTicks
	if in.Count != nil {
		count = *in.Count
	}
	if count < 1 || count > maxTicks {
		return ticks{}, &pawl.FieldError{Field: "count", Value: count, Rule: "must be 1 to 1000"}
	}
	if (in.Schedule == "") == (in.Spec == "") || in.Schedule != "" && in.Zone != "" {
		return ticks{}, &pawl.FieldError{Field: "schedule", Value: in.Schedule, Rule: "must be given, or a spec and its zone"}
	}
	table, first, err := h.timetable(ctx, in)
	if err != nil {
		return ticks{}, err
	}
	var found []time.Time
	after := time.Now()
	if !first.IsZero() {
		found, after = append(found, first), first
	}
	found = append(found, table.Upcoming(after, count-len(found))...)
	return ticks{wire.Each(found, func(t time.Time) wire.Tick { return wire.TickOf(t, table.Zone()) })}, nil
}

// timetable is that of a schedule, with its next tick, or of a spec.
func (h *Handler) timetable(ctx context.Context, in ticksQuery) (t schedule.Timetable, first time.Time, err error) {
	if in.Schedule == "" {
		t, err = schedule.Parse(in.Spec, in.Zone)
		return t, first, err
	}
	view, err := h.store.Schedule(ctx, in.Schedule)
	if err == nil {
		t, err = schedule.Of(view.Schedule)
	}
	return t, view.Next, err
}

// Schedules is pawl.Schedules.Schedules.
func (c *Client) Schedules(ctx context.Context, filter pawl.ScheduleFilter, page pawl.Page) (pawl.SchedulePage, error) {
	paging, err := pagingOf(page)
	if err == nil {
		err = desk.CheckScheduleFilter(filter)
	}
	if err != nil {
		return pawl.SchedulePage{}, err
	}
	answer, err := send(ctx, c, schedulesRoute, schedulesQuery{filter.Kind, filter.Prefix, paging})
	if err != nil {
		return pawl.SchedulePage{}, err
	}
	return pawl.SchedulePage{Schedules: wire.Each(answer.Schedules, wire.Schedule.Read), Next: string(answer.Next)}, nil
}

// Schedule is pawl.Schedules.Schedule.
func (c *Client) Schedule(ctx context.Context, name string) (pawl.ScheduleView, error) {
	if err := soundSchedule(name); err != nil {
		return pawl.ScheduleView{}, err
	}
	answer, err := send(ctx, c, scheduleRoute, schedulePath{name})
	if err != nil {
		return pawl.ScheduleView{}, err
	}
	return answer.Read(), nil
}

// soundSchedule answers for what no path can name.
func soundSchedule(name string) error {
	if desk.CheckName("schedule", name) != nil {
		return desk.NoSchedule(name)
	}
	return nil
}

// AddSchedule is pawl.Schedules.AddSchedule.
func (c *Client) AddSchedule(ctx context.Context, s pawl.Schedule, by pawl.By) error {
	s, err := desk.CheckSchedule(s, by)
	if err != nil {
		return err
	}
	in := addingSchedule{s.Name, wire.NewScheduleOf(s), acting{by.Who, by.Why}}
	in.Args = s.Args
	_, err = send(ctx, c, addScheduleRoute, in)
	return err
}

// SetSchedule is pawl.Schedules.SetSchedule.
func (c *Client) SetSchedule(ctx context.Context, s pawl.Schedule, by pawl.By) error {
	s, err := desk.CheckSchedule(s, by)
	if err != nil {
		return err
	}
	in := settingSchedule{s.Name, wire.NewScheduleOf(s), acting{by.Who, by.Why}}
	in.Args = s.Args
	_, err = send(ctx, c, setScheduleRoute, in)
	return err
}

// DeleteSchedule is pawl.Schedules.DeleteSchedule.
func (c *Client) DeleteSchedule(ctx context.Context, name string, by pawl.By) error {
	_, err := actOnSchedule(ctx, c, deleteScheduleRoute, name, by)
	return err
}

// PauseSchedule is pawl.Schedules.PauseSchedule.
func (c *Client) PauseSchedule(ctx context.Context, name string, paused bool, by pawl.By) error {
	act, err := actingOf(by)
	if err == nil {
		err = soundSchedule(name)
	}
	if err != nil {
		return err
	}
	_, err = send(ctx, c, pauseScheduleRoute, pausingSchedule{name, &paused, act})
	return err
}

// RunSchedule is pawl.Schedules.RunSchedule.
func (c *Client) RunSchedule(ctx context.Context, name string, by pawl.By) (pawl.ID, error) {
	answer, err := actOnSchedule(ctx, c, runScheduleRoute, name, by)
	return answer.JobID, err
}

func actOnSchedule[Out any](ctx context.Context, c *Client, e endpoint[scheduleAct, Out], name string, by pawl.By) (out Out, err error) {
	act, err := actingOf(by)
	if err == nil {
		err = soundSchedule(name)
	}
	if err != nil {
		return out, err
	}
	return send(ctx, c, e, scheduleAct{name, act})
}

// TicksOf are the next ticks of a schedule, whether it is paused or not.
func (c *Client) TicksOf(ctx context.Context, name string, count int) ([]time.Time, error) {
	return c.ticks(ctx, ticksQuery{Schedule: name, Count: &count})
}

// TrySpec says when the ticks of a spec would be, as the server reads it.
func (c *Client) TrySpec(ctx context.Context, spec, zone string, count int) ([]time.Time, error) {
	return c.ticks(ctx, ticksQuery{Spec: spec, Zone: zone, Count: &count})
}

func (c *Client) ticks(ctx context.Context, in ticksQuery) ([]time.Time, error) {
	answer, err := send(ctx, c, ticksRoute, in)
	return wire.Each(answer.Ticks, func(t wire.Tick) time.Time { return t.TickAt.Time() }), err
}
