package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/wire"
	"github.com/spf13/cobra"
)

// newJob is what the flags of `job enqueue` say.
type newJob struct {
	args       string
	queue      string
	id, batch  pawl.ID
	delay      time.Duration
	runAt      time.Time
	maxTries   int
	backoff    []time.Duration
	timeout    time.Duration
	retryFor   time.Duration
	retryUntil time.Time
	correlation, ordering, limit,
	uniqueWaiting, uniqueUnfinished, uniqueFor string
	tags      []string
	redrive   pawl.RedriveRule
	startsOff bool
	create    bool // the store is made where it is not there
}

const enqueueHelp = `Enqueue one job of any kind and print its id.

This program does not have the code of the kind and so does not know the policy that the code states: what is not said
here has the defaults (6 tries, waits of 1m, 5m, 30m, 2h, 2h; 4 minutes an attempt; queue 2-default). For work that
must not run twice, say --max-tries 1.

The args are kept byte for byte. Repeating a command with the same --id stores the job once.`

func (p *program) jobEnqueue() *cobra.Command {
	var job newJob
	command := &cobra.Command{
		Use:   "enqueue KIND",
		Short: "Enqueue a job",
		Long:  enqueueHelp,
		Example: `  pawl job enqueue email.welcome.v1 --args '{"user_id": 7}'
  pawl job enqueue report.build.v2 --args @report.json --queue 3-bulk --delay 10m
  pawl job enqueue ledger.credit.v1 --args - --max-tries 1 --unique-unfinished credit-7 < credit.json`,
		Args: needs("the KIND", 1, 1),
	}
	flags := command.Flags()
	flags.StringVar(&job.args, "args", "{}", "the args: `JSON`, @FILE, or - for standard input")
	flags.StringVar(&job.queue, "queue", "", "the queue (default 2-default)")
	addFlag(flags, &job.id, "id", "ID", "the job's own id, a UUID (default: a fresh one)", pawl.ParseID)
	addFlag(flags, &job.delay, "delay", "DURATION", "wait at least this long", parseSpan)
	addFlag(flags, &job.runAt, "run-at", "TIME", "wait until then", parseTime)
	flags.IntVar(&job.maxTries, "max-tries", 0, "how often it may be run (default 6)")
	addFlag(flags, &job.backoff, "backoff", "D,D,…", "the waits after failed attempts, the last one reused", parseSpans)
	addFlag(flags, &job.timeout, "timeout", "DURATION", "the time of one attempt (default 4m)", parseSpan)
	addFlag(flags, &job.retryFor, "retry-for", "DURATION", "start it at most this long after its enqueue", parseSpan)
	addFlag(flags, &job.retryUntil, "retry-until", "TIME", "start it until then only", parseTime)
	flags.StringVar(&job.correlation, "correlation-id", "", "what it is part of (default: its id)")
	flags.StringArrayVar(&job.tags, "tag", nil, "a word to find it by; may be repeated")
	flags.StringVar(&job.uniqueWaiting, "unique-while-waiting", "", "not while a job with this `KEY` waits")
	flags.StringVar(&job.uniqueUnfinished, "unique-unfinished", "", "not while a job with this `KEY` waits or runs")
	flags.StringVar(&job.uniqueFor, "unique-for", "", "not within a period of a job with this key: `DURATION=KEY`")
	flags.StringVar(&job.ordering, "ordering-key", "", "jobs with this `KEY` run one at a time, in the order of their enqueue")
	flags.StringVar(&job.limit, "limit-key", "", "the `KEY` that its kind's limit per key counts by")
	addFlag(flags, &job.batch, "batch", "ID", "join this batch, while it is open", pawl.ParseID)
	addFlag(flags, &job.redrive, "redrive", "RULE", "who may redrive it when it has died: any, one-by-one or never", parseRule)
	flags.BoolVar(&job.startsOff, "starts-off", false, "it runs only while its kind is switched on")
	flags.BoolVar(&job.create, "create", false, "make the store where it is not there; pawl.db in the current folder needs no leave")
	exclusive(command, "delay", "run-at")
	exclusive(command, "retry-for", "retry-until")
	exclusive(command, "unique-while-waiting", "unique-unfinished", "unique-for")
	changed := func(flag string) bool { return command.Flags().Changed(flag) }
	command.RunE = p.doing(func(ctx context.Context, args []string) error {
		return p.enqueue(ctx, args[0], job, changed)
	})
	return command
}

func parseRule(text string) (pawl.RedriveRule, error) {
	rule, known := wire.ParseRule(text)
	if !known {
		return 0, fmt.Errorf("%q is none of any, one-by-one, never", text)
	}
	return rule, nil
}

// options are those that were said; a zero that was said is refused by the option itself.
func (j newJob) options(changed func(flag string) bool) ([]pawl.Option, error) {
	var options []pawl.Option
	add := func(flag string, option func() pawl.Option) {
		if changed(flag) {
			options = append(options, option())
		}
	}
	add("id", func() pawl.Option { return pawl.WithID(j.id) })
	add("queue", func() pawl.Option { return pawl.InQueue(j.queue) })
	add("delay", func() pawl.Option { return pawl.Delay(j.delay) })
	add("run-at", func() pawl.Option { return pawl.RunAt(j.runAt) })
	add("max-tries", func() pawl.Option { return pawl.MaxTries(j.maxTries) })
	add("backoff", func() pawl.Option { return pawl.Backoff(j.backoff...) })
	add("timeout", func() pawl.Option { return pawl.Timeout(j.timeout) })
	add("retry-for", func() pawl.Option { return pawl.RetryFor(j.retryFor) })
	add("retry-until", func() pawl.Option { return pawl.RetryUntil(j.retryUntil) })
	add("correlation-id", func() pawl.Option { return pawl.CorrelationID(j.correlation) })
	add("batch", func() pawl.Option { return pawl.InBatch(j.batch) })
	add("ordering-key", func() pawl.Option { return pawl.OrderingKey(j.ordering) })
	add("limit-key", func() pawl.Option { return pawl.LimitKey(j.limit) })
	add("tag", func() pawl.Option { return pawl.Tags(j.tags...) })
	add("unique-while-waiting", func() pawl.Option { return pawl.UniqueWhileWaiting(j.uniqueWaiting) })
	add("unique-unfinished", func() pawl.Option { return pawl.UniqueWhileUnfinished(j.uniqueUnfinished) })
	if changed("unique-for") {
		span, key, _ := strings.Cut(j.uniqueFor, "=")
		period, err := parseSpan(span)
		if err != nil {
			return nil, &pawl.FieldError{Field: "unique-for", Value: j.uniqueFor, Rule: "must be DURATION=KEY, such as 24h=digest-7"}
		}
		options = append(options, pawl.UniqueFor(key, period))
	}
	return options, nil
}

// enqueue checks the job before it opens the store, so that a mistake makes no file.
func (p *program) enqueue(ctx context.Context, kind string, j newJob, changed func(flag string) bool) (err error) {
	options, err := j.options(changed)
	if err != nil {
		return err
	}
	args, err := p.readArgs(j.args)
	if err != nil {
		return err
	}
	settings, err := p.settings()
	if err != nil {
		return err
	}
	made, err := pawl.NewKind[json.RawMessage](kind, pawl.Policy{Redrive: j.redrive, StartsOff: j.startsOff}).
		New(ctx, connectionOf(settings), args, options...)
	if err != nil {
		return err
	}
	s, err := p.openToEnqueue(ctx, j.create)
	if err != nil && !j.create && (errors.Is(err, pawl.ErrSchema) || exitStatus(err) == exitNotFound) {
		err = fmt.Errorf("%w, or make it by this command: --create", err)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	results, err := s.Enqueue(ctx, []pawl.NewJob{made})
	if errors.Is(err, pawl.ErrConflict) || errors.Is(err, pawl.ErrInvalid) || errors.Is(err, pawl.ErrBatchEnded) {
		return fmt.Errorf("enqueue %s: %w", kind, err)
	}
	if err != nil {
		return fmt.Errorf("enqueue %s: %w (if you repeat it, add --id %s: then it is stored once)", kind, err, made.ID)
	}
	return p.enqueued(made, results[0])
}

func (p *program) enqueued(job pawl.NewJob, result pawl.Enqueued) error {
	if p.json {
		return p.printer.object(wire.EnqueuedOf(job, result))
	}
	p.printer.line(result.ID.String())
	switch result.Status {
	case pawl.Repeated:
		p.printer.say("This id was accepted before; nothing was stored.")
	case pawl.Duplicate:
		p.printer.say("The unique key is held by this job; nothing was stored.")
	}
	return nil
}

// readArgs reads JSON from the command line, a file or standard input, byte for byte.
func (p *program) readArgs(source string) (json.RawMessage, error) {
	var in io.Reader
	switch name, isFile := strings.CutPrefix(source, "@"); {
	case source == "-":
		in = p.in
	case isFile:
		file, err := os.Open(name)
		if err != nil {
			return nil, fmt.Errorf("read args: %w", err)
		}
		defer file.Close()
		in = file
	default:
		return json.RawMessage(source), nil
	}
	const enough = 1<<20 + 1 // more than the largest args: the check says so
	args, err := io.ReadAll(io.LimitReader(in, enough))
	if err != nil {
		return nil, fmt.Errorf("read args: %w", err)
	}
	return args, nil
}
