package wire

import (
	"time"

	"github.com/pawljobs/pawl"
)

// Filter picks letters. The same names are in the query of lists and in a body. What is not said matches all.
type Filter struct {
	Status        []pawl.Status     `query:"status" json:"status,omitempty" doc:"dead, redriven, resolved or discarded; may be several"`
	Class         []pawl.DeathClass `query:"class" json:"class,omitempty" doc:"transient-exhausted, permanent or poison; may be several"`
	Reason        string            `query:"reason" json:"reason,omitempty" doc:"why it died"`
	Kind          string            `query:"kind" json:"kind,omitempty" doc:"of this kind"`
	Queue         string            `query:"queue" json:"queue,omitempty" doc:"from this queue"`
	Connection    string            `query:"connection" json:"connection,omitempty" doc:"from this connection"`
	Group         string            `query:"group" json:"group,omitempty" doc:"of this group: failures that are alike"`
	CorrelationID string            `query:"correlation_id" json:"correlation_id,omitempty" doc:"part of this request or process"`
	Tag           string            `query:"tag" json:"tag,omitempty" doc:"with this tag"`
	JobID         pawl.ID           `query:"job_id" json:"job_id,omitzero" doc:"of this job"`
	Batch         pawl.ID           `query:"batch" json:"batch,omitzero" doc:"of members of this batch"`
	Since         time.Time         `query:"since" json:"since,omitzero" doc:"died at or after this time"`
	Until         time.Time         `query:"until" json:"until,omitzero" doc:"died before this time"`
	StatusBefore  time.Time         `query:"status_before" json:"status_before,omitzero" doc:"has had its present status since before this time"`
	Regression    bool              `query:"regression" json:"regression,omitempty" doc:"only those whose group had been resolved"`
	Error         string            `query:"error" json:"error,omitempty" doc:"with this text in the error's type or message"`
	OldestFirst   bool              `query:"oldest_first" json:"oldest_first,omitempty" doc:"in place of newest first"`
}

// FilterOf is a filter's form.
func FilterOf(f pawl.LetterFilter) Filter {
	return Filter{
		f.Status, f.Class, string(f.Reason), f.Kind, f.Queue, f.Connection, f.Fingerprint, f.CorrelationID, f.Tag, f.JobID, f.Batch,
		f.Since, f.Until, f.StatusBefore, f.Regression, f.Text, f.OldestFirst,
	}
}

// Read reads the form.
func (f Filter) Read() pawl.LetterFilter {
	return pawl.LetterFilter{
		Status: f.Status, Class: f.Class, Reason: pawl.Reason(f.Reason), Kind: f.Kind, Queue: f.Queue, Connection: f.Connection,
		Fingerprint: f.Group, CorrelationID: f.CorrelationID, Tag: f.Tag, JobID: f.JobID, Batch: f.Batch, Since: f.Since, Until: f.Until,
		StatusBefore: f.StatusBefore, Regression: f.Regression, Text: f.Error, OldestFirst: f.OldestFirst,
	}
}

// OperationOptions say how carefully an operation acts.
type OperationOptions struct {
	Expect      int     `json:"expect,omitempty" doc:"do nothing unless there are so many letters"`
	Cap         int     `json:"cap,omitempty" doc:"at most so many, the oldest deaths first"`
	Rate        float64 `json:"rate,omitempty" doc:"letters in a second; default: as many as the store takes"`
	Note        string  `json:"note,omitempty" doc:"replaces the letters'"`
	Probe       bool    `json:"probe,omitempty" doc:"redrive one first, and the others only when its job has succeeded"`
	ProbeWaitMS int64   `json:"probe_wait_ms,omitempty" doc:"how long the probe's end is waited for; default 10 minutes"`
	StopAfter   int     `json:"stop_after,omitempty" doc:"stop once the first so many have died again as they had before; default 10, negative: never"`
	RetryForMS  int64   `json:"retry_for_ms,omitempty" doc:"start each new job at most that long from its redrive"`
	RetryUntil  Stamp   `json:"retry_until,omitzero" doc:"start the new jobs until then only"`
	Confirmed   bool    `json:"confirmed,omitempty" doc:"it was checked that the effects of jobs whose outcome is unknown have not happened, or are wanted once more"`
}

// OperationOptionsOf is their form.
func OperationOptionsOf(o pawl.OperationOptions) OperationOptions {
	return OperationOptions{
		o.Expect, o.Cap, o.Rate, o.Note, o.Probe, Millis(o.ProbeWait), o.StopAfter, Millis(o.RetryFor), Stamp(o.RetryUntil), o.Confirmed,
	}
}

// Read reads the form.
func (o OperationOptions) Read() pawl.OperationOptions {
	return pawl.OperationOptions{
		Expect: o.Expect, Cap: o.Cap, Rate: o.Rate, Note: o.Note, Probe: o.Probe, ProbeWait: Span(o.ProbeWaitMS),
		StopAfter: o.StopAfter, RetryFor: Span(o.RetryForMS), RetryUntil: time.Time(o.RetryUntil), Confirmed: o.Confirmed,
	}
}

// Operation is an act on many letters.
type Operation struct {
	ID        pawl.ID          `json:"id" doc:"of the operation"`
	Action    pawl.Action      `json:"action" doc:"redrive, resolve, discard or reopen"`
	Filter    *Filter          `json:"filter" doc:"that has picked its letters; null: they were named"`
	Who       string           `json:"who" doc:"who has begun it"`
	Door      string           `json:"door" doc:"through which: cli, library, api or dashboard"`
	Why       Text             `json:"why" doc:"the reason that was given"`
	Options   OperationOptions `json:"options" doc:"how carefully it acts"`
	State     string           `json:"state" doc:"probing, running, paused, stopped or finished"`
	Reason    Text             `json:"reason" doc:"who or what has paused or stopped it, and why"`
	Runner    Text             `json:"runner" doc:"who works on it"`
	Letters   int              `json:"letters" doc:"of the frozen set"`
	Waiting   int              `json:"waiting" doc:"letters that it has not dealt with"`
	Done      int              `json:"done" doc:"letters that were acted on"`
	Refused   int              `json:"refused" doc:"letters that were left as they were"`
	Pending   int              `json:"pending" doc:"jobs of a redrive that have not ended"`
	Succeeded int              `json:"succeeded" doc:"jobs of a redrive that have succeeded"`
	DiedAgain int              `json:"died_again" doc:"jobs of a redrive that have died again"`
	Cancelled int              `json:"cancelled" doc:"jobs of a redrive that were removed before they ended"`
	CreatedAt Stamp            `json:"created_at" doc:"when it began"`
	ChangedAt Stamp            `json:"changed_at" doc:"when its state last changed"`
	EndedAt   Stamp            `json:"ended_at" doc:"when it was stopped or finished"`
}

// OperationOf is an operation's form.
func OperationOf(o pawl.Operation) Operation {
	form := Operation{
		ID: o.ID, Action: o.Action, Who: o.Who, Door: o.Door, Why: Text(o.Why), Options: OperationOptionsOf(o.Options),
		State: string(o.State), Reason: Text(o.Reason), Runner: Text(o.Runner), Letters: o.Letters, Waiting: o.Waiting(),
		Done: o.Done, Refused: o.Refused, Pending: o.Pending, Succeeded: o.Succeeded, DiedAgain: o.DiedAgain,
		Cancelled: o.Cancelled, CreatedAt: Stamp(o.CreatedAt), ChangedAt: Stamp(o.ChangedAt), EndedAt: Stamp(o.EndedAt),
	}
	if !o.Named {
		filter := FilterOf(o.Filter)
		form.Filter = &filter
	}
	return form
}

// Read reads the form.
func (o Operation) Read() pawl.Operation {
	out := pawl.Operation{
		ID: o.ID, Action: o.Action, Named: o.Filter == nil, Who: o.Who, Door: o.Door, Why: string(o.Why), Options: o.Options.Read(),
		State: pawl.OperationState(o.State), Reason: string(o.Reason), Runner: string(o.Runner), Letters: o.Letters, Done: o.Done,
		Refused: o.Refused, Pending: o.Pending, Succeeded: o.Succeeded, DiedAgain: o.DiedAgain, Cancelled: o.Cancelled,
		CreatedAt: o.CreatedAt.Time(), ChangedAt: o.ChangedAt.Time(), EndedAt: o.EndedAt.Time(),
	}
	if o.Filter != nil {
		out.Filter = o.Filter.Read()
	}
	return out
}

// OperationItem is one letter of an operation.
type OperationItem struct {
	Position int     `json:"position" doc:"counted from 1"`
	LetterID pawl.ID `json:"letter_id" doc:"the letter"`
	State    string  `json:"state" doc:"waiting, refused, done or handing over (its job is on its way to another connection)"`
	Reason   Text    `json:"reason" doc:"why it was refused"`
	JobID    Ref     `json:"job_id" doc:"the job that it went on as"`
	Outcome  Text    `json:"redrive_outcome" doc:"what became of that job: pending, succeeded, died again or cancelled"`
}

// OperationItemOf is an item's form.
func OperationItemOf(i pawl.OperationItem) OperationItem {
	return OperationItem{i.Position, i.Letter, string(i.State), Text(i.Reason), Ref(i.Job), Text(i.Outcome)}
}

// Read reads the form.
func (i OperationItem) Read() pawl.OperationItem {
	return pawl.OperationItem{
		Position: i.Position, Letter: i.LetterID, State: pawl.ItemState(i.State), Reason: string(i.Reason),
		Job: pawl.ID(i.JobID), Outcome: pawl.RedriveOutcome(i.Outcome),
	}
}
