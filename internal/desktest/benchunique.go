package desktest

import (
	"encoding/json"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
)

// BenchmarkUnique enqueues jobs with unique keys and without, in turns, into a store in which 100,000 jobs with unique keys
// wait: one at a time, by 16 callers, and a thousand in a call. One in ten of the keys is held already. "times" is how many times
// as long the unique ones take; b.N is the number of jobs of each sort.
func BenchmarkUnique(b *testing.B, open Opener) {
	const waiting = 100_000
	d := open(b)
	next := 0
	job := func(unique bool) pawl.NewJob {
		next++
		var options []pawl.Option
		if unique {
			n := next
			if next%10 == 0 {
				n = next % waiting
			}
			options = append(options, pawl.UniqueWhileUnfinished("key "+strconv.Itoa(n)))
		}
		made, err := pawl.NewKind[json.RawMessage]("bench.unique.v1", pawl.Policy{}).
			New(b.Context(), d.Connection(), json.RawMessage(`{"n":1}`), options...)
		if err != nil {
			b.Fatal(err)
		}
		return made
	}
	jobs := func(n int, unique bool) []pawl.NewJob {
		out := make([]pawl.NewJob, n)
		for i := range out {
			out[i] = job(unique)
		}
		return out
	}
	for next < waiting {
		if _, err := d.Enqueue(b.Context(), jobs(1000, true)); err != nil {
			b.Fatal(err)
		}
	}
	for _, c := range []struct {
		name          string
		callers, each int
	}{{"one", 1, 1}, {"sixteen", 16, 1}, {"bulk", 1, 1000}} {
		b.Run(c.name, func(b *testing.B) {
			var took [2]time.Duration
			for left := b.N; left > 0; left -= 2000 {
				for sort, unique := range []bool{false, true} {
					took[sort] += enqueueBy(b, d, jobs(min(left, 2000), unique), c.callers, c.each)
				}
			}
			for sort, name := range []string{"plain-jobs/s", "unique-jobs/s"} {
				b.ReportMetric(float64(b.N)/took[sort].Seconds(), name)
			}
			b.ReportMetric(took[1].Seconds()/took[0].Seconds(), "times")
		})
	}
}

// enqueueBy hands the jobs in by so many callers, so many at a time.
func enqueueBy(b *testing.B, d Desk, jobs []pawl.NewJob, callers, each int) time.Duration {
	var group sync.WaitGroup
	var at atomic.Int64
	began := time.Now()
	for range callers {
		group.Go(func() {
			for {
				from := int(at.Add(int64(each))) - each
				if from >= len(jobs) {
					return
				}
				if _, err := d.Enqueue(b.Context(), jobs[from:min(from+each, len(jobs))]); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	return time.Since(began)
}
