package desk

import (
	"math"
	"time"

	"github.com/pawljobs/pawl"
)

// Bucket holds the tokens of a rate: each start takes one, and they come back at the rate, up to the burst.
type Bucket struct {
	Tokens    float64
	CountedAt time.Time // when there were so many; zero: it is full
}

// tiny is what sums of fractions may be wrong by.
const tiny = 1e-6

// At is the bucket as it is now, under a limit that has a rate.
func (b Bucket) At(l pawl.Limit, now time.Time) Bucket {
	rate, burst := l.Rate()
	tokens := float64(burst)
	if !b.CountedAt.IsZero() {
		tokens = min(tokens, b.Tokens+rate*max(0, now.Sub(b.CountedAt).Seconds()))
	}
	return Bucket{tokens, now}
}

// Take is the bucket after so many starts.
func (b Bucket) Take(l pawl.Limit, now time.Time, starts int) Bucket {
	b = b.At(l, now)
	b.Tokens -= float64(starts)
	return b
}

// Free is how many jobs may be let through beside those that were and have not started. With none, next is the time until
// there will be one; negative: not before one of them has started.
func (b Bucket) Free(l pawl.Limit, now time.Time, through int) (free int, next time.Duration) {
	rate, burst := l.Rate()
	b = b.At(l, now)
	if free = int(math.Floor(b.Tokens+tiny)) - through; free > 0 {
		return free, 0
	}
	if through >= burst {
		return 0, -1
	}
	seconds := (float64(through+1) - b.Tokens) / rate
	return 0, time.Duration(min(seconds*float64(time.Second), float64(maxNext)))
}

// maxNext bounds a wait; the one who waited looks again.
const maxNext = 24 * time.Hour

// InForce is the limit of a kind: what an operator has set, else what the kind states.
func InForce(stated pawl.Limit, set *pawl.Limit) pawl.Limit {
	if set != nil {
		return *set
	}
	return stated
}

// CheckLimit refuses a limit that nobody can be held to.
func CheckLimit(kind string, limit *pawl.Limit, by pawl.By) error {
	if err := CheckBy(by); err != nil {
		return err
	}
	if err := CheckName(OfKind, kind); err != nil {
		return err
	}
	if limit == nil {
		return nil
	}
	return limit.Check()
}

// LimitEntry is the line in the trail about the limit of a kind.
func LimitEntry(kind string, stated pawl.Limit, before, after *pawl.Limit) pawl.AuditEntry {
	tell := func(set *pawl.Limit) string {
		if set == nil {
			return "as stated: " + stated.String()
		}
		return set.String()
	}
	return pawl.AuditEntry{Action: pawl.ActionLimit, Subject: OfKind + " " + kind, From: tell(before), To: tell(after)}
}

// StatedEntry is the line about what a host says that a kind states.
func StatedEntry(kind string, before, after pawl.Limit) pawl.AuditEntry {
	return pawl.AuditEntry{
		Action: pawl.ActionLimit, Subject: OfKind + " " + kind, From: "stated " + before.String(), To: "stated " + after.String(),
	}
}
