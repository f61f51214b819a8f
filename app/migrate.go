package app

import (
	"context"
	"errors"

	"github.com/pawljobs/pawl"
	"github.com/spf13/cobra"
)

const migrateHelp = `The store's tables. Hosts bring them up to date when they start; these commands do it, or look, without a host.`

func (p *program) migrateCommand() *cobra.Command {
	up := &cobra.Command{
		Use:   "up",
		Short: "Make the store, or bring its tables up to date",
		Args:  needs("", 0, 0),
		RunE: p.doing(func(ctx context.Context, _ []string) error {
			s, err := p.openOwn(ctx, making)
			if err != nil {
				return err
			}
			return errors.Join(p.migrated(true, ""), s.Close())
		}),
	}
	status := &cobra.Command{
		Use:   "status",
		Short: "Say whether the tables are what this program needs (exit status 8 if not)",
		Args:  needs("", 0, 0),
	}
	status.RunE = p.doing(func(ctx context.Context, _ []string) error {
		s, err := p.openOwn(ctx, existing)
		switch {
		case errors.Is(err, pawl.ErrSchema):
			return errors.Join(p.migrated(false, err.Error()), withStatus(exitUnhealthy, errReported))
		case err != nil:
			return err
		}
		return errors.Join(p.migrated(true, ""), s.Close())
	})
	return noun("migrate", "Make the store and keep its tables up to date", migrateHelp, up, status)
}

func (p *program) migrated(current bool, why string) error {
	if p.json {
		at, err := p.target()
		if err != nil {
			return err
		}
		return p.printer.object(struct {
			Store   string `json:"store"`
			Current bool   `json:"current"`
			Reason  text   `json:"reason"`
		}{at.String(), current, text(why)})
	}
	if current {
		p.printer.line("The tables are up to date.")
		return nil
	}
	p.printer.line("The tables are not up to date: ", escape(why))
	return nil
}
