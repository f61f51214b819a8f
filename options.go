package pawl

import (
	"context"
	"time"
)

// Option states what varies from one enqueue to the next. The closest statement wins: an option overrules the kind.
type Option func(*dispatch)

// dispatch is one enqueue before it is resolved. Options that were handed something impossible leave the first
// error here.
type dispatch struct {
	envelope Envelope
	policy   Policy
	delay    time.Duration
	runAt    time.Time
	err      error
}

func (d *dispatch) refuse(field string, value any, rule string) {
	if d.err == nil {
		d.err = &FieldError{field, value, rule}
	}
}

// WithID brings the job's own id. Enqueueing an id again stores nothing and reports Repeated, for as long as the job
// lives and 24 hours after its end: so an enqueue whose outcome is unknown can simply be repeated. With another kind or other
// args it is no repeat, and refused: ErrConflict.
func WithID(id ID) Option {
	return func(d *dispatch) {
		if id.IsZero() {
			d.refuse("id", "", "must not be zero")
		}
		d.envelope.ID = id
	}
}

// InQueue chooses the queue.
func InQueue(name string) Option {
	return func(d *dispatch) {
		if name == "" {
			d.refuse("queue", name, "must have 1 to 128 bytes")
		}
		d.policy.Queue = name
	}
}

// Delay makes the job wait at least that long, by the store's clock.
func Delay(wait time.Duration) Option {
	return func(d *dispatch) {
		if wait < 0 || wait > maxWait {
			d.refuse("delay", wait, "must be at least 0 and at most 10 years")
		}
		if !d.runAt.IsZero() {
			d.refuse("delay", wait, "must not be given with a run at")
		}
		d.delay = wait
	}
}

// RunAt makes the job wait until then; a time in the past means at once.
func RunAt(t time.Time) Option {
	return func(d *dispatch) {
		if t.IsZero() || t.Year() > 9999 {
			d.refuse("run at", t, "must be a time before the year 10000")
		}
		if d.delay != 0 {
			d.refuse("run at", t, "must not be given with a delay")
		}
		d.runAt = t
	}
}

// MaxTries overrules Policy.MaxTries.
func MaxTries(n int) Option {
	return func(d *dispatch) {
		if n < 1 {
			d.refuse("max tries", n, "must be at least 1 and at most 2147483647")
		}
		d.policy.MaxTries = n
	}
}

// Backoff overrules Policy.Backoff. It is exact: no jitter is added.
func Backoff(delays ...time.Duration) Option {
	return func(d *dispatch) {
		d.policy.Backoff, d.policy.Jitter = append([]time.Duration{}, delays...), 0
	}
}

// Timeout overrules Policy.Timeout.
func Timeout(limit time.Duration) Option {
	return func(d *dispatch) {
		if limit <= 0 {
			d.refuse("timeout", limit, "must be greater than 0")
		}
		d.policy.Timeout = limit
	}
}

// RetryUntil is the time after which the job may not be started any more. It must lie after its run-at.
func RetryUntil(t time.Time) Option {
	return func(d *dispatch) {
		switch {
		case t.IsZero() || t.Year() > 9999:
			d.refuse("retry until", t, "must be a time before the year 10000")
		case t.Unix() < 0:
			d.refuse("retry until", t, "must be in the future")
		}
		d.envelope.RetryUntil, d.policy.RetryFor = t, 0
	}
}

// RetryFor is RetryUntil counted from the enqueue, by the store's clock.
func RetryFor(span time.Duration) Option {
	return func(d *dispatch) {
		if span <= 0 {
			d.refuse("retry for", span, "must be greater than 0")
		}
		d.policy.RetryFor, d.envelope.RetryUntil = span, time.Time{}
	}
}

// CorrelationID names what this job is part of, at most 64 bytes. Default: that of the ctx (see
// ContextWithCorrelationID; in a handler, the running job's), else a fresh one.
func CorrelationID(id string) Option {
	return func(d *dispatch) {
		if id == "" {
			d.refuse("correlation id", id, "must have 1 to 64 bytes")
		}
		d.envelope.CorrelationID = id
	}
}

// Tags adds words to find the job by: at most 20 of at most 64 bytes.
func Tags(tags ...string) Option {
	return func(d *dispatch) { d.envelope.Tags = append(d.envelope.Tags, tags...) }
}

// Unique is a key under which at most one job may be in its scope, within one connection.
type Unique struct {
	Key    string
	Scope  UniqueScope
	Period time.Duration // with UniqueForPeriod
}

// UniqueScope is how long a unique key keeps others out.
type UniqueScope uint8

const (
	UniqueNone       UniqueScope = iota // no key
	UniqueWaiting                       // while the holder waits: ready, scheduled, or waiting for a retry
	UniqueUnfinished                    // while the holder waits or runs: until it is done or dead
	UniqueForPeriod                     // for a period from the enqueue, whatever becomes of the holder
)

// UniqueWhileWaiting drops the enqueue, and reports the waiting job's id, while another job with this key waits.
func UniqueWhileWaiting(key string) Option { return unique(Unique{Key: key, Scope: UniqueWaiting}) }

// UniqueWhileUnfinished drops the enqueue while another job with this key waits or runs.
func UniqueWhileUnfinished(key string) Option {
	return unique(Unique{Key: key, Scope: UniqueUnfinished})
}

// UniqueFor drops the enqueue for a period after the first one, also when that job is done or dead by then. For as long, the same job
// with the same id is a repeat.
func UniqueFor(key string, period time.Duration) Option {
	return unique(Unique{Key: key, Scope: UniqueForPeriod, Period: period})
}

func unique(u Unique) Option {
	return func(d *dispatch) {
		if u.Key == "" {
			d.refuse("unique key", u.Key, "must have 1 to 256 bytes")
		}
		if u.Scope == UniqueForPeriod && (u.Period <= 0 || u.Period > maxWait) {
			d.refuse("unique period", u.Period, "must be greater than 0 and at most 10 years")
		}
		if d.envelope.Unique != (Unique{}) {
			d.refuse("unique key", u.Key, "must be given once")
		}
		d.envelope.Unique = u
	}
}

// resolve turns a dispatch into what a store takes, or says what is wrong with it.
func (d *dispatch) resolve(ctx context.Context, kind Policy, connection Policy) (NewJob, error) {
	if d.err != nil {
		return NewJob{}, d.err
	}
	e := &d.envelope
	if !e.RetryUntil.IsZero() {
		kind.RetryFor, connection.RetryFor = 0, 0 // the closer statement is the absolute one
	}
	e.Policy = d.policy.Over(kind).Over(connection).Over(DefaultPolicy())
	if e.ID.IsZero() {
		e.ID = NewID()
	}
	e.Limited = !e.Policy.Limit.IsZero()
	e.fromContext(ctx)
	if err := e.check(); err != nil {
		return NewJob{}, err
	}
	job := NewJob{Envelope: e.Encode(), Delay: d.delay, RunAt: d.runAt}
	job.fill(*e)
	return job, job.checkDeadline(time.Now())
}

// fromContext fills what the ctx says and the options did not.
func (e *Envelope) fromContext(ctx context.Context) {
	if e.CorrelationID == "" {
		e.CorrelationID = correlationID(ctx)
	}
	if e.CorrelationID == "" {
		e.CorrelationID = e.ID.String()
	}
	if e.TraceParent == "" {
		e.TraceParent, e.TraceState = TraceContext(ctx)
	}
}

func (e *Envelope) check() error {
	if err := e.Policy.check(); err != nil {
		return err
	}
	if err := CheckName("kind", e.Kind); err != nil {
		return err
	}
	for _, text := range []struct {
		field, value string
		limit        int
	}{
		{"correlation id", e.CorrelationID, maxCorrelation},
		{"unique key", e.Unique.Key, maxKey},
		{"ordering key", e.OrderingKey, maxKey},
		{"limit key", e.LimitKey, maxKey},
		{"traceparent", e.TraceParent, maxTrace},
		{"tracestate", e.TraceState, maxTrace},
	} {
		if err := checkText(text.field, text.value, text.limit); err != nil {
			return err
		}
	}
	if err := checkTags(e.Tags); err != nil {
		return err
	}
	if !e.Erased.IsZero() {
		return &FieldError{"args", "erased", "must be there: they were erased on " + e.Erased.UTC().Format(time.RFC3339)}
	}
	return checkArgs(e.Args)
}
