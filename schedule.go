package pawl

import (
	"context"
	"encoding/json"
	"time"
)

// Schedule says when jobs of a kind are enqueued, again and again: one job for each tick over all hosts. Package
// schedule says what a Spec may be, when its ticks are, and makes a Schedule from a Kind and its args.
type Schedule struct {
	// Name tells the schedules of a store apart: 1-128 bytes.
	Name string
	// Spec is when: five or six cron fields ("30 2 * * *"), @hourly and its like, or an interval (@every 90s, 90s).
	Spec string
	// Zone is the IANA name of the time zone in which a cron spec is read. Default "UTC".
	Zone string
	// Kind and Args are the jobs'. Args are JSON and kept byte for byte; default {}.
	Kind string
	Args json.RawMessage
	// Policy is what the jobs state themselves; zero fields inherit from the connection.
	Policy Policy
	// Tags are the jobs'.
	Tags []string
	// Missed is what becomes of ticks that passed while no host was there. Default MissedOnce.
	Missed MissedRule
	// MaxMissed bounds MissedAll: the latest so many are run. Default 10, at most 100.
	MaxMissed int
	// Overlap is what becomes of a tick while an earlier job of the schedule has not ended. Default OverlapSkip.
	Overlap OverlapRule
	// Jitter delays each tick by a share of it that the name and the tick draw: always the same for the same tick. Less
	// than the time between two ticks. Default 0.
	Jitter time.Duration
	// From and Until bound the ticks; both may be ticks themselves. Zero: no bound.
	From, Until time.Time
	// Removed, in a declaration, takes away the schedule of this name that code had declared before.
	Removed bool
}

// MissedRule is what becomes of ticks that are found due when they are over: the latest one by more than
// MissedAfter, and all before it.
type MissedRule string

const (
	MissedOnce MissedRule = "once" // one job for all of them together: the default
	MissedSkip MissedRule = "skip" // none
	MissedAll  MissedRule = "all"  // one each, up to MaxMissed
)

// MissedAfter is how late a tick may be and still counts as on time.
const MissedAfter = time.Minute

// OverlapRule is what becomes of a tick while an earlier job of the same schedule has not ended.
type OverlapRule string

const (
	OverlapSkip  OverlapRule = "skip"  // no job while one waits or runs: the default
	OverlapQueue OverlapRule = "queue" // no job while one waits: one may wait behind one that runs
	OverlapAllow OverlapRule = "allow" // a job at every tick
)

// Schedules keeps the recurring jobs of a store. Sweep makes their jobs: whichever host looks first after a tick is
// due moves the schedule on and stores the job in one transaction, by the store's clock, so no host is special and
// none is needed twice.
//
// Code owns what it declares, save for one thing: pausing is the operator's alone. Who adds a schedule by
// AddSchedule owns all of it. All that operators do is audited.
type Schedules interface {
	// Schedules lists by name.
	Schedules(ctx context.Context, filter ScheduleFilter, page Page) (SchedulePage, error)
	// Schedule returns one with its Runs, or ErrNotFound.
	Schedule(ctx context.Context, name string) (ScheduleView, error)
	// AddSchedule stores a new one, whose first tick is the first after now: ErrConflict when there is one of that
	// name. It refuses a kind that no host has ever registered.
	AddSchedule(ctx context.Context, s Schedule, by By) error
	// SetSchedule replaces what a schedule says, whole. The next tick is the first after now, and after the last one
	// that was run. One that a live host declares is refused: ErrConflict.
	SetSchedule(ctx context.Context, s Schedule, by By) error
	// DeleteSchedule removes one for good; its jobs stay. One that a live host declares is refused: ErrConflict.
	DeleteSchedule(ctx context.Context, name string, by By) error
	// PauseSchedule pauses or resumes. Ticks that pass meanwhile are not made up for: the next one is the first after
	// the resume.
	PauseSchedule(ctx context.Context, name string, paused bool, by By) error
	// RunSchedule enqueues a job of the schedule now, beside its ticks and also while it is paused, and returns its
	// id. ErrConflict where Overlap forbids it; ErrRedriveRefused where the policy says RedriveNever. What StartsOff
	// waits until its kind is switched on.
	RunSchedule(ctx context.Context, name string, by By) (ID, error)
}

// Declarations are how code brings its schedules into a store that keeps Schedules. Hosts do it.
type Declarations interface {
	// DeclareSchedules brings what the code of a session's host declares into the store; result i belongs to schedule
	// i, and a refused one does not stop the others. What is declared already is left alone. A declaration that the
	// store has not seen before replaces the present one; one that was replaced itself comes back only when no other
	// live session declares the present one. So two versions of a program do not undo each other's work.
	DeclareSchedules(ctx context.Context, session SessionID, schedules []Schedule) ([]Declared, error)
}

// Declared is what became of one declaration.
type Declared struct {
	Status DeclareStatus
	Err    error // nothing was changed
}

// DeclareStatus says what a declaration did.
type DeclareStatus uint8

const (
	DeclaredUnchanged DeclareStatus = iota // it says what the store has
	DeclaredNew                            // it was added, changed or removed
	DeclaredOutdated                       // another live host declares something newer, which stays
	DeclaredForeign                        // an operator has made a schedule of that name, which stays
)

func (s DeclareStatus) String() string {
	return [...]string{"unchanged", "new", "outdated", "foreign"}[min(s, DeclaredForeign)]
}

// ScheduleFilter picks schedules; zero fields match all.
type ScheduleFilter struct {
	Kind   string
	Prefix string // of the name
}

// SchedulePage is a part of a list of schedules.
type SchedulePage struct {
	Schedules []ScheduleView
	Next      string
}

// ScheduleView is a schedule and how it stands.
type ScheduleView struct {
	Schedule
	Declared  bool      // by code
	Declarers []string  // names of the live hosts that declare it, each once
	Paused    bool      //
	CreatedAt time.Time //
	ChangedAt time.Time // what it says, or by a resume
	// Next is the next tick, and DueAt when it is acted on: Jitter later. Zero: it is paused, or there is none.
	Next, DueAt time.Time
	// LastTick is the latest that got a job, and LastJob the latest job, by a tick or by RunSchedule.
	LastTick time.Time
	LastJob  ID
	// LastState is that of LastJob; "" when there is none, or it ended so long ago that nobody knows.
	LastState    JobState
	LastEnded    time.Time // of LastJob
	LastSuccess  time.Time // when the latest job that succeeded ended
	Fired        int       // jobs that ticks have made
	MissedTicks  int       // ticks without one, since nobody was there
	MissedAt     time.Time // when that last happened
	SkippedTicks int       // ticks without one, since an earlier job had not ended
	SkippedAt    time.Time
	Problem      string // why it cannot go on: this program cannot read its spec, for one
	// Runs are the latest jobs, newest first, at most ScheduleRuns; with Schedule only.
	Runs []ScheduleRun
}

// ScheduleRun is one job of a schedule.
type ScheduleRun struct {
	Tick   time.Time // when it was due; by RunSchedule, when that was called
	Manual bool      // by RunSchedule
	Job    ID
	State  JobState // "": it ended so long ago that nobody knows
	Ended  time.Time
}

// ScheduleRuns is how many jobs of a schedule are remembered.
const ScheduleRuns = 20
