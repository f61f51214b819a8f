// Package desk is what operators do as far as it is the same on every SQL store: which requests are refused, what a
// move makes of a letter, and how switches are told.
package desk

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/storable"
)

// Bounds of what an operator writes or looks for, in bytes.
const (
	maxWho    = 256
	maxNote   = 4000
	maxFilter = 1000
	maxName   = 128
)

// System acts where a store writes something back.
func System() pawl.By { return pawl.By{Who: "pawl", Door: "pawl"} }

// CheckBy refuses an act without an actor.
func CheckBy(by pawl.By) error {
	if by.Who == "" {
		return &pawl.FieldError{Field: "who", Value: by.Who, Rule: "must name who acts"}
	}
	if err := storable.Check("who", by.Who, maxWho); err != nil {
		return err
	}
	if err := storable.Check("door", by.Door, maxWho); err != nil {
		return err
	}
	return storable.Check("why", by.Why, maxNote)
}

// CheckName refuses what no kind or queue can be called, since a switch of that name would never do anything.
func CheckName(field, name string) error {
	if name == "" {
		return &pawl.FieldError{Field: field, Value: name, Rule: fmt.Sprintf("must have 1 to %d bytes", maxName)}
	}
	if err := storable.Check(field, name, maxName); err != nil {
		return err
	}
	if strings.ContainsFunc(name, unicode.IsControl) {
		return &pawl.FieldError{Field: field, Value: name, Rule: "must have no control characters"}
	}
	return nil
}

// CheckMove refuses a move that makes no sense whatever the letter's state.
func CheckMove(m pawl.Move) error {
	if err := CheckBy(m.By); err != nil {
		return err
	}
	if err := storable.Check("note", m.Note, maxNote); err != nil {
		return err
	}
	runs := false
	switch m.Action {
	case pawl.ActionRedrive, pawl.ActionRetry:
		runs = true
	case pawl.ActionResolve, pawl.ActionDiscard, pawl.ActionReopen:
	case pawl.ActionNote:
		if m.Note == "" {
			return &pawl.FieldError{Field: "note", Value: m.Note, Rule: "must not be empty"}
		}
	case pawl.ActionOutcome:
		switch m.Outcome {
		case pawl.RedriveSucceeded, pawl.RedriveDiedAgain, pawl.RedriveCancelled:
		default:
			return &pawl.FieldError{Field: "outcome", Value: m.Outcome, Rule: "must be succeeded, died again or cancelled"}
		}
	default:
		return &pawl.FieldError{Field: "action", Value: m.Action, Rule: "must be redrive, retry, resolve, discard, reopen, note or outcome"}
	}
	switch {
	case runs && m.Push == nil && m.NewJob.IsZero():
		return &pawl.FieldError{Field: "job", Value: "", Rule: "a " + string(m.Action) + " needs the job that it makes"}
	case !runs && (m.Push != nil || !m.NewJob.IsZero()):
		return &pawl.FieldError{Field: "job", Value: m.NewJob, Rule: "a " + string(m.Action) + " makes no job"}
	case m.Push != nil:
		return m.Push.Check()
	}
	return nil
}

// CheckLetters refuses a filter that asks for what no letter can have.
func CheckLetters(f pawl.LetterFilter) error {
	for _, status := range f.Status {
		if status > pawl.StatusDiscarded {
			return &pawl.FieldError{Field: "status", Value: uint8(status), Rule: "must be dead, redriven, resolved or discarded"}
		}
	}
	for _, class := range f.Class {
		if class > pawl.DeathPoison {
			return &pawl.FieldError{Field: "class", Value: uint8(class), Rule: "must be transient-exhausted, permanent or poison"}
		}
	}
	return checkTexts([][2]string{
		{"reason", string(f.Reason)},
		{"kind", f.Kind},
		{"queue", f.Queue},
		{"connection", f.Connection},
		{"fingerprint", f.Fingerprint},
		{"correlation id", f.CorrelationID},
		{"tag", f.Tag},
		{"text", f.Text},
	})
}

// CheckJobs refuses a filter that asks for what no job can have. Its state is the store's to check.
func CheckJobs(f pawl.JobFilter) error {
	return checkTexts([][2]string{{"kind", f.Kind}, {"queue", f.Queue}})
}

// CheckAudit refuses a filter that asks for what no entry can have.
func CheckAudit(f pawl.AuditFilter) error {
	return checkTexts([][2]string{{"subject", f.Subject}, {"who", f.Who}, {"action", string(f.Action)}})
}

func checkTexts(fields [][2]string) error {
	for _, field := range fields {
		if err := storable.Check(field[0], field[1], maxFilter); err != nil {
			return err
		}
	}
	return nil
}
