package app

import (
	"context"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/app/internal/config"
)

// completeWithin bounds how long a shell waits for the names that a store has. Whatever goes wrong, nothing is offered.
const completeWithin = time.Second

// completeLetters is how many of the newest letters are offered.
const completeLetters = 500

// naming lists what may stand in one place of a command line; each may have a tab and a description behind it.
type naming func(ctx context.Context, s store) ([]string, error)

// completions tells the shell's completion what may be typed: the names of queues, kinds, hosts and groups, and ids of letters.
func (p *program) completions(root *cobra.Command) {
	open, closed := letterNames(pawl.StatusDead), letterNames(pawl.StatusResolved, pawl.StatusDiscarded, pawl.StatusRedriven)
	nouns := map[string]naming{"queue": queueNames, "kind": kindNames, "host": hostNames, "schedule": scheduleNames, "batch": batchNames, "dead": letterNames()}
	verbs := map[string]naming{"redrive": open, "retry": open, "resolve": open, "discard": open, "reopen": closed}
	for _, noun := range root.Commands() {
		list := nouns[noun.Name()]
		for _, verb := range noun.Commands() {
			if takes := list; takes != nil && strings.Contains(verb.Use, " ") {
				if noun.Name() == "dead" && verbs[verb.Name()] != nil {
					takes = verbs[verb.Name()]
				}
				verb.ValidArgsFunction = p.offer(takes, noun.Name() == "dead")
			}
			for flag, list := range map[string]naming{"queue": queueNames, "kind": kindNames, "group": groupNames} {
				if verb.Flags().Lookup(flag) != nil {
					if _, has := verb.GetFlagCompletionFunc(flag); !has {
						_ = verb.RegisterFlagCompletionFunc(flag, p.offer(list, true)) // the flag is there, and has none
					}
				}
			}
		}
	}
}

// offer completes one word, or with several each of them, by what the store has.
func (p *program) offer(list naming, several bool) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		const nothingElse = cobra.ShellCompDirectiveNoFileComp
		if len(args) > 0 && !several {
			return nil, nothingElse
		}
		ctx, cancel := context.WithTimeout(c.Context(), completeWithin)
		defer cancel()
		p.flags, p.talk = stated(c.Flags()), io.Discard
		s, err := p.openSilently(ctx)
		if err != nil {
			return nil, nothingElse
		}
		all, err := list(ctx, s)
		if s.Close() != nil || err != nil {
			return nil, nothingElse
		}
		return slices.DeleteFunc(all, func(name string) bool {
			word, _, _ := strings.Cut(name, "\t")
			return !strings.HasPrefix(word, typed) || slices.Contains(args, word) || word != escape(word)
		}), nothingElse
	}
}

// openSilently opens the store without a word about it.
func (p *program) openSilently(ctx context.Context) (store, error) {
	if at, err := p.target(); err != nil || at.Engine == config.Remote {
		return p.dial(ctx, at, err)
	}
	return p.openLogging(ctx, existing, slog.New(slog.DiscardHandler))
}

// queueNames are those of queues with jobs, that a host serves, or that are paused.
func queueNames(ctx context.Context, s store) ([]string, error) {
	busy, err := s.BusyQueues(ctx)
	if err != nil {
		return nil, err
	}
	hosts, err := s.Hosts(ctx)
	if err != nil {
		return nil, err
	}
	switches, err := s.Switches(ctx)
	if err != nil {
		return nil, err
	}
	for _, host := range hosts {
		for _, server := range host.Servers {
			busy = append(busy, server.Queues...)
		}
	}
	for _, pause := range switches.Queues {
		busy = append(busy, pause.Queue)
	}
	slices.Sort(busy)
	return slices.Compact(busy), nil
}

// kindNames are those that a host has registered, that are switched, or of which jobs wait.
func kindNames(ctx context.Context, s store) ([]string, error) {
	rows, err := kinds(ctx, s)
	if err != nil {
		return nil, err
	}
	heads, err := s.QueueHeads(ctx)
	if err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, row := range rows {
		found[row.name] = true
	}
	for _, head := range heads {
		found[head.Kind] = true
	}
	return slices.Sorted(maps.Keys(found)), nil
}

func hostNames(ctx context.Context, s store) ([]string, error) {
	hosts, err := s.Hosts(ctx)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, host := range hosts {
		found = append(found, host.Name)
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// letterNames are the ids of the newest letters of a status, or of any.
func letterNames(status ...pawl.Status) naming {
	return func(ctx context.Context, s store) ([]string, error) {
		page, err := s.Letters(ctx, pawl.LetterFilter{Status: status}, pawl.Page{Limit: completeLetters})
		if err != nil {
			return nil, err
		}
		var found []string
		for _, letter := range page.Letters {
			found = append(found, letter.ID.String()+"\t"+escape(letter.Kind+" "+cut(errorLine(letter), 60)))
		}
		return found, nil
	}
}

func groupNames(ctx context.Context, s store) ([]string, error) {
	groups, err := s.LetterGroups(ctx, pawl.LetterFilter{Status: []pawl.Status{pawl.StatusDead}}, 0)
	if err != nil {
		return nil, err
	}
	var found []string
	for _, group := range groups.Groups {
		found = append(found, group.Fingerprint+"\t"+escape(group.Kind+" "+cut(group.Message, 60)))
	}
	return found, nil
}

func scheduleNames(ctx context.Context, s store) ([]string, error) {
	page, err := s.Schedules(ctx, pawl.ScheduleFilter{}, pawl.Page{Limit: completeLetters})
	var names []string
	for _, v := range page.Schedules {
		names = append(names, v.Name+"\t"+v.Spec)
	}
	return names, err
}
