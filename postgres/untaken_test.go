package postgres

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawljobs/pawl"
)

// Hosts are told of jobs that were let through once, when no claim is under way that may get them, and not of those that one
// has got.
func TestUntaken(t *testing.T) {
	t.Parallel()
	a, b := pawl.NewID(), pawl.NewID()
	claimed := func(ids ...pawl.ID) (jobs []pawl.ClaimedJob) {
		for _, id := range ids {
			jobs = append(jobs, pawl.ClaimedJob{Reservation: pawl.Reservation{ID: id}})
		}
		return jobs
	}
	let := func(ids ...pawl.ID) (list idList) {
		for _, id := range ids {
			list = append(list, [16]byte(id))
		}
		return list
	}
	later := func(u *untaken) time.Time { return u.begin().Add(time.Second) }
	for name, run := range map[string]func(u *untaken) (told, want []bool){
		"no claim": func(u *untaken) (told, want []bool) {
			told = append(told, u.add(let(a), nil))
			_, told1 := u.end(u.begin(), claimed(a), true)
			return append(told, told1), []bool{true, false}
		},
		"held by now": func(u *untaken) (told, want []bool) {
			return []bool{u.add(let(a), map[pawl.ID]bool{a: true})}, []bool{false}
		},
		"a claim gets it": func(u *untaken) (told, want []bool) {
			began := u.begin()
			told = append(told, u.add(let(a), nil))
			tell, swapped := u.end(began, claimed(a), true)
			return append(told, tell, swapped), []bool{false, false, false}
		},
		"a claim was too early for it": func(u *untaken) (told, want []bool) {
			began := u.begin()
			told = append(told, u.add(let(a, b), nil))
			tell, swapped := u.end(began, claimed(a), true)
			return append(told, tell, swapped), []bool{false, true, false}
		},
		"another process has it": func(u *untaken) (told, want []bool) {
			told = append(told, u.add(let(a, b), nil))
			tell, swapped := u.end(later(u), claimed(a), true)
			return append(told, tell, swapped), []bool{true, false, true}
		},
		"a claim had enough": func(u *untaken) (told, want []bool) {
			told = append(told, u.add(let(a, b), nil))
			tell, swapped := u.end(later(u), claimed(a), false)
			return append(told, tell, swapped), []bool{true, false, false}
		},
		"two claims": func(u *untaken) (told, want []bool) {
			began := u.begin()
			u.begin()
			told = append(told, u.add(let(a), nil))
			tell, _ := u.end(began, nil, true)
			again, _ := u.end(began, nil, true)
			return append(told, tell, again), []bool{false, false, true}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUntaken()
			told, want := run(u)
			for i := range want {
				if told[i] != want[i] {
					t.Errorf("answers %v, want %v", told, want)
				}
			}
		})
	}
}

// What stays is others' to take after a while.
func TestUntakenGrowsStale(t *testing.T) {
	t.Parallel()
	u := newUntaken()
	old, young := pawl.NewID(), pawl.NewID()
	u.jobs[old], u.jobs[young] = time.Now().Add(-2*tellTurnsAfter), time.Now().Add(time.Hour)
	if ids, left := u.stale(); len(ids) != 1 || pawl.ID(ids[0]) != old || !left {
		t.Errorf("stale %v, left %v; want %s, and that one is left", ids, left, old)
	}
	if ids, left := u.stale(); len(ids) != 0 || !left {
		t.Errorf("then stale %v, left %v", ids, left)
	}
}

// Hosts are told of what other processes have left a moment later, and of nothing once the store is closed.
func TestSwappedIsTold(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		closed bool
		told   int64
	}{"open": {false, 1}, "closed": {true, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &Store{waker: newWaker(), turns: newTurnGiver()}
				s.background, s.stop = context.WithCancel(context.Background())
				defer func() { s.stop(); s.workers.Wait() }()
				s.workers.Go(s.watchSwapped)
				s.turns.untaken.add(idList{[16]byte(pawl.NewID())}, nil)
				time.Sleep(time.Second)
				began := s.turns.untaken.begin()
				s.tellUntaken(began, pawl.Claimed{}, true)
				if c.closed {
					s.stop()
					s.workers.Wait()
				}
				time.Sleep(time.Second)
				if n := s.waker.generation.Load(); n != c.told {
					t.Errorf("hosts were told %d times, want %d", n, c.told)
				}
			})
		})
	}
}
