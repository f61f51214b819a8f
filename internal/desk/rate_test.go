package desk

import (
	"testing"
	"time"

	"github.com/pawljobs/pawl"
	"pgregory.net/rapid"
)

// Whatever is let through and started when: in no span of time there are more starts than the burst, and the rate times the
// span.
func TestBucketKeepsItsRate(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := pawl.Limit{
			Starts: rapid.IntRange(1, 20).Draw(t, "starts"), Per: time.Duration(rapid.IntRange(1, 60).Draw(t, "seconds")) * time.Second,
			Burst: rapid.IntRange(0, 30).Draw(t, "burst"),
		}
		rate, burst := limit.Rate()
		now := time.Unix(1_700_000_000, 0)
		var bucket Bucket
		var starts []time.Time
		through := 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 5000).Draw(t, "milliseconds")) * time.Millisecond)
			free, next := bucket.Free(limit, now, through)
			if free == 0 && next > 0 {
				if later, _ := bucket.Free(limit, now.Add(next+time.Millisecond), through); later == 0 {
					t.Fatalf("there was to be a token in %s, and there is none", next)
				}
			}
			through += min(free, rapid.IntRange(0, 10).Draw(t, "waiting"))
			n := rapid.IntRange(0, through).Draw(t, "claimed")
			through -= n
			if n > 0 {
				bucket = bucket.Take(limit, now, n)
			}
			for range n {
				starts = append(starts, now)
			}
		}
		for i, first := range starts {
			for j := i; j < len(starts); j++ {
				if most := float64(burst) + rate*starts[j].Sub(first).Seconds() + 0.001; float64(j-i+1) > most {
					t.Fatalf("%d starts in %s, at most %v", j-i+1, starts[j].Sub(first), most)
				}
			}
		}
	})
}
