package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawljobs/pawl/bench/internal/child"
	"github.com/pawljobs/pawl/bench/internal/load"
	"github.com/pawljobs/pawl/bench/internal/side"
)

// recovery kills a host in the middle of a thousand jobs, with millions of jobs ready. The rate of another host, from
// its start at that moment until the last of the thousand has been run again, is compared with a clean one.
type recovery struct{ *degradation }

const (
	recoveryLimit = 60 * time.Second

	// A tenth of the default, so that the wait for the certainty that the host is dead does not take most of the time.
	recoveryBeat = 500 * time.Millisecond
)

func newRecovery(b *bench) Scenario {
	d := degradationOf(b, deadHost, b.size(100_000, 20_000), 1, func(t *child.Task) {
		t.Load, t.Jobs, t.Beat, t.Limit = load.Recover, b.size(600_000, 150_000), recoveryBeat, recoveryLimit
	})
	return &recovery{d}
}

func (r *recovery) Measure(ctx context.Context, label string) (Sample, error) {
	if !troubled(label) {
		return r.degradation.Measure(ctx, label)
	}
	victim := &victim{task: bestBurn(side.Pawl, bestWorkers)}
	victim.task.Load, victim.task.Beat, victim.task.URL = load.Victim, recoveryBeat, r.url
	defer victim.kill()
	report, err := r.run(ctx, label, child.Hooks{load.PhaseWork: func(ctx context.Context) error {
		if err := addReady(ctx, r.url, r.size(4_400_000, 350_000)); err != nil {
			return err
		}
		if err := r.server.Checkpoint(ctx); err != nil {
			return err
		}
		if err := victim.start(ctx); err != nil {
			return err
		}
		victim.kill()
		return nil
	}})
	sample := costs(report.Phases[load.PhaseWork])
	sample[load.ValueRecovered] = report.Values[load.ValueRecovered]
	return sample, err
}

// victim is a host in a process of its own.
type victim struct {
	task   child.Task
	cancel context.CancelFunc
	ended  chan struct{}
}

// start returns when all its handlers run.
func (v *victim) start(ctx context.Context) error {
	ctx, v.cancel = context.WithCancel(ctx)
	v.ended = make(chan struct{})
	full := make(chan struct{})
	var err error
	go func() {
		defer close(v.ended)
		_, err = child.Run(ctx, v.task, nil, child.Hooks{load.PhaseIdle: func(context.Context) error {
			close(full)
			return nil
		}})
	}()
	select {
	case <-full:
		return nil
	case <-v.ended:
		return fmt.Errorf("start victim: %w", errors.Join(err, context.Cause(ctx)))
	}
}

// kill ends it as a crash does.
func (v *victim) kill() {
	if v.cancel != nil {
		v.cancel()
		<-v.ended
	}
}
