package app

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/spf13/cobra"
)

// rate is so many starts in a time.
type rate struct {
	starts int
	per    time.Duration
}

// parseLimitRate reads 10/s, 100/m, 5/h, or 3/30s.
func parseLimitRate(text string) (rate, error) {
	number, span, found := strings.Cut(text, "/")
	starts, err := strconv.ParseUint(number, 10, 31)
	if span != "" && !strings.ContainsAny(span[:1], "0123456789") {
		span = "1" + span
	}
	per, spanErr := parseSpan(span)
	if !found || err != nil || starts == 0 || spanErr != nil {
		return rate{}, fmt.Errorf("%q is no rate such as 10/s, 100/m or 3/30s", text)
	}
	return rate{int(starts), per}, nil
}

// limiting is what the flags of kind limit say.
type limiting struct {
	concurrency, perKey, burst int
	rate                       rate
	none, stated               bool
}

// apply changes what was named, and leaves the rest as it is in force; nil goes back to what the kind states.
func (l limiting) apply(command *cobra.Command, now pawl.Limit) (*pawl.Limit, error) {
	named := func(flag string) bool { return command.Flags().Changed(flag) }
	parts := named("concurrency") || named("per-key") || named("rate") || named("burst")
	switch {
	case l.none && l.stated || (l.none || l.stated) && parts:
		return nil, errors.New("--none, --stated and the parts of a limit are given one at a time")
	case l.none:
		return &pawl.Limit{}, nil
	case l.stated:
		return nil, nil
	case !parts:
		return nil, errors.New("say how: --concurrency, --per-key, --rate, --none or --stated")
	}
	if named("concurrency") {
		now.Concurrency = l.concurrency
	}
	if named("per-key") {
		now.PerKey = l.perKey
	}
	if named("rate") {
		now.Starts, now.Per, now.Burst = l.rate.starts, l.rate.per, 0
	}
	if named("burst") {
		now.Burst = l.burst
	}
	return &now, now.Check()
}

func (p *program) kindLimit() *cobra.Command {
	var l limiting
	act := acting{must: true}
	command := &cobra.Command{
		Use:   "limit NAME",
		Short: "Limit how many jobs of a kind run at once, or start in a time, on all hosts",
		Long: `Limit how many jobs of a kind run at once, or start in a time, on all hosts.

What is set here overrules what the kind states, until --stated; parts that are not named stay as they are in force, and 0 takes one
away. Jobs that wait are held to it within a second; those that run, and those that were let through already, run on.`,
		Example: "  pawl kind limit email.welcome.v1 --concurrency 5 --rate 10/s --reason 'mail server is slow'\n" +
			"  pawl kind limit email.welcome.v1 --stated --reason 'mail server is well'",
		Args: needs("the kind's NAME", 1, 1),
	}
	flags := command.Flags()
	flags.IntVar(&l.concurrency, "concurrency", 0, "`N` at once, in all")
	flags.IntVar(&l.perKey, "per-key", 0, "`N` at once of those with the same limit key")
	addFlag(flags, &l.rate, "rate", "N/TIME", "so many may start in that time: 10/s, 100/m, 3/30s", parseLimitRate)
	flags.IntVar(&l.burst, "burst", 0, "`N` of these may start together (default: all)")
	flags.BoolVar(&l.none, "none", false, "no limit at all")
	flags.BoolVar(&l.stated, "stated", false, "as the kind states it")
	act.add(command)
	command.RunE = p.onStore(existing, func(ctx context.Context, s store, args []string) error {
		by, err := act.actor(p)
		if err != nil {
			return err
		}
		before, err := limitOf(ctx, s, args[0])
		if err != nil {
			return err
		}
		limit, err := l.apply(command, before.Limit)
		if err != nil {
			return withStatus(exitUsage, err)
		}
		if err := s.SetLimit(ctx, args[0], limit, by); err != nil {
			return err
		}
		after, err := limitOf(ctx, s, args[0])
		if err != nil {
			return err
		}
		if p.json {
			err = p.printer.object(limitViewOf(after))
		} else {
			p.printer.say("Kind %s is held to: %s.", args[0], limitText(after))
		}
		return errors.Join(err, p.warnUnknown(ctx, s, args[0]))
	})
	return command
}

// limitOf is what a kind is held to.
func limitOf(ctx context.Context, s store, kind string) (pawl.KindLimit, error) {
	limits, err := s.Limits(ctx)
	for _, l := range limits {
		if l.Kind == kind {
			return l, nil
		}
	}
	return pawl.KindLimit{Kind: kind}, err
}

func limitText(l pawl.KindLimit) string {
	text := l.Limit.String()
	if l.Overruled {
		text += " (set by an operator; the kind states: " + l.Stated.String() + ")"
	}
	return text
}

// limitView is what a kind is held to, in JSON.
type limitView struct {
	Kind        string `json:"kind"`
	Concurrency int    `json:"concurrency"`
	PerKey      int    `json:"per_key"`
	Starts      int    `json:"starts"`
	PerMS       int64  `json:"per_ms"`
	Burst       int    `json:"burst"`
	Overruled   bool   `json:"overruled"`
	Through     int    `json:"through"`
	Waiting     int    `json:"waiting"`
}

func limitViewOf(l pawl.KindLimit) limitView {
	_, burst := l.Limit.Rate()
	per := l.Limit.Per
	if burst > 0 && per == 0 {
		per = time.Second
	}
	return limitView{
		l.Kind, l.Limit.Concurrency, l.Limit.PerKey, l.Limit.Starts, per.Milliseconds(), burst, l.Overruled, l.Through, l.Waiting,
	}
}
