package pawl

import (
	"context"
	"time"
)

// JobState is where a job is.
type JobState string

const (
	JobWaiting   JobState = "waiting"   // ready, or held back by a switch or pause
	JobScheduled JobState = "scheduled" // not due yet: delayed, or waiting for a retry
	JobReserved  JobState = "reserved"  // claimed by a host
	JobDone      JobState = "done"
	JobDead      JobState = "dead" // its letter says why
	JobRemoved   JobState = "removed"
)

// Jobs lets an operator look at jobs and act on them.
type Jobs interface {
	// Jobs lists newest enqueue first. Ended jobs are found for as long as history is kept.
	Jobs(ctx context.Context, filter JobFilter, page Page) (JobPage, error)
	// Job returns one, or ErrNotFound.
	Job(ctx context.Context, id ID) (JobView, error)
	// Queues counts the jobs of every queue that has any or is paused, in order of priority.
	Queues(ctx context.Context) ([]QueueView, error)
	// BusyQueues names the queues in which jobs wait or are reserved, in order of priority. It counts nothing, so that
	// it is cheap however many there are.
	BusyQueues(ctx context.Context) ([]string, error)
	// QueueHeads says of every queue in which jobs wait which kinds wait there and for how long, in order of priority and
	// kind. It is cheap however many jobs there are; a store may look at the first 20,000 of each queue only.
	QueueHeads(ctx context.Context) ([]QueueHead, error)
	// ClearQueue removes every waiting, scheduled and reserved job of a queue, audited, and returns how many. The
	// acknowledgements of those that were running are refused.
	ClearQueue(ctx context.Context, queue string, by By) (int, error)
	// CancelJobs ends jobs for good, each audited; result i belongs to id i, and a refused one does not stop the others.
	// At most MaxCancel at a time. A job that waits or is scheduled is removed at once. One that is running is marked:
	// its host hears of it with its next beat and cancels the handler's ctx with cause ErrCancelled. When its attempt
	// then ends, in whatever way except done or by a death of its own, or its host dies, the job is removed, also where
	// it would have been retried. A redrive that is cancelled so is written back to its letter as cancelled. The id of a batch that
	// is open removes the job that was to follow it, and nothing else: its members go on, and nothing follows.
	CancelJobs(ctx context.Context, ids []ID, by By) ([]Cancelled, error)
	// RunJobsNow makes scheduled jobs ready, behind those of their queues that are, each audited; result i belongs to id i,
	// and a refused one does not stop the others: ErrNotFound, or ErrConflict when it is not scheduled. At most MaxCancel
	// at a time. A switch or a pause holds them back as any other.
	RunJobsNow(ctx context.Context, ids []ID, by By) ([]error, error)
	// DeleteJobs removes jobs that have not ended at once, as ClearQueue does, also where a handler runs: what it ends with
	// is refused then. CancelJobs asks it to stop first. Each is audited; result i belongs to id i: ErrNotFound, or
	// ErrConflict when it has ended. At most MaxCancel at a time.
	DeleteJobs(ctx context.Context, ids []ID, by By) ([]error, error)
}

// MaxCancel is how many jobs one call cancels, makes ready or deletes, and how many operations one call controls.
const MaxCancel = 1000

// Cancelled is what became of one job that was to be cancelled.
type Cancelled struct {
	State JobState // JobRemoved, or JobReserved: it is running and asked to stop
	Err   error    // nothing was changed: ErrNotFound, or ErrConflict when it has ended already
}

// JobFilter picks jobs; zero fields match all.
type JobFilter struct {
	State JobState
	Kind  string
	Queue string
	Since time.Time // enqueued at or after
}

// JobPage is a part of a list of jobs.
type JobPage struct {
	Jobs []JobView
	Next string
}

// JobView is a job as an operator sees it.
type JobView struct {
	ID          ID
	Kind        string
	Queue       string
	State       JobState
	Attempt     int
	Crashes     int
	Requeues    int
	EnqueuedAt  time.Time
	RunAt       time.Time // with JobScheduled
	FinishedAt  time.Time // with JobDone, JobDead, JobRemoved
	Host        string    // with JobReserved
	HeldByKind  bool      // its kind is switched off
	HeldByQueue bool      // its queue is paused
	HeldInLine  bool      // others with its ordering key, or under its limits, go first
	Progress    string    // "40 % note"
	Letter      ID        // it was redriven from, or died as
	Envelope    []byte    // with Job only, where it is still kept
	History     []AttemptRecord
}

// QueueView counts a queue.
type QueueView struct {
	Name        string        `json:"queue"`
	Waiting     int           `json:"waiting"`
	Scheduled   int           `json:"scheduled"`
	Reserved    int           `json:"reserved"`
	OldestReady time.Duration `json:"oldest_ready_ns"` // age of the job that has been ready for longest
	Paused      bool          `json:"paused"`
}

// QueueHead is a kind of which jobs wait in a queue.
type QueueHead struct {
	Queue       string
	Kind        string
	StartsOff   bool          // the jobs run only while their kind is switched on
	OldestReady time.Duration // age of the job that has been ready for longest
}
