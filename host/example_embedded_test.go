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

// An API process runs what a person waits for itself: a small server bound to one queue. It starts such jobs in
// milliseconds, whether or not a worker host is up, and works beside one on the same store. The other queues are left
// to that host. In PostgreSQL it may have a login of its own.
func ExampleServer_embedded() {
	ctx, cancel := context.WithCancel(context.Background())
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

	ran := make(chan string)
	mux := pawl.NewMux()
	pawl.Handle(mux, greet, func(_ context.Context, args greeting) error {
		ran <- args.Name
		return nil
	})
	quiet := slog.New(slog.DiscardHandler)
	embedded, err := host.New(store, mux, host.Config{
		Name: "api-1", Logger: quiet,
		Servers: []host.Server{{Name: "api", Queues: []string{"1-critical"}, Workers: 4}},
	})
	if err != nil {
		log.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- embedded.Run(ctx) }() // beside the API's own server, which ends it by cancel

	if _, err := greet.Enqueue(ctx, store, greeting{Name: "Ada"}, pawl.InQueue("1-critical")); err != nil {
		log.Fatal(err)
	}
	fmt.Println("started for", <-ran)
	if _, err := greet.Enqueue(ctx, store, greeting{Name: "Grace"}); err != nil { // into 2-default
		log.Fatal(err)
	}
	hosts, err := store.Hosts(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for _, h := range hosts {
		fmt.Println(h.Name, "serves", h.Servers[0].Queues, "with", h.Servers[0].Workers, "workers")
	}
	cancel()
	fmt.Println(<-ended)
	queues, err := store.Queues(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	for _, queue := range queues {
		fmt.Println(queue.Name, "waiting:", queue.Waiting)
	}
	// Output:
	// started for Ada
	// api-1 serves [1-critical] with 4 workers
	// <nil>
	// 2-default waiting: 1
}

// The queues of a server share its workers by weight: of ten jobs that start while all have some, six are critical.
func ExampleServer_weights() {
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

	starts := map[string]int{} // of the first ten; there is one worker
	total := 0
	mux := pawl.NewMux()
	pawl.Handle(mux, greet, func(ctx context.Context, _ greeting) error {
		if total++; total <= 10 {
			starts[pawl.FromContext(ctx).Queue]++
		}
		if total == 30 {
			cancel()
		}
		return nil
	})
	weights := map[string]int{"1-critical": 6, "2-default": 3, "3-bulk": 1}
	for queue := range weights {
		for range 10 {
			if _, err := greet.Enqueue(ctx, store, greeting{}, pawl.InQueue(queue)); err != nil {
				log.Fatal(err)
			}
		}
	}
	h, err := host.New(store, mux, host.Config{
		Logger:  slog.New(slog.DiscardHandler),
		Servers: []host.Server{{Name: "mixed", Queues: []string{"1-critical", "2-default", "3-bulk"}, Weights: weights, Workers: 1}},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(h.Run(ctx))
	fmt.Println(starts)
	// Output:
	// <nil>
	// map[1-critical:6 2-default:3 3-bulk:1]
}
