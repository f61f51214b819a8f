package app

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
)

// The JSON forms. They are a contract with scripts (docs/cli.md): every key is always there, null where there is no
// value; keys are only ever added.

// stamp is a time as RFC 3339 in UTC with milliseconds; the zero time is null.
type stamp time.Time

func (s stamp) MarshalJSON() ([]byte, error) {
	if time.Time(s).IsZero() {
		return []byte("null"), nil
	}
	return []byte(time.Time(s).UTC().Format(`"2006-01-02T15:04:05.000Z"`)), nil
}

// ref is an id; the zero id is null.
type ref pawl.ID

func (r ref) MarshalJSON() ([]byte, error) {
	if pawl.ID(r).IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(pawl.ID(r).String())
}

// text is a string; the empty one is null.
type text string

func (t text) MarshalJSON() ([]byte, error) {
	if t == "" {
		return []byte("null"), nil
	}
	return encodeJSON(string(t))
}

type letterView struct {
	ID              pawl.ID         `json:"id"`
	JobID           ref             `json:"job_id"`
	SourceMessageID text            `json:"source_message_id"`
	Connection      string          `json:"connection"`
	Queue           string          `json:"queue"`
	Kind            string          `json:"kind"`
	ExceptionType   string          `json:"exception_type"`
	Message         string          `json:"message"`
	Attempts        int             `json:"attempts"`
	Class           pawl.DeathClass `json:"class"`
	Reason          pawl.Reason     `json:"reason"`
	OutcomeUnknown  bool            `json:"outcome_unknown"`
	CorrelationID   text            `json:"correlation_id"`
	Tags            []string        `json:"tags"`
	Group           string          `json:"group"`
	Host            text            `json:"host"`
	Server          text            `json:"server"`
	Version         text            `json:"version"`
	EnqueuedAt      stamp           `json:"enqueued_at"`
	StartedAt       stamp           `json:"started_at"`
	DeadAt          stamp           `json:"dead_at"`
	Previous        ref             `json:"previous_letter_id"`
	Status          pawl.Status     `json:"status"`
	RedrivenBy      text            `json:"redriven_by"`
	RedrivenAt      stamp           `json:"redriven_at"`
	NewJobID        ref             `json:"new_job_id"`
	Outcome         text            `json:"redrive_outcome"`
	NextLetter      ref             `json:"next_letter_id"`
	Note            text            `json:"note"`
}

func viewLetter(l pawl.DeadLetter) letterView {
	return letterView{
		ID: l.ID, JobID: ref(l.JobID), SourceMessageID: text(l.SourceMessageID), Connection: l.Connection,
		Queue: l.Queue, Kind: l.Kind, ExceptionType: l.ExceptionType, Message: l.Message, Attempts: l.Attempts,
		Class: l.Class, Reason: l.Reason, OutcomeUnknown: l.Reason.OutcomeUnknown(),
		CorrelationID: text(l.CorrelationID), Tags: list(l.Tags), Group: l.Fingerprint, Host: text(l.Host),
		Server: text(l.Server), Version: text(l.Version), EnqueuedAt: stamp(l.EnqueuedAt),
		StartedAt: stamp(l.StartedAt), DeadAt: stamp(l.DeadAt), Previous: ref(l.Previous), Status: l.Status,
		RedrivenBy: text(l.RedrivenBy), RedrivenAt: stamp(l.RedrivenAt), NewJobID: ref(l.NewJobID),
		Outcome: text(l.Outcome), NextLetter: ref(l.NextLetter), Note: text(l.Note),
	}
}

// list is never null.
func list[T any](values []T) []T {
	if values == nil {
		return []T{}
	}
	return values
}

type attemptView struct {
	Attempt    int    `json:"attempt"`
	Ending     string `json:"ending"`
	StartedAt  stamp  `json:"started_at"`
	DurationMS *int64 `json:"duration_ms"` // null where the end was not seen
	Host       text   `json:"host"`
	Type       text   `json:"exception_type"`
	Message    text   `json:"message"`
}

func viewAttempts(history []pawl.AttemptRecord) []attemptView {
	views := make([]attemptView, len(history))
	for i, a := range history {
		views[i] = attemptView{
			a.Attempt, string(a.Ending), stamp(a.StartedAt), nil, text(a.Host), text(a.Type), text(a.Message),
		}
		if !endUnseen(a) {
			lasted := a.Duration.Milliseconds()
			views[i].DurationMS = &lasted
		}
	}
	return views
}

// endUnseen reports that nobody knows how long an attempt took: its host died.
func endUnseen(a pawl.AttemptRecord) bool { return a.Ending == pawl.EndCrashed && a.Duration == 0 }

// letterDetail is what `dead show` adds.
type letterDetail struct {
	letterView
	Detail       string        `json:"detail"`
	History      []attemptView `json:"history"`
	PayloadBytes int           `json:"payload_bytes"`
	Payload      *payloadView  `json:"payload,omitempty"` // with --payload only
}

func detailOf(l pawl.DeadLetter, payload bool) letterDetail {
	detail := letterDetail{viewLetter(l), l.Detail, viewAttempts(l.History), len(l.Envelope), nil}
	if payload {
		detail.Payload = viewPayload(l.Envelope)
	}
	return detail
}

type jobView struct {
	ID          pawl.ID       `json:"id"`
	Kind        string        `json:"kind"`
	Queue       string        `json:"queue"`
	State       pawl.JobState `json:"state"`
	HeldByKind  bool          `json:"held_by_kind"`
	HeldByQueue bool          `json:"held_by_queue"`
	Attempt     int           `json:"attempt"`
	Crashes     int           `json:"crashes"`
	Requeues    int           `json:"requeues"`
	EnqueuedAt  stamp         `json:"enqueued_at"`
	RunAt       stamp         `json:"run_at"`
	FinishedAt  stamp         `json:"finished_at"`
	Host        text          `json:"host"`
	Progress    text          `json:"progress"`
	LetterID    ref           `json:"letter_id"`
}

func viewJob(j pawl.JobView) jobView {
	return jobView{
		j.ID, j.Kind, j.Queue, j.State, j.HeldByKind, j.HeldByQueue, j.Attempt, j.Crashes, j.Requeues,
		stamp(j.EnqueuedAt), stamp(j.RunAt), stamp(j.FinishedAt), text(j.Host), text(j.Progress), ref(j.Letter),
	}
}

// jobDetail is what `job show` adds.
type jobDetail struct {
	jobView
	History      []attemptView `json:"history"`
	NoHostFor    text          `json:"no_host_for"` // a lack
	PayloadBytes int           `json:"payload_bytes"`
	Payload      *payloadView  `json:"payload,omitempty"` // with --payload only
}

// moment is a time as tables show it.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}

// age is a duration as people say it.
func age(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}

// took is how long something lasted, to a tenth of a second where it was short.
func took(d time.Duration) string {
	if d >= time.Minute {
		return age(d)
	}
	if d >= time.Second {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}

// momentAgo is a time with its age.
func momentAgo(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return moment(t) + " (" + age(time.Since(t)) + " ago)"
}
