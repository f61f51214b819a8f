//go:build unix

package host_test

import (
	"os"
	"strings"
	"testing"
	"time"
)

// deployScale is how long the long jobs take and how long a drain lets them run. PAWL_TEST_DEPLOY=20s,3s runs it at full
// size.
func deployScale(t *testing.T) (long, grace time.Duration) {
	t.Helper()
	long, grace = 3*time.Second, 200*time.Millisecond
	text := os.Getenv("PAWL_TEST_DEPLOY")
	if text == "" {
		return long, grace
	}
	first, second, _ := strings.Cut(text, ",")
	long, err := time.ParseDuration(first)
	if err != nil {
		t.Fatal(err)
	}
	if grace, err = time.ParseDuration(second); err != nil || grace >= long {
		t.Fatalf("PAWL_TEST_DEPLOY=%s: want LONG,GRACE, the grace being shorter: %v", text, err)
	}
	return long, grace
}

// Two hosts in a rolling deploy: thirty times a new one comes and the older one gets its SIGTERM, while jobs run that
// take longer than from one restart to the next. They are put back each time, whether they end when they are asked to,
// with an error of their own, or not at all, and this costs none of their three tries. Short jobs end in the grace.
func TestRollingDeploySpendsNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes half a minute")
	}
	const restarts = 30
	long, grace := deployScale(t)
	onEachStore(t, func(w *deployWorld) {
		began := time.Now()
		short := deployArgs{For: grace / 4}
		ids := w.put(
			deployArgs{For: long}, deployArgs{For: long}, deployArgs{For: long}, deployArgs{For: long, Own: true},
			deployArgs{For: long, Own: true}, deployArgs{For: long, Deaf: true}, deployArgs{For: long, Deaf: true},
		)
		lasting, seen := len(ids), 0
		older := w.deploy("desk-0", grace)
		older.becomes("200 Healthy")
		for n := range restarts {
			newer := w.deploy([]string{"desk-1", "desk-0"}[n%2], grace)
			newer.becomes("200 Healthy")
			ids = append(ids, w.put(short, short)...)
			if older.stop() {
				seen++
			}
			older = newer
		}
		took := time.Since(began)
		w.settled(ids)
		older.stop()
		w.mu.Lock()
		defer w.mu.Unlock()
		again := 0
		for _, id := range ids[:lasting] {
			again += w.starts[id.String()] - 1
		}
		w.Logf("%d restarts in %s; %d runs of %d jobs of %s were cut short, %d drains seen", restarts, took.Round(time.Millisecond), again, lasting, long, seen)
		if again < restarts || seen < restarts/2 {
			w.Errorf("%d runs were cut short and %d drains seen: too few to show anything", again, seen)
		}
	})
}
