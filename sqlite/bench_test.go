package sqlite_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/sqlite"
)

// Run them with a fixed number of jobs, so that the files are alike:
//
//	go test ./sqlite -run '^$' -bench . -benchtime 100000x

type benchArgs struct {
	UserID int64  `json:"user_id"`
	Email  string `json:"email"`
}

var (
	benchKind   = pawl.NewKind[benchArgs]("bench.work.v1", pawl.Policy{})
	foreignKind = pawl.NewKind[benchArgs]("bench.foreign.v1", pawl.Policy{})
)

func benchStore(b *testing.B, config sqlite.Config) *sqlite.Store {
	b.Helper()
	store, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "jobs.db"), config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = store.Close() })
	return store
}

// measure starts the clock; the function that it returns reports the rate and the processor time of a job.
func measure(b *testing.B) (report func()) {
	cpu := cpuTime()
	b.ResetTimer()
	return func() {
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
		b.ReportMetric(float64((cpuTime()-cpu).Microseconds())/float64(b.N), "cpu-µs/job")
	}
}

// BenchmarkEnqueue is one job a call.
func BenchmarkEnqueue(b *testing.B) {
	for _, callers := range []int{1, 16, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			store := benchStore(b, sqlite.Config{})
			var next atomic.Int64
			var group sync.WaitGroup
			report := measure(b)
			for range callers {
				group.Go(func() {
					for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
						if _, err := benchKind.Enqueue(b.Context(), store, benchArgs{n, "someone@example.org"}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			group.Wait()
			report()
		})
	}
}

// BenchmarkEnqueueMany is a thousand jobs a call.
func BenchmarkEnqueueMany(b *testing.B) {
	store := benchStore(b, sqlite.Config{})
	jobs := benchJobs(b, store, benchKind, b.N)
	report := measure(b)
	store1000(b, store, jobs)
	report()
}

func benchJobs(b *testing.B, store *sqlite.Store, kind pawl.Kind[benchArgs], n int, options ...pawl.Option) []pawl.NewJob {
	b.Helper()
	jobs := make([]pawl.NewJob, n)
	for i := range jobs {
		var err error
		if jobs[i], err = kind.New(b.Context(), store.Connection(), benchArgs{int64(i), "someone@example.org"}, options...); err != nil {
			b.Fatal(err)
		}
	}
	return jobs
}

// store1000 stores the jobs, a thousand a call.
func store1000(b *testing.B, store *sqlite.Store, jobs []pawl.NewJob) {
	b.Helper()
	for len(jobs) > 0 {
		n := min(1000, len(jobs))
		if _, err := store.Enqueue(b.Context(), jobs[:n]); err != nil {
			b.Fatal(err)
		}
		jobs = jobs[n:]
	}
}

// BenchmarkWork is a claim and a settle for each batch, by one host: the life of a job without its handler.
func BenchmarkWork(b *testing.B) {
	for _, batch := range []int{100, 500} {
		for name, history := range map[string]time.Duration{"on": 0, "off": -1} {
			b.Run(fmt.Sprintf("batch=%d/history=%s", batch, name), func(b *testing.B) {
				store := benchStore(b, sqlite.Config{History: history})
				store1000(b, store, benchJobs(b, store, benchKind, b.N))
				report := measure(b)
				burn(b, store, batch, benchKind.Name())
				report()
			})
		}
	}
}

// BenchmarkWorkBeside is BenchmarkWork with a million rows that are none of the host's business.
func BenchmarkWorkBeside(b *testing.B) {
	const million = 1_000_000
	for name, fill := range map[string]func(store *sqlite.Store) []pawl.NewJob{
		"nothing": func(*sqlite.Store) []pawl.NewJob { return nil },
		"scheduled": func(store *sqlite.Store) []pawl.NewJob {
			return benchJobs(b, store, benchKind, million, pawl.Delay(24*time.Hour))
		},
		"foreign": func(store *sqlite.Store) []pawl.NewJob { return benchJobs(b, store, foreignKind, million) },
	} {
		b.Run(name, func(b *testing.B) {
			store := benchStore(b, sqlite.Config{})
			store1000(b, store, fill(store))
			store1000(b, store, benchJobs(b, store, benchKind, b.N))
			report := measure(b)
			burn(b, store, 500, benchKind.Name())
			report()
		})
	}
}

func burn(b *testing.B, store *sqlite.Store, batch int, kinds ...string) {
	b.Helper()
	ctx := b.Context()
	session, err := store.OpenSession(ctx, pawl.HostInfo{Name: "bench", Kinds: kinds})
	if err != nil {
		b.Fatal(err)
	}
	request := pawl.ClaimRequest{Session: session, Queues: []string{"1-critical", "2-default"}, Kinds: kinds, Max: batch}
	for done := 0; done < b.N; {
		n, err := claimAndSettle(ctx, store, request)
		if err != nil || n == 0 {
			b.Fatalf("%d jobs after %d: %v", n, done, err)
		}
		done += n
	}
}

func claimAndSettle(ctx context.Context, store *sqlite.Store, request pawl.ClaimRequest) (int, error) {
	claimed, err := store.Claim(ctx, request)
	if err != nil {
		return 0, err
	}
	settlements := make([]pawl.Settlement, len(claimed.Jobs))
	for i, job := range claimed.Jobs {
		settlements[i] = pawl.Settlement{Reservation: job.Reservation, Outcome: pawl.Done{}}
	}
	errs, err := store.Settle(ctx, request.Session, settlements)
	if err != nil {
		return 0, err
	}
	for _, err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return len(settlements), nil
}

// BenchmarkWorkManyKinds is BenchmarkWork, with claims of a host's size, where jobs of many kinds wait: of others', or its
// own.
func BenchmarkWorkManyKinds(b *testing.B) {
	for _, c := range []struct{ foreign, served int }{{0, 1}, {1000, 1}, {11000, 1}, {0, 100}, {0, 1500}, {11000, 100}} {
		b.Run(fmt.Sprintf("foreign=%d/served=%d", c.foreign, c.served), func(b *testing.B) {
			store := benchStore(b, sqlite.Config{})
			var foreign, jobs []pawl.NewJob
			for n := range c.foreign {
				foreign = append(foreign, benchJobs(b, store, benchNamed("foreign", n), 1)...)
			}
			store1000(b, store, foreign)
			kinds := make([]string, c.served)
			for n := range kinds {
				kind := benchNamed("served", n)
				kinds[n] = kind.Name()
				jobs = append(jobs, benchJobs(b, store, kind, (b.N+c.served-1)/c.served)...)
			}
			rand.New(rand.NewPCG(1, 2)).Shuffle(len(jobs), func(i, j int) { jobs[i], jobs[j] = jobs[j], jobs[i] })
			store1000(b, store, jobs)
			report := measure(b)
			burn(b, store, 20, kinds...)
			report()
		})
	}
}

func benchNamed(prefix string, n int) pawl.Kind[benchArgs] {
	return pawl.NewKind[benchArgs](fmt.Sprintf("%s.%05d.v1", prefix, n), pawl.Policy{})
}
