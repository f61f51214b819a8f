package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawljobs/pawl/bench/internal/side"
)

// Values of a stream.
const (
	ValueP50 = "p50 ms"
	ValueP99 = "p99 ms"
	ValueMax = "max ms"
)

const (
	warmUp    = time.Second
	lastWait  = 10 * time.Second
	inFlight  = 256 // enqueues under way at a time
	seedOfGap = 1   // the same stream for every side
)

// stream is a steady flow of jobs, each enqueued by a call of its own at a random moment, as independent requests do.
type stream struct {
	began     time.Time
	committed []atomic.Int64 // nanoseconds from the begin; 0: not yet
	started   []atomic.Int64
	left      atomic.Int64
	all       chan struct{}
}

// latency measures from the return of an enqueue, which is when its commit is known, to the start of its handler. The
// jobs are enqueued through a client of their own, as by another process.
func (l *load) latency(ctx context.Context) error {
	producer, err := side.Open(ctx, l.task)
	if err != nil {
		return err
	}
	defer producer.Close()
	count := int((l.task.Limit + warmUp).Seconds() * l.task.Rate)
	s := &stream{
		began: time.Now(), committed: make([]atomic.Int64, count), started: make([]atomic.Int64, count), all: make(chan struct{}),
	}
	s.left.Store(int64(count))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var worked error
	var group sync.WaitGroup
	group.Go(func() { worked = l.client.Work(ctx, s.handle) })
	err = l.Phase(PhaseStream, func() (int, error) {
		if err := s.produce(ctx, producer, l.task.Rate); err != nil {
			return count, err
		}
		if !waitFor(ctx, s.all, lastWait) {
			return count, fmt.Errorf("%d of %d jobs were not run", s.left.Load(), count)
		}
		return count, nil
	})
	cancel()
	group.Wait()
	if err = errors.Join(err, worked); err != nil {
		return err
	}
	l.report(s.latencies(int(warmUp.Seconds() * l.task.Rate)))
	return nil
}

func (s *stream) handle(_ context.Context, run side.Run) error {
	if s.started[run.N].CompareAndSwap(0, int64(time.Since(s.began))) && s.left.Add(-1) == 0 {
		close(s.all)
	}
	return nil
}

// produce enqueues jobs at exponentially distributed intervals. What the database cannot take in time is not left out
// but comes later.
func (s *stream) produce(ctx context.Context, producer side.Client, rate float64) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	random := rand.New(rand.NewPCG(seedOfGap, seedOfGap))
	places := make(chan struct{}, inFlight)
	var group sync.WaitGroup
	next := time.Now()
	for n := range s.committed {
		next = next.Add(time.Duration(random.ExpFloat64() / rate * float64(time.Second)))
		time.Sleep(time.Until(next))
		places <- struct{}{}
		group.Go(func() {
			defer func() { <-places }()
			if err := producer.Insert(ctx, []side.Job{{N: int64(n)}}); err != nil {
				cancel(err)
			}
			s.committed[n].Store(int64(time.Since(s.began)))
		})
		if ctx.Err() != nil {
			break
		}
	}
	group.Wait()
	return context.Cause(ctx)
}

// latencies are those after the first jobs, in order. A handler that starts before the enqueue has returned counts as
// none at all.
func (s *stream) latencies(from int) []time.Duration {
	out := make([]time.Duration, 0, len(s.started)-from)
	for n := from; n < len(s.started); n++ {
		out = append(out, max(0, time.Duration(s.started[n].Load()-s.committed[n].Load())))
	}
	slices.Sort(out)
	return out
}

func (l *load) report(sorted []time.Duration) {
	at := func(share float64) float64 {
		return milliseconds(sorted[min(len(sorted)-1, int(share*float64(len(sorted))))])
	}
	l.values[ValueP50], l.values[ValueP99], l.values[ValueMax] = at(0.50), at(0.99), at(1)
}
