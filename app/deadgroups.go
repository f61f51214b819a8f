package app

import (
	"context"
	"fmt"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/wire"
	"github.com/spf13/cobra"
)

// mostGroups is how many groups a store lists.
const mostGroups = 1000

func (p *program) deadGroups() *cobra.Command {
	var picked letterFiltering
	var limit int
	command := &cobra.Command{
		Use:   "groups",
		Short: "Group open failures that are alike, the largest group first",
		Long: `Group open failures that are alike: the same kind that failed with the same type of error and the same message, but for
the numbers, ids and names in it. The largest group comes first; the newest letter stands for the others.

A group's name can be given to other commands as far as it is unique: --group 1-8e2.

In a pipe, tab-separated: group, letters, first seen, last seen, kind, newest letter's id, error, when
the group had been resolved before (a regression).`,
		Example: "  pawl dead groups\n  pawl dead groups --since 1h --kind email.welcome.v1\n  pawl dead list --group 1-8e2ce3c24f39a00c832e",
		Args:    needs("", 0, 0),
	}
	picked.add(command)
	command.Flags().IntVar(&limit, "limit", 0, fmt.Sprintf("print at most `N` groups (default 50 on a terminal, else %d, the most there can be)", mostGroups))
	command.RunE = p.onStore(existing, func(ctx context.Context, s store, _ []string) error {
		filter, err := picked.pick(ctx, s)
		if err != nil {
			return err
		}
		return p.listGroups(ctx, s, filter, limit)
	})
	return command
}

func (p *program) listGroups(ctx context.Context, s store, filter pawl.LetterFilter, limit int) error {
	if limit == 0 && p.printer.mode != modeTable {
		limit = mostGroups
	}
	found, err := s.LetterGroups(ctx, filter, limit)
	if err != nil {
		return err
	}
	if _, err := printList(p.printer, groupListing(p.noLetters(filter), found), each(found.Groups)); err != nil {
		return err
	}
	if rest := found.All - len(found.Groups); rest > 0 {
		p.printer.say("There are %s more; %s in all.", count(rest, "group"), count(found.Letters, "letter"))
	}
	if len(found.Groups) > 0 && p.printer.mode == modeTable {
		p.printer.say("Look at one: %s dead list --group %s", p.invocation(), found.Groups[0].Fingerprint)
	}
	return nil
}

// countedGroup is a group as a line of JSON, which has to say for itself what its counts are of.
type countedGroup struct {
	wire.Group
	From    wire.Stamp `json:"counts_from"`
	WidthMS int64      `json:"counts_width_ms"`
}

func groupListing(none string, of pawl.LetterGroups) listing[pawl.LetterGroup] {
	ago := func(at time.Time) string { return age(time.Since(at)) + " ago" }
	return listing[pawl.LetterGroup]{
		columns: []column[pawl.LetterGroup]{
			{head: "GROUP", cell: func(g pawl.LetterGroup) string { return g.Fingerprint }},
			{head: "LETTERS", cell: func(g pawl.LetterGroup) string { return fmt.Sprint(g.Letters) }},
			{head: "FIRST", cell: func(g pawl.LetterGroup) string { return moment(g.FirstSeen) }, piped: true},
			{head: "LAST", cell: func(g pawl.LetterGroup) string { return moment(g.LastSeen) }, piped: true},
			{head: "FIRST", cell: func(g pawl.LetterGroup) string { return ago(g.FirstSeen) }, seen: true},
			{head: "LAST", cell: func(g pawl.LetterGroup) string { return ago(g.LastSeen) }, seen: true},
			{head: overTime(of), cell: func(g pawl.LetterGroup) string { return sparkline(g.Counts) }, seen: true},
			{head: "KIND", cell: func(g pawl.LetterGroup) string { return g.Kind }, width: 28},
			{head: "NEWEST", cell: func(g pawl.LetterGroup) string { return g.Newest.String() }, piped: true},
			{head: "ERROR", cell: groupSample, piped: true},
			{head: "RESOLVED BEFORE", cell: func(g pawl.LetterGroup) string { return moment(g.ResolvedAt) }, piped: true},
			{head: "ERROR", cell: groupError, width: 160, seen: true},
		},
		view: func(g pawl.LetterGroup) any {
			return countedGroup{wire.GroupOf(g), wire.Stamp(of.From), of.Width.Milliseconds()}
		},
		none: none,
	}
}

// overTime heads the counts: from when on, and the time of each.
func overTime(of pawl.LetterGroups) string {
	return fmt.Sprintf("SINCE %s BY %s", age(time.Since(of.From)), age(of.Width))
}

// sparkline draws counts as one line, each against the largest; a death is never drawn as none.
func sparkline(counts []int) string {
	const bars = "▁▂▃▄▅▆▇█"
	most := 1
	for _, n := range counts {
		most = max(most, n)
	}
	line := make([]rune, len(counts))
	for i, n := range counts {
		if line[i] = ' '; n > 0 {
			line[i] = []rune(bars)[(n*8+most-1)/most-1]
		}
	}
	return string(line)
}

// groupError is the sample of what went wrong. That it is a regression stands before it.
func groupError(g pawl.LetterGroup) string {
	sample := groupSample(g)
	if !g.ResolvedAt.IsZero() {
		return "REGRESSION (resolved " + moment(g.ResolvedAt) + "): " + sample
	}
	return sample
}

func groupSample(g pawl.LetterGroup) string {
	return messageOrType(pawl.DeadLetter{ExceptionType: g.ExceptionType, Message: g.Message})
}
