//go:build linux

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"time"

	"github.com/pawljobs/pawl/chaos/internal/proof"
)

const (
	postgresStore = "postgres"
	sqliteStore   = "sqlite"
)

// hosts that work at a time.
const hosts = 4

// warmUp is the time before the first fault.
const warmUp = 2 * time.Second

// Plan is all that is to happen to a store. The same seed and span make the same plan.
type Plan struct {
	Store string        `json:"store"`
	Seed  uint64        `json:"seed"`
	Span  time.Duration `json:"span_ns"`
	Steps []Step        `json:"steps"`
}

// Step is one fault.
type Step struct {
	At    time.Duration `json:"at_ns"`
	Fault string        `json:"fault"`
	// Slot is the host that is hit, or (hosts) the producer; where that one is down, the next.
	Slot int `json:"slot"`
	// Hold is how long the fault lasts, or how long a host that was killed stays away.
	Hold time.Duration `json:"hold_ns"`
	// Aim is the part of a settle's usual time after which its process is killed.
	Aim float64 `json:"aim,omitempty"`
	// Before is whether a settle fails before its commit rather than after it.
	Before bool `json:"before,omitempty"`
}

// faultsOf are the faults that a store can meet. Those that need luck to meet what they are for come twice: a zombie that
// settles while its job runs elsewhere, and the commit of a death.
func faultsOf(store string) []string {
	all := []string{proof.Kill, proof.KillInSettle, proof.Stop, proof.Stop, proof.Term, proof.FailedSettle}
	if store == postgresStore {
		all = append(all, proof.Restart, proof.Cut, proof.CutInCommit, proof.CutInCommit, proof.Blackhole, proof.HeldCommit)
	}
	return all
}

// NewPlan deals faults like cards: each kind once, in a random order, then again, one every two seconds or so.
func NewPlan(store string, seed uint64, span time.Duration) Plan {
	random := rand.New(rand.NewPCG(seed, uint64(len(store))))
	plan := Plan{Store: store, Seed: seed, Span: span}
	var deck []string
	for at := warmUp; at < span; at += between(random, 1500*time.Millisecond, 2500*time.Millisecond) {
		if len(deck) == 0 {
			deck = faultsOf(store)
			random.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
		}
		step := Step{At: at, Fault: deck[0], Slot: random.IntN(hosts)}
		deck = deck[1:]
		step.draw(random)
		plan.Steps = append(plan.Steps, step)
	}
	return plan
}

// draw settles how a fault goes.
func (s *Step) draw(random *rand.Rand) {
	dead := intervals.DeadAfter
	long := random.IntN(2) == 0
	switch s.Fault {
	case proof.Kill, proof.KillInSettle: // back at once, or when others have taken over
		s.Aim = 1.3 * random.Float64()
		s.Hold = between(random, 100*time.Millisecond, 500*time.Millisecond)
		if long {
			s.Hold = between(random, dead+500*time.Millisecond, dead+2*time.Second)
		}
	case proof.Stop:
		s.Hold = between(random, dead+time.Second, dead+3*time.Second)
	case proof.Restart:
		s.Hold = between(random, 0, time.Second)
	case proof.Cut, proof.Blackhole:
		if random.IntN(5) == 0 {
			s.Slot = hosts
		}
		s.Hold = between(random, 50*time.Millisecond, 800*time.Millisecond)
		if long {
			s.Hold = between(random, dead+time.Second, dead+3*time.Second)
		}
	case proof.HeldCommit:
		s.Hold = between(random, dead+time.Second, dead+6*time.Second)
	case proof.CutInCommit:
		s.Hold = between(random, 50*time.Millisecond, 300*time.Millisecond)
	case proof.FailedSettle:
		s.Before = long
	}
}

func between(random *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(random.Int64N(int64(to-from)))
}

// Digest tells plans apart.
func (p Plan) Digest() string {
	text, err := json.Marshal(p)
	if err != nil {
		panic(err) // numbers and strings
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:6])
}

// demands are what a run of a length has to show, so that it proves something.
func demands(span time.Duration) proof.Rules {
	rules := proof.Rules{Silence: intervals.Silence, Bound: bound, Share: 0.6, Late: span >= 30*time.Second, Faults: map[string]int{}}
	return rules
}

// demand sets how many faults of each kind a plan has to bring about: half of those that it has, and ten in a long run. (One
// that is aimed at a death may find none in time.)
func (p Plan) demand(rules *proof.Rules) {
	planned := map[string]int{}
	for _, step := range p.Steps {
		planned[step.Fault]++
	}
	for fault, n := range planned {
		rules.Faults[fault] = min(n/2, 10)
	}
}
