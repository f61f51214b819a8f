package host

import (
	"sync/atomic"
	"time"

	"github.com/pawljobs/pawl"
)

// Stats is a snapshot of a host's gauges and, since its start, counters. A transition is counted when the store has
// recorded it.
type Stats struct {
	Session   pawl.SessionID `json:"session"` // 0: none
	LastBeat  time.Time      `json:"last_beat"`
	Ready     bool           `json:"ready"`
	Draining  bool           `json:"draining"`
	Running   int            `json:"running"`   // handlers
	Strays    int            `json:"strays"`    // handlers that were given up and have not returned
	Unsettled int            `json:"unsettled"` // ended attempts that the store could not record yet
	Settling  int            `json:"settling"`  // ended attempts on their way to the store, unsettled ones included

	Claimed         int64 `json:"claimed"` // reserved for this host
	Started         int64 `json:"started"`
	Succeeded       int64 `json:"succeeded"`
	Retried         int64 `json:"retried"`
	Released        int64 `json:"released"`
	Exhausted       int64 `json:"died_exhausted"`
	Permanent       int64 `json:"died_permanent"`
	Poison          int64 `json:"died_poison"`
	GivenBack       int64 `json:"given_back"` // unstarted
	Requeued        int64 `json:"requeued"`   // cut short by the shutdown
	Cancelled       int64 `json:"cancelled"`  // by operators
	LeasesLost      int64 `json:"leases_lost"`
	TimedOut        int64 `json:"timed_out"`
	Panicked        int64 `json:"panicked"`
	Recovered       int64 `json:"recovered"` // jobs of dead hosts that this one put back
	AlertsDelivered int64 `json:"alerts_delivered"`
	AlertsFailed    int64 `json:"alerts_failed"`
	// AlertsUndelivered are the deaths that sinks of the store have not been told of yet, each counted once for each
	// sink, as of half a minute ago at most.
	AlertsUndelivered int `json:"alerts_undelivered"`
	SinkStrays        int `json:"sink_strays"` // deliveries that ignored their ctx and have not returned
}

// Died is how many deaths were recorded.
func (s Stats) Died() int64 { return s.Exhausted + s.Permanent + s.Poison }

// counters are the live values behind Stats.
type counters struct {
	running, strays, unsettled, sinkStrays                          atomic.Int64
	started, succeeded, retried, released, givenBack, requeued      atomic.Int64
	cancelled, claimed                                              atomic.Int64
	leasesLost, timedOut, panicked, recovered, delivered, undeliver atomic.Int64
	died                                                            [3]atomic.Int64 // by class
}

// Stats returns the present values. It never waits for the store.
func (h *Host) Stats() Stats {
	c := &h.counters
	id, beatAt := h.presence.lastBeat()
	return Stats{
		Session: id, LastBeat: beatAt, Ready: h.Ready(), Draining: h.draining.Load(),
		Running: int(c.running.Load()), Strays: int(c.strays.Load()),
		Unsettled: int(c.unsettled.Load()), Settling: int(h.settler.pending.Load()),
		Claimed: c.claimed.Load(), Started: c.started.Load(), Succeeded: c.succeeded.Load(), Retried: c.retried.Load(), Released: c.released.Load(),
		Exhausted: c.died[pawl.DeathExhausted].Load(), Permanent: c.died[pawl.DeathPermanent].Load(), Poison: c.died[pawl.DeathPoison].Load(),
		GivenBack: c.givenBack.Load(), Requeued: c.requeued.Load(), Cancelled: c.cancelled.Load(), LeasesLost: c.leasesLost.Load(),
		TimedOut: c.timedOut.Load(), Panicked: c.panicked.Load(), Recovered: c.recovered.Load(),
		AlertsUndelivered: h.tally.pending(),
		AlertsDelivered:   c.delivered.Load(), AlertsFailed: c.undeliver.Load(), SinkStrays: int(c.sinkStrays.Load()),
	}
}

// Ready reports whether the host takes work: its session is open, it has beaten lately, and it does not drain.
func (h *Host) Ready() bool {
	_, fresh := h.presence.fresh()
	return fresh && !h.draining.Load()
}

// count notes a transition that the store has recorded.
func (c *counters) count(s *pawl.Settlement) {
	if s.Record != nil && s.Record.Ending == pawl.EndCancelled {
		c.cancelled.Add(1)
		return
	}
	switch o := s.Outcome.(type) {
	case pawl.Done:
		c.succeeded.Add(1)
	case pawl.Retry:
		c.retried.Add(1)
	case pawl.Release:
		c.released.Add(1)
	case pawl.GiveBack:
		if o.Interrupted {
			c.requeued.Add(1)
		} else {
			c.givenBack.Add(1)
		}
	case pawl.Dead:
		c.died[min(o.Class, pawl.DeathPoison)].Add(1)
	}
}
