package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/wire"
	"github.com/pawljobs/pawl/schedule"
	"github.com/spf13/cobra"
)

const scheduleHelp = `Schedules: recurring jobs. A schedule makes one job for each tick over all hosts; any host's upkeep does it, that of
pawl serve too.

What code declares is the code's: it can be paused here, and run now, but not changed or deleted while a live host
declares it. What is added here is yours.`

func (p *program) scheduleCommand() *cobra.Command {
	return noun("schedule", "Recurring jobs: look at them, add, change, pause, run now", scheduleHelp,
		p.scheduleList(), p.scheduleShow(), p.scheduleAdd(), p.scheduleSet(), p.schedulePause(true), p.schedulePause(false),
		p.scheduleRunNow(), p.scheduleNext(), p.scheduleDelete())
}

func (p *program) scheduleList() *cobra.Command {
	var filter pawl.ScheduleFilter
	var page paging
	command := &cobra.Command{
		Use:   "list",
		Short: "List schedules, by name",
		Long: `List schedules, by name. OWNER is "code" where a live host's code declares it, "nobody" where code has declared it and no
live host's does any more, else "operator". STATE is running, paused, ended (there is no tick any more) or stuck (this
program cannot read it).

In a pipe, tab-separated: name, spec, zone, kind, state, owner, next tick, last tick, last job's state, last success.`,
		Args: needs("", 0, 0),
	}
	command.Flags().StringVar(&filter.Kind, "kind", "", "of this kind")
	command.Flags().StringVar(&filter.Prefix, "prefix", "", "whose name begins so")
	page.add(command)
	command.RunE = p.onStore(existing, func(ctx context.Context, s store, _ []string) error {
		limit, err := page.rows(p.printer)
		if err != nil {
			return err
		}
		rows := pages[pawl.ScheduleView]{limit: limit, after: page.after}
		rows.fetch = func(ctx context.Context, page pawl.Page) ([]pawl.ScheduleView, string, error) {
			found, err := s.Schedules(ctx, filter, page)
			return found.Schedules, found.Next, err
		}
		_, err = printList(p.printer, scheduleListing, rows.all(ctx))
		if err == nil && rows.after != "" {
			p.printer.say("There are more: go on with --after %s", rows.after)
		}
		return err
	})
	return command
}

var scheduleListing = listing[pawl.ScheduleView]{
	columns: []column[pawl.ScheduleView]{
		{head: "NAME", cell: func(v pawl.ScheduleView) string { return v.Name }, width: 32},
		{head: "SPEC", cell: func(v pawl.ScheduleView) string { return v.Spec }, width: 24},
		{head: "ZONE", cell: func(v pawl.ScheduleView) string { return v.Zone }, width: 20},
		{head: "KIND", cell: func(v pawl.ScheduleView) string { return v.Kind }, width: 28},
		{head: "STATE", cell: scheduleState},
		{head: "OWNER", cell: scheduleOwner},
		{head: "NEXT", cell: func(v pawl.ScheduleView) string { return moment(v.Next) }},
		{head: "LAST", cell: func(v pawl.ScheduleView) string { return moment(v.LastTick) }},
		{head: "LAST JOB", cell: func(v pawl.ScheduleView) string { return string(v.LastState) }},
		{head: "LAST SUCCESS", cell: func(v pawl.ScheduleView) string { return moment(v.LastSuccess) }},
	},
	view: func(v pawl.ScheduleView) any { return wire.ScheduleOf(v) },
	none: "No schedules.",
}

func scheduleState(v pawl.ScheduleView) string {
	switch {
	case v.Paused:
		return "paused"
	case v.Problem != "":
		return "stuck"
	case v.Next.IsZero():
		return "ended"
	}
	return "running"
}

func scheduleOwner(v pawl.ScheduleView) string {
	switch {
	case !v.Declared:
		return "operator"
	case len(v.Declarers) == 0:
		return "nobody"
	}
	return "code"
}

func (p *program) scheduleShow() *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Show a schedule, its latest jobs and its next ticks",
		Args:  needs("the schedule's NAME", 1, 1),
		RunE: p.onStore(existing, func(ctx context.Context, s store, args []string) error {
			view, err := s.Schedule(ctx, args[0])
			if err != nil {
				return err
			}
			if p.json {
				return p.printer.object(wire.ScheduleOf(view))
			}
			p.showSchedule(view)
			return nil
		}),
	}
}

// shownTicks is how many of the next ticks a schedule is shown with.
const shownTicks = 3

func (p *program) showSchedule(v pawl.ScheduleView) {
	out := p.printer
	out.field("Schedule", v.Name)
	out.field("Spec", fmt.Sprintf("%s (%s)", v.Spec, v.Zone))
	out.field("Kind", v.Kind)
	out.field("Args", string(v.Args))
	out.field("Policy", statedPolicy(v.Policy))
	out.field("Tags", strings.Join(v.Tags, " "))
	rules := fmt.Sprintf("missed: %s, overlap: %s", v.Missed, v.Overlap)
	if v.MaxMissed > 0 {
		rules = fmt.Sprintf("missed: %s, at most %d, overlap: %s", v.Missed, v.MaxMissed, v.Overlap)
	}
	if v.Jitter > 0 {
		rules += ", jitter: " + v.Jitter.String()
	}
	out.field("Rules", rules)
	out.field("From", moment(v.From))
	out.field("Until", moment(v.Until))
	out.field("Owner", ownerText(v))
	out.field("State", scheduleState(v))
	out.field("Problem", v.Problem)
	if !v.Next.IsZero() {
		if t, err := schedule.Of(v.Schedule); err == nil {
			for i, tick := range append([]time.Time{v.Next}, t.Upcoming(v.Next, shownTicks-1)...) {
				out.field(first(i, "Next"), inZone(tick, t.Zone()))
			}
		}
	}
	out.field("Last tick", momentAgo(v.LastTick))
	if !v.LastJob.IsZero() {
		out.field("Last job", strings.TrimSpace(v.LastJob.String()+" "+string(v.LastState)))
	}
	out.field("Success", momentAgo(v.LastSuccess))
	out.field("Ticks", fmt.Sprintf("%d made a job, %d were missed%s, %d were skipped%s", v.Fired,
		v.MissedTicks, lately(v.MissedAt), v.SkippedTicks, lately(v.SkippedAt)))
	for i, r := range v.Runs {
		by := ""
		if r.Manual {
			by = " by hand"
		}
		out.field(first(i, "Jobs"), strings.TrimRight(fmt.Sprintf("%s  %s  %s%s", moment(r.Tick), r.Job, r.State, by), " "))
	}
}

func lately(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return " (" + moment(t) + ")"
}

func ownerText(v pawl.ScheduleView) string {
	switch scheduleOwner(v) {
	case "code":
		return "code of " + strings.Join(v.Declarers, ", ")
	case "nobody":
		return "nobody: code has declared it, and that of no live host does any more"
	}
	return "operator"
}

func inZone(tick time.Time, zone *time.Location) string {
	return tick.In(zone).Format("2006-01-02T15:04:05Z07:00 Mon")
}

// statedPolicy is what a policy states.
func statedPolicy(policy pawl.Policy) string {
	var parts []string
	add := func(stated bool, format string, args ...any) {
		if stated {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(policy.Queue != "", "queue %s", policy.Queue)
	add(policy.MaxTries != 0, "max tries %d", policy.MaxTries)
	add(len(policy.Backoff) > 0, "backoff %v", policy.Backoff)
	add(policy.Timeout != 0, "timeout %s", policy.Timeout)
	add(policy.RetryFor != 0, "retry for %s", policy.RetryFor)
	add(policy.Redrive != pawl.RedriveInherit, "redrive %s", policy.Redrive)
	add(policy.StartsOff, "starts off")
	return strings.Join(parts, ", ")
}

func (p *program) scheduleNext() *cobra.Command {
	n, spec, zone := 10, "", ""
	command := &cobra.Command{
		Use:   "next [NAME]",
		Short: "Say when the next ticks are, of a schedule or of a spec that is only tried",
		Long: `Say when the next ticks are: of a schedule, from its next one on, whether it is paused or not; or, with --spec, of a
spec that is only tried, for which no store is needed. Times are in the schedule's zone.`,
		Example: "  pawl schedule next report.nightly -n 5\n  pawl schedule next --spec '30 2 * * MON-FRI' --zone Europe/Berlin",
		Args:    needs("the schedule's NAME", 0, 1),
	}
	command.Flags().IntVarP(&n, "count", "n", n, "how many: `N`, at most 1000")
	command.Flags().StringVar(&spec, "spec", "", "try this `SPEC`")
	command.Flags().StringVar(&zone, "zone", "", "with --spec: the time `ZONE` (default UTC)")
	within(command, "zone", "spec")
	of := p.onStore(existing, func(ctx context.Context, s store, args []string) error {
		view, err := s.Schedule(ctx, args[0])
		if err != nil {
			return err
		}
		t, err := schedule.Of(view.Schedule)
		if err != nil {
			return err
		}
		if view.Next.IsZero() {
			return p.printTicks(t, t.Upcoming(time.Now(), n))
		}
		return p.printTicks(t, append([]time.Time{view.Next}, t.Upcoming(view.Next, n-1)...))
	})
	try := p.doing(func(context.Context, []string) error {
		t, err := schedule.Parse(spec, zone)
		if err != nil {
			return err
		}
		return p.printTicks(t, t.Upcoming(time.Now(), n))
	})
	command.RunE = func(c *cobra.Command, args []string) error {
		switch {
		case n < 1 || n > 1000:
			return &pawl.FieldError{Field: "count", Value: n, Rule: "must be from 1 to 1000"}
		case c.Flags().Changed("spec") == (len(args) == 1):
			return errors.New("give the NAME of a schedule, or --spec")
		case len(args) == 1:
			return of(c, args)
		}
		return try(c, args)
	}
	return command
}

func (p *program) printTicks(t schedule.Timetable, ticks []time.Time) error {
	_, err := printList(p.printer, listing[time.Time]{
		columns: []column[time.Time]{
			{head: "LOCAL", cell: func(tick time.Time) string { return inZone(tick, t.Zone()) }},
			{head: "UTC", cell: moment},
		},
		view: func(tick time.Time) any { return wire.TickOf(tick, t.Zone()) },
		none: "There are no ticks any more.",
	}, each(ticks))
	return err
}
