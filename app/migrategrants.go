package app

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pawljobs/pawl/app/internal/config"
	"github.com/pawljobs/pawl/postgres"
	"github.com/spf13/cobra"
)

// roleFlags say what principals of a role may do, in the order of the help.
var roleFlags = []struct {
	role postgres.Role
	help string
}{
	{postgres.RoleWorker, "the `NAME` of a principal that runs hosts; may be repeated, as all of these"},
	{postgres.RoleEnqueuer, "the `NAME` of one that enqueues, and sees no args and no dead letters"},
	{postgres.RoleViewer, "the `NAME` of one that looks at everything, args too, and changes nothing"},
	{postgres.RoleOperator, "the `NAME` of one that acts on jobs, letters, queues, kinds, hosts and schedules"},
	{postgres.RoleAdmin, "the `NAME` of an operator that also forgets, prunes and erases"},
}

func (p *program) migrateGrantsCommand() *cobra.Command {
	var apply bool
	names := map[postgres.Role]*[]string{}
	command := &cobra.Command{
		Use:   "grants",
		Short: "Print what gives the database's principals exactly the rights that they need",
		Long: `Print the statements that give principals of PostgreSQL, which are there already, the rights of their roles, in one transaction: for the
owner of the tables to run, and to run again after each migration. Whoever is named has these rights in pawl's schema afterwards and
no others; who has several roles is named for each. The owner needs none.

The store is not connected to, unless --apply is given: its URL only says which engine, and the configuration which schema, and
whether hosts prune letters (retention), for which workers then have the right.`,
		Example: "  pawl migrate grants --worker jobs --enqueuer shop --viewer support --operator oncall | psql -v ON_ERROR_STOP=1 app\n" +
			"  pawl migrate grants --store postgres://owner@db/app --worker jobs --apply",
		Args: needs("", 0, 0),
	}
	for _, f := range roleFlags {
		names[f.role] = command.Flags().StringArray(string(f.role), nil, f.help)
	}
	command.Flags().BoolVar(&apply, "apply", false, "run the statements instead, as the owner of the tables, whom the store's URL names")
	command.RunE = p.doing(func(ctx context.Context, _ []string) error {
		settings, err := p.settings()
		if err != nil {
			return err
		}
		at, err := p.target()
		if err != nil {
			return err
		}
		if at.Engine != config.Postgres {
			return withStatus(exitUsage, fmt.Errorf("%s is no PostgreSQL: it has no principals to give rights to", at))
		}
		picked := settings.Picked()
		grants := postgres.Grants{Schema: picked.Schema, Retention: picked.Retention > 0, Roles: map[postgres.Role][]string{}}
		for role, given := range names {
			if len(*given) > 0 {
				grants.Roles[role] = *given
			}
		}
		statements, err := grants.SQL()
		switch {
		case err != nil:
			return err
		case apply:
			return p.applyGrants(ctx, grants)
		}
		p.printer.line(strings.TrimSuffix(statements, "\n"))
		return nil
	})
	return command
}

func (p *program) applyGrants(ctx context.Context, grants postgres.Grants) error {
	s, err := p.openOwn(ctx, existing)
	if err != nil {
		return err
	}
	store := s.(*postgres.Store) // so says the target
	if err := errors.Join(store.Grant(ctx, grants), s.Close()); err != nil {
		return err
	}
	p.printer.line("The rights are given.")
	return nil
}
