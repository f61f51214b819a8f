package demo

import (
	"net/http"
	"sync"
	"time"
)

// fault is how the downstream treats one profile until it is healed.
type fault uint8

const (
	faultNone fault = iota
	faultBusy       // 429 with Retry-After, once
	faultHang       // no answer at all, once
	faultBad        // 400: it will never take this one
	faultDown       // 503 every time: the part that keeps this profile is down
)

// faultPlan decides what the downstream answers. Beside the profiles' own faults there is an outage of the whole: after
// OutageAfter profiles were taken it answers nothing but 503 for the length of Outage.
type faultPlan struct {
	faults      map[string]fault // by sign-up
	outageAfter int
	outage      time.Duration

	mu     sync.Mutex
	met    map[string]bool // faults that happen once and have
	taken  int
	healAt time.Time // of the outage; zero before it
}

// newFaultPlan spreads the faults over those sign-ups whose profile is posted at all. corrupted is the one whose
// envelope is to be damaged.
func newFaultPlan(rows []signUp, corrupted string, outage time.Duration) *faultPlan {
	p := &faultPlan{faults: map[string]fault{}, outage: outage, met: map[string]bool{}}
	var posted []string
	for _, row := range rows {
		if isKnown(row.Role) && row.ID != corrupted {
			posted = append(posted, row.ID)
		}
	}
	for i := 4; i < len(posted); i += 12 {
		p.faults[posted[i]] = faultBusy
	}
	for i, f := range []fault{faultDown, faultDown, faultHang, faultBad} {
		if at := max(i, len(posted)*i/4); at < len(posted) {
			p.faults[posted[at]] = f
		}
	}
	p.outageAfter = len(posted) / 3
	return p
}

// healedPlan has no faults.
func healedPlan() *faultPlan { return &faultPlan{} }

// verdict is what one post of a profile meets.
type verdict struct {
	hang       bool
	status     int
	retryAfter string // seconds
	problem    string
}

var taken = verdict{status: http.StatusCreated}

func (p *faultPlan) meet(signUp string, now time.Time) verdict {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.outage > 0 && p.healAt.IsZero() && p.taken >= p.outageAfter {
		p.healAt = now.Add(p.outage)
	}
	if now.Before(p.healAt) {
		return verdict{status: http.StatusServiceUnavailable, problem: "down for a moment"}
	}
	switch f := p.faults[signUp]; {
	case f == faultBad:
		return verdict{status: http.StatusBadRequest, problem: "this profile breaks a rule of ours"}
	case f == faultDown:
		return verdict{status: http.StatusServiceUnavailable, problem: "the part that keeps this profile is down"}
	case f != faultNone && !p.met[signUp]:
		p.met[signUp] = true
		if f == faultHang {
			return verdict{hang: true}
		}
		return verdict{status: http.StatusTooManyRequests, retryAfter: "1", problem: "too many requests"}
	}
	p.taken++
	return taken
}
