package side

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/pawljobs/pawl/bench/internal/child"
)

// Kind makes args a job of River's.
func (args) Kind() string { return kindName }

type foreignArgs struct{ args }

func (foreignArgs) Kind() string { return foreignName }

// riverClient is River, one client for each host that works.
type riverClient[Tx any] struct {
	task   child.Task
	driver func() riverdriver.Driver[Tx]
	insert *river.Client[Tx]
	close  func()
}

// riverConns is how many connections River has at least: four times pgxpool's default on a small machine, so that
// nothing waits for one. Fewer and more were tried and brought nothing.
const riverConns = 16

func openRiver(ctx context.Context, task child.Task) (Client, error) {
	config, err := pgxpool.ParseConfig(task.URL)
	if err != nil {
		return nil, err
	}
	config.MaxConns = int32(max(riverConns, task.Callers))
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	c := &riverClient[pgx.Tx]{task: task, close: pool.Close}
	c.driver = func() riverdriver.Driver[pgx.Tx] { return riverpgxv5.New(pool) }
	return c.open(ctx)
}

// openRiverSQLite opens the file as River's documentation advises (one connection, WAL), and with synchronous=FULL, as
// Pawl does.
func openRiverSQLite(ctx context.Context, task child.Task) (Client, error) {
	pragmas := url.Values{"_pragma": {"journal_mode(WAL)", "synchronous(FULL)", "busy_timeout(5000)"}, "_txlock": {"immediate"}}
	db, err := sql.Open("sqlite", "file:"+task.URL+"?"+pragmas.Encode())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	c := &riverClient[*sql.Tx]{task: task, close: func() { _ = db.Close() }}
	c.driver = func() riverdriver.Driver[*sql.Tx] { return riversqlite.New(db) }
	return c.open(ctx)
}

func (c *riverClient[Tx]) open(ctx context.Context) (Client, error) {
	err := c.migrate(ctx)
	if err == nil {
		c.insert, err = river.NewClient(c.driver(), c.config(nil, 0))
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *riverClient[Tx]) migrate(ctx context.Context) error {
	migrator, err := rivermigrate.New(c.driver(), &rivermigrate.Config{Logger: quiet()})
	if err != nil {
		return err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return err
}

func (c *riverClient[Tx]) config(handle Handler, host int) *river.Config {
	config := &river.Config{Logger: quiet()}
	if c.task.Tuned {
		config.FetchCooldown, config.FetchPollInterval = time.Millisecond, 10*time.Millisecond
	}
	if handle == nil {
		return config
	}
	config.ID = fmt.Sprintf("bench-%d", host)
	config.Workers = river.NewWorkers()
	river.AddWorker(config.Workers, river.WorkFunc(func(ctx context.Context, job *river.Job[args]) error {
		return handle(ctx, Run{N: job.Args.N, Attempt: job.Attempt})
	}))
	config.Queues = map[string]river.QueueConfig{}
	names := queueNames(c.task)
	for _, name := range names {
		config.Queues[name] = river.QueueConfig{MaxWorkers: c.workers(len(names))}
	}
	return config
}

// workers is MaxWorkers of a queue. River has no default; its documentation has 100 everywhere.
func (c *riverClient[Tx]) workers(queues int) int {
	if !c.task.Tuned {
		return 100
	}
	return max(1, c.task.Workers/queues/max(1, c.task.Hosts))
}

func (c *riverClient[Tx]) Close() { c.close() }

func (c *riverClient[Tx]) Insert(ctx context.Context, jobs []Job) error {
	if len(jobs) == 1 {
		params := riverParams(jobs[0])
		_, err := c.insert.Insert(ctx, params.Args, params.InsertOpts)
		return err
	}
	params := make([]river.InsertManyParams, len(jobs))
	for i, job := range jobs {
		params[i] = riverParams(job)
	}
	_, err := c.insert.InsertManyFast(ctx, params)
	return err
}

func riverParams(job Job) river.InsertManyParams {
	params := river.InsertManyParams{
		Args: argsOf(job), InsertOpts: &river.InsertOpts{Queue: queueName(job.Queue), ScheduledAt: job.RunAt},
	}
	if job.Foreign {
		params.Args = foreignArgs{argsOf(job)}
	}
	if job.Key != "" {
		params.InsertOpts.UniqueOpts = river.UniqueOpts{ByArgs: true}
	}
	return params
}

func (c *riverClient[Tx]) Work(ctx context.Context, handle Handler) error {
	hosts := make([]*river.Client[Tx], max(1, c.task.Hosts))
	for i := range hosts {
		var err error
		if hosts[i], err = river.NewClient(c.driver(), c.config(handle, i)); err != nil {
			return err
		}
	}
	for _, host := range hosts {
		if err := host.Start(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	<-ctx.Done()
	for _, host := range hosts {
		if err := host.Stop(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	return nil
}
