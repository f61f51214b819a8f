package load

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawljobs/pawl/bench/internal/side"
)

// Values of held and recovered jobs.
const (
	ValueRSS       = "rss MB"      // the most, from the start to the last job
	ValueHeldRSS   = "held rss MB" // the most while a job waited in each worker
	ValueRecovered = "recovered s" // from the victim's death to the last of its jobs
)

// holder has handlers that wait until they are let go.
type holder struct {
	workers, jobs int64
	begun, done   atomic.Int64
	full, all     chan struct{}
	let           chan struct{}
	ended         sync.WaitGroup
}

func (l *load) newHolder() *holder {
	return &holder{
		workers: int64(l.task.Workers), jobs: int64(l.task.Jobs),
		full: make(chan struct{}), all: make(chan struct{}), let: make(chan struct{}),
	}
}

func (h *holder) handle(context.Context, side.Run) error {
	if h.begun.Add(1) == h.workers {
		close(h.full)
	}
	<-h.let
	if h.done.Add(1) == h.jobs {
		close(h.all)
	}
	return nil
}

// hold has a handler waiting in each worker, lets them go, works off the rest of the jobs, which are there already, and
// is idle for the limit.
func (l *load) hold(ctx context.Context) error {
	if l.task.Side == side.Empty {
		return errors.Join(l.watchMemory(time.Second), l.watchIdle(ctx))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h := l.newHolder()
	var worked error
	h.ended.Go(func() { worked = l.client.Work(ctx, h.handle) })
	err := l.holdAll(ctx, h)
	close(h.let)
	if err == nil && !waitFor(ctx, h.all, lastWait) {
		err = fmt.Errorf("%d of %d jobs were run", h.done.Load(), h.jobs)
	}
	if err == nil {
		l.values[ValueRSS], err = statusMB("VmHWM:")
	}
	if err == nil {
		err = l.watchIdle(ctx)
	}
	cancel()
	h.ended.Wait()
	return errors.Join(err, worked)
}

// holdAll waits until all workers have a job.
func (l *load) holdAll(ctx context.Context, h *holder) error {
	return l.Phase(PhaseHeld, func() (int, error) {
		if !waitFor(ctx, h.full, lastWait) {
			return 0, fmt.Errorf("only %d of %d handlers run", h.begun.Load(), h.workers)
		}
		return int(h.workers), l.watchMemory(time.Second)
	})
}

// watchIdle waits until what was going on has ended, and then measures a time without any work.
func (l *load) watchIdle(ctx context.Context) error {
	const afterglow = time.Second
	never := make(chan struct{})
	waitFor(ctx, never, afterglow)
	return l.Phase(PhaseIdle, func() (int, error) {
		waitFor(ctx, never, l.task.Limit)
		return 0, nil
	})
}

// watchMemory keeps the largest resident set that it sees.
func (l *load) watchMemory(span time.Duration) error {
	for until := time.Now().Add(span); time.Now().Before(until); time.Sleep(50 * time.Millisecond) {
		rss, err := statusMB("VmRSS:")
		if err != nil {
			return err
		}
		l.values[ValueHeldRSS] = max(l.values[ValueHeldRSS], rss)
	}
	l.values[ValueRSS] = l.values[ValueHeldRSS]
	return nil
}

// statusMB is a size in /proc/self/status (proc(5)), in MB of 10^6 bytes.
func statusMB(name string) (float64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, name); ok {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), "kB")), 64)
			return kib * 1024 / 1e6, err
		}
	}
	return 0, fmt.Errorf("there is no %s in /proc/self/status", name)
}

// victim runs handlers that do not end. Its parent kills it as soon as all of them run.
func (l *load) victim(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h := l.newHolder()
	var worked error
	h.ended.Go(func() { worked = l.client.Work(ctx, h.handle) })
	err := l.holdAll(ctx, h)
	if err == nil {
		err = l.Phase(PhaseIdle, func() (int, error) {
			waitFor(ctx, make(chan struct{}), time.Hour)
			return 0, nil
		})
	}
	cancel()
	close(h.let)
	h.ended.Wait()
	return errors.Join(err, worked)
}

// recover works off jobs beside and after a victim, until the victim's jobs have been run again.
func (l *load) recover(ctx context.Context) error {
	if err := l.Phase(PhaseEnqueue, func() (int, error) { return l.task.Jobs, l.insertAll(ctx, l.task.Jobs, l.job) }); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var done, again atomic.Int64
	all := make(chan struct{})
	handle := func(_ context.Context, run side.Run) error {
		done.Add(1)
		if run.Attempt > 1 && again.Add(1) == int64(l.task.Workers) {
			close(all)
		}
		return nil
	}
	var worked error
	var group sync.WaitGroup
	err := l.Phase(PhaseWork, func() (int, error) {
		began := time.Now()
		group.Go(func() { worked = l.client.Work(ctx, handle) })
		if !waitFor(ctx, all, l.limit()) {
			return 0, fmt.Errorf("%d of the victim's %d jobs were not run again within %s", int64(l.task.Workers)-again.Load(), l.task.Workers, l.limit())
		}
		l.values[ValueRecovered] = time.Since(began).Seconds()
		return int(done.Load()), nil
	})
	cancel()
	group.Wait()
	return errors.Join(err, worked)
}
