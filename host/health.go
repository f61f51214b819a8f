package host

import (
	"io"
	"net/http"
)

// Health is what a host says of itself in one word.
type Health string

const (
	// Healthy: the host works, and every queue that it knows of has a live server.
	Healthy Health = "Healthy"
	// Degraded: the host works, and some queue has no live server; /metrics says which. See Host.Health.
	Degraded Health = "Degraded"
	// Unhealthy: the host takes no work. It starts, is quiet, drains or has stopped, or cannot reach its store.
	Unhealthy Health = "Unhealthy"
)

// failingBeats in a row mean that the store is out of reach. One alone may be a connection that broke; the next try
// follows within 50 ms.
const failingBeats = 2

// Health says how the host is. It answers at once: the store is never asked, what the host knows is.
//
// The store counts as out of reach when two beats in a row have failed, or none has succeeded for Intervals.Silence,
// which is how one that does not answer shows.
//
// A server is live while its host beats, does not drain and has handlers; of this host's own, while it can claim: not
// when claims have failed for Intervals.Silence, nor above MaxUnsettled. The queues that ought to have one are those
// of this host, those that other hosts serve or have served, and those that hold jobs. One that its last server has
// left is looked after for as long as it holds jobs, and without any for Intervals.Orphans at most. A host that dies is
// missed after Intervals.Silence and a beat.
func (h *Host) Health() Health {
	if !h.Ready() || h.presence.trouble.Count() >= failingBeats {
		return Unhealthy
	}
	for _, servers := range h.liveServers() {
		if servers == 0 {
			return Degraded
		}
	}
	return Healthy
}

// Handler serves the host's endpoints from what the host knows, before, while and after it runs:
//
//	/healthz/live   200 for as long as the process answers
//	/healthz/ready  its Health and nothing else; 200 for Healthy and Degraded, 503 for Unhealthy
//	/metrics        its Stats and the live servers of each queue, as text for Prometheus
//
// They are not guarded: serve them where only those who may know can reach them.
func (h *Host) Handler() http.Handler { return endpoints(h.Health, h.writeMetrics) }

// StartingHandler is the Handler of a host that is yet to be made, for a program that waits for its store: alive, and
// Unhealthy.
func StartingHandler() http.Handler {
	return endpoints(func() Health { return Unhealthy }, func(io.Writer) error { return nil })
}

func endpoints(health func() Health, metrics func(io.Writer) error) http.Handler {
	mux := http.NewServeMux() // a GET is a HEAD too, and every other method 405
	mux.HandleFunc("GET /healthz/live", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "Live") })
	mux.HandleFunc("GET /healthz/ready", func(w http.ResponseWriter, _ *http.Request) {
		status, word := http.StatusOK, health()
		if word == Unhealthy {
			status = http.StatusServiceUnavailable
		}
		say(w, status, string(word))
	})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_ = metrics(w) // who asked has gone
	})
	return mux
}

func say(w http.ResponseWriter, status int, word string) {
	header := w.Header()
	header.Set("Content-Type", "text/plain")
	header.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, word) // who asked has gone
}

// canClaim reports whether this host's servers fetch work.
func (h *Host) canClaim() bool {
	return h.Ready() && !h.settler.full() && h.claims.Lasting() < h.config.Intervals.Silence
}

// liveServers counts the live servers of each queue that ought to have one.
func (h *Host) liveServers() map[string]int {
	servers := h.lookout.known()
	own := 0
	if h.canClaim() {
		own = 1
	}
	for _, s := range h.servers {
		for _, queue := range s.queues {
			servers[queue] += own
		}
	}
	return servers
}
