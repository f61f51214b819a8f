package host_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
	"github.com/pawljobs/pawl/sqlite"
)

// BenchmarkBurnDown runs no-op jobs that are all there at the start, on SQLite with its default durability; b.N is the
// number of jobs.
func BenchmarkBurnDown(b *testing.B) {
	for name, c := range map[string]host.Config{
		"default":    {},
		"500workers": {Servers: oneServer(500)},
	} {
		for history, config := range map[string]sqlite.Config{"history": {}, "nohistory": {History: -1}} {
			b.Run(name+"/"+history, func(b *testing.B) { burnDown(b, c, config) })
		}
	}
}

func burnDown(b *testing.B, config host.Config, storeConfig sqlite.Config) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	store, err := sqlite.Open(ctx, filepath.Join(b.TempDir(), "jobs.db"), storeConfig)
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	for left := b.N; left > 0; left -= 1000 {
		if _, err := work.EnqueueMany(ctx, store, make([]workArgs, min(left, 1000))); err != nil {
			b.Fatal(err)
		}
	}
	mux := pawl.NewMux()
	var ran atomic.Int64
	all := make(chan struct{})
	pawl.Handle(mux, work, func(context.Context, workArgs) error {
		if ran.Add(1) == int64(b.N) {
			close(all)
		}
		return nil
	})
	config.Logger = slog.New(slog.DiscardHandler)
	h, err := host.New(store, mux, config)
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	b.ResetTimer()
	go func() { ended <- h.Run(ctx) }()
	<-all
	cancel()
	if err := <-ended; err != nil { // it returns when all is settled
		b.Fatal(err)
	}
	b.StopTimer()
	if n := h.Stats().Succeeded; n != int64(b.N) {
		b.Fatalf("%d of %d jobs are settled", n, b.N)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}

// BenchmarkDeathsBesideASink runs jobs of which 2,000 die, beside a healthy sink and one that hangs or does not: the rates
// of both are to be compared. b.N is the number of jobs, at least 10,000.
func BenchmarkDeathsBesideASink(b *testing.B) {
	for _, engine := range engines {
		for _, other := range []string{"healthy", "hangs"} {
			b.Run(engine.name+"/"+other, func(b *testing.B) {
				deathsBesideASink(b, engine, other == "hangs")
			})
		}
	}
}

func deathsBesideASink(b *testing.B, engine engine, hangs bool) {
	if b.N < 10_000 {
		return // the try run of one
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	store, err := engine.open(ctx, engine.fresh(b))
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	for n := 0; n < b.N; n += 1000 {
		args := make([]workArgs, min(b.N-n, 1000))
		for i := range args {
			args[i].N = n + i
		}
		if _, err := work.EnqueueMany(ctx, store, args); err != nil {
			b.Fatal(err)
		}
	}
	mux := pawl.NewMux()
	var ran atomic.Int64
	all := make(chan struct{})
	every := b.N / 2000
	pawl.Handle(mux, work, func(_ context.Context, args workArgs) error {
		if ran.Add(1) == int64(b.N) {
			close(all)
		}
		if args.N%every == 0 {
			return pawl.Permanent(errors.New("no"))
		}
		return nil
	})
	other := &sink{name: "other"}
	if hangs {
		other.deliver = func(ctx context.Context, _ pawl.Alert) error { <-ctx.Done(); return ctx.Err() }
	}
	h, err := host.New(store, mux, host.Config{
		Logger: slog.New(slog.DiscardHandler), Sinks: []pawl.Sink{&sink{name: "healthy"}, other},
		Drain: host.Drain{Handler: time.Second, Server: 2 * time.Second, Host: 3 * time.Second},
	})
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	b.ResetTimer()
	go func() { ended <- h.Run(ctx) }()
	<-all
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
	cancel()
	if err := <-ended; err != nil {
		b.Fatal(err)
	}
}
