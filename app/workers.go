package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/ops"
)

// liveHosts are the hosts that take jobs: heard of lately, and not draining.
func liveHosts(ctx context.Context, s store) ([]pawl.HostView, error) {
	hosts, err := s.Hosts(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(hosts, func(h pawl.HostView) bool { return !live(h) }), nil
}

func live(h pawl.HostView) bool   { return ops.Live(h) }
func silent(h pawl.HostView) bool { return ops.Silent(h) }

func runsKind(h pawl.HostView, kind string) bool { return slices.Contains(h.Kinds, kind) }

func servesQueue(h pawl.HostView, queue string) bool {
	return slices.ContainsFunc(h.Servers, func(server pawl.ServerInfo) bool { return slices.Contains(server.Queues, queue) })
}

// serving counts the hosts that claim from a queue.
func serving(hosts []pawl.HostView, queue string) int {
	n := 0
	for _, h := range hosts {
		if servesQueue(h, queue) {
			n++
		}
	}
	return n
}

// lack is what a waiting job finds on no live host.
type lack string

const (
	lacksNothing lack = ""
	lacksKind    lack = "kind"           // no host has registered its kind
	lacksQueue   lack = "queue"          // none serves its queue
	lacksBoth    lack = "kind and queue" // each is there, on different hosts only
)

func lackOf(hosts []pawl.HostView, job pawl.JobView) lack {
	kind, queue := false, false
	for _, h := range hosts {
		knows, serves := runsKind(h, job.Kind), servesQueue(h, job.Queue)
		if knows && serves {
			return lacksNothing
		}
		kind, queue = kind || knows, queue || serves
	}
	switch {
	case !kind:
		return lacksKind
	case !queue:
		return lacksQueue
	}
	return lacksBoth
}

func (l lack) text(job pawl.JobView) string {
	switch l {
	case lacksKind:
		return "no live host has registered kind " + job.Kind
	case lacksQueue:
		return "no live host serves queue " + job.Queue
	case lacksBoth:
		return fmt.Sprintf("no live host both has registered kind %s and serves queue %s", job.Kind, job.Queue)
	}
	return ""
}

// heldUp says why a job does not move, as far as the hosts show: nobody runs it, or who ran it has gone silent.
func heldUp(ctx context.Context, s store, job pawl.JobView) (lack, string, error) {
	if job.State != pawl.JobWaiting && job.State != pawl.JobReserved {
		return lacksNothing, "", nil
	}
	hosts, err := s.Hosts(ctx)
	if err != nil {
		return lacksNothing, "", err
	}
	if job.State == pawl.JobReserved {
		return lacksNothing, silenceOf(hosts, job.Host), nil
	}
	lacks := lackOf(slices.DeleteFunc(hosts, func(h pawl.HostView) bool { return !live(h) }), job)
	return lacks, lacks.text(job), nil
}

// silenceOf is empty while any host of that name is heard of.
func silenceOf(hosts []pawl.HostView, name string) string {
	var last time.Time
	for _, h := range hosts {
		if h.Name == name && h.BeatAt.After(last) {
			last = h.BeatAt
		}
	}
	if last.IsZero() || time.Since(last) <= ops.Silence {
		return ""
	}
	return fmt.Sprintf("host %s has not been heard of for %s; another host that is live takes the job over", name, age(time.Since(last)))
}

// mentioned is how many names one line of talk lists.
const mentioned = 8

// names is "a, b and 3 more".
func names(all []string) string {
	if len(all) <= mentioned {
		return strings.Join(all, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(all[:mentioned], ", "), len(all)-mentioned)
}

// warnUnserved says that a queue is nobody's and empty: its name may be misspelt.
func (p *program) warnUnserved(ctx context.Context, s store, queue string) error {
	there, err := countQueue(ctx, s, queue)
	if err != nil || there > 0 {
		return err
	}
	hosts, err := liveHosts(ctx, s)
	if err == nil && serving(hosts, queue) == 0 {
		p.printer.say("No live host serves queue %s, and no job is in it: check the name.", queue)
	}
	return err
}

// warnUnknown says that nobody runs a kind, not even a host that is silent by now: its name may be misspelt.
func (p *program) warnUnknown(ctx context.Context, s store, kind string) error {
	hosts, err := s.Hosts(ctx)
	if err == nil && !slices.ContainsFunc(hosts, func(h pawl.HostView) bool { return runsKind(h, kind) }) {
		p.printer.say("No host has registered kind %s: check the name.", kind)
	}
	return err
}
