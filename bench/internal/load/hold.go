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
	ValueRSS       = "rss MB"      // the most that was seen while all workers were busy
	ValueRecovered = "recovered s" // from the victim's death to the last of its jobs
)

// holder has handlers that wait until they are let go.
type holder struct {
	running atomic.Int64
	wanted  int64
	full    chan struct{}
	let     chan struct{}
	ended   sync.WaitGroup
}

func (l *load) newHolder() *holder {
	return &holder{wanted: int64(l.task.Jobs), full: make(chan struct{}), let: make(chan struct{})}
}

func (h *holder) handle(context.Context, side.Run) error {
	if h.running.Add(1) == h.wanted {
		close(h.full)
	}
	<-h.let
	return nil
}

// hold has a handler running in each worker, looks at the memory, lets them end, and is idle for the limit.
func (l *load) hold(ctx context.Context) error {
	if l.task.Side == side.Empty {
		return l.watchIdle(ctx)
	}
	if err := l.insertAll(ctx, l.task.Jobs, l.job); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h := l.newHolder()
	var worked error
	h.ended.Go(func() { worked = l.client.Work(ctx, h.handle) })
	err := l.holdAll(ctx, h)
	close(h.let)
	if err == nil {
		err = l.watchIdle(ctx)
	}
	cancel()
	h.ended.Wait()
	return errors.Join(err, worked)
}

// holdAll waits until all jobs run.
func (l *load) holdAll(ctx context.Context, h *holder) error {
	return l.Phase(PhaseHeld, func() (int, error) {
		if !waitFor(ctx, h.full, 30*time.Second) {
			return 0, fmt.Errorf("only %d of %d handlers run", h.running.Load(), h.wanted)
		}
		return int(h.wanted), l.watchMemory(time.Second)
	})
}

// watchIdle waits until what was going on has ended, and then measures a time without any work.
func (l *load) watchIdle(ctx context.Context) error {
	const afterglow = time.Second
	if l.task.Side == side.Empty {
		if err := l.watchMemory(time.Second); err != nil {
			return err
		}
	}
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
		rss, err := residentMB()
		if err != nil {
			return err
		}
		l.values[ValueRSS] = max(l.values[ValueRSS], rss)
	}
	return nil
}

// residentMB is VmRSS of proc(5), in MB of 10^6 bytes.
func residentMB() (float64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(text), "kB")), 64)
			return kib * 1024 / 1e6, err
		}
	}
	return 0, errors.New("there is no VmRSS in /proc/self/status")
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
