package postgres

import (
	"testing"
	"time"
)

// Looks begin with the first arrival for as long as that is quick. Where it is not, most begin behind what had been taken a
// moment before, and one at all of them comes again after a time.
func TestWhereArrivalsAreLookedFor(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var a arrivalMarks
	check := func(what string, want int64) {
		t.Helper()
		if got := a.from(now); got != want {
			t.Errorf("%s: from %d, want %d", what, got, want)
		}
	}
	pass := func(d time.Duration) { now = now.Add(d) }
	check("nothing is known", 0)
	a.took(now, 100)
	a.walked(now, arrivalsQuick)
	check("a quick walk", 0)
	const slow = 10 * time.Millisecond
	a.walked(now, slow)
	check("a slow walk, and nothing was taken before", 100)
	pass(arrivalsApart)
	a.took(now, 200)
	pass(arrivalsApart - 1)
	a.took(now, 250) // too near to the one before to be kept
	pass(1)
	a.took(now, 300)
	a.took(now, 299)
	pass(arrivalsNear - 1 - arrivalsApart)
	check("what was taken just now is looked past again", 100)
	pass(1)
	check("after a moment", 200)
	pass(arrivalsApart)
	check("after another", 300)
	if in := a.wholeIn(now); in <= 0 || in > arrivalsShare*slow {
		t.Errorf("all are looked at in %v", in)
	}
	pass(a.wholeIn(now))
	check("after its time, all", 0)
	a.walked(now, slow)
	check("and again", 300)
	a.lookAtAll()
	check("a sweep", 0)
	a.walked(now, 0)
	check("after vacuum", 0)

	for n := range int64(1000) {
		pass(arrivalsApart)
		a.took(now, 1000+n)
	}
	if most := int(arrivalsNear/arrivalsApart) + 2; len(a.marks) > most {
		t.Errorf("%d marks are kept, while all walks are quick; want at most %d", len(a.marks), most)
	}
}
