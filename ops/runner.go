package ops

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/pawljobs/pawl"
)

// RunnerConfig of a Runner. The zero value is good.
type RunnerConfig struct {
	// Name is how operators see who works. Default: the machine's name and the process id.
	Name string
	// Poll is how often it looks for operations that nobody runs. Default 1 s.
	Poll time.Duration
	// AtOnce is how many operations it runs at the same time. Default 8.
	AtOnce int
	// Logger receives what has no caller to go to. Default slog.Default().
	Logger *slog.Logger
}

// Runner runs the operations that nobody runs: those that were begun elsewhere to be left to it, and those whose runner was
// killed. Any number may work on one store; each operation has one runner at a time.
type Runner struct {
	desk   *Desk
	work   pawl.OperationWork
	config RunnerConfig
}

// NewRunner returns a runner of the operations of the desk's store. It fails with pawl.ErrUnsupported where they cannot be
// run from here.
func NewRunner(desk *Desk, c RunnerConfig) (*Runner, error) {
	work, ok := desk.letters.(pawl.OperationWork)
	if _, err := desk.operations(); err != nil || !ok {
		return nil, fmt.Errorf("run operations: %w", pawl.ErrUnsupported)
	}
	if c.Poll < 0 || c.AtOnce < 0 {
		return nil, &pawl.FieldError{Field: "poll and at once", Value: fmt.Sprint(c.Poll, " ", c.AtOnce), Rule: "must not be negative"}
	}
	if c.Poll == 0 {
		c.Poll = lookEvery
	}
	if c.AtOnce == 0 {
		c.AtOnce = 8
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Name == "" {
		machine, err := os.Hostname()
		if err != nil {
			machine = "unknown"
		}
		c.Name = fmt.Sprintf("%s:%d", machine, os.Getpid())
	}
	return &Runner{desk: desk, work: work, config: c}, nil
}

// Run works until ctx is done, and returns when all that it ran is let go: others go on with it.
func (r *Runner) Run(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	free := make(chan struct{}, r.config.AtOnce)
	troubled := false
	for ctx.Err() == nil {
		leased, err := r.lease(ctx, cap(free)-len(free))
		if err != nil && ctx.Err() == nil && !troubled {
			r.config.Logger.Warn("look for operations", "error", err)
		}
		troubled = err != nil
		for _, operation := range leased {
			free <- struct{}{}
			group.Go(func() {
				defer func() { <-free }()
				r.run(ctx, operation)
			})
		}
		if pause(ctx, r.config.Poll) != nil {
			return
		}
	}
}

func (r *Runner) lease(ctx context.Context, most int) ([]pawl.LeasedOperation, error) {
	if most == 0 {
		return nil, nil
	}
	return r.work.LeaseOperations(ctx, pawl.OperationLease{Runner: r.config.Name, Max: most})
}

// run carries out an operation as far as it goes. What fails is leased again when the lease has run out, by whoever comes.
func (r *Runner) run(ctx context.Context, leased pawl.LeasedOperation) {
	log := r.config.Logger.With("operation", leased.ID, "action", leased.Action)
	log.Info("operation taken up", "letters", leased.Letters, "waiting", leased.Waiting(), "who", leased.Who)
	if err := r.desk.carryOutOperation(ctx, leased, nil); err != nil && ctx.Err() == nil {
		log.Warn("operation left", "error", err)
		_ = pause(ctx, lookEvery) // it is free again: somebody else may fare better
	}
}
