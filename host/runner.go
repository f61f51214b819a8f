package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
)

// operations stand behind the methods of the Job that a handler sees.
type operations struct{ *attempt }

var _ pawl.Runner = operations{}

// Settle makes a transition durable. When ctx ends before the store was asked, it is withdrawn and nothing happened;
// once the store is being asked, the answer is waited for.
func (o operations) Settle(ctx context.Context, outcome pawl.Outcome, failure error) error {
	a := o.attempt
	if err := a.claimTransition(); err != nil {
		return err
	}
	ending := pawl.EndReturned
	if _, released := outcome.(pawl.Release); released {
		ending = pawl.EndReleased
	}
	e := a.entry(outcome, ending, failure)
	e.waiter = make(chan error, 1)
	err := a.host.settler.settleNow(ctx, e)
	lost := errors.Is(err, pawl.ErrLeaseLost)
	a.mu.Lock()
	a.settling = false
	if err == nil {
		a.outcome = outcome
	}
	a.lost = a.lost || lost
	a.mu.Unlock()
	if lost {
		a.interrupt(pawl.ErrLeaseLost)
	}
	return err
}

// claimTransition keeps a beat from taking the end of the reservation for its loss.
func (a *attempt) claimTransition() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lost {
		return pawl.LeaseLost(a.job.Reservation)
	}
	a.settling = true
	return nil
}

// Progress keeps the latest report for the next beat.
func (o operations) Progress(_ context.Context, percent int, note string) error {
	a := o.attempt
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.lost:
		return pawl.LeaseLost(a.job.Reservation)
	case a.phase != running:
		return pawl.ErrFinished
	}
	a.progress = pawl.Progress{Reservation: a.job.Reservation, Percent: percent, Note: note}
	a.news = true
	return nil
}

// Extend moves the timeout, if it has not passed yet and nobody has cancelled the job.
func (o operations) Extend(_ context.Context, d time.Duration) (time.Time, error) {
	a := o.attempt
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.lost:
		return time.Time{}, pawl.LeaseLost(a.job.Reservation)
	case a.phase != running:
		return time.Time{}, pawl.ErrFinished
	case a.wasCancelled():
		return time.Time{}, fmt.Errorf("extend the timeout: %w", pawl.ErrCancelled)
	case a.timedOut:
		return time.Time{}, fmt.Errorf("extend the timeout: %w", pawl.ErrTimeout)
	}
	a.deadline = time.Now().Add(d)
	a.timer.Reset(d)
	return a.deadline, nil
}
