package outbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/guest"
	"github.com/pawljobs/pawl/internal/trouble"
)

// DispatcherConfig says how a dispatcher works. The zero value is good.
type DispatcherConfig struct {
	// Name is shown in the rows that it claims, and in letters. Default: the machine's name in lower case.
	Name string
	// Version of the program, in letters.
	Version string
	// Batch is how many messages one claim takes at most, from 1 to 5000. Default 2000.
	Batch int
	// Lease is how long claimed messages are kept from other dispatchers. Default 60 s; at least 1 s.
	Lease time.Duration
	// Timeout bounds one call of a store or of the database. Default a third of the lease, which it must not exceed.
	Timeout time.Duration
	// Poll is how often the box is looked at when nothing wakes the dispatcher. Default 1 s; at least 10 ms.
	Poll time.Duration
	// Tries is the claim at which a message that cannot be dispatched dies. Default 10.
	Tries int
	// Keep is how long the rows of messages that were dispatched, or died, stay in the box, without their contents, to be
	// looked at; for as long a repeat of their id is recognised there. Default: they are removed at once, and a repeat is
	// recognised by the store. Negative keeps them for good.
	Keep time.Duration
	// Off leaves the messages where they are; only what is over-age is purged. Box.SwitchOff is for all dispatchers.
	Off bool
	// Logger gets the deaths at Error and the dispatcher's troubles at Warn. Default slog.Default().
	Logger *slog.Logger
}

func (c DispatcherConfig) withDefaults() (DispatcherConfig, error) {
	if c.Name == "" {
		machine, err := os.Hostname()
		if err != nil {
			return c, fmt.Errorf("read the machine's name: %w", err)
		}
		c.Name = strings.ToLower(machine)
	}
	if c.Batch == 0 {
		c.Batch = usualBatch
	}
	if c.Lease == 0 {
		c.Lease = time.Minute
	}
	if c.Timeout == 0 {
		c.Timeout = c.Lease / 3
	}
	if c.Poll == 0 {
		c.Poll = time.Second
	}
	if c.Tries == 0 {
		c.Tries = 10
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c, c.check()
}

const (
	usualBatch = 2000
	mostBatch  = 5000
)

func (c DispatcherConfig) check() error {
	for _, rule := range []struct {
		broken bool
		field  string
		value  any
		rule   string
	}{
		{c.Batch < 1 || c.Batch > mostBatch, "batch", c.Batch, "must be from 1 to 5000"},
		{c.Lease < time.Second, "lease", c.Lease, "must be at least 1s"},
		{c.Timeout <= 0 || c.Timeout > c.Lease/3, "timeout", c.Timeout, "must be greater than 0 and at most a third of the lease"},
		{c.Poll < 10*time.Millisecond, "poll", c.Poll, "must be at least 10ms"},
		{c.Tries < 1, "tries", c.Tries, "must be at least 1"},
	} {
		if rule.broken {
			return &pawl.FieldError{Field: rule.field, Value: rule.value, Rule: rule.rule}
		}
	}
	return pawl.CheckName("name", c.Name)
}

// Counts is what a dispatcher has done since it was made.
type Counts struct {
	Dispatched int64 // messages that their store has taken, or had already
	Refused    int64 // claims whose message could not be dispatched
	Died       int64 // messages that became dead letters
	GivenBack  int64 // claims that count nothing: the store could not be asked
	Purged     int64
}

// Dispatcher carries messages from a box to the stores that they are for. Make one with NewDispatcher.
type Dispatcher struct {
	source  *core
	letters pawl.DeadLetters
	config  DispatcherConfig
	owner   string
	lanes   []*lane
	soon    time.Duration // the first pause of a lane that knows of a message that is written and not committed
	deaf    *trouble.Trouble
	upkeep  *trouble.Trouble

	dispatched, refused, died, givenBack, purged atomic.Int64
}

// NewDispatcher makes the dispatcher of a box. The targets are the stores that it carries messages to, found by the name
// of their connection; messages to others stay in the box for other dispatchers. Letters of messages that die are
// recorded in letters, which is the target itself where that is an SQL store.
func NewDispatcher(box Source, letters pawl.DeadLetters, targets []pawl.Enqueuer, config DispatcherConfig) (*Dispatcher, error) {
	switch {
	case guest.IsNil(box):
		return nil, &pawl.FieldError{Field: "box", Value: nil, Rule: "must be given"}
	case guest.IsNil(letters):
		return nil, &pawl.FieldError{Field: "dead letters", Value: nil, Rule: "must be given: a message that cannot be dispatched must leave a record"}
	case len(targets) == 0:
		return nil, &pawl.FieldError{Field: "targets", Value: nil, Rule: "must be given: where are messages to go?"}
	}
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	d := &Dispatcher{
		source: box.source().keeping(config.Keep != 0), letters: letters, config: config, owner: config.Name + "/" + rand.Text()[:12],
		soon:   2 * time.Millisecond,
		deaf:   trouble.New(config.Logger, "commits to the outbox are not heard of; it is looked at until they are"),
		upkeep: trouble.New(config.Logger, "the outbox cannot be purged"),
	}
	seen := map[string]bool{}
	for _, target := range targets {
		if guest.IsNil(target) {
			return nil, &pawl.FieldError{Field: "target", Value: nil, Rule: "must be a store"}
		}
		name := target.Connection().Name
		if once, ok := target.(interface{ RunsAtOnce() bool }); ok && once.RunsAtOnce() {
			return nil, &pawl.FieldError{Field: "target", Value: name, Rule: "must be a store: an inline connection would run a message again that it is handed twice"}
		}
		if seen[name] {
			return nil, &pawl.FieldError{Field: "targets", Value: name, Rule: "must each have a connection of their own"}
		}
		seen[name] = true
		d.lanes = append(d.lanes, newLane(d, name, target))
	}
	return d, nil
}

// Run dispatches until ctx is done; what was begun then is finished, and what was claimed beyond that given back. Several
// dispatchers may run at the same time, in one process or many.
func (d *Dispatcher) Run(ctx context.Context) error {
	var workers sync.WaitGroup
	defer workers.Wait()
	if d.config.Keep > 0 {
		workers.Go(func() { d.purge(ctx) })
	}
	if !d.config.Off {
		for _, l := range d.lanes {
			stop := d.source.written.hear(l.written)
			defer stop()
			workers.Go(func() { l.run(ctx) })
		}
		workers.Go(func() { d.listen(ctx) })
	}
	<-ctx.Done()
	return nil
}

// wake has every lane look for messages.
func (d *Dispatcher) wake() {
	for _, l := range d.lanes {
		poke(l.woken)
	}
}

// Counts is what the dispatcher has done so far.
func (d *Dispatcher) Counts() Counts {
	return Counts{
		Dispatched: d.dispatched.Load(), Refused: d.refused.Load(), Died: d.died.Load(),
		GivenBack: d.givenBack.Load(), Purged: d.purged.Load(),
	}
}

const (
	purgeBatch = 1000
	purgeEvery = time.Minute
	purgePause = 100 * time.Millisecond // between batches while there is more
)

// purge removes what is over-age, in small batches, now and then.
func (d *Dispatcher) purge(ctx context.Context) {
	failures := 0
	for {
		n, err := d.purgeOnce(ctx)
		pause := purgeEvery/2 + mathrand.N(purgeEvery)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			failures++
			d.upkeep.Report(err)
			pause = backoff(failures)
		case n == purgeBatch:
			pause = purgePause
			fallthrough
		default:
			failures = 0
			d.upkeep.Over()
		}
		if !wait(ctx, pause) {
			return
		}
	}
}

func (d *Dispatcher) purgeOnce(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, d.config.Timeout)
	defer cancel()
	n, err := d.source.purge(ctx, d.config.Keep, purgeBatch)
	d.purged.Add(int64(n))
	return n, err
}

// detached is a ctx for what must be finished although the dispatcher is to end.
func (d *Dispatcher) detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(context.WithoutCancel(ctx), d.config.Timeout, errNoAnswer)
}

var errNoAnswer = errors.New("no answer in time")
