package ops

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawljobs/pawl"
)

const (
	defaultProbeWait = 10 * time.Minute
	defaultStopAfter = 10
	// lookEvery is how often an operation is looked at by those who run or watch it, and so how soon a pause is obeyed.
	lookEvery = time.Second
)

// RunOptions say who runs an operation.
type RunOptions struct {
	// Runner names who works, as operators see it. Default "library".
	Runner string
	// Each, unless nil, is told how the operation stands: about once a second, and when it is over. It is called from the
	// goroutine of the caller.
	Each func(pawl.Operation)
}

// RunOperation runs an operation until it has ended or is paused, and returns how it stands then. While another runner
// works on it, it watches, and takes it up when that one's lease has run out; where the letters' store lets no one run
// operations from here, it only watches.
//
// When ctx is done it leaves the operation as it is: another RunOperation, or a Runner, goes on exactly there. An error
// means the same.
func (d *Desk) RunOperation(ctx context.Context, id pawl.ID, o RunOptions) (pawl.Operation, error) {
	operations, err := d.operations()
	if err != nil {
		return pawl.Operation{}, err
	}
	if o.Runner == "" {
		o.Runner = "library"
	}
	work, works := d.letters.(pawl.OperationWork)
	for {
		operation, err := operations.Operation(ctx, id)
		if err != nil {
			return operation, err
		}
		if o.Each != nil {
			o.Each(operation)
		}
		if !operation.State.Active() {
			return operation, nil
		}
		if works && operation.Runner == "" {
			leased, err := work.LeaseOperations(ctx, pawl.OperationLease{Runner: o.Runner, Only: []pawl.ID{id}, Max: 1})
			if err == nil && len(leased) == 1 {
				err = d.carryOutOperation(ctx, leased[0], o.Each)
			}
			if err != nil {
				return operation, err
			}
			if len(leased) == 1 {
				continue
			}
		}
		if err := pause(ctx, lookEvery); err != nil {
			return operation, err
		}
	}
}

// run is an operation that is leased.
type run struct {
	desk       *Desk
	operations pawl.Operations
	work       pawl.OperationWork
	now        pawl.Operation // as it was last looked at
	lease      pawl.Token
	by         pawl.By // of the moves
	each       func(pawl.Operation)

	looked  time.Time // at the operation
	renewed time.Time // the lease
	probing time.Time // since when the probe's end is waited for
	differs bool      // the first that were redriven have not all died alike
	single  int       // so many letters go one by one: a step with them has failed
	failed  int       // how often the step of one letter has
}

// carryOutOperation works on an operation until it does not go on or the lease is lost, which is no error.
func (d *Desk) carryOutOperation(ctx context.Context, leased pawl.LeasedOperation, each func(pawl.Operation)) error {
	operations, err := d.operations()
	if err != nil {
		return err
	}
	r := run{
		desk: d, operations: operations, work: d.letters.(pawl.OperationWork), now: leased.Operation, lease: leased.Lease,
		each: each, looked: time.Now(), renewed: time.Now(),
	}
	r.by = pawl.By{Who: r.now.Who, Door: r.now.Door, Why: "operation " + r.now.ID.String()}
	if r.now.Why != "" {
		r.by.Why = r.now.Why + "; " + r.by.Why
	}
	err = r.handOverRest(ctx)
	if err == nil {
		err = r.loop(ctx)
	}
	if errors.Is(err, pawl.ErrLeaseLost) {
		return nil
	}
	after, cancel := afterwards(ctx)
	defer cancel()
	_, releaseErr := r.work.AdvanceOperation(after, pawl.OperationStep{Operation: r.now.ID, Lease: r.lease, Release: true})
	if err == nil && !errors.Is(releaseErr, pawl.ErrLeaseLost) {
		err = releaseErr
	}
	if err != nil {
		return fmt.Errorf("run operation %s: %w", r.now.ID, err)
	}
	return nil
}

func (r *run) loop(ctx context.Context) error {
	size, gap := r.pace()
	for next := time.Now(); r.now.State.Active(); {
		if time.Since(r.looked) >= lookEvery {
			if err := r.look(ctx); err != nil {
				return err
			}
			continue
		}
		if wait := r.wait(time.Until(next)); wait > 0 {
			if err := pause(ctx, wait); err != nil {
				return err
			}
			continue
		}
		next = time.Now().Add(gap)
		if err := r.step(ctx, size); err != nil {
			return err
		}
	}
	return nil
}

// pace is how many letters are dealt with at once, and how long after each other.
func (r *run) pace() (size int, gap time.Duration) {
	rate := r.now.Options.Rate
	if rate == 0 {
		return batch, 0
	}
	size = max(1, min(batch, int(rate/5)))
	return size, time.Duration(float64(size) / rate * float64(time.Second))
}

// wait is how long nothing is to be done: until the next step, or the next look at the operation or its probe.
func (r *run) wait(untilStep time.Duration) time.Duration {
	untilLook := lookEvery - time.Since(r.looked)
	if r.now.State == pawl.OperationProbing && r.now.Done > 0 {
		return untilLook
	}
	return min(untilStep, untilLook)
}

// look renews the lease, and sees how the operation stands and whether it has to stop.
func (r *run) look(ctx context.Context) error {
	if _, err := r.advance(ctx, pawl.OperationStep{}); err != nil {
		return err
	}
	now, err := r.operations.Operation(ctx, r.now.ID)
	if err != nil {
		return err
	}
	r.now, r.looked = now, time.Now()
	if r.each != nil {
		r.each(now)
	}
	switch {
	case now.State == pawl.OperationProbing && now.Done > 0:
		return r.judgeProbe(ctx)
	case now.State == pawl.OperationRunning && now.Action == pawl.ActionRedrive && now.Waiting() > 0:
		return r.judgeFirst(ctx)
	}
	return nil
}

// advance makes a step. One that finds the operation paused or stopped was not made; the next look sees it.
func (r *run) advance(ctx context.Context, step pawl.OperationStep) ([]error, error) {
	step.Operation, step.Lease = r.now.ID, r.lease
	results, err := r.work.AdvanceOperation(ctx, step)
	if err == nil {
		r.renewed = time.Now()
	}
	return results, err
}

// to changes the state by the runner's own decision.
func (r *run) to(ctx context.Context, state pawl.OperationState, reason string) error {
	_, err := r.advance(ctx, pawl.OperationStep{State: state, Reason: reason})
	if errors.Is(err, pawl.ErrConflict) { // somebody was faster
		return r.see(ctx)
	}
	if err == nil {
		r.now.State = state
	}
	return err
}

// see reads how the operation stands.
func (r *run) see(ctx context.Context) (err error) {
	r.now, err = r.operations.Operation(ctx, r.now.ID)
	return err
}

// step deals with the next letters, at most size. What fails for all of them is tried with one at a time, so that the
// culprit is refused and the others go on.
func (r *run) step(ctx context.Context, size int) error {
	if r.single > 0 || r.now.State == pawl.OperationProbing {
		size = 1
	}
	next, err := r.work.OperationLetters(ctx, r.now.ID, size)
	if err != nil {
		return err
	}
	if len(next) == 0 {
		if err := r.see(ctx); err != nil || !r.now.State.Active() {
			return err
		}
		return r.to(ctx, pawl.OperationFinished, "")
	}
	items, plans := r.draw(next)
	results, err := r.advance(ctx, pawl.OperationStep{Items: items})
	switch {
	case errors.Is(err, pawl.ErrConflict): // paused, or stopped
		if err := r.see(ctx); err != nil || !r.now.State.Active() {
			return err
		}
		return pause(ctx, lookEvery)
	case err != nil:
		return r.isolate(ctx, items, err)
	}
	r.failed, r.single = 0, max(0, r.single-len(items))
	for i := range results {
		if results[i] != nil {
			r.now.Refused++
			plans[i] = nil
		} else {
			r.now.Done++
		}
	}
	return r.handOver(ctx, items, plans)
}

// tries is how often a step with one letter fails before the letter is refused.
const tries = 3

// isolate looks for the letter with which a step fails.
func (r *run) isolate(ctx context.Context, items []pawl.ItemStep, cause error) error {
	for _, of := range []error{pawl.ErrLeaseLost, pawl.ErrNotFound, pawl.ErrClosed, pawl.ErrSchema} {
		if errors.Is(cause, of) {
			return cause
		}
	}
	if ctx.Err() != nil {
		return cause
	}
	if len(items) > 1 {
		r.single = len(items)
		return r.see(ctx)
	}
	if r.failed++; r.failed < tries {
		return pause(ctx, lookEvery)
	}
	item := pawl.ItemStep{Position: items[0].Position, Letter: items[0].Letter, Refused: fmt.Sprintf("letter %s: %v", items[0].Letter, cause)}
	if _, err := r.advance(ctx, pawl.OperationStep{Items: []pawl.ItemStep{item}}); err != nil {
		return errors.Join(cause, err) // it is not the letter
	}
	r.failed, r.now.Refused = 0, r.now.Refused+1
	return nil
}

// draw decides what is to become of letters. Plan i is nil where item i is refused, or its action needs none.
func (r *run) draw(next []pawl.OperationLetter) ([]pawl.ItemStep, []*plan) {
	items, plans := make([]pawl.ItemStep, len(next)), make([]*plan, len(next))
	o := redriveOptions(r.now.Options, r.by)
	for i, n := range next {
		items[i] = pawl.ItemStep{Position: n.Position, Letter: n.Letter.ID}
		if r.now.Action != pawl.ActionRedrive {
			items[i].Move = pawl.Move{Letter: n.Letter.ID, Action: r.now.Action, By: r.by, Note: o.Note}
			continue
		}
		p, err := plan{}, fmt.Errorf("letter %s: %w", n.Letter.ID, pawl.ErrNotFound)
		if n.Found {
			p, err = r.desk.planRedriveOf(n.Letter, o, true)
		}
		if err != nil {
			items[i].Refused = err.Error()
			continue
		}
		p.letter.Envelope = nil // the job has what is needed
		items[i].Move, plans[i] = p.toMove(), &p
	}
	return items, plans
}

// judgeProbe waits for the probe's end, or stops.
func (r *run) judgeProbe(ctx context.Context) error {
	page, err := r.operations.OperationItems(ctx, r.now.ID, pawl.ItemFilter{State: pawl.ItemDone}, pawl.Page{Limit: 1})
	if err != nil || len(page.Items) == 0 {
		return err
	}
	if r.probing.IsZero() {
		r.probing = time.Now()
	}
	wait := r.now.Options.ProbeWait
	if wait == 0 {
		wait = defaultProbeWait
	}
	switch probe := page.Items[0]; {
	case probe.Outcome == pawl.RedriveSucceeded:
		return r.to(ctx, pawl.OperationRunning, "")
	case probe.Outcome != pawl.RedrivePending:
		return r.to(ctx, pawl.OperationStopped, fmt.Sprintf("the probe, letter %s, ended so: %s", probe.Letter, probe.Outcome))
	case time.Since(r.probing) >= wait:
		return r.to(ctx, pawl.OperationStopped, fmt.Sprintf("the probe, letter %s, has not ended within %s", probe.Letter, wait))
	}
	return nil
}

// judgeFirst stops when the first letters have all died again as they had before.
func (r *run) judgeFirst(ctx context.Context) error {
	n := r.now.Options.StopAfter
	if n == 0 {
		n = defaultStopAfter
	}
	if r.differs || n < 0 || r.now.Done < n {
		return nil
	}
	page, err := r.operations.OperationItems(ctx, r.now.ID, pawl.ItemFilter{State: pawl.ItemDone}, pawl.Page{Limit: n})
	if err != nil || len(page.Items) < n {
		return err
	}
	if slices.ContainsFunc(page.Items, func(i pawl.OperationItem) bool { return i.Outcome == pawl.RedrivePending }) {
		return nil
	}
	for _, item := range page.Items {
		alike, err := r.desk.diedAlike(ctx, item)
		if err != nil {
			return fmt.Errorf("look at the first that were redriven: %w", err)
		}
		if !alike {
			r.differs = true
			return nil
		}
	}
	return r.to(ctx, pawl.OperationStopped, fmt.Sprintf("the first %d died again as they had before", n))
}

// diedAlike says that an item's job died with the fingerprint of the letter it came from.
func (d *Desk) diedAlike(ctx context.Context, item pawl.OperationItem) (bool, error) {
	if item.Outcome != pawl.RedriveDiedAgain {
		return false, nil
	}
	letter, err := d.letters.Letter(ctx, item.Letter)
	if err != nil || letter.NextLetter.IsZero() {
		return false, unlessForgotten(err)
	}
	next, err := d.letters.Letter(ctx, letter.NextLetter)
	return err == nil && next.Fingerprint == letter.Fingerprint, unlessForgotten(err)
}

func unlessForgotten(err error) error {
	if errors.Is(err, pawl.ErrNotFound) {
		return nil
	}
	return err
}

// pause waits, unless ctx ends first.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
