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

// heldUp says why a job does not move, as far as the hosts show: nobody runs it, or who ran it has gone silent.
func heldUp(ctx context.Context, s store, job pawl.JobView) (ops.Lack, string, error) {
	if job.State != pawl.JobWaiting && job.State != pawl.JobReserved {
		return "", "", nil
	}
	hosts, err := s.Hosts(ctx)
	if err != nil {
		return "", "", err
	}
	if job.State == pawl.JobReserved {
		return "", silenceOf(hosts, job.Host), nil
	}
	lacks := ops.LackOf(hosts, job)
	return lacks, lacks.Of(job), nil
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
	if err == nil && ops.Serving(hosts, queue) == 0 {
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
