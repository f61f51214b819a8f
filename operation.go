package pawl

import (
	"context"
	"time"
)

// Operations are acts on many dead letters as durable objects: who does what to which letters, and how far it has come.
// An operation goes on where it was, whatever is killed, and anybody can pause, resume and stop it. What works on them
// is an OperationWork.
type Operations interface {
	// CreateOperation freezes the set of letters that the filter matches now, or that are named, in the store, and begins
	// the operation. An id that is there already is a repeat, and its operation is returned as it is. It fails with
	// ErrNotFound where no letter matches, and with ErrConflict where there are not as many as Options.Expect; nothing is
	// kept then. Audited.
	CreateOperation(ctx context.Context, o NewOperation) (Operation, error)
	// Operations lists newest first.
	Operations(ctx context.Context, filter OperationFilter, page Page) (OperationPage, error)
	// Operation returns one, or ErrNotFound.
	Operation(ctx context.Context, id ID) (Operation, error)
	// OperationItems lists the letters of an operation in the order in which it deals with them; ErrNotFound when there
	// is no such operation.
	OperationItems(ctx context.Context, id ID, filter ItemFilter, page Page) (ItemPage, error)
	// ControlOperations pauses, resumes or stops operations, each audited; result i belongs to id i, and a refused one
	// does not stop the others: ErrNotFound, or ErrConflict when it has ended, is paused already, or is not paused and to be
	// resumed. At most MaxCancel at a time. Who works on one obeys before its next step, and within a second.
	ControlOperations(ctx context.Context, ids []ID, action Action, by By) ([]error, error)
}

// OperationWork is how operations are carried out: by one runner at a time, which holds a lease by the store's clock. One
// that is killed is followed by another when its lease has run out.
type OperationWork interface {
	// LeaseOperations takes operations that go on and that nobody has leased, the oldest first. Each lease is a new one.
	LeaseOperations(ctx context.Context, request OperationLease) ([]LeasedOperation, error)
	// OperationLetters returns what comes next of an operation that goes on: at most max letters, and no more than about
	// 8 MB of envelopes. To redrive, a letter comes with its envelope, but without Detail and History; else, and where it
	// is not there any more, its ID is all. None means that every letter has been dealt with.
	OperationLetters(ctx context.Context, id ID, max int) ([]OperationLetter, error)
	// AdvanceOperation makes one step, which is one transaction: the moves, what became of each letter, the operation's
	// state, and the renewal of the lease. ErrLeaseLost means that the lease is another's, and ErrConflict that the
	// operation does not go on (it is paused, for one) though the step has Items or a State; nothing was changed then.
	// Otherwise the result of item i is its refusal, which is recorded too, or nil.
	AdvanceOperation(ctx context.Context, step OperationStep) ([]error, error)
}

// What operators do to operations; they stand in the audit trail, whose subject is "operation ID".
const (
	ActionStart  Action = "start"
	ActionResume Action = "resume"
	ActionStop   Action = "stop" // for good; ActionPause is the one that ActionResume takes back
)

// Bounds of operations.
const (
	// MaxOperation is how many letters one operation has.
	MaxOperation = 1_000_000
	// MaxNamed is how many letters can be named one by one for an operation.
	MaxNamed = 10_000
	// MaxStep is how many letters one step deals with.
	MaxStep = 500
	// OperationHold is how long a lease lasts unless it is renewed.
	OperationHold = 5 * time.Second
)

// NewOperation is an operation that is to begin.
type NewOperation struct {
	ID     ID     // made by the caller, so that a repeat is seen as one
	Action Action // ActionRedrive, ActionResolve, ActionDiscard or ActionReopen
	// Filter picks the letters, the oldest death first; or Letters names them, at most MaxNamed, and Filter is zero.
	Filter  LetterFilter
	Letters []ID
	By      By
	Options OperationOptions
}

// OperationOptions say how carefully an operation acts. The zero value acts on all letters, as fast as the store takes it.
type OperationOptions struct {
	// Expect, unless 0, is how many letters there have to be, at most Cap.
	Expect int `json:"expect,omitempty"`
	// Cap, unless 0, is how many letters the operation has at most, the oldest deaths first. Without one more than
	// MaxOperation are refused.
	Cap int `json:"cap,omitempty"`
	// Rate is how many letters are dealt with in a second. 0: as many as the store takes.
	Rate float64 `json:"rate,omitempty"`
	// Note replaces the letters' notes unless empty.
	Note string `json:"note,omitempty"`

	// The others are for ActionRedrive alone.

	// Probe redrives one letter first, the first that is not refused, and the others only when its job has succeeded.
	Probe bool `json:"probe,omitempty"`
	// ProbeWait is how long the probe's end is waited for. 0: 10 minutes.
	ProbeWait time.Duration `json:"probe_wait_ns,omitempty"`
	// StopAfter stops the rest once so many letters, the first that were redriven, have all died again as they had before:
	// with the same fingerprint. At most 100; 0: 10; negative: never. It helps where Rate leaves jobs the time to run.
	StopAfter int `json:"stop_after,omitempty"`
	// RetryFor, counted from each letter's redrive, or RetryUntil is the new jobs' deadline. Without them a job that had a
	// RetryFor has it anew, and one whose absolute deadline has passed is refused.
	RetryFor   time.Duration `json:"retry_for_ns,omitempty"`
	RetryUntil time.Time     `json:"retry_until,omitzero"`
	// Confirmed says that the effects of jobs whose outcome is unknown were checked, and have not happened; or that jobs
	// whose redrives succeeded, and whose letters were opened again, are to be run once more.
	Confirmed bool `json:"confirmed,omitempty"`
}

// OperationState is where an operation is.
type OperationState string

// The states. Those that are no OperationState.Ended lead to each other; Stopped and Finished are for good.
const (
	OperationProbing  OperationState = "probing" // one was or is redriven, and the others wait for its end
	OperationRunning  OperationState = "running"
	OperationPaused   OperationState = "paused"
	OperationStopped  OperationState = "stopped"  // the letters that wait are left alone
	OperationFinished OperationState = "finished" // every letter was dealt with; jobs may be pending
)

// Active reports that the operation goes on as soon as somebody works on it.
func (s OperationState) Active() bool { return s == OperationProbing || s == OperationRunning }

// Ended reports that no more letters are dealt with, for good.
func (s OperationState) Ended() bool { return s == OperationStopped || s == OperationFinished }

// Operation is an operation as it is now.
type Operation struct {
	ID      ID               `json:"id"`
	Action  Action           `json:"action"`
	Filter  LetterFilter     `json:"filter"`
	Named   bool             `json:"named"` // its letters were named one by one; Filter is zero
	Who     string           `json:"who"`
	Door    string           `json:"door"`
	Why     string           `json:"why"`
	Options OperationOptions `json:"options"`

	State OperationState `json:"state"`
	// Reason says who or what has paused or stopped it, and why.
	Reason string `json:"reason"`
	// Runner names who works on it; empty when its lease has run out or nobody has it.
	Runner string `json:"runner"`

	Letters int `json:"letters"` // of the frozen set
	Done    int `json:"done"`
	Refused int `json:"refused"`
	// What became of the jobs of a redrive: they add up to Done.
	Pending   int `json:"pending"`
	Succeeded int `json:"succeeded"`
	DiedAgain int `json:"died_again"`
	Cancelled int `json:"cancelled"`

	CreatedAt time.Time `json:"created_at"`
	ChangedAt time.Time `json:"changed_at"` // last change of the state
	EndedAt   time.Time `json:"ended_at,omitzero"`
}

// Waiting is how many letters it has not dealt with.
func (o Operation) Waiting() int { return o.Letters - o.Done - o.Refused }

// OperationFilter picks operations; zero fields match all.
type OperationFilter struct {
	State  []OperationState
	Action Action
	Who    string
}

// OperationPage is a part of a list of operations.
type OperationPage struct {
	Operations []Operation
	Next       string // "" on the last page
}

// ItemState is what became of one letter of an operation.
type ItemState string

// States of items.
const (
	ItemWaiting ItemState = "waiting"
	ItemRefused ItemState = "refused" // it was left as it was; Reason says why
	ItemDone    ItemState = "done"
	// ItemHandover means that the letter was redriven, and its job is on its way to another connection.
	ItemHandover ItemState = "handing over"
)

// OperationItem is one letter of an operation.
type OperationItem struct {
	Position int            `json:"position"` // counted from 1
	Letter   ID             `json:"letter"`
	State    ItemState      `json:"state"`
	Reason   string         `json:"reason,omitempty"`
	Job      ID             `json:"job,omitzero"`      // that it went on as
	Outcome  RedriveOutcome `json:"outcome,omitempty"` // of that job
}

// ItemFilter picks items; zero fields match all.
type ItemFilter struct {
	State   ItemState
	Outcome RedriveOutcome
}

// ItemPage is a part of the items of an operation.
type ItemPage struct {
	Items []OperationItem
	Next  string
}

// OperationLease asks for operations to work on.
type OperationLease struct {
	Runner string // who asks, as operators shall see it
	Only   []ID   // these alone; empty: any
	Max    int    // at most so many, and at least 1
}

// LeasedOperation is an operation that the caller alone may advance, until OperationHold has passed since its last step.
type LeasedOperation struct {
	Operation
	Lease Token
}

// OperationLetter is a letter that an operation has to deal with.
type OperationLetter struct {
	Position int
	Letter   DeadLetter
	Found    bool // false: it was forgotten meanwhile
}

// OperationStep is what a runner has decided.
type OperationStep struct {
	Operation ID
	Lease     Token
	// Items are the next letters, in their order, none left out; at most MaxStep.
	Items []ItemStep
	// Handed are items that were ItemHandover, with what has become of it. They are recorded whatever the state.
	Handed []ItemStep
	// State, unless empty, is the new one: OperationRunning after a probe, OperationStopped, OperationFinished; and Reason
	// says why.
	State  OperationState
	Reason string
	// Release gives the lease up.
	Release bool
}

// ItemStep is what is to become of one letter.
type ItemStep struct {
	Position int
	Letter   ID
	Move     Move   // of this letter, unless Refused
	Refused  string // why it is left as it is
}
