package wire

import (
	"encoding/json"
	"time"

	"github.com/pawljobs/pawl"
)

// Schedule is a recurring job and how it stands.
type Schedule struct {
	Name          string          `json:"name" doc:"its name"`
	Spec          string          `json:"spec" doc:"when: cron fields, @daily or its like, or an interval"`
	Zone          string          `json:"zone" doc:"the time zone in which cron fields are read"`
	Kind          string          `json:"kind" doc:"of its jobs"`
	Args          json.RawMessage `json:"args" doc:"of its jobs"`
	Queue         Text            `json:"queue" doc:"of its jobs; null: the connection's"`
	MaxTries      int             `json:"max_tries" doc:"of its jobs; 0: the connection's"`
	TimeoutMS     int64           `json:"timeout_ms" doc:"of its jobs; 0: the connection's"`
	RetryForMS    int64           `json:"retry_for_ms" doc:"of its jobs; 0: the connection's"`
	Redrive       string          `json:"redrive" doc:"of its jobs: any, one-by-one or never"`
	StartsOff     bool            `json:"starts_off" doc:"its jobs run only while their kind is switched on"`
	Tags          []string        `json:"tags" doc:"of its jobs"`
	Missed        string          `json:"missed" doc:"what becomes of missed ticks: once, skip or all"`
	MaxMissed     int             `json:"max_missed" doc:"how many missed ticks are run at most, with all"`
	Overlap       string          `json:"overlap" doc:"what becomes of a tick while a job has not ended: skip, queue or allow"`
	JitterMS      int64           `json:"jitter_ms" doc:"by how much a tick is delayed at most"`
	From          Stamp           `json:"from" doc:"no tick is before"`
	Until         Stamp           `json:"until" doc:"no tick is after"`
	Declared      bool            `json:"declared" doc:"by code; else an operator has added it"`
	Declarers     []string        `json:"declarers" doc:"live hosts whose code declares it"`
	Paused        bool            `json:"paused" doc:"by an operator"`
	CreatedAt     Stamp           `json:"created_at" doc:"when it was added"`
	ChangedAt     Stamp           `json:"changed_at" doc:"when it last changed what it says, or was resumed"`
	NextAt        Stamp           `json:"next_at" doc:"the next tick; null: it is paused, or there is none"`
	DueAt         Stamp           `json:"due_at" doc:"when the next tick is acted on"`
	LastTickAt    Stamp           `json:"last_tick_at" doc:"the latest tick that got a job"`
	LastJob       Ref             `json:"last_job" doc:"its latest job"`
	LastState     Text            `json:"last_state" doc:"of the latest job; null: there is none, or nobody knows any more"`
	LastEndedAt   Stamp           `json:"last_ended_at" doc:"when the latest job ended"`
	LastSuccessAt Stamp           `json:"last_success_at" doc:"when a job of it last succeeded"`
	Fired         int             `json:"fired" doc:"jobs that ticks have made"`
	MissedTicks   int             `json:"missed_ticks" doc:"ticks without a job, since no host was there"`
	MissedAt      Stamp           `json:"missed_at" doc:"when that last happened"`
	SkippedTicks  int             `json:"skipped_ticks" doc:"ticks without a job, since an earlier one had not ended"`
	SkippedAt     Stamp           `json:"skipped_at" doc:"when that last happened"`
	Problem       Text            `json:"problem" doc:"why it cannot go on"`
	Runs          []ScheduleRun   `json:"runs,omitempty" doc:"its latest jobs, newest first; of one schedule only"`
}

// ScheduleRun is one job of a schedule.
type ScheduleRun struct {
	TickAt  Stamp `json:"tick_at" doc:"when it was due, or was asked for by hand"`
	Manual  bool  `json:"manual" doc:"by hand"`
	Job     Ref   `json:"job" doc:"its id"`
	State   Text  `json:"state" doc:"null: nobody knows any more"`
	EndedAt Stamp `json:"ended_at" doc:"when it ended"`
}

// ScheduleOf is a schedule's form.
func ScheduleOf(v pawl.ScheduleView) Schedule {
	out := Schedule{
		Name: v.Name, Spec: v.Spec, Zone: v.Zone, Kind: v.Kind, Args: v.Args, Queue: Text(v.Policy.Queue), MaxTries: v.Policy.MaxTries,
		TimeoutMS: v.Policy.Timeout.Milliseconds(), RetryForMS: v.Policy.RetryFor.Milliseconds(), Redrive: v.Policy.Redrive.String(),
		StartsOff: v.Policy.StartsOff, Tags: List(v.Tags), Missed: string(v.Missed), MaxMissed: v.MaxMissed, Overlap: string(v.Overlap),
		JitterMS: v.Jitter.Milliseconds(), From: Stamp(v.From), Until: Stamp(v.Until), Declared: v.Declared, Declarers: List(v.Declarers),
		Paused: v.Paused, CreatedAt: Stamp(v.CreatedAt), ChangedAt: Stamp(v.ChangedAt), NextAt: Stamp(v.Next), DueAt: Stamp(v.DueAt),
		LastTickAt: Stamp(v.LastTick), LastJob: Ref(v.LastJob), LastState: Text(v.LastState), LastEndedAt: Stamp(v.LastEnded),
		LastSuccessAt: Stamp(v.LastSuccess), Fired: v.Fired, MissedTicks: v.MissedTicks, MissedAt: Stamp(v.MissedAt), SkippedTicks: v.SkippedTicks,
		SkippedAt: Stamp(v.SkippedAt), Problem: Text(v.Problem),
	}
	for _, r := range v.Runs {
		out.Runs = append(out.Runs, ScheduleRun{Stamp(r.Tick), r.Manual, Ref(r.Job), Text(r.State), Stamp(r.Ended)})
	}
	return out
}

// Tick is a time at which a schedule makes a job.
type Tick struct {
	TickAt Stamp  `json:"tick_at" doc:"in UTC"`
	Local  string `json:"local" doc:"in the schedule's zone, with the offset from UTC"`
}

// TickOf is a tick's form.
func TickOf(tick time.Time, zone *time.Location) Tick {
	return Tick{Stamp(tick), tick.In(zone).Format(time.RFC3339)}
}
