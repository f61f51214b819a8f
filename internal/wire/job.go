package wire

import (
	"time"

	"github.com/pawljobs/pawl"
)

// Job is a job as lists show it.
type Job struct {
	ID          pawl.ID       `json:"id" doc:"of the job"`
	Kind        string        `json:"kind" doc:"its kind"`
	Queue       string        `json:"queue" doc:"its queue"`
	State       pawl.JobState `json:"state" doc:"where it is: waiting, scheduled, reserved, done, dead or removed"`
	HeldByKind  bool          `json:"held_by_kind" doc:"its kind is switched off"`
	HeldByQueue bool          `json:"held_by_queue" doc:"its queue is paused"`
	HeldInLine  bool          `json:"held_in_line" doc:"others with its ordering key, or under its kind's limit, go first"`
	Attempt     int           `json:"attempt" doc:"the number of its last attempt"`
	Crashes     int           `json:"crashes" doc:"hosts that died while they ran it"`
	Requeues    int           `json:"requeues" doc:"how often a shutdown gave it back"`
	EnqueuedAt  Stamp         `json:"enqueued_at" doc:"when it was enqueued"`
	RunAt       Stamp         `json:"run_at" doc:"when it is due, while it is scheduled"`
	FinishedAt  Stamp         `json:"finished_at" doc:"when it ended"`
	Host        Text          `json:"host" doc:"that holds it, while it is reserved"`
	Progress    Text          `json:"progress" doc:"what its handler last reported"`
	LetterID    Ref           `json:"letter_id" doc:"the letter that it was redriven from, or died as"`
}

// JobOf is a job's form.
func JobOf(j pawl.JobView) Job {
	return Job{
		j.ID, j.Kind, j.Queue, j.State, j.HeldByKind, j.HeldByQueue, j.HeldInLine, j.Attempt, j.Crashes, j.Requeues,
		Stamp(j.EnqueuedAt), Stamp(j.RunAt), Stamp(j.FinishedAt), Text(j.Host), Text(j.Progress), Ref(j.Letter),
	}
}

// Read reads the form.
func (j Job) Read() pawl.JobView {
	return pawl.JobView{
		ID: j.ID, Kind: j.Kind, Queue: j.Queue, State: j.State, HeldByKind: j.HeldByKind, HeldByQueue: j.HeldByQueue, HeldInLine: j.HeldInLine,
		Attempt: j.Attempt, Crashes: j.Crashes, Requeues: j.Requeues, EnqueuedAt: time.Time(j.EnqueuedAt),
		RunAt: time.Time(j.RunAt), FinishedAt: time.Time(j.FinishedAt), Host: string(j.Host), Progress: string(j.Progress),
		Letter: pawl.ID(j.LetterID),
	}
}

// JobDetail is a job with its failed attempts.
type JobDetail struct {
	Job
	History      []Attempt `json:"history" doc:"attempts that failed, at most 20, oldest first"`
	NoHostFor    Text      `json:"no_host_for" doc:"what a waiting job finds on no live host: kind, queue, or kind and queue"`
	PayloadBytes int       `json:"payload_bytes" doc:"how many bytes of the job are kept"`
	Payload      *Payload  `json:"payload,omitempty" doc:"the job itself, where it was asked for and may be seen"`
}

// JobDetailOf is a job's whole form, with its payload or without.
func JobDetailOf(j pawl.JobView, lacks string, payload bool) JobDetail {
	detail := JobDetail{JobOf(j), Each(j.History, AttemptOf), Text(lacks), len(j.Envelope), nil}
	if payload {
		detail.Payload = PayloadOf(j.Envelope)
	}
	return detail
}

// Read reads the form.
func (d JobDetail) Read() pawl.JobView {
	j := d.Job.Read()
	j.History = Each(d.History, Attempt.Read)
	if d.Payload != nil {
		j.Envelope = d.Payload.Envelope
	}
	return j
}

// JobActed is what became of one job that an operator acted on.
type JobActed struct {
	JobID  pawl.ID     `json:"job_id" doc:"the job"`
	Action pawl.Action `json:"action" doc:"what was to be done: cancel, run-now or delete"`
	OK     bool        `json:"ok" doc:"it was done"`
	State  Text        `json:"state" doc:"that the job is in now"`
	Error  Text        `json:"error" doc:"why it was not done"`
	DryRun bool        `json:"dry_run" doc:"nothing was done, it was only asked for"`
}

// LetterActed is what became of one letter that an operator acted on.
type LetterActed struct {
	LetterID pawl.ID     `json:"letter_id" doc:"the letter"`
	Action   pawl.Action `json:"action" doc:"what was to be done, such as redrive"`
	OK       bool        `json:"ok" doc:"it was done"`
	JobID    Ref         `json:"job_id" doc:"the job that it went on as"`
	Error    Text        `json:"error" doc:"why it was not done"`
	DryRun   bool        `json:"dry_run" doc:"nothing was done, it was only asked for"`
}

// Redriven is what became of a redrive that was waited for.
type Redriven struct {
	LetterID     pawl.ID `json:"letter_id" doc:"the letter"`
	JobID        pawl.ID `json:"job_id" doc:"the job that it went on as"`
	Outcome      string  `json:"outcome" doc:"succeeded, died again or cancelled"`
	Attempts     int     `json:"attempts" doc:"how many the job had; 0 where no history is kept"`
	NextLetterID Ref     `json:"next_letter_id" doc:"of its death, where it died again"`
}

// Enqueued is what became of one new job.
type Enqueued struct {
	ID     pawl.ID `json:"id" doc:"of the job that is there now: the new one, or the one that kept it out"`
	Kind   string  `json:"kind" doc:"its kind"`
	Queue  string  `json:"queue" doc:"its queue"`
	Status string  `json:"status" doc:"accepted (stored), repeated (this id was accepted before) or duplicate (its unique key is held by the job that id names)"`
}

// EnqueuedOf is the form of an answer about a job.
func EnqueuedOf(job pawl.NewJob, e pawl.Enqueued) Enqueued {
	return Enqueued{e.ID, job.Kind, job.Queue, e.Status.String()}
}

// Read reads the form.
func (e Enqueued) Read() pawl.Enqueued {
	for _, status := range []pawl.EnqueueStatus{pawl.Repeated, pawl.Duplicate} {
		if status.String() == e.Status {
			return pawl.Enqueued{ID: e.ID, Status: status}
		}
	}
	return pawl.Enqueued{ID: e.ID}
}
