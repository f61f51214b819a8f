package wire

import (
	"encoding/json"
	"time"
	"unicode/utf8"

	"github.com/pawljobs/pawl"
)

// Payload is an envelope as JSON. Args is the value as it was given (spaces between its parts aside); where the
// envelope or its args cannot be read, error says why. Envelope is always the exact stored bytes.
type Payload struct {
	Error         Text            `json:"error" doc:"why the payload, or its args, cannot be read"`
	Args          json.RawMessage `json:"args" doc:"as they were given"`
	Policy        *Policy         `json:"policy" doc:"how the job is run and retried"`
	RetryUntil    Stamp           `json:"retry_until" doc:"the time after which it is not started any more"`
	CorrelationID Text            `json:"correlation_id" doc:"what the job is part of"`
	UniqueKey     Text            `json:"unique_key" doc:"under which at most one job may be"`
	Origin        Text            `json:"origin" doc:"what enqueued it, when that was no plain call"`
	OriginRef     Text            `json:"origin_ref" doc:"the letter, message or schedule"`
	Envelope      []byte          `json:"envelope_base64" doc:"the exact stored bytes"`
}

// Policy is how a job is run and retried.
type Policy struct {
	Queue      string  `json:"queue" doc:"that the job waits in"`
	MaxTries   int     `json:"max_tries" doc:"how often it may be run"`
	BackoffMS  []int64 `json:"backoff_ms" doc:"the waits after failed attempts, the last one reused"`
	Jitter     float64 `json:"jitter" doc:"by which share a wait may be lengthened"`
	TimeoutMS  int64   `json:"timeout_ms" doc:"the time of one attempt"`
	RetryForMS int64   `json:"retry_for_ms" doc:"how long after its enqueue it may be started; 0: no limit"`
	Redrive    string  `json:"redrive" doc:"who may run it again when it has died: any, one-by-one or never"`
	StartsOff  bool    `json:"starts_off" doc:"it runs only while its kind is switched on"`
}

// PolicyOf is a policy's form.
func PolicyOf(p pawl.Policy) Policy {
	return Policy{
		p.Queue, p.MaxTries, Each(p.Backoff, time.Duration.Milliseconds), p.Jitter, p.Timeout.Milliseconds(),
		p.RetryFor.Milliseconds(), p.Redrive.String(), p.StartsOff,
	}
}

// Read reads the form.
func (p Policy) Read() pawl.Policy {
	rule, _ := ParseRule(p.Redrive)
	policy := pawl.Policy{
		Queue: p.Queue, MaxTries: p.MaxTries, Jitter: p.Jitter, Timeout: milliseconds(p.TimeoutMS),
		RetryFor: milliseconds(p.RetryForMS), Redrive: rule, StartsOff: p.StartsOff,
	}
	if len(p.BackoffMS) > 0 {
		policy.Backoff = Each(p.BackoffMS, milliseconds)
	}
	return policy
}

func milliseconds(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// ParseRule reads a redrive rule by its name.
func ParseRule(text string) (pawl.RedriveRule, bool) {
	for _, rule := range []pawl.RedriveRule{pawl.RedriveAny, pawl.RedriveOneByOne, pawl.RedriveNever} {
		if rule.String() == text {
			return rule, true
		}
	}
	return pawl.RedriveInherit, false
}

// PayloadOf is the form of what a store keeps of a job.
func PayloadOf(stored []byte) *Payload {
	form := &Payload{Args: json.RawMessage("null"), Envelope: List(stored)}
	envelope, err := pawl.DecodeEnvelope(stored)
	if err != nil {
		form.Error = Text(err.Error())
		return form
	}
	policy := PolicyOf(envelope.Policy)
	form.Policy = &policy
	form.RetryUntil, form.CorrelationID = Stamp(envelope.RetryUntil), Text(envelope.CorrelationID)
	form.UniqueKey, form.OriginRef = Text(envelope.Unique.Key), Text(envelope.Origin.Ref)
	form.Origin = Text(envelope.Origin.Source)
	if !Readable(envelope.Args) {
		form.Error = "the args are not JSON"
		return form
	}
	form.Args = envelope.Args
	return form
}

// Readable reports that args are JSON.
func Readable(args []byte) bool { return utf8.Valid(args) && json.Valid(args) }
