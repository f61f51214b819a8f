package storetest

import (
	"cmp"
	"slices"

	"pgregory.net/rapid"

	"github.com/pawljobs/pawl"
)

// Gates that a job of the model passes, one after the other.
const (
	beforeOrder = iota
	beforeKey
	beforeKind
	isThrough
)

// modelLine is where a job stands that has an ordering key or is of the limited kind.
type modelLine struct {
	gate  int
	place int // in its lines
}

// line is nil for a job that stands in none.
func newModelLine(job pawl.NewJob, place int) *modelLine {
	if job.OrderingKey == "" && !job.Limited {
		return nil
	}
	l := &modelLine{gate: beforeOrder, place: place}
	if job.OrderingKey == "" {
		l.skip(job)
	}
	return l
}

// skip leads to the next gate that concerns the job.
func (l *modelLine) skip(job pawl.NewJob) {
	l.gate++
	if l.gate == beforeKey && (job.LimitKey == "" || !job.Limited) {
		l.gate++
	}
	if l.gate == beforeKind && !job.Limited {
		l.gate++
	}
}

// leaveLimits keeps the place by the ordering key and nothing else.
func (l *modelLine) leaveLimits(job pawl.NewJob) {
	if l.gate > beforeOrder {
		l.gate = beforeOrder
		l.skip(job)
	}
}

// isReady reports whether a job may be claimed.
func (j *modelJob) isReady() bool {
	return j.state == pawl.JobWaiting && (j.line == nil || j.line.gate == isThrough)
}

// give gives turns until nobody has one to take.
func (m *model) give() {
	for again := true; again; {
		again = false
		lined := slices.DeleteFunc(slices.Clone(m.jobs), func(j *modelJob) bool {
			return !j.unfinished() || j.line == nil || j.line.gate == isThrough
		})
		slices.SortFunc(lined, func(a, b *modelJob) int { return cmp.Compare(a.line.place, b.line.place) })
		for _, j := range lined {
			for j.line.gate < isThrough && m.mayPass(j) {
				j.line.skip(j.new)
				again = true
			}
		}
	}
}

// mayPass looks at all others.
func (m *model) mayPass(j *modelJob) bool {
	if j.line.gate != beforeOrder && j.state != pawl.JobWaiting {
		return false // its time has not come
	}
	sameKey, sameKind := 0, 0
	for _, other := range m.jobs {
		if other == j || other.line == nil || !other.unfinished() {
			continue
		}
		if j.line.gate == beforeOrder && other.new.OrderingKey == j.new.OrderingKey &&
			(other.line.gate > beforeOrder || other.line.place < j.line.place) {
			return false
		}
		if !other.new.Limited {
			continue
		}
		if other.new.LimitKey == j.new.LimitKey && other.line.gate > beforeKey {
			sameKey++
		}
		if other.line.gate == isThrough {
			sameKind++
		}
	}
	switch j.line.gate {
	case beforeKey:
		return m.limit.PerKey == 0 || sameKey < m.limit.PerKey
	case beforeKind:
		return m.limit.Concurrency == 0 || sameKind < m.limit.Concurrency
	}
	return true
}

// setLimit changes what the limited kind is held to.
func (m *model) setLimit(limit pawl.Limit) {
	m.limit = limit
	for _, j := range m.jobs {
		if j.unfinished() && j.line != nil && j.line.gate == beforeKind && j.new.LimitKey != "" && limit.PerKey > 0 {
			j.line.gate = beforeKey
		}
	}
	m.give()
}

func (r *modelRun) limitOne(rt *rapid.T) {
	limit := pawl.Limit{Concurrency: rapid.IntRange(0, 3).Draw(rt, "concurrency"), PerKey: rapid.IntRange(0, 2).Draw(rt, "per key")}
	r.ok("set limit", r.store.SetLimit(r.ctx, otherKind, &limit, operator("model")))
	r.model.setLimit(limit)
}

// compareClaimed compares what a claim has got with the model's. Where jobs stand in line, in what order several that were let
// through at once join a queue is not compared: all others must come in theirs, and as many from each queue as there are.
func (r *modelRun) compareClaimed(request pawl.ClaimRequest, got []pawl.ClaimedJob) []*modelJob {
	r.Helper()
	want := r.model.claimable(request)
	all := request
	all.Max = len(r.model.jobs) + 1
	candidates := r.model.claimable(all)
	all.Suspect = true
	if !slices.ContainsFunc(r.model.claimable(all), func(j *modelJob) bool { return j.line != nil }) {
		r.equal("claimed", ids(got), modelIDs(want))
		return want
	}
	jobs := make([]*modelJob, len(got))
	var plain, wantPlain []*modelJob
	queues, wantQueues, risky := map[string]int{}, map[string]int{}, 0
	for i, claimed := range got {
		j := r.model.job(claimed.ID)
		r.holds("a claimed job may be claimed: "+claimed.ID.String(), j != nil && j.isReady() && slices.Contains(request.Kinds, j.new.Kind))
		jobs[i] = j
		queues[j.new.Queue]++
		if j.crashes >= pawl.CrashSuspect {
			risky++
		}
		if j.line == nil && j.crashes < pawl.CrashSuspect {
			plain = append(plain, j)
		}
	}
	for _, j := range want {
		wantQueues[j.new.Queue]++
	}
	for _, j := range candidates {
		if j.line == nil && j.crashes < pawl.CrashSuspect {
			wantPlain = append(wantPlain, j)
		}
	}
	r.equal("jobs claimed from each queue", queues, wantQueues)
	r.holds("one suspect at most, where one may be", risky == 0 || risky == 1 && request.Suspect)
	r.holds("jobs that stand in no line come in their order", len(plain) <= len(wantPlain))
	r.equal("jobs that stand in no line", modelIDs(plain), modelIDs(wantPlain[:len(plain)]))
	return jobs
}

func modelIDs(jobs []*modelJob) []pawl.ID {
	var out []pawl.ID
	for _, j := range jobs {
		out = append(out, j.new.ID)
	}
	return out
}
