package host_test

import (
	"context"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
)

// BenchmarkOrderingKeys compares jobs of 1,000 ordering keys, enqueued in turn, with jobs of none, in turns: one host of 100
// workers whose handlers do nothing. b.N is the number of jobs of each run, and "ratio" the throughput of the ordered ones as a
// part of the others'. A job that runs before the one ahead of it in its line fails the benchmark.
//
//	go test ./host -run '^$' -bench OrderingKeys/postgres -benchtime 100000x
func BenchmarkOrderingKeys(b *testing.B) {
	for _, engine := range engines {
		b.Run(engine.name, func(b *testing.B) {
			if b.N < 1000 {
				return // the try run of one
			}
			const rounds = 2
			var plain, ordered time.Duration
			b.ResetTimer()
			for range rounds {
				plain += burnOrdered(b, engine, 0)
				ordered += burnOrdered(b, engine, 1000)
			}
			b.StopTimer()
			jobs := float64(rounds * b.N)
			b.ReportMetric(jobs/plain.Seconds(), "plain-jobs/s")
			b.ReportMetric(jobs/ordered.Seconds(), "ordered-jobs/s")
			b.ReportMetric(plain.Seconds()/ordered.Seconds(), "ratio")
		})
	}
}

// burnOrdered burns b.N jobs of so many ordering keys down, and returns how long that took.
func burnOrdered(b *testing.B, engine engine, keys int) time.Duration {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	store, err := engine.open(ctx, engine.fresh(b))
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	kind := pawl.NewKind[workArgs]("host.work.v1", pawl.Policy{})
	for from := 0; from < b.N; from += 1000 {
		var jobs []pawl.NewJob
		for n := from; n < min(from+1000, b.N); n++ {
			var options []pawl.Option
			if keys > 0 {
				options = append(options, pawl.OrderingKey("key "+strconv.Itoa(n%keys)))
			}
			job, err := kind.New(ctx, store.Connection(), workArgs{N: n}, options...)
			if err != nil {
				b.Fatal(err)
			}
			jobs = append(jobs, job)
		}
		if _, err := store.Enqueue(ctx, jobs); err != nil {
			b.Fatal(err)
		}
	}
	var ran atomic.Int64
	next := make([]atomic.Int64, max(keys, 1)) // by key, the job whose turn it is
	for key := range next {
		next[key].Store(int64(key))
	}
	all := make(chan struct{})
	mux := pawl.NewMux()
	pawl.Handle(mux, kind, func(_ context.Context, args workArgs) error {
		if keys > 0 && !next[args.N%keys].CompareAndSwap(int64(args.N), int64(args.N+keys)) {
			b.Errorf("job %d ran out of its turn", args.N)
		}
		if ran.Add(1) == int64(b.N) {
			close(all)
		}
		return nil
	})
	h, err := host.New(store, mux, host.Config{Logger: slog.New(slog.DiscardHandler), Servers: oneServer(100)})
	if err != nil {
		b.Fatal(err)
	}
	began := time.Now()
	ended := make(chan error, 1)
	go func() { ended <- h.Run(ctx) }()
	<-all
	took := time.Since(began)
	cancel()
	if err := <-ended; err != nil {
		b.Error(err)
	}
	return took
}
