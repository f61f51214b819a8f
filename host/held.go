package host

import (
	"sync"

	"github.com/pawljobs/pawl"
)

// registry knows every reservation that the host holds, from the claim's reply until the store has recorded its end; and
// for longer where the handler still runs then: a shutdown has to end that too.
type registry struct {
	mu       sync.Mutex
	attempts map[pawl.Token]*attempt
}

func newRegistry() *registry { return &registry{attempts: map[pawl.Token]*attempt{}} }

func (r *registry) add(attempts []*attempt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range attempts {
		r.attempts[a.job.Token] = a
	}
}

func (r *registry) remove(entries []*entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range entries {
		if e.attempt == nil || !e.attempt.outlives() {
			delete(r.attempts, e.Token)
		}
	}
}

func (r *registry) drop(token pawl.Token) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.attempts, token)
}

// all returns the attempts that match.
func (r *registry) all(match func(*attempt) bool) []*attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]*attempt, 0, len(r.attempts))
	for _, a := range r.attempts {
		if match(a) {
			out = append(out, a)
		}
	}
	return out
}

func (r *registry) find(reservations []pawl.Reservation) []*attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*attempt
	for _, reservation := range reservations {
		if a := r.attempts[reservation.Token]; a != nil && a.job.ID == reservation.ID {
			out = append(out, a)
		}
	}
	return out
}

// report is what a beat tells of a session: all that it holds, and progress that is new.
func (r *registry) report(id pawl.SessionID) (held []pawl.Reservation, progress []pawl.Progress) {
	attempts := r.all(func(a *attempt) bool { return a.session == id })
	held = make([]pawl.Reservation, 0, len(attempts))
	for _, a := range attempts {
		p, news, gone := a.report()
		if !gone {
			held = append(held, a.job.Reservation)
		}
		if news {
			progress = append(progress, p)
		}
	}
	return held, progress
}

// unreported keeps progress for the next beat, unless there is newer.
func (r *registry) unreported(progress []pawl.Progress) {
	for _, p := range progress {
		for _, a := range r.find([]pawl.Reservation{p.Reservation}) {
			a.unreported(p)
		}
	}
}

// lose tells attempts that their reservations are no longer ours.
func (r *registry) lose(reservations []pawl.Reservation) {
	for _, a := range r.find(reservations) {
		a.lose()
	}
}

// loseSession is lose for all of a session. It returns how many handlers were told.
func (r *registry) loseSession(id pawl.SessionID) (running int) {
	for _, a := range r.all(func(a *attempt) bool { return a.session == id }) {
		if a.lose() {
			running++
		}
	}
	return running
}

// cancel cancels handlers that an operator asked for.
func (r *registry) cancel(reservations []pawl.Reservation) {
	for _, a := range r.find(reservations) {
		a.cancel()
	}
}
