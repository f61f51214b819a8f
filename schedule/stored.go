package schedule

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
)

// text is what a schedule says, as it is stored: all but its name, kind, args and bounds, which have columns of their
// own. Fields that are not said are left out, so that a later release, which has more of them, writes the same text for
// the same schedule.
type text struct {
	Spec      string           `json:"spec"`
	Zone      string           `json:"zone"`
	Tags      []string         `json:"tags,omitempty"`
	Missed    pawl.MissedRule  `json:"missed"`
	MaxMissed int              `json:"max_missed,omitempty"`
	Overlap   pawl.OverlapRule `json:"overlap"`
	Jitter    time.Duration    `json:"jitter_ns,omitempty"`
	Policy    policy           `json:"policy"`
}

// policy is a pawl.Policy as it is stored.
type policy struct {
	Queue     string           `json:"queue,omitempty"`
	MaxTries  int              `json:"max_tries,omitempty"`
	Backoff   []time.Duration  `json:"backoff_ns,omitempty"`
	Jitter    float64          `json:"jitter,omitempty"`
	Timeout   time.Duration    `json:"timeout_ns,omitempty"`
	RetryFor  time.Duration    `json:"retry_for_ns,omitempty"`
	Redrive   pawl.RedriveRule `json:"redrive,omitempty"`
	StartsOff bool             `json:"starts_off,omitempty"`
	Limit     *pawl.Limit      `json:"limit,omitempty"`
}

func storedPolicy(p pawl.Policy) policy {
	out := policy{
		Queue: p.Queue, MaxTries: p.MaxTries, Backoff: p.Backoff, Jitter: p.Jitter, Timeout: p.Timeout, RetryFor: p.RetryFor,
		Redrive: p.Redrive, StartsOff: p.StartsOff,
	}
	if !p.Limit.IsZero() {
		out.Limit = &p.Limit
	}
	return out
}

func (p policy) policy() pawl.Policy {
	out := pawl.Policy{
		Queue: p.Queue, MaxTries: p.MaxTries, Backoff: p.Backoff, Jitter: p.Jitter, Timeout: p.Timeout, RetryFor: p.RetryFor,
		Redrive: p.Redrive, StartsOff: p.StartsOff,
	}
	if p.Limit != nil {
		out.Limit = *p.Limit
	}
	return out
}

// Encode is what a complete schedule says, as text for a store.
func Encode(s pawl.Schedule) (string, error) {
	encoded, err := json.Marshal(text{
		s.Spec, s.Zone, s.Tags, s.Missed, s.MaxMissed, s.Overlap, s.Jitter, storedPolicy(s.Policy),
	})
	return string(encoded), err
}

// Decode reads what Encode wrote into s.
func Decode(stored string, s *pawl.Schedule) error {
	var t text
	if err := json.Unmarshal([]byte(stored), &t); err != nil {
		return fmt.Errorf("read schedule %s: %w", s.Name, err)
	}
	s.Spec, s.Zone, s.Tags, s.Missed, s.MaxMissed = t.Spec, t.Zone, t.Tags, t.Missed, t.MaxMissed
	s.Overlap, s.Jitter, s.Policy = t.Overlap, t.Jitter, t.Policy.policy()
	return nil
}

// Fingerprint tells declarations of one name apart.
func Fingerprint(s pawl.Schedule) (string, error) {
	if s.Removed {
		return "removed", nil
	}
	encoded, err := Encode(s)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, part := range []string{encoded, s.Kind, string(s.Args), bound(s.From), bound(s.Until)} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(h.Sum(nil)[:12]), nil
}

func bound(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
