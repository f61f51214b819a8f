package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
	controls "github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/wire"
	"github.com/pawljobs/pawl/ops"
	"github.com/spf13/cobra"
)

const queueHelp = `Queues: what waits where. They are compared bytewise, and that order is their priority.`

func (p *program) queueCommand() *cobra.Command {
	return noun("queue", "Look at queues; pause, resume and clear them", queueHelp,
		p.queueList(), p.queueShow(), p.queuePause(true), p.queuePause(false), p.queueClear())
}

func (p *program) queueList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List queues in order of priority, with their counts",
		Long: `List queues in order of priority, with their counts.

HOSTS is the number of live hosts that serve the queue: heard of within the last minute, and not draining.

In a pipe, tab-separated: queue, waiting, scheduled, reserved, seconds that the oldest ready job has waited, paused,
hosts, and of a pause until when, since when, by whom and why.`,
		Args: needs("", 0, 0),
		RunE: p.onStore(existing, p.listQueues),
	}
}

func (p *program) listQueues(ctx context.Context, s store, _ []string) error {
	queues, err := s.Queues(ctx)
	if err != nil {
		return err
	}
	hosts, err := liveHosts(ctx, s)
	if err != nil {
		return err
	}
	switches, err := s.Switches(ctx)
	if err != nil {
		return err
	}
	rows := make([]queueRow, len(queues))
	var unserved []string
	for i, queue := range queues {
		rows[i] = queueRow{wire.QueueOf(queue, ops.Serving(hosts, queue.Name), switches.Queues), queue.OldestReady}
		if rows[i].Hosts == 0 && jobsIn(queue) > 0 {
			unserved = append(unserved, queue.Name)
		}
	}
	if _, err := printList(p.printer, p.queueListing(), each(rows)); err != nil {
		return err
	}
	switch len(unserved) {
	case 0:
	case 1:
		p.printer.say("No live host serves queue %s.", unserved[0])
	default:
		p.printer.say("No live host serves these queues: %s.", names(unserved))
	}
	return nil
}

func jobsIn(q pawl.QueueView) int { return q.Waiting + q.Scheduled + q.Reserved }

type queueRow struct {
	wire.Queue
	oldest time.Duration
}

func (p *program) queueListing() listing[queueRow] {
	return listing[queueRow]{
		columns: []column[queueRow]{
			{head: "QUEUE", cell: func(q queueRow) string { return q.Queue.Queue }},
			{head: "WAITING", cell: func(q queueRow) string { return fmt.Sprint(q.Waiting) }},
			{head: "SCHEDULED", cell: func(q queueRow) string { return fmt.Sprint(q.Scheduled) }},
			{head: "RESERVED", cell: func(q queueRow) string { return fmt.Sprint(q.Reserved) }},
			{head: "OLDEST READY", cell: func(q queueRow) string { return p.span(q.oldest) }},
			{head: "PAUSED", cell: func(q queueRow) string { return p.yesNo(q.Paused) }},
			{head: "HOSTS", cell: func(q queueRow) string { return fmt.Sprint(q.Hosts) }},
			{head: "UNTIL", cell: func(q queueRow) string { return moment(time.Time(q.PausedUntil)) }},
			{head: "SINCE", cell: func(q queueRow) string { return moment(time.Time(q.PausedAt)) }},
			{head: "BY", cell: func(q queueRow) string { return string(q.PausedBy) }, width: 24},
			{head: "REASON", cell: func(q queueRow) string { return string(q.PauseReason) }},
		},
		view: func(q queueRow) any { return q.Queue },
		none: "No jobs in any queue, and none is paused.",
	}
}

// span is a duration for people, and whole seconds in a pipe.
func (p *program) span(d time.Duration) string {
	switch {
	case p.printer.mode != modeTable:
		return fmt.Sprint(int64(d.Seconds()))
	case d == 0:
		return ""
	}
	return age(d)
}

func (p *program) yesNo(b bool) string {
	switch {
	case b:
		return "yes"
	case p.printer.mode == modeTable:
		return ""
	}
	return "no"
}

func (p *program) queuePause(pause bool) *cobra.Command {
	act := acting{must: pause}
	var span time.Duration
	command := &cobra.Command{
		Use:     "resume NAME",
		Short:   "Let hosts claim from a queue again",
		Example: "  pawl queue resume 3-bulk",
		Args:    needs("the queue's NAME", 1, 1),
	}
	if pause {
		command.Use, command.Short = "pause NAME", "Keep hosts from claiming from a queue; running jobs go on"
		command.Example = "  pawl queue pause 3-bulk --reason 'importer is wrong' --for 1h"
		addFlag(command.Flags(), &span, "for", "DURATION", "resume by itself after this long", parsePeriod)
	}
	act.add(command)
	command.RunE = p.onStore(existing, func(ctx context.Context, s store, args []string) error {
		by, err := act.actor(p)
		if err != nil {
			return err
		}
		change := pawl.QueuePause{Queue: args[0], Paused: pause, For: span}
		if err := s.PauseQueue(ctx, change, by); err != nil {
			return err
		}
		if change.Until, err = endOf(ctx, s, controls.OfQueue, args[0], span); err != nil {
			return err
		}
		switch {
		case p.json:
			told := change
			told.By = by
			err = p.printer.object(wire.QueuePauseOf(told))
		case pause:
			p.printer.say("Queue %s is paused%s.", args[0], untilText(change.Until))
		default:
			p.printer.say("Queue %s is resumed.", args[0])
		}
		return errors.Join(err, p.warnUnserved(ctx, s, args[0]))
	})
	return command
}

// endOf asks the store when what was just set for a span ends, since it counts by its own clock; never for no span.
func endOf(ctx context.Context, s store, what, name string, span time.Duration) (time.Time, error) {
	if span <= 0 {
		return time.Time{}, nil
	}
	set, err := s.Switches(ctx)
	return controls.EndOf(set, what, name), err
}

func untilText(until time.Time) string {
	if until.IsZero() {
		return ""
	}
	return " until " + moment(until)
}

func (p *program) queueClear() *cobra.Command {
	var act acting
	var sure confirming
	command := &cobra.Command{
		Use:   "clear NAME",
		Short: "Remove every job of a queue: waiting, scheduled and reserved",
		Long: `Remove every job of a queue: waiting, scheduled and reserved. Handlers that run finish, but their ends count for
nothing. The jobs cannot be brought back; the clearing goes into the audit trail.`,
		Example: "  pawl queue clear 3-bulk --dry-run\n  pawl queue clear 3-bulk --reason 'imported twice'",
		Args:    needs("the queue's NAME", 1, 1),
	}
	act.add(command)
	command.Flags().BoolVar(&sure.yes, "yes", false, "do not ask")
	command.Flags().BoolVar(&sure.dryRun, "dry-run", false, "only say how many jobs it would be")
	command.RunE = p.onStore(existing, func(ctx context.Context, s store, args []string) error {
		act.must = !sure.dryRun
		by, err := act.actor(p)
		if err != nil {
			return err
		}
		return p.clearQueue(ctx, s, args[0], sure, by)
	})
	return command
}

func (p *program) clearQueue(ctx context.Context, s store, queue string, sure confirming, by pawl.By) error {
	there, err := countQueue(ctx, s, queue)
	if err != nil {
		return err
	}
	if there == 0 {
		if err := p.warnUnserved(ctx, s, queue); err != nil {
			return err
		}
	}
	if sure.dryRun {
		if p.json {
			return p.printer.object(wire.Cleared{Queue: queue, Cleared: there, DryRun: true})
		}
		p.printer.line(fmt.Sprintf("Would clear %d job(s).", there))
		return nil
	}
	if there > 0 {
		sample, err := sampleQueue(ctx, s, queue)
		if err != nil {
			return err
		}
		deed := fmt.Sprintf("remove %s from queue %s for good", count(there, "job"), queue)
		if err := p.confirm(sure, deed, sample); err != nil {
			return err
		}
	}
	cleared, err := s.ClearQueue(ctx, queue, by)
	if err != nil {
		return err
	}
	if p.json {
		return p.printer.object(wire.Cleared{Queue: queue, Cleared: cleared})
	}
	p.printer.line(fmt.Sprintf("Cleared %d job(s).", cleared))
	return nil
}

func countQueue(ctx context.Context, s store, queue string) (int, error) {
	queues, err := s.Queues(ctx)
	if err != nil {
		return 0, err
	}
	for _, q := range queues {
		if q.Name == queue {
			return jobsIn(q), nil
		}
	}
	return 0, nil
}

func sampleQueue(ctx context.Context, s store, queue string) ([]string, error) {
	var sample []string
	for _, state := range []pawl.JobState{pawl.JobReserved, pawl.JobWaiting, pawl.JobScheduled} {
		found, err := s.Jobs(ctx, pawl.JobFilter{Queue: queue, State: state}, pawl.Page{Limit: sampleSize})
		if err != nil {
			return nil, err
		}
		for _, job := range found.Jobs {
			sample = append(sample, fmt.Sprintf("%s %s %s", job.ID, job.State, job.Kind))
		}
	}
	return sample[:min(len(sample), sampleSize)], nil
}
