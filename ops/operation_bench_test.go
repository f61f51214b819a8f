package ops_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/ops"
	"github.com/pawljobs/pawl/storetest"
)

// BenchmarkOperation redrives 100,000 letters by one operation, and says how long the set took to freeze, how many letters
// went in a second, how long it took to read how it stands, and how far the heap of this process grew.
func BenchmarkOperation(b *testing.B) {
	for name, open := range map[string]func(testing.TB) storetest.Store{
		"sqlite":   func(t testing.TB) storetest.Store { return openFile(t) },
		"postgres": func(t testing.TB) storetest.Store { return openPostgres(t) },
	} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				benchmarkOperation(b, open(b))
			}
		})
	}
}

func benchmarkOperation(b *testing.B, store storetest.Store) {
	const n = 100_000
	b.StopTimer()
	kind := pawl.NewKind[args](workKind, pawl.Policy{})
	for range n / 1000 {
		part := make([]pawl.DeadLetter, 1000)
		for i := range part {
			job, err := kind.New(b.Context(), pawl.Connection{}, args{i})
			if err != nil {
				b.Fatal(err)
			}
			part[i] = pawl.NewDeadLetter(pawl.Undertaker{Connection: "default", Host: "h"}, pawl.ClaimedJob{
				Reservation: pawl.Reservation{ID: job.ID, Token: 1}, Kind: job.Kind, Queue: job.Queue, Attempt: 6, Envelope: job.Envelope,
			}, pawl.Dead{Class: pawl.DeathExhausted, Reason: pawl.ReasonBudget}, time.Now(), fmt.Errorf("down"))
		}
		if _, err := store.RecordDeaths(b.Context(), part); err != nil {
			b.Fatal(err)
		}
	}
	desk, err := ops.New(store, nil)
	if err != nil {
		b.Fatal(err)
	}
	before, most := heap(), uint64(0)
	b.StartTimer()
	begun := time.Now()
	o, err := desk.StartOperation(b.Context(), redriveOf(pawl.OperationOptions{Expect: n}))
	if err != nil {
		b.Fatal(err)
	}
	frozen := time.Since(begun)
	o, err = desk.RunOperation(b.Context(), o.ID, ops.RunOptions{Each: func(pawl.Operation) { most = max(most, heap()) }})
	if err != nil || o.Done != n {
		b.Fatalf("%+v, %v", o, err)
	}
	b.StopTimer()
	took := time.Since(begun) - frozen
	reading := time.Now()
	if _, err := store.Operation(b.Context(), o.ID); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(frozen.Milliseconds()), "freeze-ms")
	b.ReportMetric(n/took.Seconds(), "letters/s")
	b.ReportMetric(float64(time.Since(reading).Microseconds())/1000, "read-ms")
	b.ReportMetric(float64(most-min(before, most))/(1<<20), "heap-MB")
	b.StartTimer()
}
