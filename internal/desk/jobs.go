package desk

import (
	"fmt"

	"github.com/pawljobs/pawl"
)

// RunNowEntry is the line in the trail when a scheduled job is made ready.
func RunNowEntry(id pawl.ID) pawl.AuditEntry {
	return pawl.AuditEntry{
		Action: pawl.ActionRunNow, Subject: "job " + id.String(), From: string(pawl.JobScheduled), To: string(pawl.JobWaiting),
	}
}

// DeleteEntry is the line in the trail when a job is removed.
func DeleteEntry(id pawl.ID, from pawl.JobState) pawl.AuditEntry {
	return pawl.AuditEntry{Action: pawl.ActionDelete, Subject: "job " + id.String(), From: string(from), To: string(pawl.JobRemoved)}
}

// NotScheduled is the refusal to make a job ready that is in another state; with the state "" there is none.
func NotScheduled(id pawl.ID, state pawl.JobState) error {
	if state == "" {
		return fmt.Errorf("job %s: %w", id, pawl.ErrNotFound)
	}
	return fmt.Errorf("job %s is %s: only a scheduled job can be run now: %w", id, state, pawl.ErrConflict)
}

// NotDeleted is the refusal to delete a job that has ended; with the state "" there is none.
func NotDeleted(id pawl.ID, state pawl.JobState) error {
	if state == "" {
		return fmt.Errorf("job %s: %w", id, pawl.ErrNotFound)
	}
	return fmt.Errorf("job %s is %s: only a job that has not ended can be deleted: %w", id, state, pawl.ErrConflict)
}
