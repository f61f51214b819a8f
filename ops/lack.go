package ops

import (
	"fmt"
	"slices"

	"github.com/pawljobs/pawl"
)

// Serving counts the live hosts that claim from a queue.
func Serving(hosts []pawl.HostView, queue string) int {
	n := 0
	for _, h := range hosts {
		if Live(h) && serves(h, queue) {
			n++
		}
	}
	return n
}

func serves(h pawl.HostView, queue string) bool {
	return slices.ContainsFunc(h.Servers, func(server pawl.ServerInfo) bool { return slices.Contains(server.Queues, queue) })
}

// Lack is what a waiting job finds on no live host.
type Lack string

// The lacks. "" is none.
const (
	LacksKind  Lack = "kind"           // no host has registered its kind
	LacksQueue Lack = "queue"          // none serves its queue
	LacksBoth  Lack = "kind and queue" // each is there, on different hosts only
)

// LackOf says what keeps live hosts from taking a job.
func LackOf(hosts []pawl.HostView, job pawl.JobView) Lack {
	kind, queue := false, false
	for _, h := range hosts {
		if !Live(h) {
			continue
		}
		knows, serves := slices.Contains(h.Kinds, job.Kind), serves(h, job.Queue)
		if knows && serves {
			return ""
		}
		kind, queue = kind || knows, queue || serves
	}
	switch {
	case !kind:
		return LacksKind
	case !queue:
		return LacksQueue
	}
	return LacksBoth
}

// Of says it in words.
func (l Lack) Of(job pawl.JobView) string {
	switch l {
	case LacksKind:
		return "no live host has registered kind " + job.Kind
	case LacksQueue:
		return "no live host serves queue " + job.Queue
	case LacksBoth:
		return fmt.Sprintf("no live host both has registered kind %s and serves queue %s", job.Kind, job.Queue)
	}
	return ""
}
