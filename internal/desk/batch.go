package desk

import (
	"time"

	"github.com/pawljobs/pawl"
)

// BatchesAtOnce is how many batches end in one transaction.
const BatchesAtOnce = 100

// BatchKept is how long a batch can be looked at after its end.
const BatchKept = 24 * time.Hour

// BatchRow is a batch with the job that follows it, as they are stored.
type BatchRow struct {
	pawl.Batch
	Delay    time.Duration
	Envelope []byte
}

// Callback is the job that follows the batch. One whose envelope was damaged is handed on as it is, so that it dies where
// somebody sees it.
func (r BatchRow) Callback() pawl.NewJob {
	e, err := pawl.DecodeEnvelope(r.Envelope)
	if err != nil {
		if r.Envelope == nil {
			r.Envelope = []byte{}
		}
		return pawl.NewJob{ID: r.BatchEnd.Batch, Kind: r.Kind, Queue: r.Queue, Delay: r.Delay, Envelope: r.Envelope}
	}
	e.After = r.BatchEnd
	e.Origin = pawl.Origin{Source: pawl.OriginBatch, Ref: r.BatchEnd.Batch.String()}
	job := pawl.NewJobFrom(e)
	job.Delay = r.Delay
	return job
}

// CheckBatches refuses a filter that asks for what no batch can have.
func CheckBatches(f pawl.BatchFilter) error {
	switch f.State {
	case "", pawl.BatchIsOpen, pawl.BatchHasEnded:
		return checkTexts([][2]string{{"kind", f.Kind}, {"queue", f.Queue}})
	}
	return &pawl.FieldError{Field: "state", Value: f.State, Rule: "must be open or ended"}
}
