package pawl

import (
	"time"
)

// DeathClass is the class of a terminal failure.
type DeathClass uint8

const (
	DeathExhausted DeathClass = 0 // transient, and the tries or the time are used up
	DeathPermanent DeathClass = 1 // no try could have succeeded
	DeathPoison    DeathClass = 2 // could not, or must not, be handed to its handler
)

func (c DeathClass) String() string {
	switch c {
	case DeathPermanent:
		return "permanent"
	case DeathPoison:
		return "poison"
	}
	return "transient-exhausted"
}

// Reason says why a job died, more closely than its class.
type Reason string

const (
	ReasonBudget      Reason = "budget"       // every try failed
	ReasonDeadline    Reason = "deadline"     // the next try would have started too late
	ReasonTimeout     Reason = "timeout"      // every try failed, the last one by its timeout
	ReasonCrashed     Reason = "crashed"      // every try is used up, the last one died with its host
	ReasonLost        Reason = "lost"         // max tries 1, started, and never heard of again: OUTCOME UNKNOWN
	ReasonInterrupted Reason = "interrupted"  // max tries 1, and a shutdown cut it short
	ReasonExplicit    Reason = "explicit"     // the handler called Fail
	ReasonPermanent   Reason = "permanent"    // an error that no retry can mend
	ReasonUnknownKind Reason = "unknown kind" // nobody has registered the kind for long
	ReasonUndecodable Reason = "undecodable"  // the envelope does not decode
	ReasonWrongArgs   Reason = "wrong args"   // the args do not fit the handler's type
	ReasonSignature   Reason = "signature"    // the envelope's signature is bad or missing
	ReasonCrashLoop   Reason = "crash loop"   // it took down CrashLimit processes
	ReasonSync        Reason = "sync"         // an inline connection has one attempt
	ReasonRefused     Reason = "refused"      // no store would take it out of the outbox
)

// OutcomeUnknown reports that the effect may or may not have happened, and has to be checked before a redrive.
func (r Reason) OutcomeUnknown() bool { return r == ReasonLost || r == ReasonInterrupted }

// Status is where a letter stands with the people who look after it.
type Status uint8

const (
	StatusDead      Status = 0 // an open failure
	StatusRedriven  Status = 1 // run again as another job; see RedriveOutcome
	StatusResolved  Status = 2 // closed: dealt with
	StatusDiscarded Status = 3 // closed: not worth dealing with
)

func (s Status) String() string {
	switch s {
	case StatusRedriven:
		return "redriven"
	case StatusResolved:
		return "resolved"
	case StatusDiscarded:
		return "discarded"
	}
	return "dead"
}

// RedriveOutcome is what became of the job that a letter was redriven as.
type RedriveOutcome string

const (
	RedrivePending   RedriveOutcome = "pending"
	RedriveSucceeded RedriveOutcome = "succeeded"
	RedriveDiedAgain RedriveOutcome = "died again"
	RedriveCancelled RedriveOutcome = "cancelled"
)

// UndecodableKind stands for the kind of an envelope that nobody can name.
const UndecodableKind = "(undecodable)"

// DeadLetter is the durable record of one death. The evidence, all above Status, never changes, unless it is erased; what
// operators do changes the fields below it, and each change is in the audit trail.
type DeadLetter struct {
	ID              ID              `json:"id"`
	JobID           ID              `json:"job_id"`            // zero for an outbox row that died before its enqueue
	Batch           ID              `json:"batch"`             // that the job was a member of
	SourceMessageID string          `json:"source_message_id"` // of an outbox row
	Connection      string          `json:"connection"`
	Queue           string          `json:"queue"`
	Kind            string          `json:"kind"`
	Envelope        []byte          `json:"envelope,omitempty"` // the exact stored bytes
	ExceptionType   string          `json:"exception_type"`
	Message         string          `json:"message"`  // at most 4,000 characters
	Detail          string          `json:"detail"`   // chain and stack, at most 64 KiB
	Attempts        int             `json:"attempts"` // that were made; a claim that only buried it is none
	Class           DeathClass      `json:"class"`
	Reason          Reason          `json:"reason"`
	CorrelationID   string          `json:"correlation_id"`
	Tags            []string        `json:"tags,omitempty"`
	Fingerprint     string          `json:"fingerprint"` // the group's key
	Host            string          `json:"host"`
	Server          string          `json:"server"`
	Version         string          `json:"version"`
	EnqueuedAt      time.Time       `json:"enqueued_at"`
	StartedAt       time.Time       `json:"started_at"` // of the last attempt; zero when there was no run
	DeadAt          time.Time       `json:"dead_at"`    // the store's now when it was recorded
	History         []AttemptRecord `json:"history,omitempty"`
	Previous        ID              `json:"previous"` // letter whose redrive died as this one
	// GroupResolvedAt makes it a regression: its group had been resolved then, and this death, or one before it, opened
	// the group again. Zero when the group had not been resolved, or none of its letters was left.
	GroupResolvedAt time.Time `json:"group_resolved_at"`
	ErasedAt        time.Time `json:"erased_at"` // when the args were erased from Envelope (Eraser); zero when they are there

	Status     Status         `json:"status"`
	StatusAt   time.Time      `json:"status_at"` // since when; of an open failure that was never closed, DeadAt
	RedrivenBy string         `json:"redriven_by"`
	RedrivenAt time.Time      `json:"redriven_at"`
	NewJobID   ID             `json:"new_job_id"`
	Outcome    RedriveOutcome `json:"redrive_outcome"`
	NextLetter ID             `json:"next_letter"` // when the redrive died again
	Note       string         `json:"note"`
}

// Undertaker is what a runner of jobs knows about itself when it writes a letter.
type Undertaker struct {
	Connection string
	Host       string
	Server     string
	Version    string
}

// NewDeadLetter writes the letter of a claimed job whose death was decided. It fills everything but DeadAt, which is
// the store's to say. A job whose envelope does not decode gets a letter too.
func NewDeadLetter(u Undertaker, job ClaimedJob, death Dead, startedAt time.Time, err error) DeadLetter {
	evidence := NewEvidence(err)
	letter := DeadLetter{
		ID:            LetterID(u.Connection, job.ID, job.Token),
		JobID:         job.ID,
		Connection:    u.Connection,
		Queue:         job.Queue,
		Kind:          job.Kind,
		Envelope:      job.Envelope,
		ExceptionType: evidence.Type,
		Message:       evidence.Message,
		Detail:        evidence.Detail,
		Attempts:      job.Attempt,
		Class:         death.Class,
		Reason:        death.Reason,
		Host:          u.Host,
		Server:        u.Server,
		Version:       u.Version,
		EnqueuedAt:    job.EnqueuedAt,
		StartedAt:     startedAt,
		History:       job.History,
		Previous:      job.Letter,
	}
	if envelope, decodeErr := DecodeEnvelope(job.Envelope); decodeErr == nil {
		letter.CorrelationID, letter.Tags, letter.Batch = envelope.CorrelationID, envelope.Tags, envelope.Batch
	}
	if startedAt.IsZero() {
		letter.Attempts = max(job.Attempt-1, 0)
	}
	if letter.Kind == "" {
		letter.Kind = UndecodableKind
	}
	letter.Fingerprint = Fingerprint(letter.Kind, letter.ExceptionType, letter.Message)
	return letter
}

// MarshalText writes the class's name.
func (c DeathClass) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads the class's name.
func (c *DeathClass) UnmarshalText(text []byte) error {
	for _, class := range []DeathClass{DeathExhausted, DeathPermanent, DeathPoison} {
		if class.String() == string(text) {
			*c = class
			return nil
		}
	}
	return &FieldError{"class", string(text), "must be transient-exhausted, permanent or poison"}
}

// MarshalText writes the status's name.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the status's name.
func (s *Status) UnmarshalText(text []byte) error {
	for _, status := range []Status{StatusDead, StatusRedriven, StatusResolved, StatusDiscarded} {
		if status.String() == string(text) {
			*s = status
			return nil
		}
	}
	return &FieldError{"status", string(text), "must be dead, redriven, resolved or discarded"}
}
