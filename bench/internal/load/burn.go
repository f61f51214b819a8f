package load

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawljobs/pawl/bench/internal/child"
	"github.com/pawljobs/pawl/bench/internal/side"
)

// Values of a burn-down.
const (
	ValueFirst = "first ms" // from the start of the workers to the first handler
	ValueLate  = "late ms"  // from the commit of the late job to its handler
)

var errFirstTry = errors.New("fails once")

// burn enqueues jobs, while nobody works, and then works them off; fill comes before that.
func (l *load) burn(ctx context.Context) error {
	if err := l.fill(ctx); err != nil {
		return err
	}
	due := l.dueTime()
	err := l.Phase(PhaseEnqueue, func() (int, error) {
		return l.task.Jobs, l.insertAll(ctx, l.task.Jobs, func(n int) side.Job {
			job := l.job(n)
			job.RunAt = due
			return job
		})
	})
	if err != nil {
		return err
	}
	if !due.IsZero() {
		time.Sleep(time.Until(due))
	}
	return l.workOff(ctx)
}

// dueTime is the moment for which all jobs are scheduled: when all will be there.
func (l *load) dueTime() time.Time {
	if !l.task.DueAtOnce {
		return time.Time{}
	}
	return time.Now().Add(time.Second + time.Duration(l.task.Jobs)*15*time.Microsecond)
}

// fill stores what is only to be there, before the jobs that are measured.
func (l *load) fill(ctx context.Context) error {
	return l.Phase(PhaseFill, func() (int, error) {
		tomorrow := time.Now().Add(24 * time.Hour)
		err := l.insertAll(ctx, l.task.Scheduled, func(n int) side.Job {
			return side.Job{N: int64(n), RunAt: tomorrow.Add(time.Duration(n) * time.Millisecond)}
		})
		if err == nil {
			err = l.insertAll(ctx, l.task.Foreign, func(n int) side.Job { return side.Job{N: int64(n), Foreign: true} })
		}
		return l.task.Scheduled + l.task.Foreign, err
	})
}

// tally counts the jobs that were handled.
type tally struct {
	began   time.Time
	wanted  int64
	done    atomic.Int64
	first   atomic.Int64 // nanoseconds from the begin
	all     chan struct{}
	late    chan struct{}
	ranLate sync.Once
	failing float64
}

func (l *load) newTally() *tally {
	return &tally{
		began: time.Now(), wanted: int64(l.task.Jobs), failing: l.task.Failing,
		all: make(chan struct{}), late: make(chan struct{}),
	}
}

func (t *tally) handle(_ context.Context, run side.Run) error {
	if run.N == child.Late {
		t.ranLate.Do(func() { close(t.late) })
		return nil
	}
	if t.first.Load() == 0 {
		t.first.CompareAndSwap(0, int64(time.Since(t.began)))
	}
	if run.Attempt == 1 && everyNth(int(run.N), t.failing) {
		return errFirstTry
	}
	if t.done.Add(1) == t.wanted {
		close(t.all)
	}
	return nil
}

// workOff lets handlers run until all jobs are done, or for as long as the limit allows. It ends when all ends are
// recorded.
func (l *load) workOff(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var t *tally
	var worked error
	var group sync.WaitGroup
	err := l.Phase(PhaseWork, func() (int, error) {
		t = l.newTally()
		group.Go(func() { worked = l.client.Work(ctx, t.handle) })
		waitFor(ctx, t.all, l.limit())
		if l.task.Late {
			return int(t.done.Load()), nil
		}
		cancel()
		group.Wait()
		return int(t.done.Load()), worked
	})
	l.values[ValueFirst] = milliseconds(time.Duration(t.first.Load()))
	if err == nil && l.task.Late {
		err = l.awaitLate(ctx, t)
	}
	cancel()
	group.Wait()
	return errors.Join(err, worked)
}

// awaitLate waits for the job that is committed as the phase begins.
func (l *load) awaitLate(ctx context.Context, t *tally) error {
	return l.Phase(PhaseLate, func() (int, error) {
		began := time.Now()
		if !waitFor(ctx, t.late, l.limit()) {
			return 0, fmt.Errorf("the job that was committed late was not run within %s", l.limit())
		}
		l.values[ValueLate] = milliseconds(time.Since(began))
		return 1, nil
	})
}

func (l *load) limit() time.Duration {
	if l.task.Limit > 0 {
		return l.task.Limit
	}
	return time.Hour
}

// waitFor reports whether the channel was closed in time.
func waitFor(ctx context.Context, c <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c:
		return true
	case <-timer.C:
	case <-ctx.Done():
	}
	return false
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }
