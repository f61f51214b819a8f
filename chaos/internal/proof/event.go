package proof

// Event is one line of a history. Fields that do not concern it are zero.
type Event struct {
	At      int64  `json:"at"` // nanoseconds of a clock that all processes share
	What    string `json:"what"`
	Job     string `json:"job,omitempty"`
	Kind    string `json:"kind,omitempty"`
	Token   int64  `json:"token,omitempty"`
	Session int64  `json:"session,omitempty"`
	Attempt int    `json:"attempt,omitempty"`
	Crashes int    `json:"crashes,omitempty"`
	Outcome string `json:"outcome,omitempty"` // of a settlement
	Letter  string `json:"letter,omitempty"`
	Sink    string `json:"sink,omitempty"`
	Key     string `json:"key,omitempty"`
	Fault   string `json:"fault,omitempty"`
	N       int    `json:"n,omitempty"`      // numbers a fault or a claim, and its end; or a count
	Limit   int    `json:"limit,omitempty"`  // that the count should keep
	Target  string `json:"target,omitempty"` // of a fault: a process, the beginning of their names up to a dash, or "" for all
	Text    string `json:"text,omitempty"`

	Process string `json:"-"` // whose history it is in
}

// What a line says. A call is written down before it is made and after it has returned; one without a second line was
// cut off.
const (
	Enqueue        = "enqueue"         // a job is handed in
	Enqueued       = "enqueued"        // and accepted
	EnqueueUnknown = "enqueue unknown" // or the call failed

	SessionOpened = "session opened"
	SessionLost   = "session lost"
	Beat          = "beat" // was renewed
	BeatFailed    = "beat failed"

	Claiming = "claiming"
	Claimed  = "claimed"     // a job, under a token
	ClaimEnd = "claim ended" // with Text, by an error

	Marking     = "marking" // a start mark is written
	Marked      = "marked"
	MarkRefused = "mark refused"

	Started = "started" // the handler runs
	Effect  = "effect"  // what the job is for has happened
	Left    = "left"    // the handler returned; Text is why its ctx had ended

	Settling      = "settling"
	Settled       = "settled" // accepted by the store
	Refused       = "refused" // its reservation was lost
	SettleUnknown = "settle unknown"

	Died    = "died"    // the Error line of a death
	Alerted = "alerted" // a sink received it

	Fault     = "fault"
	Healed    = "healed" // the end of a fault that lasts
	Frozen    = "frozen" // the machine, or the process that Target names, stood still until now, for N milliseconds
	Spawned   = "spawned"
	Exited    = "exited"    // Target, by itself or (Kind) as it was asked to; Text is its status if that is bad
	Condition = "condition" // what there is in the end: Kind says of what, N how much, Limit how much there may be
)

// Kinds of an exit.
const (
	ByKill = "killed"
	ByTerm = "stopped"
)

// Outcomes of a settlement.
const (
	Done     = "done"
	Retry    = "retry"
	Release  = "release"
	GiveBack = "give back"
	Dead     = "dead"
)

// Faults.
const (
	Kill         = "kill"           // kill -9
	KillInSettle = "kill in settle" // kill -9 while a death is being recorded
	Stop         = "stop"           // SIGSTOP for longer than a session lives, then SIGCONT
	Term         = "term"           // SIGTERM
	Restart      = "restart"        // of the database, without a shutdown
	Cut          = "cut"            // connections end, and new ones with them
	CutInCommit  = "cut in commit"  // the reply to a commit is lost with its connection
	Blackhole    = "blackhole"      // connections stay and carry nothing
	HeldCommit   = "held commit"    // a blackhole that begins just before a commit: its transaction stays open
	FailedSettle = "failed settle"  // one settle reports an error, before or after its commit
	Suicide      = "suicide"        // a job takes its process down
	Freeze       = "freeze"         // not planned: the machine or a process did not run
)
