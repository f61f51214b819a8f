package host

import (
	"cmp"
	"context"
	"slices"

	"github.com/pawljobs/pawl"
)

// shares orders a weighted server's queues for each claim, so that of the jobs that start, each queue has its weight's
// share for as long as it has jobs. A claim drains the queues in the order given, so the queue that is the furthest
// behind comes first: this is start-time fair queueing (Goyal, Vin and Cheng, 1996) with claims in the place of
// packets. It draws no lots, so no queue is ever unlucky, and a claim costs what it costs in strict order.
type shares struct {
	weights map[string]int
	ahead   map[string]float64 // jobs started, divided by the weight: how far each queue is before the one furthest behind
}

func newShares(weights map[string]int) *shares {
	return &shares{weights: weights, ahead: map[string]float64{}}
}

// order returns the queues, the one furthest behind first; of equals, the heavier.
func (s *shares) order(queues []string) []string {
	queues = slices.Clone(queues)
	slices.SortStableFunc(queues, func(a, b string) int {
		return cmp.Or(cmp.Compare(s.ahead[a], s.ahead[b]), cmp.Compare(s.weights[b], s.weights[a]))
	})
	return queues
}

// note takes what a claim has brought; empty says that it has drained all queues. A queue that was drained has no claim
// on what others started meanwhile: it begins where the one furthest behind of those that still have jobs is.
func (s *shares) note(order []string, taken map[string]int, empty bool) {
	if empty {
		clear(s.ahead)
		return
	}
	last := 0 // the claim got no further than this one, so those before it are drained
	for i, queue := range order {
		if n := taken[queue]; n > 0 {
			s.ahead[queue] += float64(n) / float64(s.weights[queue])
			last = i
		}
	}
	behind := s.ahead[order[last]]
	for _, queue := range order[last:] {
		behind = min(behind, s.ahead[queue])
	}
	for _, queue := range order {
		s.ahead[queue] = max(s.ahead[queue]-behind, 0)
	}
}

// claim asks for as many jobs as there are free slots, from the server's queues in the order of their names or by weight.
func (s *server) claim(ctx context.Context, session pawl.SessionID, free int) (attempts []*attempt, more bool, err error) {
	request := pawl.ClaimRequest{Session: session, Queues: s.queues, Kinds: s.host.claimable(), Max: free}
	if len(request.Kinds) == 0 {
		return nil, false, nil
	}
	if s.shares == nil {
		return s.host.claim(ctx, request, s)
	}
	request.Queues = s.shares.order(s.queues)
	attempts, more, err = s.host.claim(ctx, request, s)
	if err == nil {
		taken := map[string]int{}
		for _, a := range attempts {
			taken[a.job.Queue]++
		}
		s.shares.note(request.Queues, taken, !more && len(attempts) < free)
	}
	return attempts, more, err
}
