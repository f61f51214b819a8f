package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawljobs/pawl"
	controls "github.com/pawljobs/pawl/internal/desk"
	"github.com/pawljobs/pawl/internal/wire"
	"github.com/spf13/cobra"
)

const kindHelp = `Kinds: the kill switch. A kind that is switched off keeps its jobs waiting, on every host, until it is switched on.
A kind that starts off runs only where someone has switched that exact name on.
A limit bounds how many of its jobs run at once, or start in a time; one that has to wait holds no worker.`

func (p *program) kindCommand() *cobra.Command {
	return noun("kind", "Switch kinds of jobs on and off, and limit them", kindHelp, p.kindList(), p.kindShow(), p.kindSwitch(true), p.kindSwitch(false), p.kindReset(), p.kindLimit())
}

// kindRow is a kind that somebody knows: a host, or a switch.
type kindRow struct {
	name  string
	hosts int
	known bool // some host has registered it, a silent one too
	set   bool
	on    bool
	until time.Time

	setting pawl.Setting
}

func (p *program) kindList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the kinds that hosts have registered, and the switches that are set",
		Long: `List the kinds that hosts have registered, and the switches that are set.

HOSTS is the number of live hosts that run the kind: heard of within the last minute, and not draining.

In a pipe, tab-separated: kind, number of live hosts, switch (on, off or empty), until, what is wrong
(a switch of a kind that no host knows does nothing, and its name may be misspelt), and of the switch since when, by whom
and why.`,
		Args: needs("", 0, 0),
		RunE: p.onStore(existing, func(ctx context.Context, s store, _ []string) error {
			rows, err := kinds(ctx, s)
			if err != nil {
				return err
			}
			_, err = printList(p.printer, kindListing, each(rows))
			return err
		}),
	}
}

func kinds(ctx context.Context, s store) ([]kindRow, error) {
	hosts, err := s.Hosts(ctx)
	if err != nil {
		return nil, err
	}
	switches, err := s.Switches(ctx)
	if err != nil {
		return nil, err
	}
	found := map[string]kindRow{}
	for _, host := range hosts {
		for _, kind := range host.Kinds {
			row := found[kind]
			row.name, row.known = kind, true
			if live(host) {
				row.hosts++
			}
			found[kind] = row
		}
	}
	for _, set := range switches.Kinds {
		row := found[set.Kind]
		row.name, row.set, row.on, row.until = set.Kind, true, set.On, set.Until
		row.setting = set.Setting
		found[set.Kind] = row
	}
	var rows []kindRow
	for _, name := range slices.Sorted(maps.Keys(found)) {
		rows = append(rows, found[name])
	}
	return rows, nil
}

func (k kindRow) state() string {
	switch {
	case !k.set:
		return ""
	case k.on:
		return "on"
	}
	return "off"
}

func (k kindRow) trouble() string {
	if k.known {
		return ""
	}
	return "no host knows this kind"
}

var kindListing = listing[kindRow]{
	columns: []column[kindRow]{
		{head: "KIND", cell: func(k kindRow) string { return k.name }},
		{head: "HOSTS", cell: func(k kindRow) string { return fmt.Sprint(k.hosts) }},
		{head: "SWITCH", cell: kindRow.state},
		{head: "UNTIL", cell: func(k kindRow) string { return moment(k.until) }},
		{head: "", cell: kindRow.trouble, piped: true},
		{head: "SINCE", cell: func(k kindRow) string { return moment(k.setting.At) }},
		{head: "BY", cell: func(k kindRow) string { return k.setting.By.Who }, width: 24},
		{head: "REASON", cell: func(k kindRow) string { return k.setting.By.Why }},
		{head: "", cell: kindRow.trouble, seen: true},
	},
	view: func(k kindRow) any {
		return struct {
			Kind   string `json:"kind"`
			Hosts  int    `json:"hosts"`
			Switch text   `json:"switch"`
			Until  stamp  `json:"until"`
			Known  bool   `json:"known"`
			wire.Setting
		}{k.name, k.hosts, text(k.state()), stamp(k.until), k.known, wire.SettingOf(k.setting)}
	},
	none: "No host has registered a kind, and no switch is set.",
}

func (p *program) kindSwitch(on bool) *cobra.Command {
	act := acting{must: !on}
	var span time.Duration
	command := &cobra.Command{
		Use:     "off NAME",
		Short:   "Keep the jobs of a kind waiting, on every host",
		Example: "  pawl kind off ledger.credit.v1 --reason 'bank is down' --for 2h",
		Args:    needs("the kind's NAME", 1, 1),
	}
	if on {
		command.Use, command.Short = "on NAME", "Let the jobs of a kind run"
		command.Example = "  pawl kind on ledger.credit.v1 --reason 'bank is back'"
	}
	act.add(command)
	addFlag(command.Flags(), &span, "for", "DURATION", "the switch falls back by itself after this long", parsePeriod)
	command.RunE = p.onStore(existing, func(ctx context.Context, s store, args []string) error {
		by, err := act.actor(p)
		if err != nil {
			return err
		}
		change := pawl.KindSwitch{Kind: args[0], On: on, For: span}
		if err := s.SwitchKind(ctx, change, by); err != nil {
			return err
		}
		if change.Until, err = endOf(ctx, s, controls.OfKind, args[0], span); err != nil {
			return err
		}
		if p.json {
			told := change
			told.By = by
			err = p.printer.object(wire.KindSwitchOf(told))
		} else {
			p.printer.say("Kind %s is switched %s%s.", args[0], command.Name(), untilText(change.Until))
		}
		return errors.Join(err, p.warnUnknown(ctx, s, args[0]))
	})
	return command
}

func (p *program) kindReset() *cobra.Command {
	act := acting{must: true}
	command := &cobra.Command{
		Use:   "reset NAME",
		Short: "Take the switch of a kind away: its jobs run or wait as its code says",
		Long: `Take the switch of a kind away. Its jobs run then as if nobody had ever switched it: those that start off wait until it is
switched on, all others run.`,
		Example: "  pawl kind reset ledger.credit.v1 --reason 'the trial is over'",
		Args:    needs("the kind's NAME", 1, 1),
	}
	act.add(command)
	command.RunE = p.onStore(existing, func(ctx context.Context, s store, args []string) error {
		by, err := act.actor(p)
		if err != nil {
			return err
		}
		if err := s.ResetKind(ctx, args[0], by); err != nil {
			return err
		}
		if p.json {
			return p.printer.object(struct {
				Kind   string `json:"kind"`
				Switch text   `json:"switch"`
			}{Kind: args[0]})
		}
		p.printer.say("Kind %s has no switch any more.", args[0])
		return nil
	})
	return command
}
