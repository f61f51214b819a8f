package inline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pawljobs/pawl"
)

// ignoreGrace is how long a handler may go on after its ctx was cancelled.
const ignoreGrace = 10 * time.Second

// attempt is the one run of one job, and what stands behind its Job's operations.
type attempt struct {
	queue   *Enqueuer
	job     pawl.ClaimedJob
	ctx     context.Context // of the handler
	started time.Time
	parts   int           // under the queue's lock: the call and its handler, as far as they are under way
	ended   chan struct{} // closed when neither is

	mu      sync.Mutex
	timeout *time.Timer
	failure error // that the handler settled the job with
}

// run returns nil when the job has ended well, and else what it failed with.
func (q *Enqueuer) run(ctx context.Context, job pawl.NewJob) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("not started: %w", context.Cause(ctx))
	}
	a, err := q.newAttempt(job)
	if err != nil {
		return err
	}
	if !q.enter(a) {
		return pawl.ErrClosed
	}
	defer q.leave(a)
	envelope, err := pawl.DecodeEnvelope(job.Envelope)
	if err != nil {
		return a.die(ctx, pawl.Decide(oneTry(pawl.Policy{}), pawl.Facts{Attempt: 1, Ending: pawl.EndReturned}, err), nil, err)
	}
	a.job.Kind, a.job.Queue = envelope.Kind, envelope.Policy.Queue
	facts := pawl.Facts{Job: job.ID, Attempt: 1, Now: time.Now(), Deadline: envelope.Deadline(a.job.EnqueuedAt)}
	if death, dead := pawl.Admit(oneTry(envelope.Policy), facts); dead {
		return a.die(ctx, death, nil, fmt.Errorf("the job was not to be started after %s", facts.Deadline.UTC().Format(time.RFC3339)))
	}
	return a.work(ctx, envelope, facts)
}

// oneTry is the policy of a job that is run here.
func oneTry(p pawl.Policy) pawl.Policy {
	p.MaxTries = 1
	return p
}

// newAttempt draws a token, so that each death of a job is a record of its own.
func (q *Enqueuer) newAttempt(job pawl.NewJob) (*attempt, error) {
	token, err := newToken()
	if err != nil {
		return nil, err
	}
	enqueuedAt := job.EnqueuedAt
	if enqueuedAt.IsZero() {
		enqueuedAt = time.Now().UTC()
	}
	return &attempt{queue: q, ended: make(chan struct{}), job: pawl.ClaimedJob{
		Reservation: pawl.Reservation{ID: job.ID, Token: token}, Kind: job.Kind, Queue: job.Queue, Attempt: 1,
		EnqueuedAt: enqueuedAt, ReadyAt: enqueuedAt, Letter: job.Letter, Envelope: job.Envelope,
	}}, nil
}

// work runs the handler and decides what its end means.
func (a *attempt) work(ctx context.Context, envelope pawl.Envelope, facts pawl.Facts) error {
	handlerCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a.started = time.Now()
	a.timeout = time.AfterFunc(envelope.Policy.Timeout, func() { cancel(pawl.ErrTimeout) })
	defer a.timeout.Stop()

	handlerCtx = pawl.ContextWithCorrelationID(handlerCtx, envelope.CorrelationID)
	handlerCtx = pawl.ContextWithTrace(handlerCtx, envelope.TraceParent, envelope.TraceState)
	info := a.info(envelope)
	runCtx, job, _, end := pawl.NewJobContext(handlerCtx, info, a, a.queue.jobLogger(info), a.started.Add(envelope.Policy.Timeout))
	a.ctx = runCtx

	err, stray := a.call(job)
	finished := end()
	if stray {
		a.queue.logger.LogAttrs(ctx, slog.LevelWarn, "handler ignores its cancelled context and was given up", a.attrs()...)
	}
	if finished {
		return a.transitioned(err)
	}
	if err == nil {
		return nil
	}
	facts.Ending = pawl.EndReturned
	if errors.Is(context.Cause(runCtx), pawl.ErrTimeout) {
		facts.Ending = pawl.EndTimedOut
	}
	facts.Now = time.Now()
	said := pawl.Classify(err, a.queue.classifiers...)
	outcome := pawl.Decide(oneTry(envelope.Policy), facts, said)
	if facts.Ending == pawl.EndTimedOut && !pawl.ChainHas(said, pawl.ErrTimeout) {
		said = fmt.Errorf("%w (%w)", said, pawl.ErrTimeout)
	}
	return a.die(ctx, outcome, a.record(facts.Ending, said), said)
}

func (a *attempt) info(envelope pawl.Envelope) pawl.JobInfo {
	return pawl.JobInfo{
		ID: a.job.ID, Kind: a.job.Kind, Queue: a.job.Queue, Connection: a.queue.connection.Name, Attempt: 1, MaxTries: 1,
		Args: envelope.Args, CorrelationID: envelope.CorrelationID, TraceParent: envelope.TraceParent,
		TraceState: envelope.TraceState, Tags: envelope.Tags, EnqueuedAt: a.job.EnqueuedAt, Origin: envelope.Origin,
	}
}

// call runs the handler in a goroutine of its own and waits for it; for one that ignores its cancelled ctx no longer
// than ignoreGrace.
func (a *attempt) call(job *pawl.Job) (err error, stray bool) {
	q := a.queue
	q.launch(a)
	returned := make(chan error, 1)
	go func() {
		defer q.leave(a)
		q.mux.Run(a.ctx, job, func(err error) { returned <- err })
	}()
	select {
	case err := <-returned:
		return err, false
	case <-a.ctx.Done():
	}
	patience := time.NewTimer(ignoreGrace)
	defer patience.Stop()
	select {
	case err := <-returned:
		return err, false
	case <-patience.C:
		q.giveUp(a)
		return fmt.Errorf("the handler went on for %s after its context was cancelled: %w", ignoreGrace, context.Cause(a.ctx)), true
	}
}
