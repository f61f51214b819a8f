// Service is a whole program of a service: its handlers, and every command that pawl has for operating them.
//
//	go run ./examples/service serve
//	go run ./examples/service job enqueue email.welcome.v1 --args '{"user_id": 7}'
//	go run ./examples/service status
package main

import (
	"context"
	"fmt"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/app"
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

func main() {
	mux := pawl.NewMux()
	pawl.Handle(mux, Welcome, sendWelcome)
	app.Main(mux, app.Options{Name: "service"})
}
