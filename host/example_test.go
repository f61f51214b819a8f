package host_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
	"github.com/pawljobs/pawl/sqlite"
)

type greeting struct {
	Name string `json:"name"`
}

var greet = pawl.NewKind[greeting]("example.greet.v1", pawl.Policy{})

// A program that enqueues a job and runs it.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	folder, err := os.MkdirTemp("", "pawl")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(folder)
	store, err := sqlite.Open(ctx, filepath.Join(folder, "jobs.db"), sqlite.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()

	mux := pawl.NewMux()
	pawl.Handle(mux, greet, func(ctx context.Context, args greeting) error {
		fmt.Printf("hello, %s, on attempt %d\n", args.Name, pawl.FromContext(ctx).Attempt)
		cancel() // this program has one job; others wait for a signal
		return nil
	})
	if _, err := greet.Enqueue(ctx, store, greeting{Name: "Ada"}); err != nil {
		log.Fatal(err)
	}
	h, err := host.New(store, mux, host.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(h.Run(ctx)) // it drains and returns
	fmt.Println("succeeded:", h.Stats().Succeeded)
	// Output:
	// hello, Ada, on attempt 1
	// <nil>
	// succeeded: 1
}
