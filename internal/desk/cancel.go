package desk

import (
	"fmt"
	"strconv"

	"github.com/pawljobs/pawl"
)

// CheckCancel refuses a cancel that makes no sense whatever the jobs' states.
func CheckCancel(ids []pawl.ID, by pawl.By) error {
	if len(ids) > pawl.MaxCancel {
		return tooMany(ids)
	}
	return CheckBy(by)
}

func tooMany(ids []pawl.ID) error {
	return &pawl.FieldError{Field: "ids", Value: len(ids), Rule: fmt.Sprintf("must be at most %d", pawl.MaxCancel)}
}

// CancelRefused is the answer where a job has ended; with the state "" there is none.
func CancelRefused(id pawl.ID, state pawl.JobState) pawl.Cancelled {
	if state == "" {
		return pawl.Cancelled{Err: fmt.Errorf("job %s: %w", id, pawl.ErrNotFound)}
	}
	return pawl.Cancelled{Err: fmt.Errorf("job %s is %s: only a job that has not ended can be cancelled: %w", id, state, pawl.ErrConflict)}
}

// CancelEntry is the line in the trail when a job is cancelled. One that is running is only marked.
func CancelEntry(id pawl.ID, from pawl.JobState) pawl.AuditEntry {
	e := pawl.AuditEntry{Action: pawl.ActionCancel, Subject: "job " + id.String(), From: string(from), To: string(pawl.JobRemoved)}
	if from == pawl.JobReserved {
		e.To, e.Outcome = string(pawl.JobReserved), "asked to stop"
	}
	return e
}

// CancelCallbackEntry is the line when what was to follow a batch is cancelled.
func CancelCallbackEntry(batch pawl.ID) pawl.AuditEntry {
	return pawl.AuditEntry{
		Action: pawl.ActionCancel, Subject: "job " + batch.String(), To: string(pawl.JobRemoved), Outcome: "nothing follows the batch of that id",
	}
}

// CancelledEntry is the line when a job that was marked has been removed.
func CancelledEntry(id pawl.ID) pawl.AuditEntry {
	return pawl.AuditEntry{
		Action: pawl.ActionCancel, Subject: "job " + id.String(), From: string(pawl.JobReserved), To: string(pawl.JobRemoved),
		Outcome: "it has stopped",
	}
}

// HostOrder is what an operator asks of a host.
type HostOrder struct {
	Action pawl.Action
	To     string // what the host becomes
}

// The orders.
var (
	Quiet = HostOrder{pawl.ActionQuiet, "quiet"}
	Drain = HostOrder{pawl.ActionDrain, "draining"}
)

// Check refuses what the host does not obey.
func (o HostOrder) Check(host pawl.HostInfo) error {
	if o == Drain && host.NoDrain {
		return fmt.Errorf("host %s obeys no order to drain: only its own program ends it: %w", host.Name, pawl.ErrConflict)
	}
	return nil
}

// Entry is the line when a host is asked.
func (o HostOrder) Entry(session pawl.SessionID) pawl.AuditEntry {
	return pawl.AuditEntry{
		Action: o.Action, Subject: "host " + strconv.FormatInt(int64(session), 10), From: "working", To: o.To,
	}
}

// NoHost is the error where no live session has the number.
func NoHost(session pawl.SessionID) error {
	return fmt.Errorf("no live host has session %d: %w", session, pawl.ErrNotFound)
}
