package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/postgres"
)

// Benchmarks run on the server that PAWL_BENCH_POSTGRES names, else on that of the tests, where nothing is flushed.
// They count jobs: go test -run '^$' -bench Drain -benchtime 200000x ./postgres

func benchServer(b *testing.B) string {
	b.Helper()
	if url := os.Getenv("PAWL_BENCH_POSTGRES"); url != "" {
		return url
	}
	return server(b)
}

func benchStore(b *testing.B, change func(*postgres.Config)) (*postgres.Store, *pgx.Conn) {
	b.Helper()
	url := benchServer(b)
	config := postgres.Config{Schema: "bench " + strconv.FormatInt(time.Now().UnixNano(), 36)}
	if change != nil {
		change(&config)
	}
	store, err := postgres.Open(b.Context(), url, config)
	if err != nil {
		b.Fatal(err)
	}
	conn, err := pgx.Connect(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = store.Close()
		_, _ = conn.Exec(context.Background(), "drop schema "+pgx.Identifier{config.Schema}.Sanitize()+" cascade")
		_ = conn.Close(context.Background())
	})
	return store, conn
}

const benchKind = "bench.noop.v1"

func benchJobs(b *testing.B, store *postgres.Store, n int, options ...pawl.Option) []pawl.NewJob {
	b.Helper()
	return benchJobsOf(b, store, benchKind, n, options...)
}

func benchJobsOf(b *testing.B, store *postgres.Store, kind string, n int, options ...pawl.Option) []pawl.NewJob {
	b.Helper()
	k := pawl.NewKind[json.RawMessage](kind, pawl.Policy{})
	jobs := make([]pawl.NewJob, n)
	for i := range jobs {
		job, err := k.New(b.Context(), store.Connection(), json.RawMessage(`{"user_id":123456,"n":`+strconv.Itoa(i)+`}`), options...)
		if err != nil {
			b.Fatal(err)
		}
		jobs[i] = job
	}
	return jobs
}

// usage is what was spent so far: by this process, by the server where it is on this machine, and of its log.
type usage struct {
	at     time.Time
	client time.Duration
	server time.Duration
	wal    int64
}

func spent(b *testing.B, conn *pgx.Conn) usage {
	b.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	u := usage{at: time.Now(), client: time.Duration(r.Utime.Nano() + r.Stime.Nano())}
	var pid int
	if err := conn.QueryRow(b.Context(), `select pg_backend_pid(), pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint`).Scan(&pid, &u.wal); err != nil {
		b.Fatal(err)
	}
	u.server = serverCPU(pid)
	return u
}

// serverCPU adds up the processes of the server that a backend belongs to.
func serverCPU(backend int) (total time.Duration) {
	parent := func(pid string) string {
		fields := statOf(pid)
		if len(fields) < 14 {
			return ""
		}
		return fields[1]
	}
	postmaster := parent(strconv.Itoa(backend))
	entries, err := os.ReadDir("/proc")
	if err != nil || postmaster == "" {
		return 0
	}
	for _, entry := range entries {
		if entry.Name() != postmaster && parent(entry.Name()) != postmaster {
			continue
		}
		columns := []int{11, 12}
		if entry.Name() == postmaster {
			columns = []int{11, 12, 13, 14} // with its ended children
		}
		for _, column := range columns {
			if fields := statOf(entry.Name()); len(fields) > column {
				ticks, _ := strconv.Atoi(fields[column])
				total += time.Duration(ticks) * 10 * time.Millisecond
			}
		}
	}
	return total
}

// statOf are the fields of a process from its state on.
func statOf(pid string) []string {
	text, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return strings.Fields(rest)
}

func report(b *testing.B, conn *pgx.Conn, before usage, jobs int) {
	b.Helper()
	after := spent(b, conn)
	n := float64(jobs)
	b.ReportMetric(n/after.at.Sub(before.at).Seconds(), "jobs/s")
	b.ReportMetric(float64((after.client-before.client).Nanoseconds())/1000/n, "client-us/job")
	b.ReportMetric(float64((after.server-before.server).Nanoseconds())/1000/n, "server-us/job")
	b.ReportMetric(float64(after.wal-before.wal)/n, "wal-B/job")
}

func BenchmarkEnqueueBulk(b *testing.B) {
	for _, callers := range []int{1, 2} {
		b.Run(strconv.Itoa(callers), func(b *testing.B) {
			store, conn := benchStore(b, nil)
			jobs := benchJobs(b, store, b.N)
			before := spent(b, conn)
			b.ResetTimer()
			var group sync.WaitGroup
			for c := range callers {
				group.Go(func() {
					for start := c * 1000; start < len(jobs); start += 1000 * callers {
						if _, err := store.Enqueue(b.Context(), jobs[start:min(start+1000, len(jobs))]); err != nil {
							b.Error(err)
						}
					}
				})
			}
			group.Wait()
			report(b, conn, before, len(jobs))
		})
	}
}

func BenchmarkEnqueueSingle(b *testing.B) {
	for _, callers := range []int{1, 16, 64} {
		b.Run(strconv.Itoa(callers), func(b *testing.B) {
			store, conn := benchStore(b, nil)
			jobs := benchJobs(b, store, b.N)
			before := spent(b, conn)
			b.ResetTimer()
			var group sync.WaitGroup
			for c := range callers {
				group.Go(func() {
					for i := c; i < len(jobs); i += callers {
						if _, err := store.Enqueue(b.Context(), jobs[i:i+1]); err != nil {
							b.Error(err)
						}
					}
				})
			}
			group.Wait()
			report(b, conn, before, len(jobs))
		})
	}
}

func benchFill(b *testing.B, store *postgres.Store, jobs []pawl.NewJob) {
	b.Helper()
	for start := 0; start < len(jobs); start += 5000 {
		if _, err := store.Enqueue(b.Context(), jobs[start:min(start+5000, len(jobs))]); err != nil {
			b.Fatal(err)
		}
	}
}

func benchSession(b *testing.B, store *postgres.Store, name string) pawl.SessionID {
	b.Helper()
	session, err := store.OpenSession(b.Context(), pawl.HostInfo{Name: name, Kinds: []string{benchKind}})
	if err != nil {
		b.Fatal(err)
	}
	return session
}

// drain claims and settles until n jobs are done: one goroutine claims while another settles, as a host does.
func drain(b *testing.B, store *postgres.Store, session pawl.SessionID, queues []string, batch, n int, outcome func(i int) pawl.Outcome) {
	b.Helper()
	claimed := make(chan []pawl.ClaimedJob, 1)
	go func() {
		defer close(claimed)
		for got := 0; got < n; {
			reply, err := store.Claim(b.Context(), pawl.ClaimRequest{Session: session, Queues: queues, Kinds: []string{benchKind}, Max: batch, Suspect: true})
			if err != nil {
				b.Error(err)
				return
			}
			if len(reply.Jobs) == 0 && !reply.More {
				return
			}
			got += len(reply.Jobs)
			claimed <- reply.Jobs
		}
	}()
	i := 0
	for jobs := range claimed {
		settlements := make([]pawl.Settlement, len(jobs))
		for k, job := range jobs {
			settlements[k] = pawl.Settlement{Reservation: job.Reservation, Outcome: outcome(i)}
			i++
		}
		errs, err := store.Settle(b.Context(), session, settlements)
		if err != nil {
			b.Error(err)
		}
		for _, err := range errs {
			if err != nil {
				b.Error(err)
			}
		}
	}
}

func allDone(int) pawl.Outcome { return pawl.Done{} }

func BenchmarkDrain(b *testing.B) {
	for name, change := range map[string]func(*postgres.Config){
		"history":   nil,
		"noHistory": func(c *postgres.Config) { c.History = -1 },
	} {
		for _, batch := range []int{100, 1000} {
			b.Run(fmt.Sprint(name, "/", batch), func(b *testing.B) {
				store, conn := benchStore(b, change)
				benchFill(b, store, benchJobs(b, store, b.N))
				session := benchSession(b, store, "a")
				before := spent(b, conn)
				b.ResetTimer()
				drain(b, store, session, []string{"2-default"}, batch, b.N, allDone)
				report(b, conn, before, b.N)
			})
		}
	}
}

// Several hosts on one queue: drain stops for each when it finds nothing more.
func BenchmarkHosts(b *testing.B) {
	for _, hosts := range []int{1, 4, 16} {
		b.Run(strconv.Itoa(hosts), func(b *testing.B) {
			store, conn := benchStore(b, func(c *postgres.Config) { c.Schema = "bench hosts" })
			benchFill(b, store, benchJobs(b, store, b.N))
			stores, sessions := []*postgres.Store{store}, []pawl.SessionID{benchSession(b, store, "a")}
			for len(stores) < hosts {
				other, err := postgres.Open(b.Context(), benchServer(b), postgres.Config{Schema: "bench hosts"})
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { _ = other.Close() })
				stores, sessions = append(stores, other), append(sessions, benchSession(b, other, "b"))
			}
			before := spent(b, conn)
			b.ResetTimer()
			var group sync.WaitGroup
			for i := range stores {
				group.Go(func() {
					drain(b, stores[i], sessions[i], []string{"2-default"}, 200, b.N, allDone)
				})
			}
			group.Wait()
			report(b, conn, before, b.N)
			var left int
			if err := conn.QueryRow(b.Context(), `select count(*) from "bench hosts".job`).Scan(&left); err != nil || left > 0 {
				b.Errorf("%d jobs left, %v", left, err)
			}
		})
	}
}

// The time from the return of an enqueue to that of the claim that got the job, with a host that sleeps until it is
// woken.
func BenchmarkPickup(b *testing.B) {
	for _, rate := range []int{100, 1000} {
		b.Run(strconv.Itoa(rate), func(b *testing.B) {
			store, conn := benchStore(b, nil)
			session := benchSession(b, store, "a")
			jobs := benchJobs(b, store, b.N)
			var committed, claimed sync.Map
			ctx, cancel := context.WithCancel(b.Context())
			wake, err := store.Wake(ctx)
			if err != nil {
				b.Fatal(err)
			}
			var group sync.WaitGroup
			ends := make(chan []pawl.ClaimedJob, len(jobs))
			group.Go(func() {
				defer close(ends)
				for got := 0; got < len(jobs); {
					<-wake
					for more := true; more; {
						reply, err := store.Claim(ctx, pawl.ClaimRequest{
							Session: session, Queues: []string{"1-critical", "2-default", "3-bulk"}, Kinds: []string{benchKind}, Max: 20, Suspect: true,
						})
						if err != nil {
							b.Error(err)
							return
						}
						now := time.Now()
						for _, job := range reply.Jobs {
							claimed.Store(job.ID, now)
						}
						more = reply.More
						if got += len(reply.Jobs); len(reply.Jobs) > 0 {
							ends <- reply.Jobs
						}
					}
				}
			})
			group.Go(func() {
				for jobs := range ends {
					settlements := make([]pawl.Settlement, len(jobs))
					for i, job := range jobs {
						settlements[i] = pawl.Settlement{Reservation: job.Reservation, Outcome: pawl.Done{}}
					}
					if _, err := store.Settle(ctx, session, settlements); err != nil {
						b.Error(err)
					}
				}
			})
			before := spent(b, conn)
			b.ResetTimer()
			start := time.Now()
			var callers sync.WaitGroup
			for i := range jobs {
				time.Sleep(time.Until(start.Add(time.Duration(i) * time.Second / time.Duration(rate))))
				callers.Go(func() {
					if _, err := store.Enqueue(ctx, jobs[i:i+1]); err != nil {
						b.Error(err)
					}
					committed.Store(jobs[i].ID, time.Now())
				})
			}
			callers.Wait()
			group.Wait()
			cancel()
			report(b, conn, before, b.N)
			var waits []time.Duration
			for i := range jobs {
				from, _ := committed.Load(jobs[i].ID)
				to, _ := claimed.Load(jobs[i].ID)
				waits = append(waits, to.(time.Time).Sub(from.(time.Time)))
			}
			slices.Sort(waits)
			b.ReportMetric(float64(waits[len(waits)/2].Microseconds())/1000, "p50-ms")
			b.ReportMetric(float64(waits[len(waits)*99/100].Microseconds())/1000, "p99-ms")
		})
	}
}
