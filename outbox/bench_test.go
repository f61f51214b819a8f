package outbox_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/outbox"
)

// gate is a store that lets jobs through until so many have passed, and then waits until it is opened again.
type gate struct {
	store
	left   atomic.Int64
	closed chan struct{} // gets a value when it closes
	open   chan struct{}
}

func (g *gate) Enqueue(ctx context.Context, jobs []pawl.NewJob) ([]pawl.Enqueued, error) {
	results, err := g.store.Enqueue(ctx, jobs)
	if g.left.Add(-int64(len(jobs))) <= 0 {
		g.closed <- struct{}{}
		<-g.open
	}
	return results, err
}

// BenchmarkDrain dispatches a backlog of 100,000 messages, in ten parts, and between them enqueues as many jobs straight
// into the same store, a thousand a call. Their ratio is how much slower the way through the outbox is than the store alone.
//
//	go test ./outbox -run '^$' -bench Drain -benchtime 1x
func BenchmarkDrain(b *testing.B) {
	for _, c := range []struct {
		name     string
		business func(testing.TB) *business
		target   func(testing.TB) store
	}{
		{"sqlite-to-sqlite", onSQLite, fileStore},
		{"postgres-to-postgres", onPgx, serverStore},
		{"sqlite-to-postgres", onSQLite, serverStore},
		{"postgres-to-sqlite", onPgx, fileStore},
	} {
		b.Run(c.name, func(b *testing.B) {
			var drain, direct time.Duration
			for range b.N {
				x, y := benchDrain(b, c.business(b), c.target(b))
				drain, direct = drain+x, direct+y
			}
			n := float64(b.N) * backlog
			b.ReportMetric(n/drain.Seconds(), "dispatched/s")
			b.ReportMetric(n/direct.Seconds(), "direct/s")
			b.ReportMetric(direct.Seconds()/drain.Seconds(), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

const (
	backlog = 100_000
	parts   = 10
	part    = backlog / parts
)

func benchDrain(b *testing.B, box *business, target store) (drain, direct time.Duration) {
	b.Helper()
	for range backlog / 1000 {
		box.write(b, newJobs(b, 1000)...)
	}
	g := &gate{store: target, closed: make(chan struct{}), open: make(chan struct{})}
	g.left.Store(part)
	began := time.Now()
	d := box.dispatcher(b, target, func(c *outbox.DispatcherConfig) { c.Keep = 0 }, g)
	stop := start(b, d)
	for i := range parts {
		<-g.closed
		drain += time.Since(began)
		jobs := newJobs(b, part)
		began = time.Now()
		for start := 0; start < len(jobs); start += 1000 {
			if _, err := target.Enqueue(b.Context(), jobs[start:start+1000]); err != nil {
				b.Fatal(err)
			}
		}
		direct += time.Since(began)
		g.left.Store(part)
		if i == parts-1 {
			g.left.Store(1 << 40)
		}
		began = time.Now()
		g.open <- struct{}{}
	}
	until(b, "all is dispatched", func() bool { return d.Counts().Dispatched == backlog })
	drain += time.Since(began)
	stop()
	return drain, direct
}
