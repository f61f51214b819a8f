package host

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawljobs/pawl"
)

// Steps of an observer: a look at one other session's beat so many seconds after the step before, or a look that
// failed.
type lookStep struct {
	after int
	beat  int64
	fails bool
	dead  bool
}

func TestObserver(t *testing.T) {
	t.Parallel()
	same := func(n int, beat int64) (steps []lookStep) {
		for range n {
			steps = append(steps, lookStep{after: 5, beat: beat})
		}
		return steps
	}
	deadAt := func(steps []lookStep, i int) []lookStep { steps[i].dead = true; return steps }
	for name, steps := range map[string][]lookStep{
		"twenty seconds of one beat":       deadAt(same(5, 1), 4),
		"it beats":                         {{after: 5, beat: 1}, {after: 5, beat: 2}, {after: 5, beat: 3}, {after: 5, beat: 4}, {after: 5, beat: 5}, {after: 5, beat: 6}},
		"it beats at the last moment":      append(append(same(4, 1), lookStep{after: 5, beat: 2}), same(3, 2)...),
		"a failed look begins anew":        append(append(same(4, 1), lookStep{after: 5, fails: true}), deadAt(same(5, 1), 4)...),
		"an outage of a minute proves nil": append(append(same(4, 1), lookStep{after: 60, fails: true}), same(4, 1)...),
		"the observer itself was stopped":  append(append(same(4, 1), lookStep{after: 60, beat: 1}), same(3, 1)...),
		"it goes on being dead":            deadAt(deadAt(same(6, 1), 4), 5),
		"a beat that went back is another": append(same(4, 5), lookStep{after: 5, beat: 4}),
	} {
		t.Run(name, func(t *testing.T) {
			o := newObserver(5*time.Second, 20*time.Second)
			now := time.Now()
			for i, step := range steps {
				now = now.Add(time.Duration(step.after) * time.Second)
				if step.fails {
					o.blind()
					continue
				}
				dead := o.look(now, []pawl.SeenSession{{ID: 7, Beat: step.beat}})
				want := "[]"
				if step.dead {
					want = fmt.Sprint([]pawl.SeenSession{{ID: 7, Beat: step.beat}})
				}
				if got := fmt.Sprint(dead); got != want {
					t.Errorf("step %d: dead %s, want %s", i+1, got, want)
				}
			}
		})
	}
}

func TestObserverForgetsWhatHasEnded(t *testing.T) {
	t.Parallel()
	o := newObserver(5*time.Second, 20*time.Second)
	now := time.Now()
	for range 4 {
		now = now.Add(5 * time.Second)
		o.look(now, []pawl.SeenSession{{ID: 7, Beat: 1}})
	}
	o.look(now.Add(5*time.Second), nil)
	if len(o.seen) != 0 {
		t.Errorf("it remembers %v", o.seen)
	}
}
