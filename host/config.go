package host

import (
	"log/slog"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
)

// Config of a host. The zero value is good.
type Config struct {
	// Name of this host as it is shown, in lower case. Default: the machine's name.
	Name string
	// Version of the program, kept with every death. Default: the main module's version.
	Version string
	// Servers are the pools of workers. Default: io (1-critical and 2-default, 20 workers) and cpu (3-bulk, as many
	// workers as cores and at least 2). Empty and not nil, with an empty mux: the host runs no jobs and does nothing but
	// the store's upkeep.
	Servers []Server
	// Drain bounds the parts of a shutdown.
	Drain Drain
	// OnDrain is what the host does when an operator asks it to end (pawl host drain). Default: DrainEnds.
	OnDrain DrainOrder
	// Intervals are the host's rhythms.
	Intervals Intervals
	// Sinks receive one alert for each death. The store has to be a pawl.Alerts, or DeadLetters has.
	Sinks []pawl.Sink
	// Storm bounds the alerts of single deaths: 30 a minute to one sink, and the rest in a digest.
	Storm pawl.Storm
	// Schedules are the recurring jobs that this program's code declares; see package schedule. The store has to be a
	// pawl.Declarations. They need not be of kinds that this host handles.
	Schedules []pawl.Schedule
	// Classifiers are asked, in this order, about errors that carry no class. classify.Default() knows the common ones.
	// Default: none, which retries whatever is not marked.
	Classifiers []pawl.Classifier
	// DeadLetters keeps the letters where the store keeps none itself, and is refused where it does.
	DeadLetters pawl.DeadLetters
	// Orphans says when a job whose kind nobody has registered dies. Default: the kind unseen for 7 days and the job
	// ready for 24 hours. A zero Orphans lets it die at once.
	Orphans *pawl.Orphans
	// MaxUnsettled is how many ended attempts may wait to be recorded before the host stops claiming; four times as many
	// while the store answers promptly. Default 1000.
	MaxUnsettled int
	// MaxJobs makes Run return once so many jobs were claimed and have ended. Default 0: it does not.
	MaxJobs int
	// StopWhenEmpty makes Run return once its queues hold nothing that is ready, and nothing runs. Jobs that are not due
	// yet are not waited for. Those that another host holds are until it was seen to beat, which takes one Beat; one that has
	// died is known to have after DeadAfter, and then they are ready again.
	StopWhenEmpty bool
	// Logger gets one line an execution at Info, retried failures and the host's own troubles at Warn, and deaths,
	// nothing else, at Error. Default slog.Default().
	Logger *slog.Logger
}

// Server is a pool of workers bound to some queues. It is shown as <host name>:worker-<name>.
type Server struct {
	Name string
	// Queues are drained in strict order of their names, compared bytewise, whatever the order here, unless there are
	// Weights.
	Queues []string
	// Weights, where they are given, take the place of the strict order: while all queues have jobs, each has its
	// weight's share of the jobs that start; the share of an empty one goes to the others. They name each of Queues,
	// nothing else, and are from 1 to 1,000,000. A queue is never left out, so one that needs its jobs started at once
	// is better served in strict order, or by a server of its own.
	Weights map[string]int
	// Workers is how many jobs run at a time; at least 1.
	Workers int
}

// Drain is the ladder of a shutdown: how long after its begin each part is over. An inner rung must be smaller than
// the outer ones.
type Drain struct {
	// Handler is how long running handlers may go on before their ctx is cancelled. Default 105 s.
	Handler time.Duration
	// Server is when the jobs of handlers that have not returned are put back. Default 120 s.
	Server time.Duration
	// Host is when Run returns at the latest. Default 135 s. The service manager has to wait longer.
	Host time.Duration
}

// DrainOrder is what a host does when an operator asks it to end.
type DrainOrder uint8

const (
	// DrainEnds: Run drains and returns nil, as if its ctx had ended. A program that returns from main then ends with
	// status 0; whether its service manager starts it again is the manager's business.
	DrainEnds DrainOrder = iota
	// DrainStays: the host drains and leaves the store, but Run returns only when its ctx is done: for a host in a program
	// that ends when Run returns and has other work, such as an API.
	DrainStays
	// DrainRefused: the order is refused where the operator gives it, and changes nothing.
	DrainRefused
)

// Intervals are the rhythms of a host; a zero field has its default. Beat < Silence < DeadAfter is checked: a host
// stops starting work before others may take it for dead.
type Intervals struct {
	// Beat is the time between heartbeats. Default 5 s.
	Beat time.Duration
	// Silence without a successful beat makes the host start nothing. Default 15 s.
	Silence time.Duration
	// DeadAfter is how long another host's beat must stand still, while this one looks, until it counts as dead.
	// Default 20 s.
	DeadAfter time.Duration
	// Poll is the time between looks for work that nothing has announced. Default 1 s, jittered.
	Poll time.Duration
	// Sweep is the time between pieces of upkeep. Default 1 s, jittered.
	Sweep time.Duration
	// Orphans is the time between looks for jobs of unknown kinds. Default 10 minutes, jittered.
	Orphans time.Duration
	// Alerts is the time between looks for alerts that other hosts left. Default 5 s, jittered.
	Alerts time.Duration
	// Declare is the time between looks whether the store still has what Config.Schedules declares. Default 1 minute,
	// jittered.
	Declare time.Duration
	// GiveUp is how long after its timeout a handler that ignores its ctx is given up. Default 10 s.
	GiveUp time.Duration
	// Call bounds one call of the store. Default 30 s.
	Call time.Duration
}

func (c Config) withDefaults() Config {
	if c.Name == "" {
		c.Name, _ = os.Hostname()
	}
	if c.Name == "" {
		c.Name = "localhost"
	}
	c.Name = strings.ToLower(c.Name)
	if c.Version == "" {
		if info, ok := debug.ReadBuildInfo(); ok {
			c.Version = info.Main.Version
		}
	}
	if c.Servers == nil {
		c.Servers = []Server{
			{Name: "io", Queues: []string{"1-critical", "2-default"}, Workers: 20},
			{Name: "cpu", Queues: []string{"3-bulk"}, Workers: max(2, runtime.NumCPU())},
		}
	}
	c.Servers = slices.Clone(c.Servers)
	for i := range c.Servers {
		c.Servers[i].Name = strings.ToLower(c.Servers[i].Name)
		c.Servers[i].Queues = slices.Compact(slices.Sorted(slices.Values(c.Servers[i].Queues)))
		c.Servers[i].Weights = maps.Clone(c.Servers[i].Weights)
	}
	if c.Orphans == nil {
		c.Orphans = &pawl.Orphans{Unseen: 7 * 24 * time.Hour, Ready: 24 * time.Hour}
	}
	if c.MaxUnsettled == 0 {
		c.MaxUnsettled = 1000
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Storm = c.Storm.OrDefault()
	c.Drain = c.Drain.withDefaults()
	c.Intervals = c.Intervals.withDefaults()
	return c
}

func (d Drain) withDefaults() Drain {
	set(&d.Handler, 105*time.Second)
	set(&d.Server, 120*time.Second)
	set(&d.Host, 135*time.Second)
	return d
}

func (i Intervals) withDefaults() Intervals {
	set(&i.Beat, 5*time.Second)
	set(&i.Silence, 15*time.Second)
	set(&i.DeadAfter, 20*time.Second)
	set(&i.Poll, time.Second)
	set(&i.Sweep, time.Second)
	set(&i.Orphans, 10*time.Minute)
	set(&i.Alerts, 5*time.Second)
	set(&i.Declare, time.Minute)
	set(&i.GiveUp, 10*time.Second)
	set(&i.Call, 30*time.Second)
	return i
}

func set(d *time.Duration, byDefault time.Duration) {
	if *d == 0 {
		*d = byDefault
	}
}
