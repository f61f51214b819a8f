package host_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"net/http/httptest"
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

// A program that a service manager runs: it has endpoints, and stops at a signal. Serve the handler with an http.Server
// of your own, until RunUntilSignal has returned.
func ExampleHost_RunUntilSignal() {
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

	var h *host.Host
	ready := func(when string) {
		answer := httptest.NewRecorder()
		h.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/healthz/ready", nil))
		fmt.Println(when, answer.Code, answer.Body)
	}
	mux := pawl.NewMux()
	pawl.Handle(mux, greet, func(context.Context, greeting) error {
		ready("at work:")
		cancel() // stands for a SIGTERM
		return nil
	})
	if _, err := greet.Enqueue(ctx, store, greeting{Name: "Ada"}); err != nil {
		log.Fatal(err)
	}
	if h, err = host.New(store, mux, host.Config{Logger: slog.New(slog.DiscardHandler)}); err != nil {
		log.Fatal(err)
	}
	ready("before:")
	fmt.Println(h.RunUntilSignal(ctx)) // it drains and returns
	ready("after:")
	// Output:
	// before: 503 Unhealthy
	// at work: 200 Healthy
	// <nil>
	// after: 503 Unhealthy
}
