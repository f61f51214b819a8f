package desk

import (
	"fmt"
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
	StatusAt   time.Time
	ErasedAt   time.Time // is changed by no move
}

// Allowed says whether the letter may be moved so: as pawl.Move.Allowed, and nothing runs again without its args.
func (f Fate) Allowed(m pawl.Move) error {
	if err := m.Allowed(f.Status, f.Outcome, f.NewJob); err != nil {
		return err
	}
	if runs := m.Action == pawl.ActionRedrive || m.Action == pawl.ActionRetry; runs && !f.ErasedAt.IsZero() {
		return Erased(m.Letter, f.ErasedAt)
	}
	return nil
}

// Erased is the refusal to run a job again whose args were erased.
func Erased(letter pawl.ID, at time.Time) error {
	return fmt.Errorf("letter %s: the job's args were erased on %s, it cannot run again: %w", letter, at.UTC().Format(time.RFC3339), pawl.ErrRedriveRefused)
}

// Moved is the fate after a move that is allowed; newJob is the job of a redrive. A letter that is reopened still says
// what became of its redrive.
func (f Fate) Moved(m pawl.Move, newJob pawl.ID, at time.Time) Fate {
	if to := m.To(); m.Action != pawl.ActionNote && to != f.Status {
		f.Status, f.StatusAt = to, at
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
