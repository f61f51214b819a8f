package app_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/app"
	"github.com/spf13/cobra"
)

type inviteArgs struct {
	Address string `json:"address"`
}

var invite = pawl.NewKind[inviteArgs]("email.invite.v1", pawl.Policy{MaxTries: 3})

// A command of the program's own enqueues by the kind, whose policy and args are those of the code, in the store that every
// other command works on.
func ExampleStore() {
	mux := pawl.NewMux()
	pawl.Handle(mux, invite, func(_ context.Context, args inviteArgs) error {
		fmt.Println("invited", args.Address)
		return nil
	})
	command := &cobra.Command{
		Use:   "invite ADDRESS…",
		Short: "Send invitations",
		RunE: func(c *cobra.Command, addresses []string) error {
			store, err := app.Store(c.Context())
			if err != nil {
				return err
			}
			for _, address := range addresses {
				if _, err := invite.Enqueue(c.Context(), store, inviteArgs{address}); err != nil {
					return err
				}
			}
			return nil // the store is closed behind the command
		},
	}

	folder, err := os.MkdirTemp("", "invite")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	store := "sqlite:" + filepath.Join(folder, "jobs.db")
	options := app.Options{Name: "shop", Commands: []*cobra.Command{command}}
	ctx := context.Background()
	app.Run(ctx, mux, options, "migrate", "up", "--store", store)
	app.Run(ctx, mux, options, "invite", "kim@example.com", "--store", store)
	options.Commands = nil
	app.Run(ctx, mux, options, "work", "--stop-when-empty", "--store", store)
	// Output:
	// The tables are up to date.
	// invited kim@example.com
	// Worker stopped after 1 attempt(s).
}
