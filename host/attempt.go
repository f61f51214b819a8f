package host

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pawljobs/pawl"
)

// attempt is one claimed job from its claim until the store has recorded what became of it.
type attempt struct {
	host     *Host
	server   *server // nil for a job that is claimed to be buried
	job      pawl.ClaimedJob
	session  pawl.SessionID
	envelope pawl.Envelope // decoded by admit
	clock    storeClock
	suspect  bool // holds the host's one place for a suspect
	lines    jobHandler
	log      slog.Logger

	mu       sync.Mutex
	phase    phase
	lost     bool // the reservation is no longer ours
	ended    bool // the store has recorded its end, and the handler runs on
	settling bool // its settlement is on the way
	started  time.Time
	deadline time.Time // of the timeout
	timer    *time.Timer
	timedOut bool
	ctx      context.Context
	stop     context.CancelCauseFunc
	end      func() (finished bool) // closes the Job
	outcome  pawl.Outcome           // of the operation that made the transition
	progress pawl.Progress
	news     bool // progress that no beat has carried yet
}

// phase is how far an attempt is.
type phase uint8

const (
	claimed phase = iota
	running
	givenUp // the handler has been left behind
	over
)

// storeClock tells the store's time: what it was at the claim, and what has passed here since.
type storeClock struct{ now, at time.Time }

func (c storeClock) time(t time.Time) time.Time { return c.now.Add(t.Sub(c.at)) }

// begin decides whether the handler may run, and runs it in this goroutine.
func (a *attempt) begin() {
	if end := a.admit(); end != nil {
		a.bury(end)
		return
	}
	if a.envelope.Policy.MaxTries == 1 {
		a.host.starter.add(a)
		return
	}
	a.run()
}

// run calls the handler, unless the attempt was lost or given back meanwhile.
func (a *attempt) run() {
	if _, fresh := a.host.presence.fresh(); !fresh { // the process was stopped since the claim
		a.unstarted()
		return
	}
	timeout := a.envelope.Policy.Timeout
	if timeout <= 0 {
		timeout = pawl.DefaultPolicy().Timeout
	}
	ctx, job, late := a.open(timeout)
	switch {
	case late:
		a.unstarted()
		return
	case ctx == nil:
		a.drop()
		return
	}
	a.host.counters.started.Add(1)
	a.host.mux.Run(ctx, job, a.returned)
}

// open makes the attempt's Job and starts its timeout; nil when it must not run any more. It is late when the grace of a
// shutdown is over: nobody would cancel its handler.
func (a *attempt) open(timeout time.Duration) (ctx context.Context, job *pawl.Job, late bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.phase != claimed || a.lost || a.host.base.Err() != nil {
		return nil, nil, false
	}
	if a.host.graceOver.Load() {
		return nil, nil, true
	}
	a.started = time.Now()
	a.deadline = a.started.Add(timeout)
	ctx, job, a.stop, a.end = pawl.NewJobContext(a.host.handlers, a.info(), operations{a}, &a.log, a.deadline)
	a.ctx = ctx
	a.phase = running
	a.host.counters.running.Add(1)
	a.timer = time.AfterFunc(timeout, a.expire)
	return ctx, job, false
}

func (a *attempt) info() pawl.JobInfo {
	e := &a.envelope
	batch := e.Batch
	if !a.job.Letter.IsZero() {
		batch = pawl.ID{} // which has counted the death
	}
	return pawl.JobInfo{
		ID: a.job.ID, Kind: a.job.Kind, Queue: a.job.Queue, Connection: a.host.connection,
		Attempt: a.job.Attempt, MaxTries: e.Policy.MaxTries, Args: bytes.Clone(e.Args), CorrelationID: e.CorrelationID,
		TraceParent: e.TraceParent, TraceState: e.TraceState, Tags: e.Tags, EnqueuedAt: a.job.EnqueuedAt, Origin: e.Origin,
		Batch: batch, After: e.After,
	}
}

// expire is called by the timer: at the timeout, and once more when the handler has ignored that for too long.
func (a *attempt) expire() {
	a.mu.Lock()
	now := time.Now()
	switch {
	case a.phase != running:
		a.mu.Unlock()
	case now.Before(a.deadline): // extended meanwhile
		a.timer.Reset(a.deadline.Sub(now))
		a.mu.Unlock()
	case !a.timedOut:
		a.timedOut = true
		a.timer.Reset(a.host.config.Intervals.GiveUp)
		a.mu.Unlock()
		a.stop(pawl.ErrTimeout)
	default:
		a.mu.Unlock()
		a.giveUp(pawl.EndTimedOut)
	}
}

// interrupt cancels the handler's ctx.
func (a *attempt) interrupt(cause error) {
	a.mu.Lock()
	stop := a.stop
	a.mu.Unlock()
	if stop != nil {
		stop(cause)
	}
}

// lose notes that the reservation is gone, unless that is what its own settlement is doing; true when a handler was
// told.
func (a *attempt) lose() bool {
	a.mu.Lock()
	if a.lost || a.settling || a.phase == over || a.phase == givenUp || a.outcome != nil {
		a.mu.Unlock()
		return false
	}
	a.lost = true
	told, stop := a.phase == running, a.stop
	a.mu.Unlock()
	a.host.counters.leasesLost.Add(1)
	if told {
		stop(pawl.ErrLeaseLost)
	}
	a.log.Warn("reservation lost; what the attempt still does changes nothing", "session", a.session)
	return told
}

// conclude takes the attempt to its end, once; before is the phase that it was in.
func (a *attempt) conclude(end phase) (before phase, first bool) {
	before, first, outlived := a.leave(end)
	if outlived {
		a.host.held.drop(a.job.Token)
	}
	return before, first
}

func (a *attempt) leave(end phase) (before phase, first, outlived bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before = a.phase
	if before == over || before == givenUp {
		return before, false, false
	}
	a.phase = end
	if before == running {
		a.timer.Stop()
		a.host.counters.running.Add(-1)
	}
	return before, true, a.ended
}

// outlives notes that the reservation has ended, and reports whether the handler still runs. Then the attempt stays
// registered until it does not.
func (a *attempt) outlives() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = a.phase == running
	return a.ended
}

// returned is called in the handler's goroutine with what the handler returned.
func (a *attempt) returned(err error) {
	_ = textOf(err) // an Error method that blocks does so while the timeout still watches
	if _, first := a.conclude(over); !first {
		a.returnedLate(err)
		return
	}
	cause := context.Cause(a.ctx)
	finished := a.end()
	a.finish(finished, endingOf(cause, err), cause, err)
}

// returnedLate notes what a handler returned that had been given up. It changes nothing.
func (a *attempt) returnedLate(err error) {
	a.host.counters.strays.Add(-1)
	a.log.Warn("a handler that was given up has returned; this changes nothing", "after", time.Since(a.started), "error", textOf(err))
}

// giveUp ends an attempt whose handler does not return: it timed out, or the shutdown is over.
func (a *attempt) giveUp(ending pawl.Ending) {
	before, first := a.conclude(givenUp)
	if !first {
		return
	}
	if before == claimed {
		a.submit(pawl.GiveBack{}, pawl.EndInterrupted, nil)
		a.release()
		return
	}
	a.host.counters.strays.Add(1)
	cause := pawl.ErrTimeout
	switch {
	case a.wasCancelled():
		ending, cause = pawl.EndCancelled, pawl.ErrCancelled
	case ending == pawl.EndCutOff:
		cause = pawl.ErrShutdown
	}
	a.log.Warn("a handler ignores its cancelled context and is given up", "after", time.Since(a.started), "cause", cause)
	finished := a.end()
	a.finish(finished, ending, nil, fmt.Errorf("the handler ignored its cancelled context: %w", cause))
}

// finish decides what becomes of the job, unless an operation of it has done so, and frees the slot.
func (a *attempt) finish(finished bool, ending pawl.Ending, cause, err error) {
	defer a.release()
	if panicked(err) {
		a.host.counters.panicked.Add(1)
	}
	a.mu.Lock()
	outcome, lost := a.outcome, a.lost
	a.mu.Unlock()
	switch {
	case finished:
		if err != nil {
			a.log.Warn("the handler failed after its job's transition; this changes nothing", "error", textOf(err))
		}
	case lost:
		outcome = nil
		a.host.held.drop(a.job.Token)
		a.freeSuspect()
	default:
		if ending == pawl.EndTimedOut {
			a.host.counters.timedOut.Add(1)
		}
		err = pawl.Classify(err, a.host.config.Classifiers...)
		outcome = pawl.Done{}
		if err != nil { // else no clock is asked
			outcome = pawl.Decide(a.envelope.Policy, a.facts(ending), err)
		}
		a.submit(outcome, ending, explain(cause, err))
	}
	if _, died := outcome.(pawl.Dead); died && !finished && a.host.base.Err() == nil {
		return // the line of the death says it, once that is recorded
	}
	a.line(outcome, ending)
}

// drop ends an attempt that never ran and has nothing to settle any more.
func (a *attempt) drop() {
	if _, first := a.conclude(over); first {
		a.host.held.drop(a.job.Token)
		a.freeSuspect()
		a.release()
	}
}

// freeSuspect gives the place of a suspect to another, once its end is recorded: until then a crash would be charged to
// it, and must not be to the next one too.
func (a *attempt) freeSuspect() {
	a.mu.Lock()
	held := a.suspect
	a.suspect = false
	a.mu.Unlock()
	if held {
		a.host.suspects.free()
	}
}

// release gives the attempt's slot to another.
func (a *attempt) release() {
	if a.server != nil {
		a.server.release()
	}
	a.host.attempts.done()
}

// report is what a beat tells of the attempt.
func (a *attempt) report() (progress pawl.Progress, news, gone bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	news, a.news = a.news, false
	gone = a.lost || a.ended
	return a.progress, news && !gone, gone
}

// unreported keeps progress that a beat could not deliver.
func (a *attempt) unreported(p pawl.Progress) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.news = a.news || a.progress == p
}
