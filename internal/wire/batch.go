package wire

import (
	"time"

	"github.com/pawljobs/pawl"
)

// Batch is how a batch stands.
type Batch struct {
	ID        pawl.ID         `json:"id" doc:"of the batch, and of the job that follows it"`
	Kind      string          `json:"kind" doc:"of the job that follows"`
	Queue     string          `json:"queue" doc:"of the job that follows"`
	State     pawl.BatchState `json:"state" doc:"open, or ended: all members have"`
	Cancelled bool            `json:"cancelled" doc:"an operator has removed the job that was to follow: nothing follows"`
	Members   int             `json:"members" doc:"that have joined"`
	Pending   int             `json:"pending" doc:"members that have not ended"`
	Done      int             `json:"done" doc:"members that are done"`
	Dead      int             `json:"dead" doc:"members that died; each has its letter"`
	Removed   int             `json:"removed" doc:"members that operators have removed"`
	OpenedAt  Stamp           `json:"opened_at" doc:"when it was opened"`
	EndedAt   Stamp           `json:"ended_at" doc:"when all members had ended, and the job that follows was enqueued"`
}

// BatchDetail is a batch with where its members are, and the job that follows.
type BatchDetail struct {
	Batch
	Counted   int  `json:"counted" doc:"members that have not ended and were looked at: at most 1,000"`
	Waiting   int  `json:"waiting" doc:"of those counted"`
	Scheduled int  `json:"scheduled" doc:"of those counted"`
	Reserved  int  `json:"reserved" doc:"of those counted"`
	Job       *Job `json:"job" doc:"that follows; null where it was not enqueued, or is not kept any more"`
}

// BatchOf is a batch's form.
func BatchOf(b pawl.Batch) Batch {
	return Batch{
		b.Batch, b.Kind, b.Queue, b.State(), b.Cancelled, b.Members, b.Pending(), b.Done, b.Dead, b.Removed, Stamp(b.CreatedAt), Stamp(b.EndedAt),
	}
}

// Read reads the form.
func (b Batch) Read() pawl.Batch {
	return pawl.Batch{
		BatchEnd: pawl.BatchEnd{Batch: b.ID, Done: b.Done, Dead: b.Dead, Removed: b.Removed},
		Kind:     b.Kind, Queue: b.Queue, Members: b.Members, CreatedAt: time.Time(b.OpenedAt), EndedAt: time.Time(b.EndedAt), Cancelled: b.Cancelled,
	}
}
