// Welcome enqueues one job and works it: go run ./examples/welcome; end it with Ctrl-C.
package main

import (
	"context"
	"fmt"
	"log"
	"os/signal"
	"syscall"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
	"github.com/pawljobs/pawl/sqlite"
)

type WelcomeArgs struct {
	UserID int64 `json:"user_id"`
}

var Welcome = pawl.NewKind[WelcomeArgs]("email.welcome.v1", pawl.Policy{Timeout: 30 * time.Second})

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	store, err := sqlite.Open(ctx, "welcome.db", sqlite.Config{})
	if err != nil {
		return err
	}
	defer store.Close()

	mux := pawl.NewMux()
	pawl.Handle(mux, Welcome, func(ctx context.Context, args WelcomeArgs) error {
		fmt.Println("welcome, user", args.UserID) // an error here is retried; pawl.Permanent(err) is not
		return nil
	})
	h, err := host.New(store, mux, host.Config{})
	if err != nil {
		return err
	}
	if _, err := Welcome.Enqueue(ctx, store, WelcomeArgs{UserID: 7}); err != nil { // or store.Tx(tx)
		return err
	}
	return h.Run(ctx) // until ctx is done, then it drains
}
