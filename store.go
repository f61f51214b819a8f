package pawl

import (
	"context"
	"fmt"
	"time"
)

// Connection is a named, configured store.
type Connection struct {
	Name   string // default "default"
	Policy Policy // what jobs of this connection inherit where neither the call nor the kind says
}

// NewJob is one job on its way into a store. Kinds make it (Kind.Enqueue, Kind.New); the fields beside the envelope
// repeat what a store needs to know without decoding it.
type NewJob struct {
	ID        ID
	Kind      string
	Queue     string
	Delay     time.Duration // from the store's now; 0 with a RunAt
	RunAt     time.Time     // zero: now plus Delay
	Once      bool          // max tries 1: needs a start mark, and is not run again after one
	StartsOff bool
	Unique    Unique
	// OrderingKey, and LimitKey together with Limited, make the job stand in line; see the options of these names.
	OrderingKey string
	LimitKey    string
	Limited     bool      // its kind is held to a limit
	Limit       Limit     // what the kind states, for a store that has not heard of it
	EnqueuedAt  time.Time // zero, the store's now; set only when a letter is retried under its own id
	Letter      ID        // the dead letter that this job was redriven or retried from
	Batch       ID        // see Member
	Opens       bool      // it is not stored as a job yet: it opens the batch of its id, and follows when all members have ended
	Envelope    []byte
}

// NewJobFrom makes the job that an envelope describes, ready at once. Redrives use it.
func NewJobFrom(e Envelope) NewJob {
	job := NewJob{Envelope: e.Encode()}
	job.fill(e)
	return job
}

// DecodeJob makes the job that an encoded envelope describes, ready at once, and keeps its bytes.
func DecodeJob(encoded []byte) (NewJob, Envelope, error) {
	e, err := DecodeEnvelope(encoded)
	if err != nil {
		return NewJob{}, e, err
	}
	job := NewJob{Envelope: encoded}
	job.fill(e)
	return job, e, nil
}

func (j *NewJob) fill(e Envelope) {
	j.ID, j.Kind, j.Queue, j.Unique = e.ID, e.Kind, e.Policy.Queue, e.Unique
	j.Once, j.StartsOff = e.Policy.MaxTries == 1, e.Policy.StartsOff
	j.OrderingKey, j.LimitKey, j.Limited, j.Limit = e.OrderingKey, e.LimitKey, e.Limited, e.Policy.Limit
	j.Batch = e.Batch
}

// Check refuses a job that no Kind has made: without an id, an envelope, or proper names. Stores call it.
func (j NewJob) Check() error {
	if j.ID.IsZero() || len(j.Envelope) == 0 {
		return &FieldError{"job", j.ID, "must have an id and an envelope: make it with a Kind"}
	}
	if err := CheckName("kind", j.Kind); err != nil {
		return err
	}
	if j.Delay < 0 || j.Delay > maxWait {
		return &FieldError{"delay", j.Delay, "must be at least 0 and at most 10 years"}
	}
	if year := j.RunAt.Year(); year < 0 || year > 9999 {
		return &FieldError{"run at", j.RunAt, "must be a time before the year 10000"}
	}
	if j.Opens {
		if err := j.checkCallback(); err != nil {
			return err
		}
	}
	return CheckName("queue", j.Queue)
}

// checkDeadline refuses a job that could never start.
func (j *NewJob) checkDeadline(now time.Time) error {
	e, err := DecodeEnvelope(j.Envelope)
	if err != nil {
		return err
	}
	ready := now.Add(j.Delay)
	if j.RunAt.After(ready) {
		ready = j.RunAt
	}
	deadline := e.Deadline(now)
	switch {
	case deadline.IsZero() || deadline.After(ready):
		return nil
	case !deadline.After(now):
		return &FieldError{"retry until", deadline, "must be in the future"}
	}
	return &FieldError{"retry until", deadline, "must be after the time the job is to run at"}
}

// Enqueued is what became of one NewJob.
type Enqueued struct {
	ID     ID // of the job that is there now: the new one, or the one that kept it out
	Status EnqueueStatus
}

// EnqueueStatus tells a new job from one that was there already. None of them is an error.
type EnqueueStatus uint8

const (
	Accepted  EnqueueStatus = iota // stored
	Repeated                       // this id was accepted before; nothing was stored
	Duplicate                      // the unique key is held by the job ID names; nothing was stored
)

func (s EnqueueStatus) String() string {
	switch s {
	case Repeated:
		return "repeated"
	case Duplicate:
		return "duplicate"
	}
	return "accepted"
}

// Enqueuer is where jobs can be handed in: a store, a store's transaction, or an inline connection.
type Enqueuer interface {
	// Connection names where the jobs go and what they inherit there.
	Connection() Connection
	// Enqueue stores the jobs, all or none, and returns when they are durable (in a transaction: with its commit).
	// Result i belongs to job i. An id that was accepted for another kind or other args refuses the whole call: ErrConflict.
	// It is no repeat. (A store that keeps no more than the id cannot tell, and says Repeated.)
	Enqueue(ctx context.Context, jobs []NewJob) ([]Enqueued, error)
}

// SessionID is a host's presence in a store. It is drawn from the store and never used again.
type SessionID int64

// Token is the fence of one reservation. It is drawn from the store at each claim and never repeats, also not across
// give-back, retry and restart. 0 stands for no reservation.
type Token int64

// Reservation is a claim on one job.
type Reservation struct {
	ID    ID
	Token Token
}

// Store keeps jobs and hands them out. It is all that a host needs to run them; what operators need lies in the
// interfaces beside it. Package storetest defines it: a store is what passes there.
//
// Calls take and answer in batches: result i belongs to input i. A call that returns an error as a whole has an
// unknown outcome unless the store says otherwise, and can be repeated: every transition is fenced by the token of
// its reservation, so it happens once.
type Store interface {
	Enqueuer

	// OpenSession starts a session. (Close is left for the store itself: the programs that opened it close it.)
	OpenSession(ctx context.Context, host HostInfo) (SessionID, error)
	// Beat renews the session and with it every reservation that it holds. ErrSessionLost means that the session was
	// ended by an observer: everything it held may run elsewhere by now.
	Beat(ctx context.Context, session SessionID, beat Beat) (BeatReply, error)
	// Claim reserves up to Max ready jobs for the session and counts an attempt for each.
	Claim(ctx context.Context, request ClaimRequest) (Claimed, error)
	// Start writes a durable mark that the handler is about to run, for jobs that must not run twice. The handler may
	// run only where the result is nil. The mark outlives its reservation when that is recovered or its session closed.
	// A Retry or Release wipes it; GiveBack{}, which says that the handler did not run, wipes the mark of its own
	// reservation and keeps an earlier one.
	Start(ctx context.Context, session SessionID, reservations []Reservation) ([]error, error)
	// Settle ends reservations, each in one transaction of its own or together: the claim is removed, and with a
	// death its letter and alert rows are written. Refused ones get ErrLeaseLost. One that cannot be written gets its
	// own error and does not keep the others from settling. Where a job is to be cancelled (Jobs.CancelJobs), a Retry,
	// Release or GiveBack removes it, and its Record is kept with it.
	Settle(ctx context.Context, session SessionID, settlements []Settlement) ([]error, error)
	// Condemn keeps the letter of a decided death on its job when Settle could not record it. The reservation stays.
	// Whoever holds the job next finds the letter in ClaimedJob.Verdict and buries it without running the handler.
	Condemn(ctx context.Context, session SessionID, deaths []Settlement) ([]error, error)
	// Sweep does a small batch of the store's own upkeep; any host may, at any time: jobs that have become due are
	// made ready, schedules whose tick is due get their job, sessions seen dead are ended and their jobs put back, what
	// is over-age is purged.
	Sweep(ctx context.Context, request SweepRequest) (SweepReport, error)
	// Wake returns a channel that gets a value when a job may have become ready, or a host has something to hear with
	// its next beat, until ctx is done. It is a hint and coalesces, but the last one is never lost: after a job has
	// become ready a value is there to be received.
	Wake(ctx context.Context) (<-chan struct{}, error)
	// CloseSession ends the session. What it still holds goes back to the front of its queues, uncounted.
	CloseSession(ctx context.Context, session SessionID) error
}

// HostInfo is what a host tells about itself when it opens a session.
type HostInfo struct {
	Name    string // as shown, lower case
	PID     int
	Version string           // of the program
	Kinds   []string         // it has handlers for
	Limits  map[string]Limit `json:",omitempty"` // what these kinds state; one that is not named states none
	Sinks   []string         // alert channels that it delivers to; every later death writes one alert row for each
	Servers []ServerInfo     // its pools
	// Schedules are what its code declares: by name, what DeclareSchedules knows the declaration by.
	Schedules map[string]string `json:",omitempty"`
	NoDrain   bool              `json:",omitempty"` // it does not end when an operator asks: only its own program ends it
}

// ServerInfo is a pool of workers in a host.
type ServerInfo struct {
	Name    string
	Queues  []string
	Weights map[string]int `json:",omitempty"` // by queue; nil: strict order
	Workers int
}

// Beat is what a host sends each time.
type Beat struct {
	Held      []Reservation // everything it believes to hold
	Busy      int           // handlers running
	Draining  bool
	Progress  []Progress // that changed since the last beat
	Unsettled int        // ended attempts that it could not record yet
	Reconcile bool       // find reservations that the session holds and Held does not name; send no claim meanwhile
}

// Progress is what a handler last reported about its job.
type Progress struct {
	Reservation
	Percent int
	Note    string
}

// BeatReply is what the store has for the host.
type BeatReply struct {
	Now      time.Time     // the store's clock
	Lost     []Reservation // of Held: no longer this session's
	Cancel   []Reservation // of Held: an operator asks for their ctx to be cancelled; named until they end
	Found    []Reservation // with Reconcile: held without the host's knowledge; give them back
	Quiet    bool          // an operator asks the host to claim no more
	Drain    bool          // an operator asks the host to end
	Switches int64         // changes whenever a switch or pause does
	Others   []SeenSession // every other session that has not ended
}

// SeenSession is one look at another host's session. An observer that sees the same beat for too long, while its own
// calls succeed, concludes that the host is dead.
type SeenSession struct {
	ID   SessionID
	Beat int64
}

// ClaimRequest says what a server can take.
type ClaimRequest struct {
	Session SessionID
	Queues  []string // drained strictly in the order given
	Kinds   []string // with a handler; no other kind is claimed
	Max     int      // free slots; at least 1
	Suspect bool     // one job that has crashed CrashSuspect times or more may be among them; without it none is
	// Orphans, when set, claims jobs that nobody can run, in place of Kinds, so that they can be buried.
	Orphans *Orphans
}

// Orphans tells jobs whose kind nobody knows any more from those whose host is merely away.
type Orphans struct {
	Unseen time.Duration // no session has registered the kind for this long; 0: whatever is not in Kinds
	Ready  time.Duration // and the job has been ready for this long, with the claiming session open all the while
}

// CrashSuspect and CrashLimit bound what one job may take down: from CrashSuspect crashes on, a host runs it as its
// only suspect; at CrashLimit it dies as poison.
const (
	CrashSuspect = 2
	CrashLimit   = 3
)

// Claimed is the answer to a ClaimRequest. Fewer jobs than asked for do not mean that there are no more; More says.
type Claimed struct {
	Now  time.Time // the store's clock
	Jobs []ClaimedJob
	More bool // claim again at once: there may be more
}

// ClaimedJob is a job under reservation, with the facts that its envelope cannot know.
type ClaimedJob struct {
	Reservation
	Kind       string // as stored beside the envelope, which may not decode
	Queue      string
	Attempt    int // counted from 1, this one included
	Crashes    int
	Requeues   int  // give-backs by shutdowns, which count as no attempt
	Started    bool // an earlier reservation has left a start mark; see Store.Start
	EnqueuedAt time.Time
	ReadyAt    time.Time
	Letter     ID              // dead letter that this job was redriven or retried from
	Verdict    *DeadLetter     // a death that was decided and not yet recorded
	History    []AttemptRecord // earlier attempts that failed, oldest first, at most 20
	Envelope   []byte
}

// AttemptRecord is one attempt that did not succeed.
type AttemptRecord struct {
	Attempt   int           `json:"attempt"`
	Ending    Ending        `json:"ending"`
	StartedAt time.Time     `json:"started_at"` // with EndCrashed: when the host was last heard of
	Duration  time.Duration `json:"duration_ns"`
	Host      string        `json:"host"`
	Type      string        `json:"error_type,omitempty"`
	Message   string        `json:"error_message,omitempty"`
}

// HistoryLimit is how many attempt records are kept of a job, the latest.
const HistoryLimit = 20

// Settlement is the end of one reservation.
type Settlement struct {
	Reservation
	Outcome Outcome
	Record  *AttemptRecord // of an attempt that did not succeed
	Letter  *DeadLetter    // with Dead; its Envelope may be left out where the store has it
	Enqueue []NewJob       // stored in the same transaction
}

// SweepRequest asks for a bounded piece of upkeep.
type SweepRequest struct {
	Session SessionID
	Dead    []SeenSession // sessions to end, unless they have beaten since
	Limit   int           // rows to work on for each duty; 0: as many as the store thinks fit
}

// SweepReport says what a sweep found to do.
type SweepReport struct {
	Ended     []SessionID   // of Dead, the ones this call ended
	Recovered int           // jobs of dead sessions that went back to their queues
	Due       int           // scheduled jobs that became ready
	Ticks     int           // jobs that schedules have made
	Purged    int           // over-age rows removed
	More      bool          // a duty reached the limit: sweep again
	NextDue   time.Duration // until the next scheduled job or tick is due; negative when there is none
}

// LeaseLost is the error for a reservation that is no longer its caller's. errors.Is(err, ErrLeaseLost) holds.
func LeaseLost(r Reservation) error {
	return fmt.Errorf("job %s, reservation %d: %w", r.ID, r.Token, ErrLeaseLost)
}
