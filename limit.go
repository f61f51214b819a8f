package pawl

import (
	"context"
	"math"
	"strconv"
	"strings"
	"time"
)

// Limit bounds the jobs of one kind, over all hosts of a connection. A job that has to wait for it holds no worker, and
// does not slow those behind it. The zero value is no limit.
type Limit struct {
	// Concurrency is how many jobs of the kind may run at once. 0: any number.
	Concurrency int `json:"concurrency,omitempty"`
	// PerKey is how many jobs of the kind with the same LimitKey may run at once. 0: any number.
	PerKey int `json:"per_key,omitempty"`
	// Starts is how many jobs of the kind may start within Per, which is a second if not stated. 0: any number.
	Starts int           `json:"starts,omitempty"`
	Per    time.Duration `json:"per_ns,omitempty"`
	// Burst is how many of these starts may come together after a quiet time. 0: as many as Starts. In any span of time
	// there are at most Burst starts, and Starts for each Per of it.
	Burst int `json:"burst,omitempty"`
}

// IsZero reports whether there is no limit at all.
func (l Limit) IsZero() bool { return l == Limit{} }

// Rate is the limit's rate with the defaults filled in: so many starts per second, and so many at once. Both are 0 where
// there is none.
func (l Limit) Rate() (perSecond float64, burst int) {
	if l.Starts == 0 {
		return 0, 0
	}
	burst = l.Burst
	if burst == 0 {
		burst = l.Starts
	}
	per := l.Per
	if per == 0 {
		per = time.Second
	}
	return float64(l.Starts) / per.Seconds(), burst
}

// String is the limit as operators read it: "40 at once, 2 per key, 10 in 1s, burst 10".
func (l Limit) String() string {
	var parts []string
	if l.Concurrency > 0 {
		parts = append(parts, strconv.Itoa(l.Concurrency)+" at once")
	}
	if l.PerKey > 0 {
		parts = append(parts, strconv.Itoa(l.PerKey)+" per key")
	}
	if _, burst := l.Rate(); burst > 0 {
		per := l.Per
		if per == 0 {
			per = time.Second
		}
		parts = append(parts, strconv.Itoa(l.Starts)+" in "+per.String()+", burst "+strconv.Itoa(burst))
	}
	if parts == nil {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// Check refuses what no kind can be held to.
func (l Limit) Check() error {
	for _, n := range []struct {
		field string
		value int
	}{{"limit", l.Concurrency}, {"limit per key", l.PerKey}, {"rate limit", l.Starts}, {"burst", l.Burst}} {
		if n.value < 0 || n.value > math.MaxInt32 {
			return &FieldError{n.field, n.value, "must be at least 1, or 0 for none"}
		}
	}
	switch {
	case l.Per < 0 || l.Per > maxLimitSpan || l.Per > 0 && l.Per < time.Millisecond:
		return &FieldError{"rate limit's duration", l.Per, "must be from 1ms to 24h"}
	case l.Starts == 0 && (l.Per != 0 || l.Burst != 0):
		return &FieldError{"rate limit", l.Starts, "must be at least 1 where its duration or burst is stated"}
	}
	return nil
}

const maxLimitSpan = 24 * time.Hour

// OrderingKey makes the job one of a line: jobs with the same key, of whatever kinds and queues, run one at a time, in the
// order of their enqueue, over all hosts of the connection. The job keeps its place until it has ended: those behind it
// wait while it is delayed, runs, waits for a retry, or is held back by a switch, a pause or a limit. When it is done,
// dead, cancelled, deleted or cleared, the next goes on. A redriven job joins at the end.
func OrderingKey(key string) Option {
	return func(d *dispatch) {
		if key == "" {
			d.refuse("ordering key", key, "must have 1 to 256 bytes")
		}
		d.envelope.OrderingKey = key
	}
}

// LimitKey names what Limit.PerKey counts by: a customer, a mailbox, a remote account. It means nothing for a kind
// without that limit.
func LimitKey(key string) Option {
	return func(d *dispatch) {
		if key == "" {
			d.refuse("limit key", key, "must have 1 to 256 bytes")
		}
		d.envelope.LimitKey = key
	}
}

// Limits are what the kinds of a connection are held to.
type Limits interface {
	// Limits lists the kinds that are held to a limit, stated or overruled, by name.
	Limits(ctx context.Context) ([]KindLimit, error)
	// SetLimit overrules what a kind states, for all hosts and until it is set again: the zero Limit holds it to none, and
	// nil goes back to what it states. Jobs that wait already are held to it too; those that run, or were let through, run
	// on. Audited.
	SetLimit(ctx context.Context, kind string, limit *Limit, by By) error
}

// KindLimit is what one kind is held to.
type KindLimit struct {
	Kind      string `json:"kind"`
	Limit     Limit  `json:"limit"`     // in force
	Stated    Limit  `json:"stated"`    // by its policy, as the host that was started last knows it
	Overruled bool   `json:"overruled"` // an operator has set Limit
	Through   int    `json:"through"`   // jobs that were let through and have not ended; up to 10,000 are counted
	Waiting   int    `json:"waiting"`   // jobs that wait for the limit, or for that of their key; up to 10,000 are counted
}
