package wire

import (
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/ops"
)

// Status is how a store stands.
type Status struct {
	Well     bool          `json:"well" doc:"nothing needs doing"`
	Troubles []Trouble     `json:"troubles" doc:"what is not well, the first thing to do first"`
	Notes    []Trouble     `json:"notes" doc:"what is good to know"`
	Hosts    HostCounts    `json:"hosts" doc:"how many there are"`
	Queues   []StatusQueue `json:"queues" doc:"in which jobs wait, or which are paused or served, in order of priority"`
	Failures Failures      `json:"failures" doc:"dead letters that wait for a decision"`
	Alerts   []StatusSink  `json:"alerts" doc:"how the channels stand that alerts go to"`
}

// Trouble is one thing that is not well, or that is good to know.
type Trouble struct {
	What    ops.What `json:"what" doc:"tells troubles apart; it never changes its meaning"`
	Subject Text     `json:"subject" doc:"the host, queue, kind, sink or group that it is about"`
	Text    string   `json:"text" doc:"a sentence without its full stop"`
	Next    Text     `json:"next" doc:"the command to type next, where a command answers"`
}

// HostCounts is how many hosts there are of each state.
type HostCounts struct {
	Live      int `json:"live" doc:"take jobs"`
	Silent    int `json:"silent" doc:"were not heard of for a minute"`
	Draining  int `json:"draining" doc:"take no more jobs"`
	Workers   int `json:"workers" doc:"of the live ones"`
	Busy      int `json:"busy" doc:"handlers running, of the live ones"`
	Unsettled int `json:"unsettled" doc:"ended attempts that could not be recorded yet, of all"`
}

// StatusQueue is how a queue stands.
type StatusQueue struct {
	Queue         string   `json:"queue" doc:"its name"`
	OldestReadyMS int64    `json:"oldest_ready_ms" doc:"age of the job that has been ready for longest, those that a switch holds back included"`
	Hosts         int      `json:"hosts" doc:"live ones that serve it"`
	Paused        bool     `json:"paused" doc:"no host claims from it"`
	Kinds         []string `json:"kinds" doc:"of which jobs wait"`
}

// StatusSink is how a channel stands.
type StatusSink struct {
	Sink            string `json:"sink" doc:"its name"`
	Pending         int    `json:"pending" doc:"deaths that it is still to be told of"`
	OldestPendingMS int64  `json:"oldest_pending_ms" doc:"how long the oldest pending one has waited"`
}

// Failures are the dead letters that wait for a decision.
type Failures struct {
	Letters  int     `json:"letters" doc:"how many"`
	Groups   int     `json:"groups" doc:"in how many groups"`
	LastHour int     `json:"last_hour" doc:"how many of the last hour"`
	Largest  []Group `json:"largest" doc:"the largest groups"`
}

// StatusOf is a status's form. The function next, unless nil, is what to do about a trouble.
func StatusOf(s ops.Status, next func(ops.Trouble) string) Status {
	trouble := func(t ops.Trouble) Trouble {
		form := Trouble{What: t.What, Subject: Text(t.Subject), Text: t.Text}
		if next != nil {
			form.Next = Text(next(t))
		}
		return form
	}
	form := Status{
		Well: s.Well(), Troubles: Each(s.Troubles, trouble), Notes: Each(s.Notes, trouble), Hosts: CountHosts(s.Hosts),
		Failures: Failures{s.Failures.Letters, s.Failures.All, s.LastHour, Each(s.Failures.Groups, GroupOf)},
	}
	form.Queues = Each(s.Queues, func(q ops.QueueStatus) StatusQueue {
		kinds := Each(q.Kinds, func(head pawl.QueueHead) string { return head.Kind })
		return StatusQueue{q.Queue, OldestOf(q).Milliseconds(), q.Hosts, q.Paused, kinds}
	})
	form.Alerts = Each(s.Sinks, func(v pawl.SinkView) StatusSink {
		return StatusSink{v.Name, v.Pending, v.OldestAge.Milliseconds()}
	})
	return form
}

// CountHosts counts hosts by their state.
func CountHosts(hosts []pawl.HostView) (n HostCounts) {
	for _, h := range hosts {
		n.Unsettled += h.Unsettled
		switch {
		case ops.Silent(h):
			n.Silent++
		case h.Draining:
			n.Draining++
		default:
			n.Live++
			n.Busy += h.Busy
			for _, server := range h.Servers {
				n.Workers += server.Workers
			}
		}
	}
	return n
}

// OldestOf is how long a job has waited in a queue, those that a switch holds back included.
func OldestOf(q ops.QueueStatus) (oldest time.Duration) {
	for _, head := range q.Kinds {
		oldest = max(oldest, head.OldestReady)
	}
	return oldest
}
