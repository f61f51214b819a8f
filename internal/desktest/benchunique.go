package desktest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
)

// BenchmarkUnique enqueues jobs with unique keys and without, in turns, into a store in which 100,000 jobs with unique keys
// wait: one at a time, by 16 callers, and a thousand in a call, with keys that count on and with keys of random text. One in ten of
// the keys is held already. "times" is how many times as long the unique ones take, the median of rounds of 2,000 jobs
// each, between its quartiles; b.N is the number of jobs of each sort.
func BenchmarkUnique(b *testing.B, open Opener) {
	const waiting = 50_000 // with keys of each sort
	d := open(b)
	next := 0
	key := counted
	job := func(unique bool) pawl.NewJob {
		next++
		var options []pawl.Option
		if unique {
			n := next
			if next%10 == 0 && next > waiting {
				n = next%waiting + 1
			}
			options = append(options, pawl.UniqueWhileUnfinished(key(n)))
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
	for _, key = range []func(int) string{counted, random} {
		for next = 0; next < waiting; {
			if _, err := d.Enqueue(b.Context(), jobs(1000, true)); err != nil {
				b.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name          string
		callers, each int
		key           func(n int) string
	}{{"one", 1, 1, counted}, {"sixteen", 16, 1, counted}, {"bulk", 1, 1000, counted}, {"bulk-random", 1, 1000, random}} {
		b.Run(c.name, func(b *testing.B) {
			key = c.key
			var took [2]time.Duration
			var times []float64
			for left := b.N; left > 0; left -= 2000 {
				var round [2]time.Duration
				for sort, unique := range []bool{false, true} {
					round[sort] = enqueueBy(b, d, jobs(min(left, 2000), unique), c.callers, c.each)
					took[sort] += round[sort]
				}
				times = append(times, round[1].Seconds()/round[0].Seconds())
			}
			for sort, name := range []string{"plain-jobs/s", "unique-jobs/s"} {
				b.ReportMetric(float64(b.N)/took[sort].Seconds(), name)
			}
			slices.Sort(times)
			for quarter, name := range []string{1: "times-q1", 2: "times", 3: "times-q3"} {
				if name != "" {
					b.ReportMetric(times[len(times)*quarter/4], name)
				}
			}
		})
	}
}

func counted(n int) string { return "key " + strconv.Itoa(n) }

// random is always the same for the same n, and without likeness to that of another.
func random(n int) string {
	sum := sha256.Sum256([]byte(strconv.Itoa(n)))
	return "key " + hex.EncodeToString(sum[:16])
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
