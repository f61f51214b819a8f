package pawl

import (
	"context"
	"fmt"
	"time"
)

// By says who acts, through which door and why; it goes into the audit trail.
type By struct {
	Who  string // a person's or a program's name; never empty
	Door string // "cli", "library", "api", "dashboard", "pawl" (the system itself)
	Why  string
}

// Page asks for a part of a list.
type Page struct {
	Limit int    // default 50, at most 1000
	After string // the Next of the page before; "" begins
}

// DeadLetters keeps the records of deaths. It always lives in a SQL database; a store without one is given one.
type DeadLetters interface {
	// RecordDeaths writes letters with their alert rows. Recording is idempotent: a letter whose id is there already
	// is left untouched and raises no alert. Stores record what they settle themselves; this is for deaths elsewhere.
	RecordDeaths(ctx context.Context, letters []DeadLetter) ([]Recorded, error)
	// Letters lists, newest first, by time of death and then id. It does not decode envelopes, and may leave out
	// Envelope, Detail and History, so that a page stays small whatever died: Letter has them.
	Letters(ctx context.Context, filter LetterFilter, page Page) (LetterPage, error)
	// Letter returns one, or ErrNotFound.
	Letter(ctx context.Context, id ID) (DeadLetter, error)
	// CountLetters counts what the filter matches.
	CountLetters(ctx context.Context, filter LetterFilter) (int, error)
	// LetterGroups groups what the filter matches by fingerprint, and returns the largest groups: 50 where limit is 0, at
	// most 1000.
	LetterGroups(ctx context.Context, filter LetterFilter, limit int) (LetterGroups, error)
	// FindGroup returns the one fingerprint of any letter that is, or begins with, this text: ErrNotFound when there is
	// none, ErrInvalid when there are several.
	FindGroup(ctx context.Context, prefix string) (string, error)
	// MoveLetters changes the status of letters, each if its present status allows it (Move.Allowed), with the audit
	// row and the pushed job in the same transaction. A refused move changes nothing and does not stop the others.
	MoveLetters(ctx context.Context, moves []Move) ([]error, error)
	// ForgetLetter removes a letter, audited; false when there was none.
	ForgetLetter(ctx context.Context, id ID, by By) (bool, error)
	// PruneLetters removes the letters that the filter matches. Its Status and StatusBefore must be given: open failures go
	// only where StatusDead is named. It goes by small batches, the oldest first, so a call that fails has removed a part,
	// which the result tells, and doing it again removes the rest. One line in the audit trail says how many it removed.
	// Letters that are still needed are kept.
	PruneLetters(ctx context.Context, filter LetterFilter, by By) (Pruned, error)
	// Audit lists the trail, newest first.
	Audit(ctx context.Context, filter AuditFilter, page Page) (AuditPage, error)
}

// Recorded is what became of one letter.
type Recorded struct {
	ID  ID
	New bool // false: it was there already
}

// Pruned is what became of the letters that were to be pruned.
type Pruned struct {
	Removed int `json:"removed"`
	Kept    int `json:"kept"` // the outcome of their redrive is still to be written, or an operation works on them
}

// LetterFilter picks letters; zero fields match all. Times are of the death.
type LetterFilter struct {
	Status        []Status     `json:"status,omitempty"`
	Class         []DeathClass `json:"class,omitempty"`
	Reason        Reason       `json:"reason,omitempty"`
	Kind          string       `json:"kind,omitempty"`
	Queue         string       `json:"queue,omitempty"`
	Connection    string       `json:"connection,omitempty"`
	Fingerprint   string       `json:"fingerprint,omitempty"`
	CorrelationID string       `json:"correlation_id,omitempty"`
	Tag           string       `json:"tag,omitempty"`
	JobID         ID           `json:"job_id,omitzero"`
	Batch         ID           `json:"batch,omitzero"` // of members of this batch
	Since         time.Time    `json:"since,omitzero"` // Since <= death < Until
	Until         time.Time    `json:"until,omitzero"`
	StatusBefore  time.Time    `json:"status_before,omitzero"` // has had its present status since before
	Text          string       `json:"text,omitempty"`         // part of exception type or message
	Regression    bool         `json:"regression,omitempty"`   // only those whose GroupResolvedAt says so
	OldestFirst   bool         `json:"oldest_first,omitempty"`
}

// LetterPage is a part of a list of letters.
type LetterPage struct {
	Letters []DeadLetter
	Next    string // "" on the last page
}

// Action names what an operator does to a letter.
type Action string

const (
	ActionRedrive Action = "redrive" // run again as a new job
	ActionRetry   Action = "retry"   // put back under its own id
	ActionResolve Action = "resolve"
	ActionDiscard Action = "discard"
	ActionReopen  Action = "reopen"
	ActionNote    Action = "note" // and nothing else
	ActionForget  Action = "forget"
	ActionPrune   Action = "prune" // many letters, by status and age
	ActionErase   Action = "erase" // args of jobs and letters
	ActionClear   Action = "clear" // a queue
	ActionSwitch  Action = "switch"
	ActionReset   Action = "reset" // a kind's switch: none is set any more
	ActionPause   Action = "pause"
	ActionLimit   Action = "limit"   // a kind
	ActionCancel  Action = "cancel"  // a job
	ActionRunNow  Action = "run-now" // a scheduled job
	ActionDelete  Action = "delete"  // a job
	ActionQuiet   Action = "quiet"   // a host
	ActionDrain   Action = "drain"   // a host
	ActionOutcome Action = "outcome" // the system writes back what became of a redrive
	ActionAdd     Action = "add"     // a schedule
	ActionSet     Action = "set"     // what a schedule says
	ActionDeclare Action = "declare" // a schedule, by the code of a host
	ActionRetire  Action = "retire"  // the system, a sink that no host has any more
)

// Move is one change of a letter's status.
type Move struct {
	Letter ID
	Action Action
	By     By
	Note   string // replaces the letter's note unless empty
	// Push, with ActionRedrive and ActionRetry, is stored in the same transaction, its Letter set to this one. Where its
	// id is taken, or its unique key is held by another job, the move is refused: ErrConflict, and the text names the
	// holder. The key's period that began with the dead job itself does not count.
	Push *NewJob
	// NewJob, with ActionRedrive and ActionRetry and without Push, is the id of the job that the caller goes on to
	// store elsewhere, in another connection.
	NewJob ID
	// Outcome, with ActionOutcome, is what became of the redrive.
	Outcome RedriveOutcome
}

// To is the status that the move leads to; ActionNote leaves it as it is.
func (m Move) To() Status {
	switch m.Action {
	case ActionRedrive, ActionRetry:
		return StatusRedriven
	case ActionResolve:
		return StatusResolved
	case ActionDiscard:
		return StatusDiscarded
	case ActionOutcome:
		if m.Outcome == RedriveSucceeded {
			return StatusResolved
		}
		return StatusRedriven
	}
	return StatusDead
}

// Allowed says whether a letter in this state may be moved so: an open failure may be redriven, retried, resolved and
// discarded; a closed one, and one whose redrive was cancelled, may be reopened; the outcome of a redrive is written
// once. A note may be put on any.
func (m Move) Allowed(status Status, outcome RedriveOutcome, newJob ID) error {
	switch {
	case m.Action == ActionNote:
		return nil
	case m.Action == ActionOutcome:
		if status == StatusRedriven && outcome == RedrivePending {
			return nil
		}
		return fmt.Errorf("letter %s is %s: no redrive is pending: %w", m.Letter, status, ErrConflict)
	case m.Action == ActionReopen:
		if status == StatusResolved || status == StatusDiscarded || status == StatusRedriven && outcome == RedriveCancelled {
			return nil
		}
		return fmt.Errorf("letter %s is %s: only a closed letter can be reopened: %w", m.Letter, status, ErrConflict)
	case status == StatusDead:
		return nil
	case outcome == RedriveCancelled:
		return fmt.Errorf("letter %s went on as job %s, which was cancelled: reopen it first: %w", m.Letter, newJob, ErrConflict)
	case status == StatusRedriven:
		return fmt.Errorf("letter %s went on as job %s: %w", m.Letter, newJob, ErrAlreadyRedriven)
	case outcome == RedriveSucceeded:
		return fmt.Errorf("letter %s went on as job %s, which succeeded: %w", m.Letter, newJob, ErrAlreadyRedriven)
	}
	return fmt.Errorf("letter %s is %s: reopen it first: %w", m.Letter, status, ErrConflict)
}

// AuditEntry is one line of the append-only audit trail.
type AuditEntry struct {
	ID      int64     `json:"id"`
	At      time.Time `json:"at"`
	Who     string    `json:"who"`
	Door    string    `json:"door"`
	Action  Action    `json:"action"`
	Subject string    `json:"subject"` // the letter's id, "letters", "args", "queue NAME", "kind NAME", "job ID", "host SESSION", "schedule NAME", "operation ID"
	From    string    `json:"from"`
	To      string    `json:"to"`
	Why     string    `json:"why"`
	Outcome string    `json:"outcome"` // such as the new job's id, or how many were cleared
}

// AuditFilter picks entries; zero fields match all.
type AuditFilter struct {
	Subject string
	Who     string
	Action  Action
	Since   time.Time
}

// AuditPage is a part of the trail.
type AuditPage struct {
	Entries []AuditEntry
	Next    string
}

// Controls holds what operators switch. Claims obey at once; hosts hear of it with their next beat.
type Controls interface {
	// SwitchKind sets a kind's switch. A kind that StartsOff runs only while its switch is on.
	SwitchKind(ctx context.Context, s KindSwitch, by By) error
	// PauseQueue stops or resumes the claims from a queue.
	PauseQueue(ctx context.Context, p QueuePause, by By) error
	// ResetKind takes a kind's switch away: its jobs run, or not, as the kind itself says (StartsOff). ErrNotFound where none
	// is set.
	ResetKind(ctx context.Context, kind string, by By) error
	// Switches returns all that are set, with who has set each.
	Switches(ctx context.Context) (Switches, error)
}

// KindSwitch is a kill switch. One that is past Until counts as not set.
type KindSwitch struct {
	Kind  string
	On    bool
	Until time.Time // zero: no end
	// For, unless 0, states the end in place of Until, from the store's now. Controls.Switches tells Until.
	For time.Duration
	Setting
}

// QueuePause pauses or resumes a queue.
type QueuePause struct {
	Queue  string
	Paused bool
	Until  time.Time     // zero: no end
	For    time.Duration // as of a KindSwitch
	Setting
}

// Setting says who has set a switch or a pause, when and why. Controls.Switches fills it; who sets one leaves it empty.
type Setting struct {
	By By
	At time.Time
}

// Switches are all switches and pauses that are set.
type Switches struct {
	Kinds  []KindSwitch
	Queues []QueuePause
}

// Hosts lists who works on a store.
type Hosts interface {
	// Hosts returns the sessions that have not ended.
	Hosts(ctx context.Context) ([]HostView, error)
	// QuietHost asks a host to claim no more jobs, for as long as its session lasts, while those that run go on: the
	// first half of a shutdown, which an operator can begin early. It hears of it with its next beat. Audited;
	// ErrNotFound when there is no such session or it has ended. Asking again changes nothing.
	QuietHost(ctx context.Context, session SessionID, by By) error
	// DrainHost asks a host to end, as SIGTERM does: it claims no more, gives what runs its grace, puts back what has not
	// ended, and closes its session. Audited; ErrNotFound as for QuietHost, and ErrConflict, with nothing changed, when
	// the host has said that it obeys no such order (HostInfo.NoDrain). Asking again changes nothing.
	DrainHost(ctx context.Context, session SessionID, by By) error
}

// HostView is a session as an operator sees it.
type HostView struct {
	HostInfo
	Session  SessionID
	OpenedAt time.Time
	BeatAt   time.Time
	Busy     int  // handlers running, at its last beat
	Draining bool // it claims no more, as it said with its last beat
	Quiet    bool // it was asked to claim no more; Draining says that it obeys
	Drain    bool // it was asked to end; Draining says that it obeys
	// Unsettled is how many ended attempts it could not record yet, at its last beat: the store refused or did not answer.
	Unsettled int
}

// Operator is all that an operator can do to a SQL store.
type Operator interface {
	Jobs
	DeadLetters
	Controls
	Hosts
	Alerts
	Eraser
	Limits
	Operations
	Schedules
	Batches
}
