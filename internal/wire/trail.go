package wire

import (
	"time"

	"github.com/pawljobs/pawl"
)

// Group is what failures that are alike have in common.
type Group struct {
	Group         string  `json:"group" doc:"the fingerprint"`
	Letters       int     `json:"letters" doc:"how many of those that match"`
	FirstSeen     Stamp   `json:"first_seen_at" doc:"the first of their deaths"`
	LastSeen      Stamp   `json:"last_seen_at" doc:"the last of their deaths"`
	Kind          string  `json:"kind" doc:"their kind"`
	ExceptionType string  `json:"exception_type" doc:"of the newest"`
	Message       string  `json:"message" doc:"of the newest"`
	Newest        pawl.ID `json:"newest_letter_id" doc:"the newest"`
	Counts        []int   `json:"counts" doc:"deaths in each span of time"`
	ResolvedAt    Stamp   `json:"resolved_at" doc:"in a regression: when the group had been resolved"`
}

// GroupOf is a group's form.
func GroupOf(g pawl.LetterGroup) Group {
	return Group{
		g.Fingerprint, g.Letters, Stamp(g.FirstSeen), Stamp(g.LastSeen), g.Kind, g.ExceptionType, g.Message, g.Newest,
		List(g.Counts), Stamp(g.ResolvedAt),
	}
}

// Read reads the form.
func (g Group) Read() pawl.LetterGroup {
	return pawl.LetterGroup{
		Fingerprint: g.Group, Letters: g.Letters, FirstSeen: time.Time(g.FirstSeen), LastSeen: time.Time(g.LastSeen),
		Newest: g.Newest, Kind: g.Kind, ExceptionType: g.ExceptionType, Message: g.Message,
		Counts: g.Counts, ResolvedAt: time.Time(g.ResolvedAt),
	}
}

// Sink is a channel that alerts go to.
type Sink struct {
	Sink            string `json:"sink" doc:"its name"`
	Pending         int    `json:"pending" doc:"deaths that it is still to be told of"`
	Delivered       int    `json:"delivered" doc:"deaths that it was told of"`
	OldestPendingMS int64  `json:"oldest_pending_ms" doc:"how long the oldest pending one has waited"`
	LastError       Text   `json:"last_error" doc:"of a delivery that failed"`
	RetiredAt       Stamp  `json:"retired_at" doc:"since when deaths are not told to it, as no host had it for a week; null: they are"`
}

// SinkOf is a sink's form.
func SinkOf(v pawl.SinkView) Sink {
	return Sink{v.Name, v.Pending, v.Delivered, v.OldestAge.Milliseconds(), Text(v.LastError), Stamp(v.RetiredAt)}
}

// Read reads the form.
func (s Sink) Read() pawl.SinkView {
	return pawl.SinkView{
		Name: s.Sink, Pending: s.Pending, Delivered: s.Delivered, OldestAge: milliseconds(s.OldestPendingMS), LastError: string(s.LastError),
		RetiredAt: time.Time(s.RetiredAt),
	}
}

// LetterAlert is how a sink was told of one letter.
type LetterAlert struct {
	Sink        string `json:"sink" doc:"its name"`
	State       string `json:"state" doc:"waiting, delivered, or closed (the letter was, before it was told)"`
	Message     Text   `json:"message" doc:"the key of the message; null until it is decided"`
	Deaths      int    `json:"deaths" doc:"that the message tells of"`
	Tries       int    `json:"tries" doc:"deliveries that were begun"`
	DeliveredAt Stamp  `json:"delivered_at" doc:"when it was told"`
	Regression  bool   `json:"regression" doc:"the group had been resolved when it died"`
	LastError   Text   `json:"last_error" doc:"of a delivery that failed"`
}

// AuditEntry is one line of the audit trail.
type AuditEntry struct {
	ID      int64       `json:"id" doc:"its number"`
	At      Stamp       `json:"at" doc:"when it was done"`
	Who     string      `json:"who" doc:"the person or program that did it"`
	Door    string      `json:"door" doc:"through which: cli, library, api, dashboard, or pawl itself"`
	Action  pawl.Action `json:"action" doc:"what was done"`
	Subject string      `json:"subject" doc:"a letter's id, or queue NAME, kind NAME, job ID, host SESSION"`
	From    Text        `json:"from" doc:"the state before"`
	To      Text        `json:"to" doc:"the state after"`
	Why     Text        `json:"why" doc:"the reason that was given"`
	Outcome Text        `json:"outcome" doc:"such as the new job's id, or how many were cleared"`
}

// AuditEntryOf is an entry's form.
func AuditEntryOf(e pawl.AuditEntry) AuditEntry {
	return AuditEntry{e.ID, Stamp(e.At), e.Who, e.Door, e.Action, e.Subject, Text(e.From), Text(e.To), Text(e.Why), Text(e.Outcome)}
}

// Read reads the form.
func (e AuditEntry) Read() pawl.AuditEntry {
	return pawl.AuditEntry{
		ID: e.ID, At: time.Time(e.At), Who: e.Who, Door: e.Door, Action: e.Action, Subject: e.Subject,
		From: string(e.From), To: string(e.To), Why: string(e.Why), Outcome: string(e.Outcome),
	}
}

// The states of an alert about one letter.
const (
	alertWaiting   = "waiting"
	alertClosed    = "closed"
	alertDelivered = "delivered"
)

// LetterAlertOf is an alert's form.
func LetterAlertOf(v pawl.AlertView) LetterAlert {
	state := alertDelivered
	switch {
	case v.Pending:
		state = alertWaiting
	case v.DeliveredAt.IsZero():
		state = alertClosed
	}
	return LetterAlert{v.Sink, state, Text(v.Key), v.Deaths, v.Attempt, Stamp(v.DeliveredAt), v.Regression, Text(v.Error)}
}

// Read reads the form.
func (a LetterAlert) Read() pawl.AlertView {
	return pawl.AlertView{
		Sink: a.Sink, Key: string(a.Message), Deaths: a.Deaths, Attempt: a.Tries, Pending: a.State == alertWaiting,
		DeliveredAt: time.Time(a.DeliveredAt), Regression: a.Regression, Error: string(a.LastError),
	}
}
