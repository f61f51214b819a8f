package desk

import (
	"time"

	"github.com/pawljobs/pawl"
)

// Fate is what operators change of a letter.
type Fate struct {
	Status     pawl.Status
	RedrivenBy string
	RedrivenAt time.Time
	NewJob     pawl.ID
	Outcome    pawl.RedriveOutcome
	Next       pawl.ID
	Note       string
}

// Moved is the fate after a move that is allowed; newJob is the job of a redrive. A letter that is reopened still says
// what became of its redrive.
func (f Fate) Moved(m pawl.Move, newJob pawl.ID, at time.Time) Fate {
	if m.Action != pawl.ActionNote {
		f.Status = m.To()
	}
	switch m.Action {
	case pawl.ActionRedrive, pawl.ActionRetry:
		f.RedrivenBy, f.RedrivenAt, f.NewJob = m.By.Who, at, newJob
		f.Outcome, f.Next = pawl.RedrivePending, pawl.ID{}
	case pawl.ActionOutcome:
		f.Outcome = m.Outcome
	}
	if m.Note != "" {
		f.Note = m.Note
	}
	return f
}

// Entry is the line of a move in the trail.
func Entry(m pawl.Move, before, after Fate) pawl.AuditEntry {
	entry := pawl.AuditEntry{
		Action: m.Action, Subject: m.Letter.String(), From: before.Status.String(), To: after.Status.String(),
	}
	switch m.Action {
	case pawl.ActionRedrive, pawl.ActionRetry:
		entry.Outcome = after.NewJob.String()
	case pawl.ActionOutcome:
		entry.Outcome = string(after.Outcome)
	}
	return entry
}
