package pawl

import (
	"encoding/binary"
	"hash/fnv"
	"math"
	"strconv"
	"time"
)

// Policy is how a job is run and retried. It is resolved field by field when the job is enqueued, and stored with
// it; the closest statement wins: call option, kind, connection, default. A zero field inherits. Changing a default
// later never changes a stored job.
type Policy struct {
	// Queue is the channel that the job waits in. Names are compared bytewise and that order is the priority:
	// 1-critical before 2-default before 3-bulk. Default "2-default"; 1-128 bytes.
	Queue string
	// MaxTries is how often the handler may be run: the first run and the retries. Default 6. With 1 the job never
	// runs twice: a durable mark is written before the handler starts, and a run that was cut off is a death whose
	// outcome is unknown.
	MaxTries int
	// Backoff is the wait after each failed attempt; the last one is reused. Default 1m, 5m, 30m, 2h, which with six
	// tries makes gaps of 1m, 5m, 30m, 2h, 2h.
	Backoff []time.Duration
	// Jitter lengthens each wait by a share between 0 and this fraction (0.1 is up to 10 %), drawn from the job's id
	// and attempt, so that jobs that failed together do not come back together. It belongs to the Backoff that it
	// is stated with: 0.1 on the default curve; a Backoff of your own is exact unless you state a Jitter too.
	Jitter float64
	// Timeout is the wall clock time of one attempt. Default 4 minutes.
	Timeout time.Duration
	// RetryFor is how long after its enqueue a job may still be started, counted anew at a redrive. Default 0: no
	// limit but MaxTries.
	RetryFor time.Duration
	// Redrive says who may run a dead job again. Default RedriveAny.
	Redrive RedriveRule
	// StartsOff makes a kind fail closed: it runs only where an operator has switched that exact kind on.
	StartsOff bool
	// Limit bounds how many jobs of the kind run at once, and how many start in a time. Unlike the rest it is not stored
	// with each job: the hosts register what their kinds state, operators can overrule it (Limits.SetLimit), and a change
	// holds for the jobs that wait. As a whole it inherits like another field. Default: none.
	Limit Limit
}

// RedriveRule limits how the dead letters of a job may be redriven. It is stored in the envelope and enforced by
// every door.
type RedriveRule uint8

const (
	RedriveInherit  RedriveRule = iota // not stated: the next wider policy decides
	RedriveAny                         // alone or in bulk: the default
	RedriveOneByOne                    // each by a decision of its own, never in bulk
	RedriveNever                       // not at all; such a letter can be resolved or discarded
)

func (r RedriveRule) String() string {
	switch r {
	case RedriveOneByOne:
		return "one-by-one"
	case RedriveNever:
		return "never"
	}
	return "any"
}

// DefaultPolicy is what a job has where nothing else is stated: 6 tries, waits of 1m, 5m, 30m, 2h and 2h with up to
// 10 % jitter (4.6 hours in all), 4 minutes an attempt, queue 2-default.
func DefaultPolicy() Policy {
	return Policy{
		Queue:    "2-default",
		MaxTries: 6,
		Backoff:  []time.Duration{time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour},
		Jitter:   0.1,
		Timeout:  4 * time.Minute,
		Redrive:  RedriveAny,
	}
}

// Over returns p with its zero fields filled from the wider policy.
func (p Policy) Over(wider Policy) Policy {
	if p.Queue == "" {
		p.Queue = wider.Queue
	}
	if p.MaxTries == 0 {
		p.MaxTries = wider.MaxTries
	}
	if p.Backoff == nil {
		p.Backoff = wider.Backoff
		if p.Jitter == 0 {
			p.Jitter = wider.Jitter
		}
	}
	if p.Timeout == 0 {
		p.Timeout = wider.Timeout
	}
	if p.RetryFor == 0 {
		p.RetryFor = wider.RetryFor
	}
	if p.Redrive == RedriveInherit {
		p.Redrive = wider.Redrive
	}
	p.StartsOff = p.StartsOff || wider.StartsOff
	if p.Limit.IsZero() {
		p.Limit = wider.Limit
	}
	return p
}

// check refuses what no job may have. Zero fields pass: they inherit.
func (p Policy) check() error {
	if p.Queue != "" {
		if err := CheckName("queue", p.Queue); err != nil {
			return err
		}
	}
	switch {
	case p.MaxTries < 0 || p.MaxTries > math.MaxInt32:
		return &FieldError{"max tries", p.MaxTries, "must be at least 1 and at most 2147483647"}
	case p.Backoff != nil && len(p.Backoff) == 0:
		return &FieldError{"backoff", "[]", "must have at least one delay"}
	case len(p.Backoff) > maxDelays:
		return &FieldError{"backoff", len(p.Backoff), "must have at most " + strconv.Itoa(maxDelays) + " delays"}
	case math.IsNaN(p.Jitter) || p.Jitter < 0 || p.Jitter > 1:
		return &FieldError{"jitter", p.Jitter, "must be a fraction from 0 to 1"}
	case p.Timeout < 0 || p.Timeout > maxWait:
		return &FieldError{"timeout", p.Timeout, "must be greater than 0 and at most 10 years"}
	case p.RetryFor < 0 || p.RetryFor > maxWait:
		return &FieldError{"retry for", p.RetryFor, "must be greater than 0 and at most 10 years"}
	case p.Redrive > RedriveNever:
		return &FieldError{"redrive rule", uint8(p.Redrive), "must be RedriveAny, RedriveOneByOne or RedriveNever"}
	}
	for _, d := range p.Backoff {
		if d < 0 || d > maxWait {
			return &FieldError{"backoff", d, "every delay must be at least 0 and at most 10 years"}
		}
	}
	return p.Limit.Check()
}

// delay is the wait after the given failed attempt, counted from 1: the entry min(attempt-1, len-1) of the curve,
// lengthened by the jitter that the job's id and the attempt draw (FNV-1a), never shortened.
func (p Policy) delay(job ID, attempt int) time.Duration {
	if len(p.Backoff) == 0 {
		return 0
	}
	d := p.Backoff[min(max(attempt, 1)-1, len(p.Backoff)-1)]
	if p.Jitter <= 0 {
		return d
	}
	h := fnv.New64a()
	h.Write(job[:])
	h.Write(binary.LittleEndian.AppendUint64(nil, uint64(attempt)))
	share := float64(h.Sum64()>>11) / (1 << 53)
	return d + time.Duration(float64(d)*p.Jitter*share)
}
