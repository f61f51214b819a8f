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
	Redrive       Text            `json:"redrive" doc:"of its jobs: any, one-by-one or never; null: the connection's"`
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
	BackoffMS     []int64         `json:"backoff_ms" doc:"of its jobs: the waits after failed attempts; empty: the connection's"`
	BackoffJitter float64         `json:"backoff_jitter" doc:"of its jobs: by which share a wait may be lengthened"`
	Limit         *Limit          `json:"limit" doc:"what its jobs state of their kind's limit; null: nothing"`
	ArgsBase64    []byte          `json:"args_base64" doc:"the exact bytes of the args"`
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
		TimeoutMS: v.Policy.Timeout.Milliseconds(), RetryForMS: v.Policy.RetryFor.Milliseconds(), Redrive: ruleText(v.Policy.Redrive),
		StartsOff: v.Policy.StartsOff, Tags: List(v.Tags), Missed: string(v.Missed), MaxMissed: v.MaxMissed, Overlap: string(v.Overlap),
		JitterMS: v.Jitter.Milliseconds(), From: Stamp(v.From), Until: Stamp(v.Until), Declared: v.Declared, Declarers: List(v.Declarers),
		Paused: v.Paused, CreatedAt: Stamp(v.CreatedAt), ChangedAt: Stamp(v.ChangedAt), NextAt: Stamp(v.Next), DueAt: Stamp(v.DueAt),
		LastTickAt: Stamp(v.LastTick), LastJob: Ref(v.LastJob), LastState: Text(v.LastState), LastEndedAt: Stamp(v.LastEnded),
		LastSuccessAt: Stamp(v.LastSuccess), Fired: v.Fired, MissedTicks: v.MissedTicks, MissedAt: Stamp(v.MissedAt), SkippedTicks: v.SkippedTicks,
		SkippedAt: Stamp(v.SkippedAt), Problem: Text(v.Problem),
		BackoffMS: Each(v.Policy.Backoff, Millis), BackoffJitter: v.Policy.Jitter, Limit: limitOrNone(v.Policy.Limit), ArgsBase64: List([]byte(v.Args)),
	}
	if !Readable(v.Args) {
		out.Args = json.RawMessage("null")
	}
	for _, r := range v.Runs {
		out.Runs = append(out.Runs, ScheduleRun{Stamp(r.Tick), r.Manual, Ref(r.Job), Text(r.State), Stamp(r.Ended)})
	}
	return out
}

// Read reads the form.
func (s Schedule) Read() pawl.ScheduleView {
	policy := pawl.Policy{
		Queue: string(s.Queue), MaxTries: s.MaxTries, Jitter: s.BackoffJitter, Timeout: Span(s.TimeoutMS), RetryFor: Span(s.RetryForMS),
		StartsOff: s.StartsOff,
	}
	policy.Redrive, _ = ParseRule(string(s.Redrive))
	if len(s.BackoffMS) > 0 {
		policy.Backoff = Each(s.BackoffMS, Span)
	}
	if s.Limit != nil {
		policy.Limit = s.Limit.Read()
	}
	out := pawl.ScheduleView{
		Schedule: pawl.Schedule{
			Name: s.Name, Spec: s.Spec, Zone: s.Zone, Kind: s.Kind, Args: s.ArgsBase64, Policy: policy, Tags: orNil(s.Tags),
			Missed: pawl.MissedRule(s.Missed), MaxMissed: s.MaxMissed, Overlap: pawl.OverlapRule(s.Overlap), Jitter: Span(s.JitterMS),
			From: s.From.Time(), Until: s.Until.Time(),
		},
		Declared: s.Declared, Declarers: orNil(s.Declarers), Paused: s.Paused, CreatedAt: s.CreatedAt.Time(), ChangedAt: s.ChangedAt.Time(),
		Next: s.NextAt.Time(), DueAt: s.DueAt.Time(), LastTick: s.LastTickAt.Time(), LastJob: pawl.ID(s.LastJob), LastState: pawl.JobState(s.LastState),
		LastEnded: s.LastEndedAt.Time(), LastSuccess: s.LastSuccessAt.Time(), Fired: s.Fired, MissedTicks: s.MissedTicks,
		MissedAt: s.MissedAt.Time(), SkippedTicks: s.SkippedTicks, SkippedAt: s.SkippedAt.Time(), Problem: string(s.Problem),
	}
	for _, r := range s.Runs {
		out.Runs = append(out.Runs, pawl.ScheduleRun{
			Tick: r.TickAt.Time(), Manual: r.Manual, Job: pawl.ID(r.Job), State: pawl.JobState(r.State), Ended: r.EndedAt.Time(),
		})
	}
	return out
}

func ruleText(rule pawl.RedriveRule) Text {
	if rule == pawl.RedriveInherit {
		return ""
	}
	return Text(rule.String())
}

func limitOrNone(limit pawl.Limit) *Limit {
	if limit.IsZero() {
		return nil
	}
	form := LimitOf(limit)
	return &form
}

func orNil[T any](values []T) []T {
	if len(values) == 0 {
		return nil
	}
	return values
}

// NewSchedule is what a schedule is to say. What is not said has its default, or is the connection's.
type NewSchedule struct {
	Spec          string          `json:"spec" doc:"when: five or six cron fields, @daily or its like, or an interval such as 90s"`
	Zone          string          `json:"zone,omitempty" doc:"the time zone in which cron fields are read; default UTC"`
	Kind          string          `json:"kind" doc:"of its jobs: one that a host has registered"`
	Args          json.RawMessage `json:"args,omitempty" doc:"of its jobs; their bytes are kept as they are; default {}"`
	Queue         string          `json:"queue,omitempty" doc:"of its jobs"`
	MaxTries      int             `json:"max_tries,omitempty" doc:"how often each of its jobs may be run"`
	BackoffMS     []int64         `json:"backoff_ms,omitempty" doc:"the waits after failed attempts, the last one reused"`
	BackoffJitter float64         `json:"backoff_jitter,omitempty" doc:"lengthens each wait of backoff_ms by up to this share, 0 to 1"`
	TimeoutMS     int64           `json:"timeout_ms,omitempty" doc:"of one attempt"`
	RetryForMS    int64           `json:"retry_for_ms,omitempty" doc:"start each job at most this long after its tick"`
	Redrive       string          `json:"redrive,omitempty" doc:"who may run a dead one again: any, one-by-one, or never, which forbids to run it now too"`
	StartsOff     bool            `json:"starts_off,omitempty" doc:"its jobs run only while their kind is switched on"`
	Limit         *Limit          `json:"limit,omitempty" doc:"what its jobs state of their kind's limit"`
	Tags          []string        `json:"tags,omitempty" doc:"words to find its jobs by"`
	Missed        string          `json:"missed,omitempty" doc:"ticks that passed while no host was there: once (the default), skip or all"`
	MaxMissed     int             `json:"max_missed,omitempty" doc:"with all: at most so many, the latest; default 10"`
	Overlap       string          `json:"overlap,omitempty" doc:"a tick while an earlier job has not ended: skip (the default), queue or allow"`
	JitterMS      int64           `json:"jitter_ms,omitempty" doc:"delays each tick by up to this long"`
	From          Stamp           `json:"from,omitzero" doc:"no tick is before"`
	Until         Stamp           `json:"until,omitzero" doc:"no tick is after"`
}

// NewScheduleOf is the form of what a schedule says, but for its name and its args.
func NewScheduleOf(s pawl.Schedule) NewSchedule {
	return NewSchedule{
		Spec: s.Spec, Zone: s.Zone, Kind: s.Kind, Queue: s.Policy.Queue, MaxTries: s.Policy.MaxTries, BackoffMS: Each(s.Policy.Backoff, Millis),
		BackoffJitter: s.Policy.Jitter, TimeoutMS: Millis(s.Policy.Timeout), RetryForMS: Millis(s.Policy.RetryFor),
		Redrive: string(ruleText(s.Policy.Redrive)), StartsOff: s.Policy.StartsOff, Limit: limitOrNone(s.Policy.Limit), Tags: s.Tags,
		Missed: string(s.Missed), MaxMissed: s.MaxMissed, Overlap: string(s.Overlap), JitterMS: Millis(s.Jitter), From: Stamp(s.From), Until: Stamp(s.Until),
	}
}

// Schedule is a schedule of this name that says so. Its rules are the store's to check.
func (s NewSchedule) Schedule(name string) (pawl.Schedule, error) {
	read := Schedule{
		Name: name, Spec: s.Spec, Zone: s.Zone, Kind: s.Kind, Queue: Text(s.Queue), MaxTries: s.MaxTries, BackoffMS: s.BackoffMS,
		BackoffJitter: s.BackoffJitter, TimeoutMS: s.TimeoutMS, RetryForMS: s.RetryForMS, Redrive: Text(s.Redrive), StartsOff: s.StartsOff,
		Limit: s.Limit, Tags: s.Tags, Missed: s.Missed, MaxMissed: s.MaxMissed, Overlap: s.Overlap, JitterMS: s.JitterMS, From: s.From, Until: s.Until,
	}.Read().Schedule
	read.Args = s.Args
	if _, known := ParseRule(s.Redrive); s.Redrive != "" && !known {
		return read, &pawl.FieldError{Field: "redrive", Value: s.Redrive, Rule: "must be any, one-by-one or never"}
	}
	return read, nil
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
