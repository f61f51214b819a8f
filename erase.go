package pawl

import (
	"context"
	"time"
)

// Eraser removes what must not be kept of a person.
type Eraser interface {
	// EraseArgs removes the args of every job that the request picks, from history and letters, and keeps the rest: that
	// there was such a job, what became of it and when. It goes by small batches, so a call that fails has erased a part,
	// and doing it again erases the rest. It writes one line in the audit trail, which does not say what was looked for in
	// words. What is enqueued, moved or dies while it runs may be missed: do it until nothing is left.
	//
	// An erased letter can be listed, closed and removed, and not run again. Its job holds no unique key any more.
	EraseArgs(ctx context.Context, erase Erase) (Erased, error)
}

// Erase picks jobs by what they carry from their enqueue to their letter; all that is given must fit, and something must
// be.
type Erase struct {
	IDs           []ID // of jobs, or of letters; at most MaxErase
	CorrelationID string
	Tag           string
	Kind          string
	// Text is part of the args, as they are stored or in one of their strings or names once decoded; ASCII letters match
	// in both cases. What does not decode is searched as it is.
	Text string

	By By
	// Texts erases what was written about the job too: messages, details, progress, notes and tags.
	Texts bool
	// Unfinished removes jobs that have not ended, which could not run without their args: those that wait or are
	// scheduled at once, those that run are asked to stop (Jobs.CancelJobs) and have to be erased when they have.
	// Without it they are left as they are, and counted.
	Unfinished bool
	// Expect, unless 0, is how many there have to be (Erased.All): with any other number nothing is done (ErrConflict).
	Expect int
	// DryRun counts, and changes nothing.
	DryRun bool
}

// MaxErase is how many ids one call takes.
const MaxErase = 1000

// Erased is what an EraseArgs has found, and done unless it was a dry run.
type Erased struct {
	Letters  int `json:"letters"`  // erased
	History  int `json:"history"`  // finished jobs, erased
	Removed  int `json:"removed"`  // jobs that had not ended, removed and erased
	Stopping int `json:"stopping"` // jobs that run, asked to stop: erase them again
	Left     int `json:"left"`     // jobs that have not ended, left as they are
	Before   int `json:"before"`   // letters and finished jobs that had been erased already
	// Sample are some of what is, or was, erased.
	Sample []ErasedItem `json:"sample,omitempty"`
	// Residue says where the bytes may still lie for a while, empty if nowhere that the store knows of.
	Residue string `json:"residue,omitempty"`
}

// All is how many were, or would be, erased or asked to stop.
func (e Erased) All() int { return e.Letters + e.History + e.Removed + e.Stopping }

// ErasedItem is one of what was erased.
type ErasedItem struct {
	What string    `json:"what"` // "letter", "finished job", "job"
	ID   ID        `json:"id"`
	Kind string    `json:"kind"`
	At   time.Time `json:"at"` // of its enqueue; zero where that is not known
}

// EraseSample is how many items a sample has at most.
const EraseSample = 10
