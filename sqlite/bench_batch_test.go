package sqlite_test

import (
	"fmt"
	"testing"

	"github.com/pawljobs/pawl"
	"github.com/pawljobs/pawl/sqlite"
)

// The members of one batch beside as many plain jobs.
func BenchmarkBatch(b *testing.B) {
	for _, members := range []bool{false, true} {
		b.Run(fmt.Sprintf("members=%t", members), func(b *testing.B) {
			store := benchStore(b, sqlite.Config{})
			var options []pawl.Option
			batch := pawl.NewID()
			if members {
				callback := benchJobs(b, store, foreignKind, 1, pawl.WithID(batch))
				callback[0].Opens = true
				store1000(b, store, append(callback, benchJobs(b, store, foreignKind, 1, pawl.InBatch(batch))...))
				options = append(options, pawl.InBatch(batch))
			}
			store1000(b, store, benchJobs(b, store, benchKind, b.N, options...))
			report := measure(b)
			burn(b, store, 100, benchKind.Name())
			report()
			if !members {
				return
			}
			if found, err := store.Batch(b.Context(), batch); err != nil || found.Done != b.N || found.Pending() != 1 {
				b.Errorf("batch %+v, error %v", found, err)
			}
		})
	}
}
