package wire

import (
	"time"

	"github.com/pawljobs/pawl"
)

// Letter is a dead letter as lists show it.
type Letter struct {
	ID              pawl.ID         `json:"id" doc:"of the letter"`
	JobID           Ref             `json:"job_id" doc:"the job that died; null for an outbox row that died before its enqueue"`
	Batch           Ref             `json:"batch" doc:"of which that job was a member"`
	SourceMessageID Text            `json:"source_message_id" doc:"of an outbox row"`
	Connection      string          `json:"connection" doc:"where the job died"`
	Queue           string          `json:"queue" doc:"that the job waited in"`
	Kind            string          `json:"kind" doc:"of the job; (undecodable) where nobody can name it"`
	ExceptionType   string          `json:"exception_type" doc:"the type of the error"`
	Message         string          `json:"message" doc:"the error's text, at most 4,000 characters"`
	Attempts        int             `json:"attempts" doc:"that were made"`
	Class           pawl.DeathClass `json:"class" doc:"how bad: transient-exhausted, permanent or poison"`
	Reason          pawl.Reason     `json:"reason" doc:"why it died, more closely than the class"`
	OutcomeUnknown  bool            `json:"outcome_unknown" doc:"its effect may have happened: check before it is run again"`
	CorrelationID   Text            `json:"correlation_id" doc:"what the job is part of"`
	Tags            []string        `json:"tags" doc:"words to find it by"`
	Group           string          `json:"group" doc:"the fingerprint that failures which are alike share"`
	GroupResolvedAt Stamp           `json:"group_resolved_at" doc:"in a regression: when its group had been resolved"`
	Host            Text            `json:"host" doc:"on which it died"`
	Server          Text            `json:"server" doc:"the pool of workers in that host"`
	Version         Text            `json:"version" doc:"of the program"`
	EnqueuedAt      Stamp           `json:"enqueued_at" doc:"when the job was enqueued"`
	StartedAt       Stamp           `json:"started_at" doc:"when its last attempt was begun; null when there was none"`
	DeadAt          Stamp           `json:"dead_at" doc:"when the death was recorded"`
	Previous        Ref             `json:"previous_letter_id" doc:"the letter whose redrive died as this one"`
	ErasedAt        Stamp           `json:"erased_at" doc:"when the args were erased"`
	Status          pawl.Status     `json:"status" doc:"where it stands: dead (an open failure), redriven, resolved or discarded"`
	StatusAt        Stamp           `json:"status_at" doc:"since when"`
	RedrivenBy      Text            `json:"redriven_by" doc:"who ran it again"`
	RedrivenAt      Stamp           `json:"redriven_at" doc:"when"`
	NewJobID        Ref             `json:"new_job_id" doc:"the job that it went on as"`
	Outcome         Text            `json:"redrive_outcome" doc:"what became of that job: pending, succeeded, died again or cancelled"`
	NextLetter      Ref             `json:"next_letter_id" doc:"as which that job died"`
	Note            Text            `json:"note" doc:"what somebody wrote on it"`
}

// LetterOf is a letter's form.
func LetterOf(l pawl.DeadLetter) Letter {
	return Letter{
		ID: l.ID, JobID: Ref(l.JobID), Batch: Ref(l.Batch), SourceMessageID: Text(l.SourceMessageID), Connection: l.Connection,
		Queue: l.Queue, Kind: l.Kind, ExceptionType: l.ExceptionType, Message: l.Message, Attempts: l.Attempts,
		Class: l.Class, Reason: l.Reason, OutcomeUnknown: l.Reason.OutcomeUnknown(),
		CorrelationID: Text(l.CorrelationID), Tags: List(l.Tags), Group: l.Fingerprint,
		GroupResolvedAt: Stamp(l.GroupResolvedAt), ErasedAt: Stamp(l.ErasedAt), StatusAt: Stamp(l.StatusAt), Host: Text(l.Host),
		Server: Text(l.Server), Version: Text(l.Version), EnqueuedAt: Stamp(l.EnqueuedAt),
		StartedAt: Stamp(l.StartedAt), DeadAt: Stamp(l.DeadAt), Previous: Ref(l.Previous), Status: l.Status,
		RedrivenBy: Text(l.RedrivenBy), RedrivenAt: Stamp(l.RedrivenAt), NewJobID: Ref(l.NewJobID),
		Outcome: Text(l.Outcome), NextLetter: Ref(l.NextLetter), Note: Text(l.Note),
	}
}

// Read reads the form.
func (l Letter) Read() pawl.DeadLetter {
	return pawl.DeadLetter{
		ID: l.ID, JobID: pawl.ID(l.JobID), Batch: pawl.ID(l.Batch), SourceMessageID: string(l.SourceMessageID), Connection: l.Connection,
		Queue: l.Queue, Kind: l.Kind, ExceptionType: l.ExceptionType, Message: l.Message, Attempts: l.Attempts,
		Class: l.Class, Reason: l.Reason, CorrelationID: string(l.CorrelationID), Tags: l.Tags, Fingerprint: l.Group,
		GroupResolvedAt: time.Time(l.GroupResolvedAt), ErasedAt: time.Time(l.ErasedAt), StatusAt: time.Time(l.StatusAt),
		Host: string(l.Host), Server: string(l.Server), Version: string(l.Version), EnqueuedAt: time.Time(l.EnqueuedAt),
		StartedAt: time.Time(l.StartedAt), DeadAt: time.Time(l.DeadAt), Previous: pawl.ID(l.Previous), Status: l.Status,
		RedrivenBy: string(l.RedrivenBy), RedrivenAt: time.Time(l.RedrivenAt), NewJobID: pawl.ID(l.NewJobID),
		Outcome: pawl.RedriveOutcome(l.Outcome), NextLetter: pawl.ID(l.NextLetter), Note: string(l.Note),
	}
}

// LetterDetail is a letter with all its evidence.
type LetterDetail struct {
	Letter
	Detail       string    `json:"detail" doc:"the chain of errors and the stack"`
	History      []Attempt `json:"history" doc:"the last attempts, at most 20, oldest first"`
	PayloadBytes int       `json:"payload_bytes" doc:"how many bytes of the job are kept"`
	Payload      *Payload  `json:"payload,omitempty" doc:"the job itself, where it was asked for and may be seen"`
}

// LetterDetailOf is a letter's whole form, with its payload or without.
func LetterDetailOf(l pawl.DeadLetter, payload bool) LetterDetail {
	detail := LetterDetail{LetterOf(l), l.Detail, Each(l.History, AttemptOf), len(l.Envelope), nil}
	if payload {
		detail.Payload = PayloadOf(l.Envelope)
	}
	return detail
}

// Read reads the form.
func (d LetterDetail) Read() pawl.DeadLetter {
	l := d.Letter.Read()
	l.Detail, l.History = d.Detail, Each(d.History, Attempt.Read)
	if d.Payload != nil {
		l.Envelope = d.Payload.Envelope
	}
	return l
}

// Attempt is one attempt that did not succeed.
type Attempt struct {
	Attempt    int    `json:"attempt" doc:"counted from 1"`
	Ending     string `json:"ending" doc:"how it ended"`
	StartedAt  Stamp  `json:"started_at" doc:"when it was begun; of a crash, when its host was last heard of"`
	DurationMS *int64 `json:"duration_ms" doc:"how long it took; null where its end was not seen"`
	Host       Text   `json:"host" doc:"on which it ran"`
	Type       Text   `json:"exception_type" doc:"the type of its error"`
	Message    Text   `json:"message" doc:"its error's text"`
}

// AttemptOf is an attempt's form.
func AttemptOf(a pawl.AttemptRecord) Attempt {
	form := Attempt{a.Attempt, string(a.Ending), Stamp(a.StartedAt), nil, Text(a.Host), Text(a.Type), Text(a.Message)}
	if !EndUnseen(a) {
		lasted := a.Duration.Milliseconds()
		form.DurationMS = &lasted
	}
	return form
}

// Read reads the form.
func (a Attempt) Read() pawl.AttemptRecord {
	record := pawl.AttemptRecord{
		Attempt: a.Attempt, Ending: pawl.Ending(a.Ending), StartedAt: time.Time(a.StartedAt),
		Host: string(a.Host), Type: string(a.Type), Message: string(a.Message),
	}
	if a.DurationMS != nil {
		record.Duration = time.Duration(*a.DurationMS) * time.Millisecond
	}
	return record
}

// EndUnseen reports that nobody knows how long an attempt took: its host died.
func EndUnseen(a pawl.AttemptRecord) bool { return a.Ending == pawl.EndCrashed && a.Duration == 0 }
