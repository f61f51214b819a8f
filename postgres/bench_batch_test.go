package postgres_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/postgres"
)

// The members of one batch beside as many plain jobs, on one host and on four: what counting takes, and that hosts do not
// wait for each other.
func BenchmarkBatch(b *testing.B) {
	for _, hosts := range []int{1, 4} {
		for _, members := range []bool{false, true} {
			b.Run(fmt.Sprintf("hosts=%d/members=%t", hosts, members), func(b *testing.B) { benchBatch(b, hosts, members) })
		}
	}
}

func benchBatch(b *testing.B, hosts int, members bool) {
	const schema = "bench batch"
	store, conn := benchStore(b, func(c *postgres.Config) { c.Schema = schema })
	var options []pawl.Option
	batch := pawl.NewID()
	if members {
		callback := benchJobsOf(b, store, "bench.after.v1", 1, pawl.WithID(batch))
		callback[0].Opens = true
		benchFill(b, store, append(callback, benchJobs(b, store, 1, pawl.InBatch(batch), pawl.InQueue("9-held"))...))
		options = append(options, pawl.InBatch(batch))
	}
	benchFill(b, store, benchJobs(b, store, b.N, options...))
	stores, sessions := []*postgres.Store{store}, []pawl.SessionID{benchSession(b, store, "a")}
	for len(stores) < hosts {
		other, err := postgres.Open(b.Context(), benchServer(b), postgres.Config{Schema: schema})
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
		group.Go(func() { drain(b, stores[i], sessions[i], []string{"2-default"}, 100, b.N, allDone) })
	}
	group.Wait()
	report(b, conn, before, b.N)
	if !members {
		return
	}
	if found, err := store.Batch(b.Context(), batch); err != nil || found.Done != b.N || found.Pending() != 1 {
		b.Errorf("batch %+v, error %v", found, err)
	}
}
