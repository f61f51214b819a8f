package app

import (
	"context"
	"errors"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/internal/wire"
	"github.com/spf13/cobra"
)

// deadExport prints letters whole.
func (p *program) deadExport() *cobra.Command {
	var picked letterFiltering
	var page paging
	var payload bool
	command := &cobra.Command{
		Use:   "export",
		Short: "Print dead letters whole, as JSON lines, newest first",
		Long: `Print dead letters whole, as JSON lines, newest first: what dead show --json prints of each, the evidence and every attempt
included. Open failures, unless --all or --status asks for others. The payload is there with --payload only.`,
		Example: "  pawl dead export --all > letters.jsonl\n  pawl dead export --group 1-8e2ce3c24f39a00c832e --payload",
		Args:    needs("", 0, 0),
	}
	picked.add(command)
	page.add(command)
	command.Flags().Lookup("limit").Usage = "print at most `N` letters (default all)"
	command.Flags().BoolVar(&payload, "payload", false, "the payloads too")
	command.RunE = p.onStore(existing, func(ctx context.Context, s store, _ []string) error {
		filter, err := picked.pick(ctx, s)
		if err != nil {
			return err
		}
		return p.exportLetters(ctx, s, filter, page, payload)
	})
	return command
}

// exportLetters reads one letter after the other, so that memory does not grow with them. One that is forgotten meanwhile
// is left out.
func (p *program) exportLetters(ctx context.Context, s store, filter pawl.LetterFilter, page paging, payload bool) error {
	if page.limit < 0 {
		return &pawl.FieldError{Field: "limit", Value: page.limit, Rule: "must be at least 1, or 0 for all"}
	}
	letters := letterPages(s, filter, page.limit, page.after)
	for letter, err := range letters.all(ctx) {
		if err != nil {
			return err
		}
		whole, err := s.Letter(ctx, letter.ID)
		if errors.Is(err, pawl.ErrNotFound) {
			continue
		}
		if err == nil {
			err = p.printer.object(wire.LetterDetailOf(whole, payload))
		}
		if err != nil {
			return err
		}
	}
	if letters.after != "" {
		p.printer.say("There are more: go on with --after %s", letters.after)
	}
	return nil
}
