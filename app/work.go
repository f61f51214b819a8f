package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pawljobs/pawl/host"
	"github.com/spf13/cobra"
)

const workHelp = `Run jobs until told to stop, or until there is nothing left: one pool of workers, without endpoints.

It is serve for a shell, a cron job or a container that works something off. SIGTERM or an interrupt lets running jobs
end and stops it, a second one at once. The log goes to standard error, and at the end it says on standard output how
many attempts it was: jobs that it took, each time that it took them.`

// working are the flags of commands that run jobs.
type working struct {
	queues      []string
	concurrency int
	maxJobs     int
	untilEmpty  bool
}

func (w *working) add(command *cobra.Command) {
	flags := command.Flags()
	flags.StringSliceVar(&w.queues, "queue", []string{"1-critical", "2-default", "3-bulk"}, "`QUEUES` to serve, with commas; the order of their names is their priority")
	flags.IntVar(&w.concurrency, "concurrency", 20, "`N` jobs run at a time")
	flags.IntVar(&w.maxJobs, "max-jobs", 0, "stop after `N` jobs were taken (default: no limit)")
	flags.BoolVar(&w.untilEmpty, "stop-when-empty", false, "stop when nothing is ready and nothing runs; what is due later is not waited for")
}

func (p *program) workCommand() *cobra.Command {
	var w working
	command := &cobra.Command{
		Use:     "work",
		Short:   "Run jobs of some queues, without endpoints",
		Long:    workHelp,
		Example: "  pawl work --queue 3-bulk --concurrency 4\n  pawl work --stop-when-empty",
		Args:    needs("", 0, 0),
	}
	w.add(command)
	command.RunE = p.doing(func(ctx context.Context, _ []string) error { return p.work(ctx, w) })
	return command
}

func (p *program) wrappedWork() *cobra.Command {
	var w working
	command := &cobra.Command{
		Use:   "queue:work [CONNECTION]",
		Short: "Run jobs (work)",
		Args:  needs("the CONNECTION", 0, 1),
	}
	w.add(command)
	command.RunE = p.doing(func(ctx context.Context, args []string) error {
		if err := p.pick(args); err != nil {
			return err
		}
		return p.work(ctx, w)
	})
	return command
}

func (w working) check() error {
	switch {
	case w.concurrency < 1:
		return withStatus(exitUsage, fmt.Errorf("--concurrency: %d must be at least 1", w.concurrency))
	case w.maxJobs < 0:
		return withStatus(exitUsage, fmt.Errorf("--max-jobs: %d must not be negative", w.maxJobs))
	}
	return nil
}

// work runs jobs with one server of its own.
func (p *program) work(ctx context.Context, w working) error {
	if err := w.check(); err != nil {
		return err
	}
	g, err := p.prepare()
	if err != nil {
		return err
	}
	if len(g.mux.Kinds()) == 0 {
		return withStatus(exitPrecondition, errors.New("this program has no handlers: jobs run in the services that have their code"))
	}
	c := g.hostConfig()
	c.Servers = []host.Server{{Name: "work", Queues: trimmed(w.queues), Workers: w.concurrency}}
	c.Schedules = nil // hosts that stay declare them
	c.MaxJobs, c.StopWhenEmpty = w.maxJobs, w.untilEmpty
	if err := c.Check(); err != nil {
		return withStatus(exitUsage, err)
	}
	s, err := p.awaitStore(ctx, g.log)
	if s == nil {
		return err
	}
	err = g.run(ctx, s, c, func(*host.Host) (func(), error) { return func() {}, nil })
	if errors.Is(err, host.ErrAborted) {
		return err // the store is not waited for: the process ends
	}
	return errors.Join(err, s.Close(), p.worked(g.host))
}

// worked says how much it was.
func (p *program) worked(h *host.Host) error {
	if h == nil {
		return nil
	}
	attempts := h.Stats().Claimed
	if p.json {
		return p.printer.object(struct {
			Attempts int64 `json:"attempts"`
		}{attempts})
	}
	p.printer.line(fmt.Sprintf("Worker stopped after %d attempt(s).", attempts))
	return nil
}

func trimmed(names []string) []string {
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	return names
}
