package wire

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"github.com/pawljobs/pawl"
)

// NewJob is one job on its way in. What is not said is resolved as the library does: from the connection, else the
// defaults. Durations are whole milliseconds.
type NewJob struct {
	ID            Ref             `json:"id,omitzero" doc:"made by the client, so that an enqueue can be repeated: the same id is stored once"`
	Kind          string          `json:"kind,omitempty" doc:"the registered name, such as email.welcome.v1: 1 to 128 bytes"`
	Args          json.RawMessage `json:"args,omitempty" doc:"any JSON value of at most 1 MiB and 64 levels; its bytes are kept as they are"`
	Queue         *string         `json:"queue,omitempty" doc:"1 to 128 bytes; default 2-default"`
	DelayMS       *int64          `json:"delay_ms,omitempty" doc:"wait at least that long; not with run_at"`
	RunAt         Stamp           `json:"run_at,omitzero" doc:"wait until then; not with delay_ms"`
	MaxTries      *int            `json:"max_tries,omitempty" doc:"how often it may be run, at least 1; default 6"`
	BackoffMS     []int64         `json:"backoff_ms,omitempty" doc:"the waits after failed attempts, the last one reused"`
	Jitter        *float64        `json:"jitter,omitempty" doc:"lengthens each wait of backoff_ms by up to this share, 0 to 1; default 0"`
	TimeoutMS     *int64          `json:"timeout_ms,omitempty" doc:"of one attempt; default 4 minutes"`
	RetryForMS    *int64          `json:"retry_for_ms,omitempty" doc:"start it at most that long after its enqueue; not with retry_until"`
	RetryUntil    Stamp           `json:"retry_until,omitzero" doc:"start it until then only; not with retry_for_ms"`
	CorrelationID *string         `json:"correlation_id,omitempty" doc:"what it is part of, 1 to 64 bytes; default: its id"`
	Tags          []string        `json:"tags,omitempty" doc:"words to find it by: at most 20 of 1 to 64 bytes"`
	Unique        *Unique         `json:"unique,omitempty" doc:"keeps it out while another job has the same key"`
	OrderingKey   *string         `json:"ordering_key,omitempty" doc:"jobs with the same key run one at a time, in the order of their enqueue: 1 to 256 bytes"`
	LimitKey      *string         `json:"limit_key,omitempty" doc:"what its kind's limit per key counts by: 1 to 256 bytes"`
	Limit         *Limit          `json:"limit,omitempty" doc:"what its kind states, for a server that has not heard of it from a host"`
	Redrive       string          `json:"redrive,omitempty" doc:"who may run it again when it has died: any (the default), one-by-one or never"`
	StartsOff     bool            `json:"starts_off,omitempty" doc:"it runs only while its kind is switched on"`
	Batch         Ref             `json:"batch,omitzero" doc:"the batch that it joins, while that is open"`
	Envelope      []byte          `json:"envelope_base64,omitempty" doc:"the job as a Go client has made it; then nothing else but delay_ms, run_at, limit and letter_id is given"`
	LetterID      Ref             `json:"letter_id,omitzero" doc:"the dead letter that it runs again; for operators"`
}

// Unique is a key under which at most one job may be in its scope.
type Unique struct {
	Key      string `json:"key" doc:"1 to 256 bytes"`
	Scope    string `json:"scope" doc:"waiting (while the other job waits), unfinished (while it waits or runs) or period"`
	PeriodMS int64  `json:"period_ms,omitempty" doc:"with the scope period: how long from the other job's enqueue"`
}

func (u Unique) option() (pawl.Option, error) {
	switch {
	case u.Scope != "period" && u.PeriodMS != 0:
		return nil, &pawl.FieldError{Field: "unique period", Value: u.PeriodMS, Rule: "must be given with the scope period only"}
	case u.Scope == "waiting":
		return pawl.UniqueWhileWaiting(u.Key), nil
	case u.Scope == "unfinished":
		return pawl.UniqueWhileUnfinished(u.Key), nil
	case u.Scope == "period":
		return pawl.UniqueFor(u.Key, Span(u.PeriodMS)), nil
	}
	return nil, &pawl.FieldError{Field: "unique scope", Value: u.Scope, Rule: "must be waiting, unfinished or period"}
}

// Span is a duration that was given in milliseconds; one that is out of reach is the longest there is, which every rule
// refuses.
func Span(ms int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	switch {
	case ms > most:
		return math.MaxInt64
	case ms < -most:
		return math.MinInt64
	}
	return milliseconds(ms)
}

// Job makes the job with the rules of the library, for this connection.
func (j NewJob) Job(ctx context.Context, connection pawl.Connection) (pawl.NewJob, error) {
	if j.Envelope != nil {
		return j.made(time.Now())
	}
	policy := pawl.Policy{StartsOff: j.StartsOff}
	if j.Limit != nil {
		policy.Limit = j.Limit.Read()
	}
	if j.Redrive != "" {
		rule, known := ParseRule(j.Redrive)
		if !known {
			return pawl.NewJob{}, &pawl.FieldError{Field: "redrive", Value: j.Redrive, Rule: "must be any, one-by-one or never"}
		}
		policy.Redrive = rule
	}
	options, err := j.options(&policy)
	if err != nil {
		return pawl.NewJob{}, err
	}
	made, err := pawl.NewKind[json.RawMessage](j.Kind, policy).New(ctx, connection, j.Args, options...)
	made.Letter = pawl.ID(j.LetterID)
	return made, err
}

// options are those that were said; a zero that was said is refused by the option itself.
func (j NewJob) options(policy *pawl.Policy) ([]pawl.Option, error) {
	options := []pawl.Option{pawl.Tags(j.Tags...)}
	if !pawl.ID(j.ID).IsZero() {
		options = append(options, pawl.WithID(pawl.ID(j.ID)))
	}
	add(&options, j.Queue, pawl.InQueue)
	add(&options, j.DelayMS, func(ms int64) pawl.Option { return pawl.Delay(Span(ms)) })
	if at := time.Time(j.RunAt); !at.IsZero() {
		options = append(options, pawl.RunAt(at))
	}
	add(&options, j.MaxTries, pawl.MaxTries)
	add(&options, j.TimeoutMS, func(ms int64) pawl.Option { return pawl.Timeout(Span(ms)) })
	until := time.Time(j.RetryUntil)
	switch {
	case !until.IsZero() && j.RetryForMS != nil:
		return nil, &pawl.FieldError{Field: "retry for", Value: Span(*j.RetryForMS), Rule: "must not be given with a retry until"}
	case !until.IsZero():
		options = append(options, pawl.RetryUntil(until))
	}
	add(&options, j.RetryForMS, func(ms int64) pawl.Option { return pawl.RetryFor(Span(ms)) })
	add(&options, j.CorrelationID, pawl.CorrelationID)
	add(&options, j.OrderingKey, pawl.OrderingKey)
	add(&options, j.LimitKey, pawl.LimitKey)
	if batch := pawl.ID(j.Batch); !batch.IsZero() {
		options = append(options, pawl.InBatch(batch))
	}
	switch {
	case j.BackoffMS != nil && j.Jitter != nil:
		policy.Backoff, policy.Jitter = Each(j.BackoffMS, Span), *j.Jitter
	case j.BackoffMS != nil:
		options = append(options, pawl.Backoff(Each(j.BackoffMS, Span)...))
	case j.Jitter != nil:
		return nil, &pawl.FieldError{Field: "jitter", Value: *j.Jitter, Rule: "must be given with a backoff"}
	}
	if j.Unique != nil {
		option, err := j.Unique.option()
		if err != nil {
			return nil, err
		}
		options = append(options, option)
	}
	return options, nil
}

func add[T any](options *[]pawl.Option, value *T, option func(T) pawl.Option) {
	if value != nil {
		*options = append(*options, option(*value))
	}
}

// made takes a job that a client has made, and checks it as if it were made here.
func (j NewJob) made(now time.Time) (pawl.NewJob, error) {
	rest := j
	rest.Envelope, rest.DelayMS, rest.RunAt, rest.Limit, rest.LetterID = nil, nil, Stamp{}, nil, Ref{}
	if said, err := json.Marshal(rest); err != nil || string(said) != "{}" {
		return pawl.NewJob{}, &pawl.FieldError{Field: "envelope base64", Value: "", Rule: "must not be given with other fields but delay_ms, run_at, limit and letter_id"}
	}
	envelope, err := pawl.DecodeEnvelope(j.Envelope)
	if err == nil {
		err = envelope.Check()
	}
	if err != nil {
		return pawl.NewJob{}, &pawl.FieldError{Field: "envelope base64", Value: "", Rule: "must be an envelope that an enqueue takes: " + err.Error()}
	}
	job := pawl.NewJobFrom(envelope)
	job.Envelope, job.RunAt, job.Letter = j.Envelope, time.Time(j.RunAt), pawl.ID(j.LetterID)
	if j.DelayMS != nil {
		job.Delay = Span(*j.DelayMS)
	}
	if j.Limit != nil {
		job.Limit = j.Limit.Read()
		if err := job.Limit.Check(); err != nil {
			return pawl.NewJob{}, err
		}
	}
	ready := now.Add(job.Delay)
	switch deadline := envelope.Deadline(now); {
	case job.Delay != 0 && !job.RunAt.IsZero():
		return pawl.NewJob{}, &pawl.FieldError{Field: "delay", Value: job.Delay, Rule: "must not be given with a run at"}
	case !deadline.IsZero() && (!deadline.After(ready) || !deadline.After(job.RunAt)):
		return pawl.NewJob{}, &pawl.FieldError{Field: "retry until", Value: deadline, Rule: "must be in the future, and after the time the job is to run at"}
	}
	return job, job.Check()
}

// NewJobOf is the form of a job that a client has made.
func NewJobOf(job pawl.NewJob) NewJob {
	form := NewJob{Envelope: job.Envelope, RunAt: Stamp(job.RunAt), LetterID: Ref(job.Letter)}
	if job.Delay != 0 {
		ms := Millis(job.Delay)
		form.DelayMS = &ms
	}
	if !job.Limit.IsZero() {
		limit := LimitOf(job.Limit)
		form.Limit = &limit
	}
	return form
}

// Millis is a duration in whole milliseconds, away from zero: a wait is never shortened on its way, and what is not zero
// does not become so.
func Millis(d time.Duration) int64 {
	ms := d.Milliseconds()
	switch rest := d % time.Millisecond; {
	case rest > 0:
		ms++
	case rest < 0:
		ms--
	}
	return ms
}
