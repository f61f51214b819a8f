package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/wire"
	"github.com/spf13/cobra"
)

// kindDetail is one kind with what is known of it.
type kindDetail struct {
	Kind   string `json:"kind"`
	Switch text   `json:"switch"`
	Until  stamp  `json:"until"`
	wire.Setting
	Hosts        []string  `json:"hosts"`  // live ones that have registered it
	Queues       []string  `json:"queues"` // in which jobs of it wait
	OldestMS     int64     `json:"oldest_ready_ms"`
	OpenFailures int       `json:"open_failures"`
	Limit        limitView `json:"limit"`

	limit pawl.KindLimit
}

func (p *program) kindShow() *cobra.Command {
	return &cobra.Command{
		Use:     "show NAME",
		Short:   "Show one kind: who runs it, its switch and limit, where its jobs wait, its open failures",
		Example: "  pawl kind show email.welcome.v1",
		Args:    needs("the kind's NAME", 1, 1),
		RunE: p.onStore(existing, func(ctx context.Context, s store, args []string) error {
			kind, err := readKind(ctx, s, args[0])
			if err != nil {
				return err
			}
			if p.json {
				err = p.printer.object(kind)
			} else {
				p.showKind(kind)
			}
			if err == nil && len(kind.Hosts) == 0 {
				p.printer.say("No live host has registered kind %s.", kind.Kind)
			}
			return err
		}),
	}
}

func readKind(ctx context.Context, s store, name string) (kindDetail, error) {
	kind := kindDetail{Kind: name, Hosts: []string{}, Queues: []string{}}
	hosts, err := liveHosts(ctx, s)
	if err != nil {
		return kind, err
	}
	for _, h := range hosts {
		if runsKind(h, name) {
			kind.Hosts = append(kind.Hosts, h.Name)
		}
	}
	rows, err := kinds(ctx, s)
	if err != nil {
		return kind, err
	}
	for _, row := range rows {
		if row.name == name {
			kind.Switch, kind.Until, kind.Setting = text(row.state()), stamp(row.until), wire.SettingOf(row.setting)
		}
	}
	heads, err := s.QueueHeads(ctx)
	if err != nil {
		return kind, err
	}
	for _, head := range heads {
		if head.Kind == name {
			if !slices.Contains(kind.Queues, head.Queue) {
				kind.Queues = append(kind.Queues, head.Queue)
			}
			kind.OldestMS = max(kind.OldestMS, head.OldestReady.Milliseconds())
		}
	}
	filter := openOnly()
	filter.Kind = name
	if kind.OpenFailures, err = s.CountLetters(ctx, filter); err != nil {
		return kind, err
	}
	kind.limit, err = limitOf(ctx, s, name)
	kind.Limit = limitViewOf(kind.limit)
	return kind, err
}

func (p *program) showKind(k kindDetail) {
	out := p.printer
	out.field("Kind", k.Kind)
	switch {
	case k.Switch == "":
		out.field("Switch", "not set")
	default:
		out.field("Switch", string(k.Switch)+untilText(time.Time(k.Until)))
	}
	p.showSetting(k.Setting.Read())
	if out.field("Limit", limitText(k.limit)); !k.limit.Limit.IsZero() {
		out.field("In line", fmt.Sprintf("%d waiting, %d let through", k.limit.Waiting, k.limit.Through))
	}
	for i, host := range k.Hosts {
		out.field(first(i, "Hosts"), host)
	}
	for i, queue := range k.Queues {
		out.field(first(i, "Waits in"), queue)
	}
	if len(k.Queues) > 0 {
		out.field("Oldest", age(time.Duration(k.OldestMS)*time.Millisecond))
	}
	out.field("Failures", fmt.Sprintf("%d open", k.OpenFailures))
}

// showSetting says who has set a switch or a pause.
func (p *program) showSetting(s pawl.Setting) {
	if s.By.Who != "" {
		p.printer.field("Set", momentAgo(s.At)+" by "+s.By.Who)
		p.printer.field("Reason", s.By.Why)
	}
}

// queueDetail is one queue with what is known of it.
type queueDetail struct {
	wire.Queue
	HostNames []string `json:"host_names"`
	Kinds     []string `json:"kinds"` // of which jobs wait
}

func (p *program) queueShow() *cobra.Command {
	return &cobra.Command{
		Use:     "show NAME",
		Short:   "Show one queue: its counts, who serves it, which kinds wait in it",
		Example: "  pawl queue show 3-bulk",
		Args:    needs("the queue's NAME", 1, 1),
		RunE: p.onStore(existing, func(ctx context.Context, s store, args []string) error {
			queue, err := readQueue(ctx, s, args[0])
			if err != nil {
				return err
			}
			if p.json {
				err = p.printer.object(queue)
			} else {
				p.showQueue(queue)
			}
			if err == nil && queue.Hosts == 0 {
				p.printer.say("No live host serves queue %s.", queue.Queue.Queue)
			}
			return err
		}),
	}
}

func readQueue(ctx context.Context, s store, name string) (queueDetail, error) {
	queue := queueDetail{Queue: wire.Queue{Queue: name}, HostNames: []string{}, Kinds: []string{}}
	queues, err := s.Queues(ctx)
	if err != nil {
		return queue, err
	}
	switches, err := s.Switches(ctx)
	if err != nil {
		return queue, err
	}
	for _, q := range queues {
		if q.Name == name {
			queue.Queue = wire.QueueOf(q, 0, switches.Queues)
		}
	}
	hosts, err := liveHosts(ctx, s)
	if err != nil {
		return queue, err
	}
	for _, h := range hosts {
		if servesQueue(h, name) {
			queue.Hosts++
			queue.HostNames = append(queue.HostNames, h.Name)
		}
	}
	heads, err := s.QueueHeads(ctx)
	for _, head := range heads {
		if head.Queue == name && !slices.Contains(queue.Kinds, head.Kind) {
			queue.Kinds = append(queue.Kinds, head.Kind)
		}
	}
	return queue, err
}

func (p *program) showQueue(q queueDetail) {
	out := p.printer
	out.field("Queue", q.Queue.Queue)
	out.field("Waiting", fmt.Sprint(q.Waiting))
	out.field("Scheduled", fmt.Sprint(q.Scheduled))
	out.field("Reserved", fmt.Sprint(q.Reserved))
	if q.Waiting > 0 {
		out.field("Oldest", age(time.Duration(q.OldestReadyMS)*time.Millisecond))
	}
	if q.Paused {
		out.field("Paused", "yes"+untilText(time.Time(q.PausedUntil)))
		p.showSetting(pawl.Setting{By: pawl.By{Who: string(q.PausedBy), Why: string(q.PauseReason)}, At: time.Time(q.PausedAt)})
	}
	for i, kind := range q.Kinds {
		out.field(first(i, "Kinds"), kind)
	}
	for i, host := range q.HostNames {
		out.field(first(i, "Hosts"), host)
	}
}
