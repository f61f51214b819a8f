package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/wire"
	"github.com/spf13/cobra"
)

// scheduleFlags are what a schedule says, as flags.
type scheduleFlags struct {
	spec, zone, kind, args, queue string
	maxTries, maxMissed           int
	backoff                       []time.Duration
	timeout, retryFor, jitter     time.Duration
	redrive                       pawl.RedriveRule
	startsOff                     bool
	tags                          []string
	missed                        pawl.MissedRule
	overlap                       pawl.OverlapRule
	from, until                   time.Time
}

func (g *scheduleFlags) add(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVar(&g.spec, "spec", "", "when: five or six cron fields, @daily or its like, or an interval such as 90s (`SPEC`)")
	flags.StringVar(&g.zone, "zone", "", "the time `ZONE` of cron fields, such as Europe/Berlin (default UTC)")
	flags.StringVar(&g.kind, "kind", "", "the kind of its jobs")
	flags.StringVar(&g.args, "args", "{}", "their args: `JSON`, @FILE, or - for standard input")
	flags.StringVar(&g.queue, "queue", "", "their queue (default 2-default)")
	flags.IntVar(&g.maxTries, "max-tries", 0, "how often each may be run (default 6)")
	addFlag(flags, &g.backoff, "backoff", "D,D,…", "the waits after failed attempts, the last one reused", parseSpans)
	addFlag(flags, &g.timeout, "timeout", "DURATION", "the time of one attempt (default 4m)", parseSpan)
	addFlag(flags, &g.retryFor, "retry-for", "DURATION", "start each at most this long after its tick", parseSpan)
	addFlag(flags, &g.redrive, "redrive", "RULE", "who may redrive a dead one: any, one-by-one, or never, which forbids run-now too", parseRule)
	flags.BoolVar(&g.startsOff, "starts-off", false, "they run only while their kind is switched on")
	flags.StringArrayVar(&g.tags, "tag", nil, "a word to find them by; may be repeated")
	addFlag(flags, &g.missed, "missed", "RULE", "ticks that passed while no host was there: once (default), skip or all",
		oneOf(pawl.MissedOnce, pawl.MissedSkip, pawl.MissedAll))
	flags.IntVar(&g.maxMissed, "max-missed", 0, "with --missed all: run at most `N`, the latest (default 10)")
	addFlag(flags, &g.overlap, "overlap", "RULE", "a tick while an earlier job has not ended: skip (default), queue or allow",
		oneOf(pawl.OverlapSkip, pawl.OverlapQueue, pawl.OverlapAllow))
	addFlag(flags, &g.jitter, "jitter", "DURATION", "delay each tick by up to this long", parseSpan)
	addFlag(flags, &g.from, "from", "TIME", "no tick before", parseTime)
	addFlag(flags, &g.until, "until", "TIME", "no tick after", parseTime)
	completes(command, "missed", pawl.MissedOnce, pawl.MissedSkip, pawl.MissedAll)
	completes(command, "overlap", pawl.OverlapSkip, pawl.OverlapQueue, pawl.OverlapAllow)
}

// change has the schedule say what was said by flags.
func (g *scheduleFlags) change(p *program, command *cobra.Command, s *pawl.Schedule) error {
	set := map[string]func(){
		"spec": func() { s.Spec = g.spec }, "zone": func() { s.Zone = g.zone }, "kind": func() { s.Kind = g.kind },
		"queue": func() { s.Policy.Queue = g.queue }, "max-tries": func() { s.Policy.MaxTries = g.maxTries },
		"backoff": func() { s.Policy.Backoff, s.Policy.Jitter = g.backoff, 0 }, "timeout": func() { s.Policy.Timeout = g.timeout },
		"retry-for": func() { s.Policy.RetryFor = g.retryFor }, "redrive": func() { s.Policy.Redrive = g.redrive },
		"starts-off": func() { s.Policy.StartsOff = g.startsOff }, "tag": func() { s.Tags = g.tags },
		"overlap": func() { s.Overlap = g.overlap }, "jitter": func() { s.Jitter = g.jitter },
		"missed":     func() { s.Missed, s.MaxMissed = g.missed, 0 },
		"max-missed": func() {}, // after missed
		"from":       func() { s.From = g.from }, "until": func() { s.Until = g.until },
	}
	for flag, apply := range set {
		if command.Flags().Changed(flag) {
			apply()
		}
	}
	if command.Flags().Changed("max-missed") {
		s.MaxMissed = g.maxMissed
	}
	if !command.Flags().Changed("args") {
		return nil
	}
	args, err := p.readArgs(g.args)
	s.Args = args
	return err
}

func (p *program) scheduleAdd() *cobra.Command {
	var g scheduleFlags
	var act acting
	command := &cobra.Command{
		Use:   "add NAME",
		Short: "Add a schedule",
		Long: `Add a schedule. Its first tick is the first after now: pawl schedule next --spec tries a spec before.

A kind that no host has ever registered is refused. This program does not have the code of the kind and so does not know
the policy that the code states: what is not said here has the defaults. For work that must not run twice say
--max-tries 1; for kinds that move money say --starts-off and --redrive too, as their code does.`,
		Example: `  pawl schedule add report.nightly --spec '30 2 * * *' --zone Europe/Berlin --kind report.v1 --args '{"region": "eu"}'
  pawl schedule add cache.warm --spec 90s --kind cache.warm.v1 --missed skip --reason 'slow mornings'`,
		Args: needs("the schedule's NAME", 1, 1),
	}
	g.add(command)
	act.add(command)
	command.RunE = p.onStore(existing, func(ctx context.Context, s store, args []string) error {
		by, err := act.actor(p)
		if err != nil {
			return err
		}
		if g.spec == "" || g.kind == "" {
			return withStatus(exitUsage, errors.New("say when and what: --spec SPEC and --kind KIND"))
		}
		added := pawl.Schedule{Name: args[0]}
		if err := g.change(p, command, &added); err != nil {
			return err
		}
		if err := s.AddSchedule(ctx, added, by); err != nil {
			return err
		}
		return p.changedSchedule(ctx, s, args[0], "added")
	})
	return command
}

func (p *program) scheduleSet() *cobra.Command {
	var g scheduleFlags
	var act acting
	command := &cobra.Command{
		Use:   "set NAME",
		Short: "Change what a schedule says",
		Long: `Change what a schedule says: what has a flag here, the rest stays. Its next tick is then the first after now. One that
the code of a live host declares is refused: change it there, or pause it. One that no live host declares any more
becomes yours.`,
		Example: "  pawl schedule set report.nightly --spec '0 4 * * *' --reason 'after the backup'",
		Args:    needs("the schedule's NAME", 1, 1),
	}
	g.add(command)
	act.add(command)
	command.RunE = p.onStore(existing, func(ctx context.Context, s store, args []string) error {
		by, err := act.actor(p)
		if err != nil {
			return err
		}
		view, err := s.Schedule(ctx, args[0])
		if err != nil {
			return err
		}
		if err := g.change(p, command, &view.Schedule); err != nil {
			return err
		}
		if err := s.SetSchedule(ctx, view.Schedule, by); err != nil {
			return err
		}
		return p.changedSchedule(ctx, s, args[0], "changed")
	})
	return command
}

// changedSchedule tells of a change, and when the next tick is.
func (p *program) changedSchedule(ctx context.Context, s pawl.Schedules, name, what string) error {
	view, err := s.Schedule(ctx, name)
	if err != nil {
		return err
	}
	if p.json {
		return p.printer.object(wire.ScheduleOf(view))
	}
	next := "it has no next tick"
	switch {
	case view.Paused:
		next = "it is paused"
	case !view.Next.IsZero():
		next = "its next tick is " + moment(view.Next)
	}
	p.printer.say("Schedule %s is %s: %s.", name, what, next)
	return nil
}

func (p *program) schedulePause(pause bool) *cobra.Command {
	act := acting{must: pause}
	command := &cobra.Command{
		Use:     "pause NAME",
		Short:   "Let its ticks pass without a job",
		Long:    "Let the ticks of a schedule pass without a job until it is resumed. They are not made up for. What runs goes on.",
		Example: "  pawl schedule pause report.nightly --reason 'the warehouse is down'",
		Args:    needs("the schedule's NAME", 1, 1),
	}
	what := "paused"
	if !pause {
		command.Use, command.Short, what = "resume NAME", "Go on with the first tick after now", "resumed"
		command.Long = "Go on with the first tick after now. Ticks that passed meanwhile are not made up for: see run-now."
		command.Example = "  pawl schedule resume report.nightly"
	}
	act.add(command)
	command.RunE = p.onStore(existing, func(ctx context.Context, s store, args []string) error {
		by, err := act.actor(p)
		if err != nil {
			return err
		}
		if err := s.PauseSchedule(ctx, args[0], pause, by); err != nil {
			return err
		}
		if pause && !p.json {
			p.printer.say("Schedule %s is paused.", args[0])
			return nil
		}
		return p.changedSchedule(ctx, s, args[0], what)
	})
	return command
}

func (p *program) scheduleRunNow() *cobra.Command {
	var act acting
	command := &cobra.Command{
		Use:   "run-now NAME",
		Short: "Enqueue a job of the schedule now, and print its id",
		Long: `Enqueue a job of the schedule now, beside its ticks and also while it is paused, and print its id. Refused while an
earlier job has not ended, unless its overlap rule allows it; and for jobs whose policy says that they are never
redriven. A kind that starts off waits until it is switched on.`,
		Args: needs("the schedule's NAME", 1, 1),
	}
	act.add(command)
	command.RunE = p.onStore(existing, func(ctx context.Context, s store, args []string) error {
		by, err := act.actor(p)
		if err != nil {
			return err
		}
		id, err := s.RunSchedule(ctx, args[0], by)
		if err != nil {
			return err
		}
		if p.json {
			return p.printer.object(wire.ScheduleRun{Manual: true, Job: ref(id), State: text(pawl.JobWaiting), TickAt: stamp(time.Now())})
		}
		p.printer.line(id.String())
		return nil
	})
	return command
}

func (p *program) scheduleDelete() *cobra.Command {
	var act acting
	var sure confirming
	command := &cobra.Command{
		Use:   "delete NAME",
		Short: "Remove a schedule for good; its jobs stay",
		Long: `Remove a schedule for good; its jobs stay. One that the code of a live host declares is refused: that host would only
declare it again. Pause it, or take it out of the code.`,
		Args: needs("the schedule's NAME", 1, 1),
	}
	act.add(command)
	command.Flags().BoolVar(&sure.yes, "yes", false, "do not ask")
	command.RunE = p.onStore(existing, func(ctx context.Context, s store, args []string) error {
		by, err := act.actor(p)
		if err != nil {
			return err
		}
		view, err := s.Schedule(ctx, args[0])
		if err != nil {
			return err
		}
		sample := []string{fmt.Sprintf("%s %s %s", view.Name, view.Spec, view.Kind)}
		if err := p.confirm(sure, "remove schedule "+args[0]+" for good", sample); err != nil {
			return err
		}
		if err := s.DeleteSchedule(ctx, args[0], by); err != nil {
			return err
		}
		if p.json {
			return p.printer.object(struct {
				Name    string `json:"name"`
				Deleted bool   `json:"deleted"`
			}{args[0], true})
		}
		p.printer.say("Schedule %s is deleted.", args[0])
		return nil
	})
	return command
}
