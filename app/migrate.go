package app

import (
	"context"
	"errors"
	"strings"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/app/internal/config"
	"github.com/pawljobs/pawl/postgres"
	"github.com/pawljobs/pawl/sqlite"
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
	return noun("migrate", "Make the store and keep its tables up to date", migrateHelp, up, status, p.migrateSQLCommand(), p.migrateGrantsCommand())
}

func (p *program) migrateSQLCommand() *cobra.Command {
	var from int
	command := &cobra.Command{
		Use:   "sql",
		Short: "Print what up would run, for those who run it themselves",
		Long: `Print the statements that make the store's tables, or with --from those that bring tables of an earlier version up to date, in one
transaction. The store is not connected to: its URL only says which engine, and the configuration which schema.`,
		Example: "  pawl migrate sql --store postgres:///app > pawl.sql\n  pawl migrate sql --store postgres:///app --from 5",
		Args:    needs("", 0, 0),
	}
	command.Flags().IntVar(&from, "from", 0, "the `VERSION` that the tables have; 0: there are none (status says it)")
	command.RunE = p.doing(func(context.Context, []string) error {
		settings, err := p.settings()
		if err != nil {
			return err
		}
		at, err := p.target()
		if err != nil {
			return err
		}
		if at.Engine == config.Remote {
			return notOwn(at)
		}
		var statements string
		if at.Engine == config.Postgres {
			statements, err = postgres.MigrationSQL(settings.Picked().Schema, from)
		} else {
			statements, err = sqlite.MigrationSQL(from)
		}
		if err == nil {
			p.printer.line(strings.TrimSuffix(statements, "\n"))
		}
		return err
	})
	return command
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
