package app

import (
	"context"
	"encoding/hex"

	"github.com/pawljobs/pawl/api"
	"github.com/pawljobs/pawl/app/internal/config"
	"github.com/spf13/cobra"
)

func (p *program) tokenCommand() *cobra.Command {
	role := api.RoleOperator
	command := &cobra.Command{
		Use:   "new NAME",
		Short: "Draw a token for the API",
		Long: `Draw a token for the API, and print it, this once. The server keeps its hash alone; what to write into its configuration
goes to standard error.

  enqueue    hand in jobs, and nothing else
  viewer     look at everything, but for args and messages where the server hides them
  operator   also redrive, retry, close and forget letters, act on jobs, queues, hosts and schedules, and enqueue
  admin      also switch kinds, prune and erase`,
		Example: "  pawl token new billing --role enqueue",
		Args:    needs("the token's NAME", 1, 1),
	}
	addFlag(command.Flags(), &role, "role", "ROLE", "enqueue, viewer, operator or admin (default operator)", oneOf(api.RoleEnqueue, api.RoleViewer, api.RoleOperator, api.RoleAdmin))
	completes(command, "role", api.RoleEnqueue, api.RoleViewer, api.RoleOperator, api.RoleAdmin)
	command.RunE = p.doing(func(_ context.Context, args []string) error {
		if err := config.CheckEntry("token name", args[0]); err != nil { // it is to stand in a configuration
			return err
		}
		secret, token, err := api.NewToken(args[0], role)
		if err != nil {
			return err
		}
		hash := hex.EncodeToString(token.Hash[:])
		if p.json {
			return p.printer.object(struct {
				Name  string   `json:"name"`
				Role  api.Role `json:"role"`
				Token string   `json:"token"`
				Hash  string   `json:"hash"`
			}{token.Name, token.Role, secret, hash})
		}
		p.printer.line(secret)
		p.printer.say("The client has it in PAWL_TOKEN, or in a file (--token-file). Into the server's configuration goes:")
		p.printer.say("api:\n  tokens:\n    %s: {role: %s, hash: %s}", token.Name, token.Role, hash)
		return nil
	})
	return noun("token", "Draw tokens for the API", "Tokens: what lets a client into the API of a server (pawl serve).", command)
}
