package side

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/bench/internal/child"
	"github.com/pawljobs/pawl/host"
	"github.com/pawljobs/pawl/postgres"
	"github.com/pawljobs/pawl/sqlite"
)

// pawlStore is a store of Pawl's.
type pawlStore interface {
	pawl.Store
	Close() error
}

// pawlClient is Pawl: one store for each host that works, as if each were a process.
type pawlClient struct {
	task    child.Task
	stores  []pawlStore
	work    pawl.Kind[args]
	foreign pawl.Kind[args]
}

func openPawl(ctx context.Context, task child.Task) (Client, error) {
	var policy pawl.Policy
	if task.Failing > 0 { // a retry is due at once: its cost is measured, and not the wait
		policy.Backoff = []time.Duration{0}
	}
	c := &pawlClient{
		task: task, work: pawl.NewKind[args](kindName, policy), foreign: pawl.NewKind[args](foreignName, policy),
	}
	for range max(1, task.Hosts) {
		store, err := openPawlStore(ctx, task)
		if err != nil {
			c.Close()
			return nil, err
		}
		c.stores = append(c.stores, store)
	}
	return c, nil
}

func openPawlStore(ctx context.Context, task child.Task) (pawlStore, error) {
	history := time.Duration(0)
	if task.NoHistory {
		history = -1
	}
	if task.Engine == SQLite {
		return sqlite.Open(ctx, task.URL, sqlite.Config{History: history, Logger: quiet()})
	}
	return postgres.Open(ctx, task.URL, postgres.Config{History: history, Logger: quiet()})
}

// quiet keeps logs out of the measurements: a line for each execution costs what the writing of it costs.
func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func (c *pawlClient) Close() {
	for _, store := range c.stores {
		_ = store.Close()
	}
}

func (c *pawlClient) Insert(ctx context.Context, jobs []Job) error {
	store := c.stores[0]
	if len(jobs) == 1 {
		job, err := c.newJob(ctx, jobs[0])
		if err == nil {
			_, err = store.Enqueue(ctx, []pawl.NewJob{job})
		}
		return err
	}
	made := make([]pawl.NewJob, len(jobs))
	for i, job := range jobs {
		var err error
		if made[i], err = c.newJob(ctx, job); err != nil {
			return err
		}
	}
	results, err := store.Enqueue(ctx, made)
	if err != nil {
		return err
	}
	for _, result := range results {
		if result.Status != pawl.Accepted {
			return fmt.Errorf("job %s is %s", result.ID, result.Status)
		}
	}
	return nil
}

func (c *pawlClient) newJob(ctx context.Context, job Job) (pawl.NewJob, error) {
	kind := c.work
	if job.Foreign {
		kind = c.foreign
	}
	return kind.New(ctx, c.stores[0].Connection(), argsOf(job), pawlOptions(job)...)
}

func pawlOptions(job Job) []pawl.Option {
	var options []pawl.Option
	if job.Queue != 0 {
		options = append(options, pawl.InQueue(queueName(job.Queue)))
	}
	if job.Key != "" {
		options = append(options, pawl.UniqueWhileUnfinished(job.Key))
	}
	if !job.RunAt.IsZero() {
		options = append(options, pawl.RunAt(job.RunAt))
	}
	return options
}

func (c *pawlClient) Work(ctx context.Context, handle Handler) error {
	mux := pawl.NewMux()
	pawl.Handle(mux, c.work, func(ctx context.Context, a args) error {
		return handle(ctx, Run{N: a.N, Attempt: pawl.FromContext(ctx).Attempt})
	})
	var group sync.WaitGroup
	errs := make([]error, len(c.stores))
	for i, store := range c.stores {
		h, err := host.New(store, mux, c.hostConfig(i))
		if err != nil {
			return err
		}
		group.Go(func() { errs[i] = h.Run(ctx) })
	}
	group.Wait()
	return errors.Join(errs...)
}

func (c *pawlClient) hostConfig(i int) host.Config {
	config := host.Config{Name: fmt.Sprintf("bench-%d", i), Logger: quiet()}
	if c.task.Tuned {
		config.Servers = []host.Server{{Name: "bench", Queues: queueNames(c.task), Workers: c.task.Workers}}
	}
	if beat := c.task.Beat; beat > 0 {
		config.Intervals = host.Intervals{Beat: beat, Silence: 3 * beat, DeadAfter: 4 * beat}
	}
	return config
}

// EnqueueIn enqueues one job with Pawl, for a handler of this package.
func EnqueueIn(ctx context.Context, to pawl.Enqueuer, n int64) error {
	_, err := pawl.NewKind[args](kindName, pawl.Policy{}).Enqueue(ctx, to, args{N: n, Email: email})
	return err
}
