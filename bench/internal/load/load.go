// Package load is what a child does: the measured work, the same for every side.
package load

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/pawljobs/pawl/bench/internal/child"
	"github.com/pawljobs/pawl/bench/internal/side"
)

// Loads, by name.
const (
	Bulk    = "bulk"    // enqueue by the thousand
	Single  = "single"  // enqueue one by one
	Burn    = "burn"    // enqueue by the thousand, then work off
	Latency = "latency" // a steady stream
	Hold    = "hold"    // as many running handlers as there are workers, then idleness
	Victim  = "victim"  // running handlers, until the process is killed
	Recover = "recover" // work off, until the jobs of a victim have been run again
)

// Phases.
const (
	PhaseFill    = "fill"    // of what is there before
	PhaseEnqueue = "enqueue" // of the jobs that are measured
	PhaseWork    = "work"
	PhaseLate    = "late"
	PhaseStream  = "stream"
	PhaseHeld    = "held"
	PhaseIdle    = "idle"
)

// Main runs one task for the parent at the other end.
func Main(ctx context.Context, in io.Reader, out io.Writer) error {
	link, task, err := child.Accept(in, out)
	if err != nil {
		return err
	}
	l := &load{Link: link, task: task, values: map[string]float64{}}
	err = l.run(ctx)
	return link.Finish(l.values, err)
}

// load is one task under way.
type load struct {
	*child.Link
	task   child.Task
	client side.Client
	values map[string]float64
}

func (l *load) run(ctx context.Context) error {
	run, ok := map[string]func(context.Context) error{
		Bulk: l.bulk, Single: l.single, Burn: l.burn, Latency: l.latency, Hold: l.hold, Victim: l.victim, Recover: l.recover,
	}[l.task.Load]
	if !ok {
		return fmt.Errorf("there is no load %q", l.task.Load)
	}
	var err error
	if l.client, err = side.Open(ctx, l.task); err != nil {
		return fmt.Errorf("open: %w", err)
	}
	defer l.client.Close()
	return run(ctx)
}

const perCall = 1000

// bulk enqueues all jobs by the thousand.
func (l *load) bulk(ctx context.Context) error {
	if err := l.insert(ctx, []side.Job{{N: 0}}); err != nil { // what is done once is done
		return err
	}
	return l.Phase(PhaseEnqueue, func() (int, error) { return l.task.Jobs, l.insertAll(ctx, l.task.Jobs, l.job) })
}

// insertAll stores count jobs, made by number, by the thousand, from a few goroutines.
func (l *load) insertAll(ctx context.Context, count int, job func(n int) side.Job) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	starts := make(chan int)
	var group sync.WaitGroup
	for range max(1, l.task.Callers) {
		group.Go(func() {
			for start := range starts {
				jobs := make([]side.Job, min(perCall, count-start))
				for i := range jobs {
					jobs[i] = job(start + i)
				}
				if err := l.insert(ctx, jobs); err != nil {
					cancel(err)
				}
			}
		})
	}
	for start := 0; start < count && ctx.Err() == nil; start += perCall {
		starts <- start
	}
	close(starts)
	group.Wait()
	return context.Cause(ctx)
}

func (l *load) insert(ctx context.Context, jobs []side.Job) error {
	if err := l.client.Insert(ctx, jobs); err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	return nil
}

// job is the nth of those that are measured.
func (l *load) job(n int) side.Job {
	job := side.Job{N: int64(n), Payload: l.payload()}
	if l.task.Queues > 1 {
		job.Queue = n % l.task.Queues
	}
	if everyNth(n, l.task.Unique) {
		job.Key = fmt.Sprintf("key of %d", n)
	}
	return job
}

func (l *load) payload() string { return strings.Repeat("x", l.task.Payload) }

// everyNth picks that share of the numbers, evenly.
func everyNth(n int, share float64) bool {
	return share > 0 && int(float64(n+1)*share) > int(float64(n)*share)
}

// single enqueues one job a call, from many goroutines, for a time.
func (l *load) single(ctx context.Context) error {
	if err := l.insert(ctx, []side.Job{{N: 0}}); err != nil {
		return err
	}
	return l.Phase(PhaseEnqueue, func() (int, error) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		counts := make([]int, l.task.Callers)
		until := time.Now().Add(l.task.Limit)
		var group sync.WaitGroup
		for i := range counts {
			group.Go(func() {
				for time.Now().Before(until) && ctx.Err() == nil {
					if err := l.insert(ctx, []side.Job{{N: int64(counts[i])}}); err != nil {
						cancel(err)
						return
					}
					counts[i]++
				}
			})
		}
		group.Wait()
		total := 0
		for _, n := range counts {
			total += n
		}
		return total, context.Cause(ctx)
	})
}
