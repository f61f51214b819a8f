// Service is a whole program of a service: its handlers, and every command that pawl has for operating them.
//
//	go run ./examples/service welcome 7 8
//	go run ./examples/service work --stop-when-empty
//	go run ./examples/service job enqueue email.welcome.v1 --args '{"user_id": 9}'
//	go run ./examples/service serve
//	go run ./examples/service status
package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/app"
	"github.com/spf13/cobra"
)

type WelcomeArgs struct {
	UserID int64 `json:"user_id"`
}

var Welcome = pawl.NewKind[WelcomeArgs]("email.welcome.v1", pawl.Policy{})

func sendWelcome(_ context.Context, args WelcomeArgs) error {
	if args.UserID <= 0 {
		return pawl.Permanent(fmt.Errorf("no user %d", args.UserID))
	}
	return nil // as a mail
}

// welcome is a command of the service's own. It works on the store that all others work on.
func welcome(cmd *cobra.Command, users []string) error {
	store, err := app.Store(cmd.Context())
	if err != nil {
		return err
	}
	var many []WelcomeArgs
	for _, user := range users {
		id, err := strconv.ParseInt(user, 10, 64)
		if err != nil {
			return fmt.Errorf("user %q is no number", user)
		}
		many = append(many, WelcomeArgs{UserID: id})
	}
	_, err = Welcome.EnqueueMany(cmd.Context(), store, many)
	return err
}

func main() {
	mux := pawl.NewMux()
	pawl.Handle(mux, Welcome, sendWelcome)
	app.Main(mux, app.Options{Name: "service", Commands: []*cobra.Command{
		{Use: "welcome USER…", Short: "Send welcome mails", Args: cobra.MinimumNArgs(1), RunE: welcome},
	}})
}
