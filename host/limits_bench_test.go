package host_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/host"
)

// BenchmarkLimit compares ten hosts with 40 workers in all, and no limit, with ten hosts that have twice as many and a
// limit of 40, in turns. b.N is the number of jobs of each run; "ratio" is the throughput under the limit as a part of the
// other, "most" how many handlers ever ran at once under it.
//
//	go test ./host -run '^$' -bench Limit/postgres/20ms -benchtime 4000x
func BenchmarkLimit(b *testing.B) {
	for _, engine := range engines {
		for _, takes := range []time.Duration{20 * time.Millisecond, 100 * time.Millisecond} {
			b.Run(fmt.Sprintf("%s/%s", engine.name, takes), func(b *testing.B) { compareLimit(b, engine, takes) })
		}
	}
}

const limitRounds = 3

func compareLimit(b *testing.B, engine engine, takes time.Duration) {
	if b.N < 100 {
		return // the try run of one
	}
	var free, limited time.Duration
	most := 0
	b.ResetTimer()
	for range limitRounds {
		took, _ := tenHosts(b, engine, takes, pawl.Limit{}, 4)
		free += took
		took, ran := tenHosts(b, engine, takes, pawl.Limit{Concurrency: 40}, 8)
		limited += took
		most = max(most, ran)
	}
	b.StopTimer()
	if most > 40 {
		b.Fatalf("%d handlers ran at once", most)
	}
	jobs := float64(limitRounds * b.N)
	b.ReportMetric(jobs/free.Seconds(), "free-jobs/s")
	b.ReportMetric(jobs/limited.Seconds(), "limited-jobs/s")
	b.ReportMetric(free.Seconds()/limited.Seconds(), "ratio")
	b.ReportMetric(float64(most), "most")
}

// tenHosts burns b.N jobs down, and returns how long that took and how many handlers ran at once.
func tenHosts(b *testing.B, engine engine, takes time.Duration, limit pawl.Limit, workers int) (took time.Duration, most int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	where := engine.fresh(b)
	kind := pawl.NewKind[workArgs]("host.work.v1", pawl.Policy{Limit: limit})
	open := func() database {
		store, err := engine.open(ctx, where)
		if err != nil {
			b.Fatal(err)
		}
		return store
	}
	first := open()
	defer first.Close()
	for left := b.N; left > 0; left -= 1000 {
		if _, err := kind.EnqueueMany(ctx, first, make([]workArgs, min(left, 1000))); err != nil {
			b.Fatal(err)
		}
	}
	var ran, running, peak atomic.Int64
	all := make(chan struct{})
	mux := pawl.NewMux()
	pawl.Handle(mux, kind, func(context.Context, workArgs) error {
		if n := running.Add(1); n > peak.Load() {
			peak.Store(n)
		}
		time.Sleep(takes)
		running.Add(-1)
		if ran.Add(1) == int64(b.N) {
			close(all)
		}
		return nil
	})
	var hosts []*host.Host
	for range 10 {
		store := open()
		defer store.Close()
		h, err := host.New(store, mux, host.Config{Logger: slog.New(slog.DiscardHandler), Servers: oneServer(workers)})
		if err != nil {
			b.Fatal(err)
		}
		hosts = append(hosts, h)
	}
	var group sync.WaitGroup
	began := time.Now()
	for _, h := range hosts {
		group.Go(func() {
			if err := h.Run(ctx); err != nil {
				b.Error(err)
			}
		})
	}
	<-all
	took = time.Since(began)
	cancel()
	group.Wait()
	return took, int(peak.Load())
}
